// SPDX-License-Identifier: Apache-2.0
//
// The protocol of a link (link.h) over one path, that is one connection of a transport. The table (link_table.h) makes
// paths and replaces lost ones; the link keeps what has to survive them: counts, chunks that were not acknowledged, and
// chunks that are lent to a caller.
//
// Mapped paths: the caller writes its chunk into the peer's window, Post is one signal. Others: chunks stand in local
// staging, slot for slot like the window, until they are acknowledged, and Post is a put.
//
// Signal words, written by the peer:
//   kPosted    the peer has sent chunks up to this one
//   kDone      the peer has released chunks up to this one
//   kQuery     "nothing of mine was acknowledged for long": number in the high half, chunks sent in the low half
//   kAnswer    to a query: its number in the high half, chunks received without a gap in the low half
//   kResent    what the answer to this query lacked was sent again
//
// A lost put (only transports that lose have them) leaves a hole: kPosted covers a chunk whose header is an older one.
// The receiver waits. The sender's timer sends a query. A receiver that lacks something answers, and from then until
// kResent takes nothing behind the gap, so that no slot is looked at while it is written again. Every one of these
// signals may be lost in turn: the next query repairs it. On mapped paths nothing is lost but with the path.
//
// A lost path: under the next epoch both ends get fresh windows, the sender sends everything again that was not
// acknowledged, the receiver repeats kDone and skips what it had taken. Duplicates need no other care.
//
// thread: as link.h says; the table's calls count as the link's, so everything of one rank is serialised by its user.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/link/link.h"
#include "sl_transport.h"

namespace sl::kernel {

// One connection as the link uses it.
struct LinkPath {
  const sl_transport_ops_t* ops = nullptr;
  sl_connection_t* connection = nullptr;
  sl_window_t window = {};
};

// How windows are cut. Equal on all ranks.
struct LinkGeometry {
  uint32_t slots = 8;
  uint32_t chunk_bytes = 131072;

  static constexpr uint64_t kPayload = 64;  // payloads begin on cache lines, each header ends where its payload begins
  static constexpr uint64_t kHeader = kPayload - sizeof(ChunkHeader);
  uint64_t SlotBytes() const { return kPayload + (uint64_t{chunk_bytes} + 63) / 64 * 64; }
  uint64_t WindowBytes() const { return slots * SlotBytes(); }
};

// What the links of one rank share; owned by the table.
struct LinkContext {
  uint32_t rank = 0;
  uint64_t comm_id = 0;
  LinkGeometry geometry;
  uint64_t resend_ns = 1'000'000'000;
  sl_doorbell_t* doorbell = nullptr;
};

class ChunkLink final : public Link {
 public:
  enum SignalWord : uint32_t { kPosted, kDone, kQuery, kAnswer, kResent, kSignalCount };

  ChunkLink(const LinkContext* context, uint32_t peer, uint32_t lane);
  ~ChunkLink() override;  // retires its paths
  ChunkLink(const ChunkLink&) = delete;
  ChunkLink& operator=(const ChunkLink&) = delete;

  uint32_t peer() const override { return peer_; }
  uint32_t lane() const override { return lane_; }
  uint32_t chunk_bytes() const override { return geometry_.chunk_bytes; }
  sl_status_t Reserve(void** out_payload) override;
  sl_status_t Post(uint32_t bytes, uint64_t op_seq, uint64_t signature) override;
  sl_status_t Peek(Chunk* out_chunk) override;
  sl_status_t Release() override;
  void Notify() override;
  void DescribeWait(bool sending, sl_wait_t* wait) const override;

  // The table's side.
  // Takes over a new path, which may already be closed by a peer that was quick; replaces the one there is. Owns it.
  // OK | MEMORY: no room for staging, the path was retired.
  sl_status_t Attach(const LinkPath& path, uint32_t epoch);
  // Looks after the path now and then: notices its end, answers queries, asks and sends again.
  void Service(uint64_t now_ns);
  // Ends the link for good. Chunks that are already here can still be taken.
  void Fail(sl_status_t status, const char* why);

  bool up() const { return up_; }
  bool failed() const { return status_ != SL_OK; }
  uint32_t epoch() const { return epoch_; }
  // Nothing this end has sent is unacknowledged, and nothing waits to be sent.
  bool idle();
  uint64_t resends() const { return resends_; }  // chunks that were sent more than once

 private:
  // A replaced path that holds a chunk the caller has.
  struct OldPath {
    LinkPath path;
    bool reserved;
    bool peeked;
  };

  uint8_t* Slot(uint8_t* base, uint64_t sequence) const {
    return base + (sequence - 1) % geometry_.slots * geometry_.SlotBytes();
  }
  uint64_t Word(SignalWord word) const {
    return std::atomic_ref<uint64_t>(path_.window.local_signals[word * 8]).load(std::memory_order_acquire);
  }
  sl_status_t Signal(SignalWord word, uint64_t value);
  sl_status_t TransmitNext();
  void Pump();
  sl_status_t ReserveSlow();
  sl_status_t PeekSlow(Chunk* out_chunk);
  void RefreshAcked();
  void OnPutFailed(sl_status_t status);
  void CheckPath();
  void AnswerQuery();
  uint64_t ReceivedWithoutGap() const;
  void Resend(uint32_t received_low);
  void AskIfStalled(uint64_t now_ns);
  sl_status_t MoveOutbox(const LinkPath& path);
  void KeepOrRetire(const LinkPath& path, bool reserved, bool peeked);
  void DropLent(bool reserved, bool peeked);
  void RecordState(bool up) const;

  const LinkContext* const context_;
  const uint32_t peer_;
  const uint32_t lane_;
  const LinkGeometry geometry_;

  // Sender. posted >= transmitted >= acked.
  bool up_ = false;
  bool mapped_ = false;
  bool done_pending_ = false;  // kDone could not be put: the transport's queue was full
  bool reserved_ = false;
  uint32_t send_slot_ = 0;  // of chunk posted + 1
  uint64_t posted_ = 0;
  uint64_t transmitted_ = 0;
  uint64_t acked_ = 0;
  uint8_t* outbox_ = nullptr;  // slots of what was sent: the peer's window, or staging
  uint8_t* reserved_payload_ = nullptr;

  // Receiver. arrived >= received >= done; received is done, and one more while a chunk is lent.
  bool peeked_ = false;
  bool frozen_ = false;     // chunks behind arrived_ may be written again
  uint32_t recv_slot_ = 0;  // of chunk done + 1
  uint64_t arrived_ = 0;
  uint64_t done_ = 0;
  uint64_t answered_ = 0;    // newest query answered
  ChunkHeader header_ = {};  // of the lent chunk: a copy, since the peer could change the original
  const uint8_t* payload_ = nullptr;

  LinkPath path_;
  sl_status_t status_ = SL_OK;
  uint32_t epoch_ = 0;
  std::vector<OldPath> old_;
  std::unique_ptr<uint8_t[]> staging_;

  // Timer and queries.
  uint64_t signalled_ = 0;   // highest kPosted put on this path: signals never shrink
  uint64_t stalled_at_ = 0;  // acked when it last moved; UINT64_MAX: nothing was outstanding
  uint64_t stalled_since_ns_ = 0;
  uint64_t query_ = 0;       // newest query sent on this path
  uint64_t dealt_with_ = 0;  // newest query whose answer was acted on
  uint64_t resends_ = 0;
};

}  // namespace sl::kernel
