// SPDX-License-Identifier: Apache-2.0
//
// Meetings: blocks of one number, one of each rank, tell each other where their callers' buffers lie, may then load
// from and store to them, and leave together. So a launch needs no table of addresses on the device, and ranks whose
// buffers cannot all be reached find that out alike: all see the same answers.
//
// An address is told as two words, each half of it beside the low half of the meeting's number; a thread stores each.
//   met    R6 pairs with A6: the teller's operation has begun. Whatever filled its buffers, or read from them, came
//          before on its stream; they may be read and overwritten now. That ended before the grid began, in memory of
//          this GPU, where peers read it: there is nothing to release, and a fence would be waited for in vain.
//   left   R7 pairs with A7: the writer's block has loaded and stored all it wanted, here and elsewhere. Block::Sync
//          orders what its threads did before the one that releases; whoever has acquired this of all peers may end,
//          since what these stored has arrived, and may let its stream overwrite what they loaded. A block that only
//          loads from peers needs no fence: what it loaded has been used when its threads come to the barrier.
// The scope is the system, since peers are other GPUs.
//
// Slots: meeting m writes where m - 2 was told. A peer tells m once its own m - 1 is over, thus has heard from this
// rank in m - 1, thus after this rank's m - 2 ended. A word can only be of m or of m - 2 then, so that the low half of
// the number tells them apart for ever, also where it wraps; fresh memory holds 0, which is m - 2 of no meeting but the
// second, whose low half is 2.
//
// A rank that has given up takes back what it has told (CudaRank::Retract): zeros, which are of no meeting that a
// launch waits for, but for one in 2^32, which they tell that the buffers are out of reach.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kReachRanks = 32;  // at most, of a communicator whose ranks reach into each other's buffers

// Where every rank's GPU sees this rank's buffers; all 0 when some cannot. What is not to be touched may be anything
// else, but of receive buffers the low bits are right: pushed contributions are cut by them (unit_cut.h).
struct Reach {
  uint64_t send[kReachRanks];
  uint64_t recv[kReachRanks];

  SL_HD uint64_t Half(uint32_t r, uint32_t word) const {
    const uint64_t address = word < 2 ? send[r] : recv[r];
    return word % 2 == 0 ? address & UINT32_MAX : address >> 32;
  }
};

// Where this rank sees everybody's buffers: the halves of both addresses. A block keeps it in shared memory.
struct Places {
  uint32_t half[kReachRanks][kMeetingWords];

  SL_HD uint64_t Send(uint32_t r) const { return half[r][0] | static_cast<uint64_t>(half[r][1]) << 32; }
  SL_HD uint64_t Recv(uint32_t r) const { return half[r][2] | static_cast<uint64_t>(half[r][3]) << 32; }
};

// A word whose upper half is to become wanted.value.
struct Marked {
  const uint64_t* word;
  dev::Wanted wanted;
};

// Waits for marked(0) … marked(count - 1), each by a thread, and calls take(i, lower half). What their writers' ranks
// did before is visible to that thread afterwards. A warp waits as one: threads that left on their own would take their
// last turns one after the other. False in a thread whose wait was ended.
template <typename MarkedAt, typename Take>
SL_HD bool AwaitMarked(const dev::Block& block, uint32_t count, const dev::Warden& warden, const MarkedAt& marked,
                       const Take& take) {
  bool given_up = false;
  for (uint32_t first = 0; first < count; first += block.threads()) {
    const uint32_t i = first + block.thread();
    const Marked mine = marked(i < count ? i : 0);
    dev::Vigil vigil(warden);
    bool waits = i < count && !given_up;
    while (!dev::Block::AllOfWarp(!waits)) {
      if (!waits) continue;
      const uint64_t seen = dev::LoadAcquire(mine.word);
      waits = seen >> 32 != mine.wanted.value;
      if (!waits) take(i, static_cast<uint32_t>(seen));
      if (waits && vigil.GivesUp(mine.wanted, seen >> 32)) given_up = true;
      if (given_up) waits = false;
    }
  }
  return !given_up;
}

enum class Outcome : uint32_t { kInReach, kOutOfReach, kGivenUp };

class Meeting {
 public:
  SL_HD Meeting(const Team& team, const dev::Block& block)
      : team_(team), block_(block), number_(*Count(team, block) + 1) {}

