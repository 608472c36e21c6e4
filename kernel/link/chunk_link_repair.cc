// SPDX-License-Identifier: Apache-2.0
//
// What a link does when something was lost: a put, or a whole path.
#include <algorithm>
#include <cstring>

#include "kernel/events/log.h"
#include "kernel/link/chunk_link.h"

namespace sl::kernel {

void ChunkLink::Service(uint64_t now_ns) {
  CheckPaths();
  if (paths_up_ == 0) {
    stalled_since_ns_ = now_ns;
    return;
  }
  RefreshAcked();
  AnswerQueries();
  if (transmitted_ != posted_ || done_pending_) Pump();
  AskIfStalled(now_ns);
}

// Notices paths that have ended.
void ChunkLink::CheckPaths() {
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (!paths_[i].up()) continue;
    const uint32_t state = paths_[i].State();
    if (state != SL_CONNECTION_CLOSED && state != SL_CONNECTION_DOWN) continue;
    closed_ |= state == SL_CONNECTION_CLOSED;
    LosePath(i);
  }
}

// What the path carried, and nobody acknowledged, goes on the others, if there are any.
void ChunkLink::LosePath(size_t index) {
  Path& path = paths_[index];
  path.GoDown();
  --paths_up_;
  if (paths_up_ == 0 && closed_) {
    RecordState(index, false);
    return Fail(SL_ERR_PEER_LOST, "the peer has closed it");
  }
  uint64_t lost = 0;
  for (uint64_t k = posted_; k > acked_; --k) {
    if (CarrierOf(k) != index) continue;
    CarrierOf(k) = kNobody;
    transmitted_ = std::min(transmitted_, k - 1);
    ++lost;
  }
  resends_ += lost;
  done_pending_ = done_ != 0;
  RecordState(index, false);
  // Who closes in good order is done, or will say what became of the connection itself.
  Logf(closed_ ? SL_LOG_DEBUG : SL_LOG_WARN,
       "rank {} peer {} lane {} link path {} down: epoch {} ended, {} chunks unacknowledged, {} paths left",
       context_->rank, peer_, lane_, index, path.epoch(), lost, paths_up_);
  if (paths_up_ == 0) return;
  Pump();
  NotifyAll();
}

void ChunkLink::OnPutFailed(size_t index, sl_status_t status) {
  CheckPaths();
  if (!paths_[index].up()) return;
  if (status == SL_ERR_LINK_DOWN) return LosePath(index);
  Fail(status, "the transport refused a put");
}

// Receiver: answers new queries, and waits for what they bring if something is missing.
void ChunkLink::AnswerQueries() {
  for (size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (!path.up()) continue;
    path.ThawIfResent();
    if (!path.HasQuery()) continue;
    done_pending_ = done_ != 0;  // the acknowledgement may have been what was lost
    // Puts are in order: all that this path carried before the query has arrived or is lost, and what was sent again
    // before it has too, so the slots are still: also where the sender could not send all again, nor say so.
    path.Thaw();
    const sl_status_t status = path.Answer(ReceivedWithoutGap());
    if (status != SL_OK && status != SL_ERR_AGAIN) {
      OnPutFailed(i, status);
      continue;
    }
    if (done_pending_) SendDone();
    if (path.up()) path.Notify();
  }
}

uint64_t ChunkLink::ReceivedWithoutGap() {
  uint64_t received = done_ + (peeked_ ? 1 : 0);
  ChunkHeader header;
  bool corrupt = false;
  const auto has_next = [&](const Path& path) {
    return path.open() && path.Has(OffsetOf(received + 1), received + 1, &header, &corrupt);
  };
  while (received - done_ < geometry_.slots && std::any_of(paths_.begin(), paths_.end(), has_next)) ++received;
  return received;
}

