// SPDX-License-Identifier: Apache-2.0
//
// What a link does when something was lost: a put, or the whole path.
#include <cstring>
#include <new>

#include "kernel/events/log.h"
#include "kernel/link/chunk_link.h"

namespace sl::kernel {

void ChunkLink::Service(uint64_t now_ns) {
  CheckPath();
  if (!up_) {
    stalled_since_ns_ = now_ns;
    return;
  }
  RefreshAcked();
  AnswerQuery();
  if (up_ && (transmitted_ != posted_ || done_pending_)) Pump();
  if (up_) AskIfStalled(now_ns);
}

// Receiver: answers a new query, and waits for what it brings if something is missing.
void ChunkLink::AnswerQuery() {
  if (frozen_ && Word(kResent) >= answered_) frozen_ = false;
  const uint64_t word = Word(kQuery);
  const uint64_t query = word >> 32;
  if (query <= answered_) return;
  answered_ = query;
  // Puts are in order: all that was sent before the query has arrived or is lost, and what was sent again before it
  // has too, so headers up to kPosted are still.
  const uint64_t received = ReceivedWithoutGap();
  const uint32_t missing = static_cast<uint32_t>(word) - static_cast<uint32_t>(received);
  frozen_ = !mapped_ && missing != 0 && missing <= geometry_.slots;
  if (frozen_) arrived_ = received;
  done_pending_ = true;  // the acknowledgement may have been what was lost
  const sl_status_t status = Signal(kAnswer, query << 32 | (received & UINT32_MAX));
  if (status != SL_OK && status != SL_ERR_AGAIN) return OnPutFailed(status);
  Pump();
  if (up_) path_.ops->notify(path_.connection);
}

uint64_t ChunkLink::ReceivedWithoutGap() const {
  uint64_t received = done_ + (peeked_ ? 1 : 0);
  const uint64_t posted = Word(kPosted);
  while (received < posted && received - done_ < geometry_.slots) {
    const uint8_t* slot = Slot(static_cast<uint8_t*>(path_.window.local), received + 1);
    const auto* header = reinterpret_cast<const ChunkHeader*>(slot + LinkGeometry::kHeader);
    if (header->sequence != received + 1 || header->epoch != epoch_) break;
    ++received;
  }
  return received;
}

// Sender: the oldest chunk has stood for too long. Either the peer is slow, or something was lost.
void ChunkLink::AskIfStalled(uint64_t now_ns) {
  const uint64_t answer = Word(kAnswer);
  if (query_ != dealt_with_ && answer >> 32 == query_) Resend(static_cast<uint32_t>(answer));
  if (acked_ == posted_) {
    stalled_at_ = UINT64_MAX;
  } else if (acked_ != stalled_at_) {
    stalled_at_ = acked_;
    stalled_since_ns_ = now_ns;
  }
  // A query asks about everything, so it must come after everything.
  if (!up_ || acked_ == posted_ || transmitted_ != posted_) return;
  if (now_ns - stalled_since_ns_ < context_->resend_ns) return;
  stalled_since_ns_ = now_ns;
  ++query_;
  const sl_status_t status = Signal(kQuery, query_ << 32 | (transmitted_ & UINT32_MAX));
  if (status != SL_OK && status != SL_ERR_AGAIN) return OnPutFailed(status);
  path_.ops->notify(path_.connection);
}

// Sender: everything after what the peer had received goes again.
void ChunkLink::Resend(uint32_t received_low) {
  dealt_with_ = query_;
  const auto beyond = static_cast<int32_t>(received_low - static_cast<uint32_t>(acked_));
  if (beyond < 0) return;  // acknowledged since
  const uint64_t received = acked_ + static_cast<uint32_t>(beyond);
  if (received > transmitted_) return Fail(SL_ERR_LINK_CORRUPT, "the peer received a chunk that was not sent");
  if (!mapped_) {
    resends_ += transmitted_ - received;
    transmitted_ = received;
  }
  Pump();
  // With chunks still to go the mark would come too early; the next query settles it then.
  if (!up_ || transmitted_ != posted_) return;
  sl_status_t status = Signal(kPosted, posted_);
  if (status == SL_OK) status = Signal(kResent, query_);
  if (status != SL_OK && status != SL_ERR_AGAIN) return OnPutFailed(status);
  path_.ops->notify(path_.connection);
}

sl_status_t ChunkLink::Attach(const LinkPath& path, uint32_t epoch) {
  if (const sl_status_t status = MoveOutbox(path); status != SL_OK) {
    path.ops->retire(path.connection);
    return status;
  }
  const LinkPath before = path_;
  const bool reserved_there = reserved_ && mapped_ && before.connection != nullptr;
  path_ = path;
  epoch_ = epoch;
  mapped_ = path.window.peer != nullptr;
  // Chunks that had arrived and were not taken come again.
  arrived_ = done_ + (peeked_ ? 1 : 0);
  frozen_ = false;
  answered_ = query_ = dealt_with_ = signalled_ = 0;
  for (uint64_t k = acked_ + 1; k <= posted_; ++k) {
    reinterpret_cast<ChunkHeader*>(Slot(outbox_, k) + LinkGeometry::kHeader)->epoch = epoch;
  }
  resends_ += transmitted_ - acked_;
  transmitted_ = acked_;
  done_pending_ = done_ != 0;
  up_ = true;
  if (before.connection != nullptr) KeepOrRetire(before, reserved_there, peeked_ && payload_ != nullptr);
  RecordState(true);
  Pump();
  if (up_) path_.ops->notify(path_.connection);
  CheckPath();
  Logf(SL_LOG_DEBUG, "rank {} peer {} lane {} link up: epoch {}{}", context_->rank, peer_, lane_, epoch,
       mapped_ ? ", mapped" : "");
  return SL_OK;
}

// Brings what was not acknowledged to where the new path sends from.
sl_status_t ChunkLink::MoveOutbox(const LinkPath& path) {
  uint8_t* to = static_cast<uint8_t*>(path.window.peer);
  if (to == nullptr) {
    if (staging_ == nullptr) staging_.reset(new (std::nothrow) uint8_t[geometry_.WindowBytes() + 64]);
    if (staging_ == nullptr) return SL_ERR_MEMORY;
    to = staging_.get() + (64 - reinterpret_cast<uintptr_t>(staging_.get()) % 64) % 64;
  }
  if (outbox_ != nullptr && outbox_ != to) {
    for (uint64_t k = acked_ + 1; k <= posted_; ++k) {
      const uint8_t* from = Slot(outbox_, k) + LinkGeometry::kHeader;
      // The old slot is in memory that the peer can write: its length is not to be trusted.
      const uint64_t bytes = reinterpret_cast<const ChunkHeader*>(from)->bytes;
      const uint64_t bounded = bytes <= geometry_.chunk_bytes ? bytes : geometry_.chunk_bytes;
      std::memcpy(Slot(to, k) + LinkGeometry::kHeader, from, sizeof(ChunkHeader) + bounded);
    }
  }
  outbox_ = to;
  return SL_OK;
}

void ChunkLink::KeepOrRetire(const LinkPath& path, bool reserved, bool peeked) {
  // A chunk lent from a path before this one is not in this one.
  for (const OldPath& old : old_) {
    reserved = reserved && !old.reserved;
    peeked = peeked && !old.peeked;
  }
  if (reserved || peeked) {
    old_.push_back({path, reserved, peeked});
  } else {
    path.ops->retire(path.connection);
  }
}

// The caller gave back what it had from an old path.
void ChunkLink::DropLent(bool reserved, bool peeked) {
  for (size_t i = 0; i < old_.size();) {
    OldPath& old = old_[i];
    if (reserved) old.reserved = false;
    if (peeked) old.peeked = false;
    if (old.reserved || old.peeked) {
      ++i;
      continue;
    }
    const LinkPath path = old.path;
    old_.erase(old_.begin() + static_cast<ptrdiff_t>(i));
    path.ops->retire(path.connection);
  }
}

}  // namespace sl::kernel
