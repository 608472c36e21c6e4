// SPDX-License-Identifier: Apache-2.0
//
// A path: one connection of a link, with what both ends say over it. A link (chunk_link.h) has one path or several; the
// link knows chunks by their number, a path knows the order in which it carried them.
//
// Signal words, written by the peer:
//   kPosted  chunks were put on this path up to this one, counted by the path
//   kSeen    of those, so many have arrived; only said where a link has several paths, by a receiver that has taken
//            all of them, or a good part of what a window holds
//   kDone    the peer has released the link's chunks up to this one
//   kQuery   "nothing of mine was acknowledged for long": its number in the high half, in the low half the highest
//            chunk that this path has carried
//   kAnswer  to a query: its number in the high half, in the low half the chunks received without a gap
//   kResent  what the answer to this query lacked was sent again
//
// A chunk stands in the receiver's window once kPosted has reached the order that its header names. Header and signal
// are one put, so whatever an older or a half-written header says, its order and number do not fit. Nor does the header
// of another path, whose orders are marked otherwise: a put may still read its slot when that holds the next chunk,
// after its path took over what a lost one had delivered. Numbers have 64 bits: a path may hold a chunk for as long as
// others carry 2^32 further ones. Orders and what queries and answers name have 32, since they are compared with what
// is at most a window away.
//
// thread: as the link's, whose part a path is.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernel/link/link.h"
#include "sl_transport.h"

namespace sl::kernel {

// A connection of a transport that is up.
struct LinkConnection {
  const sl_transport_ops_t* ops = nullptr;
  sl_connection_t* connection = nullptr;
  sl_window_t window = {};
  uint64_t bytes_per_second = 0;  // of its port; 0: not known
};

// How windows are cut. Equal on all ranks.
struct LinkGeometry {
  uint32_t slots = 8;
  uint32_t chunk_bytes = 131072;

  static constexpr uint64_t kPayload = 64;  // payloads begin on cache lines, each header ends where its payload begins
  static constexpr uint64_t kHeader = kPayload - sizeof(ChunkHeader);
  uint64_t SlotBytes() const { return kPayload + (uint64_t{chunk_bytes} + 63) / 64 * 64; }
  uint64_t WindowBytes() const { return slots * SlotBytes(); }
  static ChunkHeader* HeaderOf(uint8_t* slot) { return reinterpret_cast<ChunkHeader*>(slot + kHeader); }
};

class Path {
 public:
  enum SignalWord : uint32_t { kPosted, kSeen, kDone, kQuery, kAnswer, kResent, kSignalCount };

  // Takes over a connection as path `index` of its link; the path before must have been taken out. Allocates.
  void Open(const LinkConnection& connection, uint32_t index, uint32_t epoch, const LinkGeometry& geometry);
  // Hands the connection out; the path is closed then.
  LinkConnection TakeOut();
  // Nothing more is sent on it. Its window can still be read.
  void GoDown();

  bool open() const { return link_.connection != nullptr; }
  bool up() const { return up_; }
  bool mapped() const { return link_.window.peer != nullptr; }
  uint32_t epoch() const { return epoch_; }
  uint32_t State() const { return link_.ops->connection_state(link_.connection); }
  void Notify() const { link_.ops->notify(link_.connection); }

  // What the peer has said. An open path.
  uint64_t Word(SignalWord word) const {
    return std::atomic_ref<uint64_t>(link_.window.local_signals[word * 8]).load(std::memory_order_acquire);
  }
  // As sl_transport_ops_t::put; an open path.
  sl_status_t Signal(SignalWord word, uint64_t value) const;

  // Sender. Sends chunk `sequence`, which stands in the slot at `offset` of `outbox`, on a mapped path the peer's
  // window. returns: as sl_transport_ops_t::put
  sl_status_t Put(uint8_t* outbox, uint64_t offset, uint64_t sequence);
  // Bytes that were put and, as far as the peer has said, have not arrived; keeps the measured rate up to date.
  uint64_t InFlight(uint64_t now_ns);
  // Bytes per nanosecond while the path was busy, or what its port claims; 0: not known.
  double rate() const { return rate_; }
  // Says kPosted again; repairs a lost signal of a mapped path.
  sl_status_t Announce() const { return Signal(kPosted, orders_); }

