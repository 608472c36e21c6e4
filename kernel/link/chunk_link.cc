// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/chunk_link.h"

#include <cstring>
#include <new>

#include "kernel/events/log.h"
#include "kernel/events/ring.h"

namespace sl::kernel {
namespace {

ChunkHeader* HeaderOf(uint8_t* slot) { return reinterpret_cast<ChunkHeader*>(slot + LinkGeometry::kHeader); }

}  // namespace

ChunkLink::ChunkLink(const LinkContext* context, uint32_t peer, uint32_t lane)
    : context_(context), peer_(peer), lane_(lane), geometry_(context->geometry) {
  old_.reserve(2);
}

ChunkLink::~ChunkLink() {
  for (const OldPath& old : old_) old.path.ops->retire(old.path.connection);
  if (path_.connection != nullptr) path_.ops->retire(path_.connection);
}

sl_status_t ChunkLink::Reserve(void** out_payload) {
  if (!up_ || posted_ - acked_ >= geometry_.slots) [[unlikely]] {
    if (const sl_status_t status = ReserveSlow(); status != SL_OK) return status;
  }
  if (!reserved_) {
    reserved_ = true;
    reserved_payload_ = outbox_ + send_slot_ * geometry_.SlotBytes() + LinkGeometry::kPayload;
  }
  *out_payload = reserved_payload_;
  return SL_OK;
}

sl_status_t ChunkLink::ReserveSlow() {
  if (status_ != SL_OK) return status_;
  if (!up_) return SL_ERR_AGAIN;
  RefreshAcked();
  if (transmitted_ != posted_ || done_pending_) Pump();
  return posted_ - acked_ < geometry_.slots ? SL_OK : SL_ERR_AGAIN;
}

sl_status_t ChunkLink::Post(uint32_t bytes, uint64_t op_seq, uint64_t signature) {
  if (!reserved_ || bytes > geometry_.chunk_bytes) return SL_ERR_INVALID;
  if (status_ != SL_OK) return status_;
  uint8_t* slot = outbox_ + send_slot_ * geometry_.SlotBytes();
  if (reserved_payload_ != slot + LinkGeometry::kPayload) [[unlikely]] {
    // The path was replaced while the caller wrote.
    std::memcpy(slot + LinkGeometry::kPayload, reserved_payload_, bytes);
    DropLent(true, false);
  }
  reserved_ = false;
  ++posted_;
  *HeaderOf(slot) = {posted_, bytes, epoch_, op_seq, signature};
  if (++send_slot_ == geometry_.slots) send_slot_ = 0;
  if (up_) Pump();
  return SL_OK;
}

// Puts chunk transmitted + 1; on a mapped path its signal, which stands for all that were posted.
sl_status_t ChunkLink::TransmitNext() {
  if (mapped_) {
    const sl_status_t status = Signal(kPosted, posted_);
    if (status == SL_OK) transmitted_ = posted_;
    return status;
  }
  const uint64_t sequence = transmitted_ + 1;
  uint8_t* slot = Slot(outbox_, sequence);
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = sequence > signalled_ ? static_cast<uint32_t>(kPosted) : SL_NO_SIGNAL;
  put.signal_value = sequence;
  put.source = slot + LinkGeometry::kHeader;
  put.bytes = sizeof(ChunkHeader) + HeaderOf(slot)->bytes;
  put.offset = static_cast<uint64_t>(slot - outbox_) + LinkGeometry::kHeader;
  // No completion is asked for: puts of a connection leave in order, so the acknowledgement of a chunk, without which
  // its slot is not written again, says that every earlier put of the slot has left.
  const sl_status_t status = path_.ops->put(path_.connection, &put);
  if (status == SL_OK) {
    transmitted_ = sequence;
    if (sequence > signalled_) signalled_ = sequence;
  }
  return status;
}

sl_status_t ChunkLink::Signal(SignalWord word, uint64_t value) {
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = word;
  put.signal_value = value;
  return path_.ops->put(path_.connection, &put);
}

// Hands the transport what it has not taken yet, as far as its queue goes.
void ChunkLink::Pump() {
  sl_status_t status = SL_OK;
  while (status == SL_OK && transmitted_ < posted_) status = TransmitNext();
  if (status == SL_OK && done_pending_) {
    status = Signal(kDone, done_);
    done_pending_ = status == SL_ERR_AGAIN;
  }
  if (status != SL_OK && status != SL_ERR_AGAIN) [[unlikely]]
    OnPutFailed(status);
}

void ChunkLink::RefreshAcked() {
  if (path_.connection == nullptr) return;
  const uint64_t done = Word(kDone);
  if (done <= acked_) return;  // a fresh window begins with 0
  if (done > posted_) return Fail(SL_ERR_LINK_CORRUPT, "the peer acknowledged a chunk that was not sent");
  acked_ = done;
}

sl_status_t ChunkLink::Peek(Chunk* out_chunk) {
  if (arrived_ <= done_ || peeked_) {
    if (!peeked_ && !frozen_ && path_.connection != nullptr) [[likely]] {
      arrived_ = Word(kPosted);
      if (arrived_ <= done_ && up_) return SL_ERR_AGAIN;
    }
    if (peeked_ || arrived_ <= done_) return PeekSlow(out_chunk);
  }
  uint8_t* slot = static_cast<uint8_t*>(path_.window.local) + recv_slot_ * geometry_.SlotBytes();
  header_ = *HeaderOf(slot);
  if (header_.sequence != done_ + 1 || header_.epoch != epoch_ || header_.bytes > geometry_.chunk_bytes ||
      arrived_ - done_ > geometry_.slots) [[unlikely]] {
    if (!mapped_ && header_.sequence <= done_ && status_ == SL_OK) return SL_ERR_AGAIN;  // a hole
    if (status_ == SL_OK) Fail(SL_ERR_LINK_CORRUPT, "a chunk header cannot be right");
    return status_;
  }
  payload_ = slot + LinkGeometry::kPayload;
  peeked_ = true;
  *out_chunk = {&header_, payload_};
  return SL_OK;
}

sl_status_t ChunkLink::PeekSlow(Chunk* out_chunk) {
  if (peeked_) {
    *out_chunk = {&header_, payload_};
    return SL_OK;
  }
  if (frozen_ && up_) {
    AnswerQuery();
    if (!frozen_) return Peek(out_chunk);
  }
  return status_ != SL_OK ? status_ : SL_ERR_AGAIN;
}

sl_status_t ChunkLink::Release() {
  if (!peeked_) return SL_ERR_STATE;
  peeked_ = false;
  ++done_;
  if (++recv_slot_ == geometry_.slots) recv_slot_ = 0;
  if (!old_.empty()) [[unlikely]]
    DropLent(false, true);
  if (up_) {
    const sl_status_t status = Signal(kDone, done_);
    if (status != SL_OK) [[unlikely]] {
      done_pending_ = status == SL_ERR_AGAIN;
      if (!done_pending_) OnPutFailed(status);
    }
  }
  return SL_OK;
}

void ChunkLink::Notify() {
  if (up_) path_.ops->notify(path_.connection);
}

void ChunkLink::DescribeWait(bool sending, sl_wait_t* wait) const {
  wait->peer = static_cast<int32_t>(peer_);
  wait->what = !up_ ? "connection" : sending ? "credit" : "chunk";
  wait->doorbell = up_ ? context_->doorbell : nullptr;
  wait->seen = sending ? acked_ : arrived_;
  const uint64_t credit = posted_ + 1 > geometry_.slots ? posted_ + 1 - geometry_.slots : 0;
  wait->wanted = sending ? credit : done_ + 1;
}

void ChunkLink::OnPutFailed(sl_status_t status) {
  CheckPath();
  if (up_) Fail(status, "the transport refused a put");
}

// Notices the end of the path.
void ChunkLink::CheckPath() {
  if (!up_) return;
  const uint32_t state = path_.ops->connection_state(path_.connection);
  if (state == SL_CONNECTION_CLOSED || state == SL_CONNECTION_DOWN) frozen_ = false;  // nothing is written any more
  switch (state) {
    case SL_CONNECTION_CLOSED:
      return Fail(SL_ERR_PEER_LOST, "the peer has closed it");
    case SL_CONNECTION_DOWN:
      up_ = false;
      RecordState(false);
      return Logf(SL_LOG_WARN, "rank {} peer {} lane {} link down: epoch {} ended, {} chunks unacknowledged",
                  context_->rank, peer_, lane_, epoch_, posted_ - acked_);
    default:
      return;
  }
}

void ChunkLink::Fail(sl_status_t status, const char* why) {
  if (status_ != SL_OK) return;
  status_ = status;
  if (up_) RecordState(false);
  up_ = false;
  // A peer that closes is not a fault by itself: jobs end. Who still waits for it reports an error of its own.
  Logf(status == SL_ERR_PEER_LOST ? SL_LOG_DEBUG : SL_LOG_WARN, "rank {} peer {} lane {} link failed: {}",
       context_->rank, peer_, lane_, why);
}

void ChunkLink::RecordState(bool up) const {
  Emit({0, SL_EVENT_LINK_STATE, context_->rank, context_->comm_id, 0, static_cast<int32_t>(peer_), lane_, 0,
        up ? 1u : 0u, epoch_});
}

bool ChunkLink::idle() {
  RefreshAcked();
  return acked_ == posted_ && !done_pending_;
}

}  // namespace sl::kernel
