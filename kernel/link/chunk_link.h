// SPDX-License-Identifier: Apache-2.0
//
// The protocol of a link (link.h) over its paths (path.h). Paths are made, and lost ones replaced, by a maker
// (path_maker.h); the link keeps what has to survive them: counts, chunks that were not acknowledged, and chunks that
// are lent to a caller.
//
// A mapped path works alone: the caller writes its chunk into the peer's window, and sending it is one signal. Others
// share the work: chunks stand in local staging, slot for slot like the windows, until they are acknowledged, and each
// is put on the path on which it will have arrived first, by what is under way there and by the rate at which the path
// was seen to deliver (join the shortest queue, weighted by service rate).
//
// What was released is told with the next chunk that goes the other way, over a network, where each message costs both
// ends a system call. Without such a chunk it is told once a quarter of the slots is owed, and a while after somebody
// began to look for it (TellIfLate), so that a sender out of credit waits for a bounded time only. Through mapped
// memory it is told at once: that is one store.
//
// A lost put (only transports that lose have them) leaves a hole. The receiver waits. The sender's timer sends a query.
// A receiver that lacks something answers, and from then until kResent takes nothing behind the gap from that path, so
// that no slot is looked at while it is written again. Every one of these signals may be lost in turn: the next query
// repairs it. A signal that the transport has no room for is not lost: it is sent when the link is looked after next.
// So is the rest of the chunks that are to go again. On mapped paths nothing is lost but with the path.
//
// A lost path: the sender puts what it had carried, and was not acknowledged, on those that are left, or on the next
// one; both ends repeat what they have released. A chunk that arrives twice stands in two windows and is taken from
// one. A fresh path has fresh windows, so that nothing late can land where it is looked at.
//
// What is put twice may be acknowledged for its first copy while the second still waits to be read from its slot. So a
// link of several paths leaves the slot as it is until the path of the copy has told that it, or later news, is there.
//
// thread: as link.h says; the table's calls count as the link's, so everything of one rank is serialised by its user.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernel/link/path.h"

namespace sl::kernel {

// What the links of one rank share; owned by the table.
struct LinkContext {
  uint32_t rank = 0;
  uint64_t comm_id = 0;
  uint64_t resend_ns = 1'000'000'000;
  uint64_t tell_after_ns = 0;  // how long a release may wait for a chunk the other way; 0: not at all
  uint64_t (*now_ns)() = nullptr;
  uint64_t begin = 0;  // chunks of a link that count as sent and released before the first; tests begin near 2^32
  uint32_t owing = 0;  // links that owe their peer word of a release; the links keep count
};

class ChunkLink final : public Link {
 public:
  static constexpr uint32_t kMaxPaths = 16;

  ChunkLink(LinkContext* context, const LinkGeometry& geometry, uint32_t peer, uint32_t lane);
  ~ChunkLink() override;  // retires its connections
  ChunkLink(const ChunkLink&) = delete;
  ChunkLink& operator=(const ChunkLink&) = delete;

  uint32_t peer() const override { return peer_; }
  uint32_t lane() const override { return lane_; }
  uint32_t chunk_bytes() const override { return geometry_.chunk_bytes; }
  sl_status_t Reserve(void** out_payload) override;
  sl_status_t Post(uint32_t bytes, const OpTag& tag) override;
  sl_status_t Peek(Chunk* out_chunk) override;
  sl_status_t Release() override;
  void EndReceiving() override;
  void Notify() override;
  std::string why() const override { return why_; }
  void DescribeWait(bool sending, sl_wait_t* wait) const override;

  // The table's side.
  // Takes over a connection, which may already be closed by a peer that was quick, as path `index`; replaces the one
  // there is. Owns it. The first one says by its window's size how many slots the link has; the others are as large. OK
  // | MEMORY: no room for staging, the connection was retired.
  sl_status_t Attach(uint32_t index, const LinkConnection& connection, uint32_t epoch, sl_doorbell_t* doorbell);
  // Looks after the paths now and then: notices their end, answers queries, asks and sends again.
  void Service(uint64_t now_ns);
  // Tells what was released, if that is owed: now, or when it has been for LinkContext::tell_after_ns, as these calls
  // see it.
  void TellReleased();
  void TellIfLate(uint64_t now_ns);
  // Ends the link for good. Chunks that are already here can still be taken.
  void Fail(sl_status_t status, const std::string& why);

