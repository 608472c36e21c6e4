// SPDX-License-Identifier: Apache-2.0
//
// A link: one ordered stream of chunks each way between this rank and a peer, on one lane, over one connection (several
// from part 3 on). The link owns ordering, credits, retransmission and epochs; a transport's connection only moves
// bytes.
//
// The window of each end is cut into `slots` slots of header plus payload. Chunk k of a direction uses slot k % slots.
// Pointers, all counts of chunks since the link began:
//   sender    posted >= transmitted >= acked
//   receiver  posted (by the peer, signal word 0) >= received >= done (told to the peer, its signal word 1)
// Invariants: (1) posted - acked <= slots: a slot is rewritten only after the peer released it. (2) A chunk is
// delivered once and in order: the receiver takes only sequence received + 1. (3) Signals are cumulative, so a lost one
// is repaired by any later one and a repeated one is harmless.
//
// thread: a link is driven by one thread at a time; every call is [data] unless it says otherwise.
#pragma once

#include <cstdint>

#include "sl_device.h"

namespace sl::kernel {

// What travels before each payload; wire bytes, little-endian.
struct ChunkHeader {
  uint64_t sequence;   // 1 for a direction's first chunk
  uint32_t bytes;      // of payload
  uint32_t epoch;      // of the link when it was sent
  uint64_t op_seq;     // sender's operation number
  uint64_t signature;  // of the operation as the sender sees it; the engine compares it with its own
};
static_assert(sizeof(ChunkHeader) == 32);

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

  // Sender. Reserve gives the payload area of the next chunk, the same until Post. SL_OK | SL_ERR_AGAIN no credit, or
  // still connecting | a link or peer error, for good.
  virtual sl_status_t Reserve(void** out_payload) = 0;
  // Sends the reserved chunk: `bytes` of it.
  virtual sl_status_t Post(uint32_t bytes, uint64_t op_seq, uint64_t signature) = 0;

  // Receiver. Peek shows the oldest chunk not yet released; SL_OK | SL_ERR_AGAIN | an error, for good.
  virtual sl_status_t Peek(Chunk* out_chunk) = 0;
  // Gives the peeked chunk's slot back to the sender.
  virtual sl_status_t Release() = 0;

  // Wakes the peer if it sleeps; once after a burst of Post and Release.
  virtual void Notify() = 0;
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

// Where plans get their links; made by the communicator, one per rank.
class LinkProvider {
 public:
  virtual ~LinkProvider() = default;
  // The link to `peer` on `lane`, made at first use, connected while it is polled. Never null for peer != own rank;
  // owned by the provider.   thread: [control]
  virtual Link* Get(uint32_t peer, uint32_t lane) = 0;
  // Accepts, completes connections, repairs; called while anybody waits. SL_OK, or the first error of a transport.
  virtual sl_status_t Progress() = 0;
  // The doorbell a waiting run sleeps on; NULL when the transports in use have none (then waits are short).
  virtual sl_doorbell_t* doorbell() = 0;
};

}  // namespace sl::kernel