// Sender: the oldest chunk has stood for too long. Either the peer is slow, or something was lost.
void ChunkLink::AskIfStalled(uint64_t now_ns) {
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (paths_[i].up()) TakeAnswer(i);
    if (paths_[i].up() && paths_[i].resend_from() != 0) Resend(i);
  }
  const bool is_settled = acked_ == posted_ && held_ == UINT64_MAX;
  if (is_settled) {
    stalled_at_ = UINT64_MAX;
  } else if (acked_ != stalled_at_) {
    stalled_at_ = acked_;
    stalled_since_ns_ = now_ns;
  }
  // A query asks about everything, so it must come after everything.
  if (is_settled || transmitted_ != posted_ || now_ns - stalled_since_ns_ < context_->resend_ns) return;
  bool all_asked = true;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (!paths_[i].up() || !(Carries(i) || paths_[i].HasCopies())) continue;
    if (!paths_[i].MayAsk(now_ns, context_->resend_ns)) continue;
    const sl_status_t status = paths_[i].Ask(now_ns);
    if (status == SL_OK) {
      paths_[i].Notify();
    } else if (status == SL_ERR_AGAIN) {
      all_asked = false;
    } else {
      OnPutFailed(i, status);
    }
  }
  if (all_asked) stalled_since_ns_ = now_ns;
}

bool ChunkLink::Carries(size_t index) {
  for (uint64_t k = acked_ + 1; k <= posted_; ++k) {
    if (CarrierOf(k) == index) return true;
  }
  return false;
}

// Sender: looks whether the peer lacked anything when it answered, as Path::Answer() does. That may have been
// acknowledged since, over other paths; the peer waits for kResent all the same.
void ChunkLink::TakeAnswer(size_t index) {
  Path& path = paths_[index];
  int64_t beyond = 0;
  if (!path.TakeAnswer(&beyond)) return;
  if (beyond > static_cast<int64_t>(posted_ - path.asked())) {
    return Fail(SL_ERR_LINK_CORRUPT, "the peer received a chunk that was not sent");
  }
  if (beyond >= 0 || beyond < -static_cast<int64_t>(geometry_.slots)) return;
  const uint64_t received = path.asked() - static_cast<uint64_t>(-beyond);
  path.set_resend_from(std::max(received, acked_) + 1);
}

// Sender: what this path carried behind what the peer had received goes again, and on the same path: it may be still
// on its way there, and must not be overtaken by the next chunk of its slot. What went after the query does not: the
// peer, which takes nothing of what is missing until kResent, would take the first copy of that, and acknowledge it
// while the second still reads the slot. Where the queue is full, it goes on the next time.
void ChunkLink::Resend(size_t index) {
  Path& path = paths_[index];
  sl_status_t status = path.mapped() ? path.Announce() : SL_OK;
  const uint64_t last = path.mapped() ? 0 : posted_;
  uint64_t k = std::max(path.resend_from(), acked_ + 1);
  for (; k <= last && path.AskedAbout(k); ++k) {
    if (CarrierOf(k) != index) continue;
    status = path.Put(outbox_, OffsetOf(k), k);
    if (status != SL_OK) break;
    NoteCopy(&path, k);
    ++resends_;
  }
  path.set_resend_from(k);
  if (status == SL_OK) status = path.SayResent();
  if (status != SL_OK && status != SL_ERR_AGAIN) return OnPutFailed(index, status);
  path.Notify();
}

// Nothing but the slot's next chunk can come behind the copy where there is only one path. On a mapped one nothing is
// read.
void ChunkLink::NoteCopy(Path* path, uint64_t sequence) {
  if (paths_.size() == 1 || path->mapped()) return;
  path->MarkCopy();
  held_ = std::min(held_, sequence);
}

