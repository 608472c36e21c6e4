// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/channel.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>

#include "kernel/control/net_socket.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

// What all ranks have said is long, and passes once; the room for it is not kept.
void GiveBackRoom(Bytes* buffer) {
  constexpr size_t kKeptBytes = 16384;
  if (buffer->empty() && buffer->capacity() > kKeptBytes) Bytes().swap(*buffer);
}

}  // namespace

Channel::Channel(ControlThread* control, Stream stream, uint32_t max_bytes, Owner* owner)
    : control_(control),
      stream_(std::move(stream)),
      is_net_(IsNet(stream_.fd())),
      max_bytes_(max_bytes),
      owner_(owner) {}

Channel::~Channel() {
  Close();
  // The control thread may have closed it, in a handler that it has not left yet.
  control_->Settle();
}

uint32_t Channel::EventsLocked() const { return EPOLLIN | EPOLLRDHUP | (wants_out_ ? EPOLLOUT : 0u); }

// Under the lock: another thread that sends meanwhile changes what is watched once something is.
Status Channel::Open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  wants_out_ = !out_.empty();
  return control_->Watch(stream_.fd(), EventsLocked(), this);
}

void Channel::Close() {
  if (open_.exchange(false)) control_->Forget(stream_.fd());
}

void Channel::Send(FrameType type, uint64_t sequence, std::span<const uint8_t> payload) {
  try {
    const Bytes frame = EncodeFrame(type, sequence, payload);
    std::lock_guard lock(mutex_);
    out_.insert(out_.end(), frame.begin(), frame.end());
    WriteLocked();
  } catch (const std::bad_alloc&) {
    if (type == FrameType::kBeat) return;  // the next one does as well
    Logf(SL_LOG_ERROR, "control channel: no memory for a frame of {} bytes; the connection ends", payload.size());
    shutdown(stream_.fd(), SHUT_RDWR);  // the control thread reads the end of the stream
  }
}

void Channel::WriteLocked() {
  size_t at = 0;
  while (at < out_.size()) {
    const ssize_t sent = stream_.Send(out_.data() + at, out_.size() - at);
    if (sent > 0) {
      at += static_cast<size_t>(sent);
    } else if (sent < 0 && errno == EINTR) {
      continue;
    } else {
      // Full: the control thread goes on when there is room. Broken: it will read the end of the stream.
      if (errno != EAGAIN) at = out_.size();
      break;
    }
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(at));
  GiveBackRoom(&out_);
  if (open_ && wants_out_ == out_.empty()) {
    wants_out_ = !out_.empty();
    [[maybe_unused]] const Status changed = control_->Change(stream_.fd(), EventsLocked());
  }
}

uint64_t Channel::unsent() const {
  if (!open_) return 0;  // there is no other end any more
  int queued = 0;
  if (ioctl(stream_.fd(), SIOCOUTQ, &queued) != 0) queued = 0;
  std::lock_guard lock(mutex_);
  return out_.size() + static_cast<uint64_t>(queued);
}

void Channel::Flush(uint64_t deadline_ns) {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      WriteLocked();
      if (out_.empty()) return;
    }
    if (!WaitFor(stream_.fd(), POLLOUT, {deadline_ns}).ok()) return;
  }
}

Status Channel::ReadAll() {
  uint8_t buffer[65536];
  for (;;) {
    const ssize_t got = stream_.Receive(buffer, sizeof(buffer));
    if (got > 0) {
      Hear();
      in_.insert(in_.end(), buffer, buffer + got);
      if (static_cast<size_t>(got) < sizeof(buffer)) return {};
      if (in_.size() > sizeof(FrameHeader) + max_bytes_) return {};  // parse first
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return {};
    } else {
      return {SL_ERR_PEER_LOST, "the connection was closed"};
    }
  }
}

void Channel::OnReady(int, uint32_t events) {
  if (events & EPOLLOUT) {
    std::lock_guard lock(mutex_);
    WriteLocked();
  }
  Status read = ReadAll();
  size_t at = 0;
  FrameHeader header;
  while (in_.size() - at >= sizeof(header)) {
    std::memcpy(&header, in_.data() + at, sizeof(header));
    if (const Status status = CheckHeader(header, max_bytes_); !status.ok()) return End(status);
    if (in_.size() - at < sizeof(header) + header.bytes) break;
    const auto begin = in_.begin() + static_cast<std::ptrdiff_t>(at + sizeof(header));
    Bytes payload(begin, begin + header.bytes);
    at += sizeof(header) + header.bytes;
    owner_->OnFrame(this, header, std::move(payload));
    if (!open_) return;  // the owner closed it
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  GiveBackRoom(&in_);
  if (!read.ok()) End(read);
}

void Channel::OnFailed(int, const Status& why) { End(why); }

// The other end must hear of it, too: the owner may keep the channel, and its socket, for long.
void Channel::End(const Status& why) {
  Close();
  shutdown(stream_.fd(), SHUT_RDWR);
  try {
    owner_->OnClosed(this, why);
  } catch (const std::bad_alloc&) {
    owner_->OnClosed(this, why);
  }
}

}  // namespace sl::kernel