  bool up() const { return paths_up_ != 0; }
  bool failed() const { return status_ != SL_OK; }
  bool IsUp(uint32_t index) const { return index < paths_.size() && paths_[index].up(); }
  uint32_t EpochOf(uint32_t index) const { return index < paths_.size() ? paths_[index].epoch() : 0; }
  // Chunks are written straight into the peer's window.
  bool mapped() const override { return owner_ != nullptr; }
  // Nothing this end has sent is unacknowledged, and nothing waits to be sent, be it the word that all went again.
  bool idle();
  uint64_t resends() const { return resends_; }  // chunks that were sent more than once

 private:
  static constexpr uint8_t kNobody = UINT8_MAX;
  // A connection that was replaced and holds a chunk the caller has.
  struct OldConnection {
    LinkConnection link;
    bool reserved;
    bool peeked;
  };

  uint64_t OffsetOf(uint64_t sequence) const { return (sequence - 1) % geometry_.slots * geometry_.SlotBytes(); }
  uint8_t& CarrierOf(uint64_t sequence) { return carriers_[(sequence - 1) % geometry_.slots]; }
  Path* Choose(uint32_t full);
  sl_status_t SendNext(uint32_t* full);
  void Pump();
  bool MayOwe() const;
  void Owe(bool owes);
  void SendDone();
  bool SendDoneOn(size_t index);
  sl_status_t ReserveSlow();
  void RefreshAcked();
  void RefreshFreed();
  void NoteCopy(Path* path, uint64_t sequence);
  sl_status_t WhyNoChunk();
  bool FindChunk(bool* out_corrupt);
  bool FindAt(size_t index, bool* out_corrupt);
  void CheckPaths();
  void LosePath(size_t index);
  void OnPutFailed(size_t index, sl_status_t status);
  void AnswerQueries();
  uint64_t ReceivedWithoutGap();
  void TakeAnswer(size_t index);
  void Resend(size_t index);
  void AskIfStalled(uint64_t now_ns);
  bool Carries(size_t index);
  sl_status_t MoveOutbox(const LinkConnection& connection);
  void KeepOrRetire(const LinkConnection& connection, bool reserved, bool peeked);
  void DropLent(bool reserved, bool peeked);
  void NotifyAll();
  void RecordState(size_t index, bool up) const;

  LinkContext* const context_;
  const uint32_t peer_;
  const uint32_t lane_;
  LinkGeometry geometry_;
  std::vector<Path> paths_;
  uint32_t paths_up_ = 0;

  // Sender. posted >= transmitted >= acked; chunks behind `transmitted` that a lost path carried have no carrier.
  bool reserved_ = false;
  bool done_pending_ = false;  // kDone could not be put, or went where it may have been lost
  uint64_t send_offset_ = 0;   // of chunk posted + 1
  uint64_t posted_ = 0;
  uint64_t transmitted_ = 0;
  uint64_t newest_ = 0;  // highest that was ever transmitted
  uint64_t acked_ = 0;
  uint64_t freed_ = 0;         // of acked_, the chunks whose slots may be written again
  uint8_t* outbox_ = nullptr;  // slots of what was sent: staging, or the window behind owner_
  Path* owner_ = nullptr;      // the mapped path in use
  uint8_t* reserved_payload_ = nullptr;
  std::vector<uint8_t> carriers_;  // by slot: index of the path a chunk was put on

  // Receiver. received is done, and one more while a chunk is lent.
  bool peeked_ = false;
  size_t recv_path_ = 0;      // where the newest chunk was found
  uint64_t recv_offset_ = 0;  // of chunk done + 1
  uint64_t done_ = 0;
  uint64_t told_ = 0;           // of done_, what the peer was told
  bool owes_ = false;           // done_ is ahead of told_, and nothing is wrong with that
  uint64_t owes_since_ns_ = 0;  // 0: nobody has looked since
  uint64_t posted_before_ = 0;  // posted_ when a user last took its last chunk
  ChunkHeader header_ = {};     // of the lent chunk: a copy, since the peer could change the original
  const uint8_t* payload_ = nullptr;

  sl_status_t status_ = SL_OK;
  std::string why_;
  bool closed_ = false;  // the peer has closed a path in good order
  sl_doorbell_t* doorbell_ = nullptr;
  std::vector<OldConnection> old_;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> staging_;

  uint64_t stalled_at_ = 0;  // acked when it last moved; UINT64_MAX: nothing was outstanding
  uint64_t stalled_since_ns_ = 0;
  uint64_t held_ = UINT64_MAX;  // lowest chunk that a copy may still be read of
  uint64_t resends_ = 0;
};

}  // namespace sl::kernel
