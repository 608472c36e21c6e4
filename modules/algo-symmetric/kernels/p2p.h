// SPDX-License-Identifier: Apache-2.0
//
// Point to point: all sends and receives of a group in one launch. Messages between two ranks in one direction form a
// queue; a queue has channels, and long messages are cut over them. Every channel of every queue has warps of its own,
// a quarter of a block, so that all progress together, and the hops and waits of one hide behind the copying of the
// others. All blocks of the launch must be resident at once.
//
// A channel is kInboxSlots slots in the receiver's slice. Counters count chunks since the lane began, have one writer,
// only grow, and lie in the slice of who waits for them:
//   arrived  R4 pairs with A4: the sender's chunk stands in its slot
//   credit   R5 pairs with A5: the receiver has copied the chunk out, so the sender may reuse its slot
// The argument is that of staged.h: Block::Sync before the one thread that releases, and after the one that acquires.
//
// Long messages skip the inbox where the sender can reach the receiver's buffer: each channel of the receiver tells it
// where, or 0, which sends the message through the inbox after all.
//   offer    R8 pairs with A8: the receiver's operation has begun, so its buffer may be overwritten. Two words, told
//   and
//            distinguished as those of a meeting (meeting.h); the next offer of a channel follows this one's message
//   landed   R9 pairs with A9: the sender's part of the message stands in the receiver's buffer
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/meeting.h"
#include "modules/algo-symmetric/kernels/move.h"

namespace sl::algo_symmetric::kernels {

struct Message {
  uint8_t* user;
  uint64_t bytes;
  uint64_t reached;  // receives: where the sender sees `user`; 0: it does not
};

constexpr uint64_t kOfferedBytes = 256 << 10;  // from which on it pays to ask where a message goes

// What one block does: the messages [first, first + count) of a queue, as far as they use its channels.
struct P2pTask {
  uint16_t peer;
  uint8_t receives;
  uint8_t group;  // of kChannelsOfBlock channels
  uint16_t first;
  uint16_t count;
};

constexpr uint32_t kP2pBlocks = 112;  // all resident on GPUs from 112 SMs on

template <uint32_t kMessages>
struct P2pArgs {
  static constexpr uint32_t kMost = kMessages;
  Team team;
  uint64_t offered_bytes;    // equal on all ranks: from this length on, receivers tell senders where messages go
  P2pTask task[kP2pBlocks];  // of each block
  Message message[kMessages];
};
// As many as fit what every device takes, and what CUDA takes from sm_70 on.
using FewMessages = P2pArgs<117>;
using ManyMessages = P2pArgs<1312>;
static_assert(sizeof(FewMessages) <= 4096 && sizeof(ManyMessages) <= 32764);

// Over how many channels a message is cut; both ends compute it.
constexpr uint64_t kBytesOfChannel = 16 << 10;
SL_HD uint32_t ChannelsOf(uint64_t bytes, uint32_t most) {
  const uint64_t wanted = (bytes + kBytesOfChannel - 1) / kBytesOfChannel;
  return static_cast<uint32_t>(wanted < most ? wanted : most);
}

// One channel.
template <uint32_t kMessages>
class P2pChannel {
 public:
  // `part`: of the block, below kChannelsOfBlock; `block` are its threads; `told` is shared by them.
  SL_HD P2pChannel(const P2pArgs<kMessages>& args, const dev::Block& block, uint32_t part, uint32_t* told)
      : args_(args),
        team_(args.team),
        task_(args.task[block.index]),
        channel_(task_.group * kChannelsOfBlock + part),
        block_(block),
        told_(told) {}

