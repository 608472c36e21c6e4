// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/chunk_link.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "kernel/events/log.h"
#include "kernel/events/ring.h"

namespace sl::kernel {

ChunkLink::ChunkLink(LinkContext* context, const LinkGeometry& geometry, uint32_t peer, uint32_t lane)
    : context_(context), peer_(peer), lane_(lane), geometry_(geometry) {
  posted_ = transmitted_ = newest_ = acked_ = freed_ = posted_before_ = context->begin;
  done_ = told_ = context->begin;
  paths_.reserve(kMaxPaths);  // owner_ points into it
  carriers_.assign(geometry_.slots, kNobody);
  old_.reserve(2);
}

ChunkLink::~ChunkLink() {
  Owe(false);
  for (const OldConnection& old : old_) old.link.ops->retire(old.link.connection);
  for (Path& path : paths_) {
    if (!path.open()) continue;
    const LinkConnection link = path.TakeOut();
    link.ops->retire(link.connection);
  }
}

sl_status_t ChunkLink::Reserve(void** out_payload) {
  if (paths_up_ == 0 || posted_ - freed_ >= geometry_.slots) [[unlikely]] {
    if (const sl_status_t status = ReserveSlow(); status != SL_OK) return status;
  }
  if (!reserved_) {
    reserved_ = true;
    reserved_payload_ = outbox_ + send_offset_ + LinkGeometry::kPayload;
  }
  *out_payload = reserved_payload_;
  return SL_OK;
}

sl_status_t ChunkLink::ReserveSlow() {
  if (status_ != SL_OK) return status_;
  if (paths_up_ == 0) return SL_ERR_AGAIN;
  RefreshAcked();
  if (transmitted_ != posted_ || done_pending_) Pump();
  return posted_ - freed_ < geometry_.slots ? SL_OK : SL_ERR_AGAIN;
}

sl_status_t ChunkLink::Post(uint32_t bytes, const OpTag& tag) {
  if (!reserved_ || bytes > geometry_.chunk_bytes) return SL_ERR_INVALID;
  if (status_ != SL_OK) return status_;
  uint8_t* slot = outbox_ + send_offset_;
  if (reserved_payload_ != slot + LinkGeometry::kPayload) [[unlikely]] {
    // The path was replaced while the caller wrote.
    std::memcpy(slot + LinkGeometry::kPayload, reserved_payload_, bytes);
    DropLent(true, false);
  }
  reserved_ = false;
  ++posted_;
  // Number and order are the path's to write: until then the slot may be on its way for the chunk it held before, a
  // second time, and must not look like this one.
  ChunkHeader* header = LinkGeometry::HeaderOf(slot);
  header->bytes = bytes;
  header->algorithm = tag.algorithm;
  header->op_seq = tag.seq;
  header->signature = tag.signature;
  CarrierOf(posted_) = kNobody;
  send_offset_ += geometry_.SlotBytes();
  if (send_offset_ == geometry_.WindowBytes()) send_offset_ = 0;
  if (paths_up_ != 0) Pump();
  return SL_OK;
}

// The path on which the next chunk will have arrived first; NULL: all are full.
Path* ChunkLink::Choose(uint32_t full) {
  if (owner_ != nullptr) return owner_->up() && full == 0 ? owner_ : nullptr;
  if (paths_.size() == 1) return paths_[0].up() && full == 0 ? &paths_[0] : nullptr;
  const uint64_t now_ns = context_->now_ns();
  // What nobody has measured yet counts like the best that was.
  double fastest = 0;
  for (const Path& path : paths_) fastest = path.up() ? std::max(fastest, path.rate()) : fastest;
  Path* best = nullptr;
  double best_time = 0;
  for (size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (!path.up() || (full >> i & 1) != 0) continue;
    const auto queue = static_cast<double>(path.InFlight(now_ns) + geometry_.chunk_bytes);
    const double rate = path.rate() != 0 ? path.rate() : fastest != 0 ? fastest : 1;
    if (best != nullptr && queue / rate >= best_time) continue;
    best = &path;
    best_time = queue / rate;
  }
  return best;
}

// Puts chunk transmitted + 1, unless it is on its way already. AGAIN: no path takes it now.
sl_status_t ChunkLink::SendNext(uint32_t* full) {
  const uint64_t sequence = transmitted_ + 1;
  while (CarrierOf(sequence) == kNobody) {
    Path* path = Choose(*full);
    if (path == nullptr) return SL_ERR_AGAIN;
    const auto index = static_cast<size_t>(path - paths_.data());
    if (owes_ && !SendDoneOn(index)) return SL_ERR_AGAIN;
    const sl_status_t status = path->Put(outbox_, OffsetOf(sequence), sequence);
    if (status == SL_OK) {
      CarrierOf(sequence) = static_cast<uint8_t>(index);
      if (sequence <= newest_) NoteCopy(path, sequence);
    } else if (status == SL_ERR_AGAIN) {
      *full |= 1u << index;
    } else {
      OnPutFailed(index, status);
      return SL_ERR_AGAIN;  // who lost the path has pumped
    }
  }
  newest_ = std::max(newest_, ++transmitted_);
  return SL_OK;
}

// Hands the transports what they have not taken yet, as far as their queues go.
void ChunkLink::Pump() {
  uint32_t full = 0;
  while (transmitted_ < posted_ && status_ == SL_OK && SendNext(&full) == SL_OK) {
  }
  if (done_pending_ && paths_up_ != 0) SendDone();
}

// Acknowledges on the path of the newest chunk, or on any.
void ChunkLink::SendDone() {
  size_t index = recv_path_;
  for (size_t i = 0; i < paths_.size() && !IsUp(static_cast<uint32_t>(index)); ++i) index = i;
  if (IsUp(static_cast<uint32_t>(index))) static_cast<void>(SendDoneOn(index));
}

// False: the path was lost, and who lost it has pumped.
bool ChunkLink::SendDoneOn(size_t index) {
  const sl_status_t status = paths_[index].Signal(Path::kDone, done_);
  done_pending_ = status != SL_OK;
  if (status == SL_OK) told_ = done_;
  Owe(false);
  if (status == SL_OK || status == SL_ERR_AGAIN) [[likely]]
    return true;
  OnPutFailed(index, status);
  return false;
}

bool ChunkLink::MayOwe() const {
  return context_->tell_after_ns != 0 && owner_ == nullptr && !done_pending_ &&
         done_ - told_ < std::max(geometry_.slots / 4, 1u);
}

void ChunkLink::Owe(bool owes) {
  if (owes == owes_) return;
  owes_ = owes;
  owes_since_ns_ = 0;
  context_->owing += owes ? 1 : -1;
}

void ChunkLink::TellReleased() {
  if (!owes_) return;
  done_pending_ = true;
  Owe(false);
  if (paths_up_ == 0) return;
  SendDone();
  NotifyAll();
}

void ChunkLink::EndReceiving() {
  if (posted_ == posted_before_) TellReleased();
  posted_before_ = posted_;
}

void ChunkLink::TellIfLate(uint64_t now_ns) {
  if (!owes_) return;
  if (owes_since_ns_ == 0) {
    owes_since_ns_ = now_ns;
  } else if (now_ns - owes_since_ns_ >= context_->tell_after_ns) {
    TellReleased();
  }
}

void ChunkLink::RefreshAcked() {
  for (const Path& path : paths_) {
    if (!path.open()) continue;
    const uint64_t done = path.Word(Path::kDone);
    if (done > posted_) return Fail(SL_ERR_LINK_CORRUPT, "the peer acknowledged a chunk that was not sent");
    acked_ = std::max(acked_, done);  // a fresh window begins with 0
  }
  transmitted_ = std::max(transmitted_, acked_);
  RefreshFreed();
}

void ChunkLink::RefreshFreed() {
  const auto has_copies = [](const Path& path) { return path.HasCopies(); };
  if (held_ != UINT64_MAX && transmitted_ >= newest_ && std::none_of(paths_.begin(), paths_.end(), has_copies))
      [[unlikely]]
    held_ = UINT64_MAX;
  freed_ = std::max(freed_, std::min(acked_, held_ - 1));
}

sl_status_t ChunkLink::Peek(Chunk* out_chunk) {
  if (!peeked_) {
    bool corrupt = false;
    const bool found = FindChunk(&corrupt);
    if (corrupt && status_ == SL_OK) [[unlikely]]
      Fail(SL_ERR_LINK_CORRUPT, "a chunk header cannot be right");
    if (!found) return WhyNoChunk();
  }
  *out_chunk = {&header_, payload_};
  return SL_OK;
}

sl_status_t ChunkLink::WhyNoChunk() {
  if (status_ != SL_OK) return status_;
  if (paths_.size() > 1) {
    for (Path& path : paths_) path.TellSeen();
  }
  for (Path& path : paths_) {
    if (path.up()) path.ThawIfResent();
  }
  return SL_ERR_AGAIN;
}

// Looks for the next chunk, first where the last one was.
bool ChunkLink::FindChunk(bool* out_corrupt) {
  const size_t count = paths_.size();
  size_t index = recv_path_;
  for (size_t i = 0; i < count; ++i) {
    if (paths_[index].open() && FindAt(index, out_corrupt)) return true;
    if (*out_corrupt) return false;
    if (++index == count) index = 0;
  }
  return false;
}

bool ChunkLink::FindAt(size_t index, bool* out_corrupt) {
  Path& path = paths_[index];
  if (!path.Has(recv_offset_, done_ + 1, &header_, out_corrupt)) return false;
  path.CountTaken();
  if (paths_.size() > 1) path.TellSeen(std::max(geometry_.slots / 4, 1u));
  payload_ = path.PayloadAt(recv_offset_);
  peeked_ = true;
  recv_path_ = index;
  return true;
}

sl_status_t ChunkLink::Release() {
  if (!peeked_) return SL_ERR_STATE;
  peeked_ = false;
  ++done_;
  recv_offset_ += geometry_.SlotBytes();
  if (recv_offset_ == geometry_.WindowBytes()) recv_offset_ = 0;
  if (!old_.empty()) [[unlikely]]
    DropLent(false, true);
  if (MayOwe()) {
    Owe(true);
    return SL_OK;
  }
  done_pending_ = true;
  if (paths_up_ != 0) SendDone();
  return SL_OK;
}

void ChunkLink::Notify() {
  if (paths_up_ != 0) NotifyAll();
}

void ChunkLink::NotifyAll() {
  for (const Path& path : paths_) {
    if (path.up()) path.Notify();
  }
}

void ChunkLink::DescribeWait(bool sending, sl_wait_t* wait) const {
  wait->peer = static_cast<int32_t>(peer_);
  wait->what = !up() ? "connection" : sending ? "credit" : "chunk";
  wait->doorbell = up() ? doorbell_ : nullptr;
  wait->seen = sending ? freed_ : done_;
  const uint64_t credit = posted_ + 1 > geometry_.slots ? posted_ + 1 - geometry_.slots : 0;
  wait->wanted = sending ? credit : done_ + 1;
}

void ChunkLink::Fail(sl_status_t status, const std::string& why) {
  if (status_ != SL_OK) return;
  status_ = status;
  why_ = why;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (!paths_[i].up()) continue;
    paths_[i].GoDown();
    RecordState(i, false);
  }
  paths_up_ = 0;
  // A peer that closes is not a fault by itself: jobs end. Who still waits for it reports an error of its own.
  Logf(status == SL_ERR_PEER_LOST ? SL_LOG_DEBUG : SL_LOG_WARN, "rank {} peer {} lane {} link failed: {}",
       context_->rank, peer_, lane_, why);
}

void ChunkLink::RecordState(size_t index, bool up) const {
  Emit({0, SL_EVENT_LINK_STATE, context_->rank, context_->comm_id, 0, static_cast<int32_t>(peer_), lane_, 0,
        up ? 1u : 0u, paths_[index].epoch()});
}

bool ChunkLink::idle() {
  RefreshAcked();
  const auto has_to_tell = [](const Path& path) { return path.up() && path.resend_from() != 0; };
  return acked_ == posted_ && !done_pending_ && !owes_ && std::none_of(paths_.begin(), paths_.end(), has_to_tell);
}

}  // namespace sl::kernel
