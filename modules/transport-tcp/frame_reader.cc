// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/frame_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sl::transport_tcp {

int FrameReader::Room(iovec parts[2]) {
  int count = 0;
  if (left_ != 0) parts[count++] = {next_, left_};
  // Inside a payload nothing is read ahead yet.
  const size_t room = left_ != 0 && frame_.bytes >= kLong ? kAheadOfLong : ahead_.size() - have_;
  parts[count++] = {ahead_.data() + have_, room};
  return count;
}

bool FrameReader::Take(size_t bytes) {
  if (why_ != nullptr) return false;
  if (left_ != 0) {
    const size_t direct = static_cast<size_t>(std::min<uint64_t>(bytes, left_));
    next_ += direct;
    left_ -= direct;
    bytes -= direct;
    if (left_ != 0) return true;
    End();
  }
  have_ += bytes;
  return TakeFrames();
}

bool FrameReader::TakeFrames() {
  size_t used = 0;
  while (!goodbye_ && have_ - used >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, ahead_.data() + used, sizeof frame);
    used += sizeof frame;
    if (!Begin(frame)) return false;
    const size_t here = static_cast<size_t>(std::min<uint64_t>(left_, have_ - used));
    if (here != 0) std::memcpy(next_, ahead_.data() + used, here);
    copied_ += here;
    used += here;
    next_ += here;
    left_ -= here;
    if (left_ != 0) break;
    End();
  }
  if (goodbye_) used = have_;
  have_ -= used;
  if (used != 0 && have_ != 0) std::memmove(ahead_.data(), ahead_.data() + used, have_);
  return true;
}

bool FrameReader::Begin(const Frame& frame) {
  why_ = WhyIllegal(frame, target_.window_bytes, target_.signal_count);
  const bool signals = frame.kind == kFramePut && frame.signal != kFrameNoSignal;
  if (why_ == nullptr && signals && frame.value < newest_[frame.signal]) why_ = "a signal that shrinks";
  if (why_ != nullptr) return false;
  frame_ = frame;
  next_ = frame.bytes != 0 ? target_.window + frame.offset : nullptr;
  left_ = frame.bytes;
  return true;
}

void FrameReader::End() {
  switch (frame_.kind) {
    case kFramePut:
      if (frame_.signal == kFrameNoSignal) return;
      newest_[frame_.signal] = frame_.value;
      std::atomic_ref<uint64_t>(target_.signals[size_t{frame_.signal} * 8])
          .store(frame_.value, std::memory_order_release);  // R1
      return;
    case kFrameProbe:
      probe_ = frame_.value;
      return;
    case kFrameAnswer:
      answer_ = frame_.value;
      return;
    default:
      goodbye_ = true;
      return;
  }
}

}  // namespace sl::transport_tcp