sl_status_t ChunkLink::Attach(uint32_t index, const LinkConnection& connection, uint32_t epoch,
                              sl_doorbell_t* doorbell) {
  if (paths_.size() <= index) paths_.resize(index + 1);
  Path& path = paths_[index];
  closed_ = false;  // the peer is back
  if (path.up()) LosePath(index);
  const bool takes_over = connection.window.peer != nullptr || owner_ == nullptr || owner_ == &path || !owner_->up();
  uint8_t* const before = outbox_;
  const bool was_mapped = owner_ != nullptr;
  if (takes_over) {
    if (outbox_ == nullptr) {
      geometry_.slots = static_cast<uint32_t>(connection.window.bytes / geometry_.SlotBytes());
      carriers_.assign(geometry_.slots, kNobody);
      send_offset_ = OffsetOf(posted_ + 1);
      recv_offset_ = OffsetOf(done_ + 1);
    }
    if (const sl_status_t status = MoveOutbox(connection); status != SL_OK) {
      connection.ops->retire(connection.connection);
      return status;
    }
  }
  const bool reserved_there = reserved_ && was_mapped && owner_ == &path && before != nullptr;
  LinkConnection old;
  if (path.open()) old = path.TakeOut();
  path.Open(connection, index, epoch, geometry_);
  ++paths_up_;
  if (takes_over) owner_ = path.mapped() ? &path : nullptr;
  doorbell_ = doorbell;
  done_pending_ = done_ != 0;
  if (old.connection != nullptr) KeepOrRetire(old, reserved_there, peeked_ && recv_path_ == index);
  RecordState(index, true);
  Pump();
  NotifyAll();
  Logf(SL_LOG_DEBUG, "rank {} peer {} lane {} link path {} up: epoch {}{}", context_->rank, peer_, lane_, index, epoch,
       path.mapped() ? ", mapped" : "");
  CheckPaths();
  return SL_OK;
}

// Brings what was not acknowledged to where the new path sends from.
sl_status_t ChunkLink::MoveOutbox(const LinkConnection& connection) {
  uint8_t* to = static_cast<uint8_t*>(connection.window.peer);
  if (to == nullptr) {
    // Zeroed by the system, page by page as chunks come to them.
    if (staging_ == nullptr) staging_.reset(std::calloc(1, geometry_.WindowBytes() + 64));
    if (staging_ == nullptr) return SL_ERR_MEMORY;
    to = static_cast<uint8_t*>(staging_.get());
    to += (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  }
  if (outbox_ != nullptr && outbox_ != to) {
    for (uint64_t k = acked_ + 1; k <= posted_; ++k) {
      const uint8_t* from = outbox_ + OffsetOf(k) + LinkGeometry::kHeader;
      // The old slot is in memory that the peer can write: its length is not to be trusted.
      const uint64_t bytes = reinterpret_cast<const ChunkHeader*>(from)->bytes;
      const uint64_t bounded = bytes <= geometry_.chunk_bytes ? bytes : geometry_.chunk_bytes;
      std::memcpy(to + OffsetOf(k) + LinkGeometry::kHeader, from, sizeof(ChunkHeader) + bounded);
      ChunkHeader* header = LinkGeometry::HeaderOf(to + OffsetOf(k));
      header->sequence = header->order = 0;  // not sent yet
      CarrierOf(k) = kNobody;
    }
    transmitted_ = acked_;
  }
  outbox_ = to;
  return SL_OK;
}

void ChunkLink::KeepOrRetire(const LinkConnection& connection, bool reserved, bool peeked) {
  // A chunk lent from a path before this one is not in this one.
  for (const OldConnection& old : old_) {
    reserved = reserved && !old.reserved;
    peeked = peeked && !old.peeked;
  }
  if (reserved || peeked) {
    old_.push_back({connection, reserved, peeked});
  } else {
    connection.ops->retire(connection.connection);
  }
}

// The caller gave back what it had from an old path.
void ChunkLink::DropLent(bool reserved, bool peeked) {
  for (size_t i = 0; i < old_.size();) {
    OldConnection& old = old_[i];
    if (reserved) old.reserved = false;
    if (peeked) old.peeked = false;
    if (old.reserved || old.peeked) {
      ++i;
      continue;
    }
    const LinkConnection link = old.link;
    old_.erase(old_.begin() + static_cast<ptrdiff_t>(i));
    link.ops->retire(link.connection);
  }
}

}  // namespace sl::kernel