  SL_HD void Run() {
    const uint32_t channels = team_.layout.channels;
    uint64_t* counter = Word(team_.rank, task_.receives != 0 ? team_.layout.pulled : team_.layout.pushed, task_.peer);
    uint64_t* offers = Word(team_.rank, task_.receives != 0 ? team_.layout.answered : team_.layout.offered, task_.peer);
    uint64_t chunk = *counter;
    if (chunk == kEnded) return;
    uint64_t offer = *offers;
    for (uint32_t m = task_.first; m < uint32_t{task_.first} + task_.count; ++m) {
      const Message& message = args_.message[m];
      const uint32_t used = ChannelsOf(message.bytes, channels);
      if (channel_ >= used) continue;
      const uint64_t part = ((message.bytes + used - 1) / used + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
      const uint64_t begin = channel_ * part;
      const uint64_t end = begin + part < message.bytes ? begin + part : message.bytes;
      if (message.bytes >= args_.offered_bytes && begin < end) {
        const Outcome outcome =
            task_.receives != 0 ? Answer(message, ++offer) : Land(message.user, begin, end, ++offer);
        if (outcome == Outcome::kGivenUp) return GiveUp(counter);
        if (outcome == Outcome::kInReach) continue;
      }
      for (uint64_t at = begin; at < end; at += kChunkBytes, ++chunk) {
        const auto bytes = static_cast<uint32_t>(end - at < kChunkBytes ? end - at : kChunkBytes);
        if (!(task_.receives != 0 ? Pull(message.user + at, bytes, chunk) : Push(message.user + at, bytes, chunk))) {
          return GiveUp(counter);
        }
      }
    }
    if (block_.thread() != 0) return;
    *counter = chunk;  // whoever read it has passed a Sync since, or it has not changed
    *offers = offer;
  }

 private:
  // All who read the counter have passed a Sync since.
  SL_HD void GiveUp(uint64_t* counter) const {
    if (block_.thread() == 0) *counter = kEnded;
  }
  // Word [other][channel] of a table in rank r's slice.
  SL_HD uint64_t* Word(uint32_t r, uint64_t table, uint32_t other) const {
    return reinterpret_cast<uint64_t*>(team_.At(r, table)) + other * team_.layout.channels + channel_;
  }
  // Slot of a chunk from `source` in rank r's slice.
  SL_HD uint8_t* Slot(uint32_t r, uint32_t source, uint64_t chunk) const {
    const uint32_t behind = source > r ? source - r - 1 : source + team_.size - r - 1;
    const uint64_t channel = static_cast<uint64_t>(behind) * team_.layout.channels + channel_;
    return team_.At(r, team_.layout.inbox) + (channel * kInboxSlots + chunk % kInboxSlots) * kChunkBytes;
  }
  SL_HD bool Await(uint64_t table, uint64_t value, uint32_t step) const {  // A4, A5
    const dev::Wanted wanted{static_cast<int32_t>(task_.peer), step, value};
    const uint64_t* word = Word(team_.rank, table, task_.peer);
    return !block_.SyncAny(block_.thread() == 0 && !dev::AwaitAtLeast(word, wanted, team_.warden));
  }
  SL_HD void Signal(uint64_t table, uint64_t value) const {  // R4, R5
    block_.Sync();
    if (block_.thread() != 0) return;
    dev::Dawdle(team_.warden.dawdle_ns);
    dev::StoreRelease(Word(task_.peer, table, team_.rank), value);
  }

  SL_HD bool Push(const uint8_t* from, uint32_t bytes, uint64_t chunk) const {
    if (chunk >= kInboxSlots && !Await(team_.layout.credit, chunk + 1 - kInboxSlots, kStepCredit)) return false;
    const Range range{from, Slot(task_.peer, team_.rank, chunk), bytes};
    MoveRanges(block_, 1, bytes, dev::IsAligned(from, kVectorBytes), FromUser{}, [&](uint32_t) { return range; });
    Signal(team_.layout.arrived, chunk + 1);
    return true;
  }
  SL_HD bool Pull(uint8_t* to, uint32_t bytes, uint64_t chunk) const {
    if (!Await(team_.layout.arrived, chunk + 1, kStepArrived)) return false;
    const Range range{Slot(team_.rank, task_.peer, chunk), to, bytes};
    MoveRanges(block_, 1, bytes, dev::IsAligned(to, kVectorBytes), FromPeer{}, [&](uint32_t) { return range; });
    Signal(team_.layout.credit, chunk + 1);
    return true;
  }

  // The word of an offer from `from` in rank r's slice.
  SL_HD uint64_t* OfferWord(uint32_t r, uint32_t from, uint32_t word) const {
    const uint64_t channel = static_cast<uint64_t>(from) * team_.layout.channels + channel_;
    return reinterpret_cast<uint64_t*>(team_.At(r, team_.layout.offer)) + channel * kOfferWords + word;
  }
  // The receiver's side of a long message.
  SL_HD Outcome Answer(const Message& message, uint64_t number) const {
    for (uint32_t word = block_.thread(); word < kOfferWords; word += block_.threads()) {  // R8
      const uint64_t half = word == 0 ? message.reached & UINT32_MAX : message.reached >> 32;
      dev::Dawdle(team_.warden.dawdle_ns);
      dev::StoreRelease(OfferWord(task_.peer, team_.rank, word), number << 32 | half);
    }
    if (message.reached == 0) return Outcome::kOutOfReach;
    return Await(team_.layout.landed, number, kStepLanded) ? Outcome::kInReach : Outcome::kGivenUp;  // A9
  }
  // The sender's.
  SL_HD Outcome Land(const uint8_t* user, uint64_t begin, uint64_t end, uint64_t number) const {
    bool given_up = false;
    for (uint32_t word = block_.thread(); word < kOfferWords; word += block_.threads()) {  // A8
      const dev::Wanted wanted{static_cast<int32_t>(task_.peer), kStepOffer, number & UINT32_MAX};
      uint64_t half = 0;
      if (!AwaitMarked(OfferWord(team_.rank, task_.peer, word), wanted, team_.warden, &half)) given_up = true;
      told_[word] = static_cast<uint32_t>(half);
    }
    if (block_.SyncAny(given_up)) return Outcome::kGivenUp;
    const uint64_t told = told_[0] | static_cast<uint64_t>(told_[1]) << 32;
    if (told == 0) return Outcome::kOutOfReach;
    constexpr uint64_t kMost = 1 << 30;  // of a range
    for (uint64_t at = begin; at < end; at += kMost) {
      const auto bytes = static_cast<uint32_t>(end - at < kMost ? end - at : kMost);
      const Range range{user + at, reinterpret_cast<uint8_t*>(told) + at, bytes};
      MoveRanges(block_, 1, bytes, dev::IsAligned(range.from, kVectorBytes), FromUser{},
                 [&](uint32_t) { return range; });
    }
    Signal(team_.layout.landed, number);  // R9
    return Outcome::kInReach;
  }

  const P2pArgs<kMessages>& args_;
  const Team& team_;
  const P2pTask task_;
  const uint32_t channel_;
  const dev::Block block_;
  uint32_t* const told_;  // kOfferWords
};

}  // namespace sl::algo_symmetric::kernels