  // Fills `places`, for all threads of the block.
  SL_HD Outcome Begin(const Reach& reach, Places* places) const {
    if (number_ == kEnded + 1) return Outcome::kGivenUp;  // in an earlier launch
    const uint32_t words = (team_.size - 1) * kMeetingWords;
    for (uint32_t i = block_.thread(); i < words; i += block_.threads()) {  // R6
      const uint32_t peer = team_.Peer(i / kMeetingWords);
      const uint32_t word = i % kMeetingWords;
      dev::Dawdle(team_.warden.dawdle_ns);
      dev::StoreNote(Word(peer, team_.rank, word), Number() << 32 | reach.Half(peer, word));
    }
    for (uint32_t word = block_.thread(); word < kMeetingWords; word += block_.threads()) {
      places->half[team_.rank][word] = static_cast<uint32_t>(reach.Half(team_.rank, word));
    }
    const bool mine_told = AwaitMarked(
        block_, words, team_.warden, [&](uint32_t i) { return Told(i); },
        [&](uint32_t i, uint32_t half) { places->half[team_.Peer(i / kMeetingWords)][i % kMeetingWords] = half; });
    const bool all_told = team_.HasCome(block_, !mine_told);
    if (block_.thread() == 0) *Count(team_, block_) = all_told ? number_ : kEnded;
    if (!all_told) return Outcome::kGivenUp;
    bool refused = false;
    for (uint32_t r = block_.thread(); r < team_.size; r += block_.threads()) {
      if (places->Send(r) == 0 || places->Recv(r) == 0) refused = true;
    }
    return block_.SyncAny(refused) ? Outcome::kOutOfReach : Outcome::kInReach;
  }

  // Returns when no peer touches this rank's buffers any more, or when the wait was ended. `stores`: to peers.
  SL_HD void End(bool stores) const {
    block_.Sync();
    for (uint32_t i = block_.thread(); i + 1 < team_.size; i += block_.threads()) {  // R7
      dev::Dawdle(team_.warden.dawdle_ns);
      uint64_t* word = team_.Flag(team_.Peer(i), team_.layout.left, block_.index, team_.rank);
      if (stores) {
        dev::StoreRelease(word, number_);
      } else {
        dev::StoreNote(word, number_);
      }
    }
    bool given_up = false;
    for (uint32_t i = block_.thread(); i + 1 < team_.size; i += block_.threads()) {  // A7
      const uint32_t peer = team_.Peer(i);
      const dev::Wanted wanted{static_cast<int32_t>(peer), kStepLeft, number_};
      const uint64_t* word = team_.Flag(team_.rank, team_.layout.left, block_.index, peer);
      if (!dev::AwaitAtLeast(word, wanted, team_.warden)) given_up = true;
    }
    if (!team_.HasCome(block_, given_up) && block_.thread() == 0) *Count(team_, block_) = kEnded;
  }

  // The kMeetingWords words that rank `from` tells rank r in a slot.
  SL_HD static uint64_t* Words(const Team& team, uint32_t r, uint32_t from, uint64_t slot, uint32_t block) {
    const uint64_t place = (slot * team.layout.staged_blocks + block) * team.size + from;
    return reinterpret_cast<uint64_t*>(team.At(r, team.layout.met)) + place * kMeetingWords;
  }
  // How many meetings the block has had; the caller's own slice.
  SL_HD static uint64_t* Count(const Team& team, const dev::Block& block) {
    return reinterpret_cast<uint64_t*>(team.At(team.rank, team.layout.meetings)) + block.index;
  }

 private:
  SL_HD uint64_t Number() const { return number_ & UINT32_MAX; }
  // What rank `from` tells rank r.
  SL_HD uint64_t* Word(uint32_t r, uint32_t from, uint32_t word) const {
    return Words(team_, r, from, number_ % kMeetingSlots, block_.index) + word;
  }
  // The i-th word that this rank is told.
  SL_HD Marked Told(uint32_t i) const {  // A6
    const uint32_t from = team_.Peer(i / kMeetingWords);
    return {Word(team_.rank, from, i % kMeetingWords), {static_cast<int32_t>(from), kStepMet, Number()}};
  }

  const Team& team_;
  const dev::Block block_;
  const uint64_t number_;
};

}  // namespace sl::algo_symmetric::kernels
