// SPDX-License-Identifier: Apache-2.0
//
// A link: one ordered stream of chunks each way between this rank and a peer, on one lane, over one connection or
// several. The link owns ordering, credits, striping and retransmission; a transport's connection only moves bytes.
//
// The window at each end of a connection is cut into `slots` slots of header plus payload. Chunk k of a direction uses
// slot k % slots, whichever connection carries it.
// Pointers, all counts of chunks since the link began:
//   sender    posted >= transmitted >= acked
//   receiver  arrived >= received >= done (told to the peer)
// Invariants: (1) posted - acked <= slots: a slot of any window is rewritten only after the peer released it, so a
// chunk that has to be sent again has its place on every connection. (2) A chunk is delivered once and in order: the
// receiver takes only number received + 1, from whichever window it stands in. (3) Signals are cumulative, so a lost
// one is repaired by any later one and a repeated one is harmless.
//
// thread: a link is driven by one thread at a time; every call is [data] unless it says otherwise.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "sl_device.h"

namespace sl::kernel {

// What a sender says of the operation that a chunk belongs to; the engine compares signature and algorithm with its
// own.
struct OpTag {
  uint64_t seq;        // sender's operation number; 0: a send
  uint64_t signature;  // kernel/plan/signature.h
  uint32_t algorithm;  // which one the sender has chosen, as AlgorithmTag numbers it; 0: a send, or nobody's plan
};

// What travels before each payload; wire bytes, little-endian.
struct ChunkHeader {
  uint32_t sequence;       // low half of the chunk's number, 1 for a direction's first
  uint32_t order;          // low half of its number among the chunks put on the same connection, plus Path's mark
  uint32_t sequence_high;  // high half of the chunk's number
  uint32_t bytes;          // of payload
  uint32_t algorithm;      // OpTag's
  uint32_t reserved;       // 0
  uint64_t op_seq;
  uint64_t signature;
};
static_assert(sizeof(ChunkHeader) == 40);

// A chunk that has arrived; valid until Release().
struct Chunk {
  const ChunkHeader* header;
  const uint8_t* payload;
};

class Link {
 public:
  virtual ~Link() = default;

  virtual uint32_t peer() const = 0;
  virtual uint32_t lane() const = 0;
  virtual uint32_t chunk_bytes() const = 0;  // largest payload
  // Both ends map the memory that chunks go through: news of this link ring a doorbell, others come by a descriptor.
  virtual bool mapped() const = 0;

  // Sender. Reserve gives the payload area of the next chunk, the same until Post. SL_OK | SL_ERR_AGAIN no credit, or
  // still connecting | a link or peer error, for good.
  virtual sl_status_t Reserve(void** out_payload) = 0;
  // Sends the reserved chunk: `bytes` of it.
  virtual sl_status_t Post(uint32_t bytes, const OpTag& tag) = 0;

  // Receiver. Peek shows the oldest chunk not yet released; SL_OK | SL_ERR_AGAIN | an error, for good.
  virtual sl_status_t Peek(Chunk* out_chunk) = 0;
  // Gives the peeked chunk's slot back to the sender, who may be told later, with a chunk that goes the other way.
  virtual sl_status_t Release() = 0;
  // A user has taken its last chunk: the sender is told now, unless chunks have gone the other way, too, since another
  // user did, so that the next ones may carry it.
  virtual void EndReceiving() = 0;

  // Wakes the peer if it sleeps; once after a burst of Post and Release.
  virtual void Notify() = 0;
  // Of a link that has failed: what happened, in words, and the remedy where there is one.
  virtual std::string why() const { return {}; }
  // Says what a caller that got SL_ERR_AGAIN waits for: peer, counts, doorbell.
  virtual void DescribeWait(bool sending, sl_wait_t* wait) const = 0;

  // Turns: runs use a direction one after the other, in the order in which they took tickets.
  uint64_t TakeSendTicket() { return next_send_ticket_++; }
  uint64_t TakeRecvTicket() { return next_recv_ticket_++; }
  bool IsSendTurn(uint64_t ticket) const { return send_turn_ == ticket; }
  bool IsRecvTurn(uint64_t ticket) const { return recv_turn_ == ticket; }
  void EndSendTurn() { ++send_turn_; }
  void EndRecvTurn() { ++recv_turn_; }

 private:
  uint64_t next_send_ticket_ = 0;
  uint64_t next_recv_ticket_ = 0;
  uint64_t send_turn_ = 0;
  uint64_t recv_turn_ = 0;
};

// Where plans get their links; made by the communicator, one per rank. The links of a rank are driven by one thread at
// a time, which says so by a Driving: whoever runs a plan, or, between operations, the keeper.
class LinkProvider {
 public:
  virtual ~LinkProvider() = default;
  // The link to `peer` on `lane`, made at first use, connected while it is polled. Never null for peer != own rank;
  // owned by the provider.   thread: [control]
  virtual Link* Get(uint32_t peer, uint32_t lane) = 0;
  // Accepts, completes connections, repairs; called while anybody waits. SL_OK, or the first error of a transport.
  virtual sl_status_t Progress() = 0;
  // The doorbell a waiting run sleeps on; NULL when some news would not ring it (then waits are short).
  virtual sl_doorbell_t* doorbell() = 0;
  // What a run may sleep on instead that waits for links that are not mapped alone: one of them is readable when there
  // is news. Empty: there are none, or other runs might take the news. Valid as long as the provider.
  virtual std::span<const int32_t> descriptors() { return {}; }

  // Around a run, from its first turn to its end: somebody polls it all the time, or sleeps on the doorbell.
  void BeginUse() {  // thread: who drives
    if (users_.fetch_add(1, std::memory_order_relaxed) != 0) OnShared();
  }
  void EndUse() { users_.fetch_sub(1, std::memory_order_relaxed); }  // thread: [any]

 protected:
  uint32_t users() const { return users_.load(std::memory_order_relaxed); }
  // Another run begins beside those in use: whoever sleeps on descriptors() must look again.
  virtual void OnShared() {}
  // How often somebody drove; whoever drives may ask.
  uint64_t drives() const { return drives_; }

 private:
  friend class Driving;
  bool TryDrive() {
    if (driven_.exchange(true, std::memory_order_acquire)) return false;
    ++drives_;
    return true;
  }
  void StopDriving() { driven_.store(false, std::memory_order_release); }

  std::atomic<bool> driven_{false};
  uint64_t drives_ = 0;
  std::atomic<uint32_t> users_{0};
};

// Drives links for a scope, if it could begin.   thread: [any]
class Driving {
 public:
  explicit Driving(LinkProvider* links) : links_(links->TryDrive() ? links : nullptr) {}
  // Once nobody else is at it.
  static Driving Await(LinkProvider* links) {
    while (!links->TryDrive()) sched_yield();
    return {links, Begun()};
  }
  ~Driving() {
    if (links_ != nullptr) links_->StopDriving();
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;
  // False: somebody else is at it, for a moment.
  bool has_begun() const { return links_ != nullptr; }

 private:
  struct Begun {};
  Driving(LinkProvider* links, Begun) : links_(links) {}

  LinkProvider* const links_;
};

}  // namespace sl::kernel