  // Receiver. True, and the header copied, when chunk `sequence` stands in the slot at `offset`.
  // returns in *out_corrupt whether what stands there cannot be.
  bool Has(uint64_t offset, uint64_t sequence, ChunkHeader* out_header, bool* out_corrupt) const;
  uint8_t* PayloadAt(uint64_t offset) const {
    return static_cast<uint8_t*>(link_.window.local) + offset + LinkGeometry::kPayload;
  }
  void CountTaken() { ++taken_; }
  // Tells the peer what has arrived, if `least` chunks of it are news.
  void TellSeen(uint64_t least = 1);

  // Sender. What was put last is a copy of what another put carried; whether all copies have left, as the peer says.
  void MarkCopy() { copied_ = orders_; }
  bool HasCopies() const;

  // Lost puts. A sender's query, and whether its newest was answered and not yet dealt with. Only the newest counts: as
  // long as it is not answered the next one waits, `patience_ns` at first, then twice as long each time. A query that
  // the transport did not take was not made.
  bool MayAsk(uint64_t now_ns, uint64_t patience_ns) const;
  sl_status_t Ask(uint64_t now_ns);
  // returns in *out_beyond how many chunks beyond asked() the peer had received; negative: it lacked so many
  bool TakeAnswer(int64_t* out_beyond);
  // The newest chunk that the newest query was about.
  uint64_t asked() const { return asked_; }
  // The newest query was about this chunk too, if the path carried it.
  bool AskedAbout(uint64_t sequence) const { return sequence <= asked_; }
  // After an answer: the next chunk that is to go again; 0: none, the peer knows that all of them went. Until then the
  // path makes no query, which would let the peer take what is still to be written again.
  uint64_t resend_from() const { return resend_from_; }
  void set_resend_from(uint64_t sequence) { resend_from_ = sequence; }
  sl_status_t SayResent();
  // A receiver's side: whether a new query is here; then Answer() must follow, again while it returns AGAIN.
  bool HasQuery() const { return Word(kQuery) >> 32 > answered_; }
  // Puts are in order: what was sent again before the query that is here has come, or is lost.
  void Thaw() { frozen_ = false; }
  // Takes nothing behind `received` any more until the sender says that it has sent it again.
  sl_status_t Answer(uint64_t received);
  void ThawIfResent();

 private:
  LinkConnection link_;
  bool up_ = false;
  uint32_t epoch_ = 0;
  uint32_t mark_ = 0;  // of its orders in headers
  uint32_t slots_ = 0;
  uint32_t chunk_bytes_ = 0;

  // Sender.
  uint64_t orders_ = 0;        // chunks put
  uint64_t newest_ = 0;        // highest chunk put
  uint64_t query_ = 0;         // newest query sent
  uint64_t asked_at_ns_ = 0;   // when
  uint32_t vain_ = 0;          // queries since the last one that was answered, but for the newest
  uint64_t asked_ = 0;         // highest chunk it was about
  uint64_t orders_asked_ = 0;  // orders_ when it was sent
  uint64_t dealt_with_ = 0;    // newest query whose answer was acted on
  uint64_t answered_for_ = 0;  // orders_asked_ of that one
  uint64_t resend_from_ = 0;
  uint64_t copied_ = 0;               // order of the newest copy
  std::vector<uint64_t> sent_bytes_;  // in all, after the chunk of order k at k % size
  uint64_t seen_ = 0;
  uint64_t seen_at_ns_ = 0;
  bool was_busy_ = false;  // ever since seen_at_ns_
  double rate_ = 0;

  // Receiver.
  uint64_t taken_ = 0;
  uint64_t told_ = 0;
  uint64_t answered_ = 0;
  bool frozen_ = false;
  uint64_t frozen_above_ = 0;
};

}  // namespace sl::kernel
