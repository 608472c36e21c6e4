// SPDX-License-Identifier: Apache-2.0
//
// A reduce-scatter by stores alone, since the wire carries more of them than loads (docs/gpu-performance.md): what a
// rank reduces comes to slots of its own in units; there it stands beside the others' of the same unit.
//
//   pushers   some warps of every block draw pieces of this rank's contributions, a unit for one peer each, and store
//             them to the peer's slot
//   teller    one warp of every block tells the peers of what its pushers have stored: that takes a fence, which lasts
//             for microseconds while stores are under way, and there is one for all that was stored since the last
//   reducers  the others draw parts of the units that this rank reduces: each waits until the unit has come from all,
//             reduces its part in rank order into the receive buffer, and tells the peers that it can be overwritten
//
// Units are counted from the communicator's beginning, each goes to the slot of its number, and the words below are the
// unit's number + 1, so that nothing has to be cleared and old words are less than what is awaited.
//   stands  R11 pairs with A11: written by the teller, behind a fence that comes after it has heard of the unit from
//           the pusher (Told).
//   free    R12 pairs with A12: of every part, written by who has reduced it; it tells of loads whose values have been
//           used, so that it needs no fence.
// Everybody draws in the order of units: who pushes the lowest one that is missing waits for units below it alone. Any
// one resident block of a rank plays all roles.
//
// The slots lie where rounds stage and reduce (staged.h). Blocks meet first: then all ranks' earlier operations are
// over, and nobody reads there any more. No peer touches callers' buffers, so nothing must be in reach.
#pragma once

#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "modules/algo-symmetric/kernels/direct/unit_cut.h"

namespace sl::algo_symmetric::kernels {

template <typename F>
class PushReduce {
 public:
  SL_HD PushReduce(const LongArgs& args, const dev::Block& block, const Places& places)
      : args_(args.args),
        places_(places),
        work_(args.direct),
        team_(args.args.team),
        block_(block),
        told_(ToldOf(team_, block)),
        slots_(team_.layout.unit_slots),
        unit_bytes_(UnitBytesOf(team_.size)),
        units_(static_cast<uint32_t>((work_.bytes + MostSkewed() + unit_bytes_ - 1) / unit_bytes_)) {}

  // For a warp that pushes. False when a wait was ended.
  SL_HD bool Push(uint32_t pusher) const {
    const dev::Block worker = dev::Draws::WorkerOf(block_);
    UnitCounts* counts = CountsOf(team_);
    const uint64_t first = dev::Poll(&counts->pushed);
    const uint32_t peers = team_.size - 1;
    bool given_up = first == kEnded;
    const dev::Draws draws = Draws(&counts->pushes_drawn, units_ * peers, PushersOf(team_.size));
    const bool is_last = draws.Each([&](uint32_t piece) {
      const uint32_t peer = team_.Peer(piece % peers);
      const uint32_t unit = piece / peers;
      const uint64_t number = first + unit;
      const auto slot = static_cast<uint32_t>(number % slots_);
      for (uint32_t i = worker.thread(); i < kUnitParts && !given_up && number >= slots_;
           i += worker.threads()) {  // A12
        const dev::Wanted wanted{static_cast<int32_t>(peer), kStepFreed, number - slots_ + 1};
        given_up = !dev::AwaitAtLeast(Free(team_.rank, slot, i, peer), wanted, team_.warden);
      }
      if (!HaveCome(&given_up)) return;
      dev::Dawdle(team_.warden.dawdle_ns);
      const UnitCut cut{work_.bytes, Skew(peer)};
      uint8_t* to = Slot(peer, slot) + (team_.rank - static_cast<uint32_t>(team_.rank > peer)) * unit_bytes_;
      to = to + cut.skew - uint64_t{unit} * unit_bytes_;  // where the range would begin
      const Spread<OnePlace> spread{args_.send + peer * work_.from_step, {to}, false};
      SpreadBytes(worker, spread, cut.bytes, cut.Begin(unit, unit_bytes_), cut.End(unit, unit_bytes_));
      dev::Block::SyncWarp();
      if (worker.thread() == 0) Tell(pusher, {Stands(peer, slot, team_.rank), number + 1});
    });
    if (worker.thread() == 0) {
      dev::StoreForBlock(&told_->over[pusher], 1);
      if (is_last && first != kEnded) dev::StoreNote(&counts->pushed, first + units_);
    }
    return !given_up;
  }

  // For a warp, which serves a pusher with each of its first threads, until all have done; on a host there is one.
  SL_HD void TellPeers() const {
    const uint32_t pusher = dev::Draws::WorkerOf(block_).thread();
    const bool serves = pusher < PushersOf(team_.size);
    uint32_t told = 0;
    for (;;) {
      const bool over = !serves || dev::LoadOfBlock(&told_->over[pusher]) != 0;
      const uint32_t stored = serves ? dev::LoadOfBlock(&told_->stored[pusher]) : 0;
      if (dev::Block::AllOfWarp(told == stored)) {
        if (dev::Block::AllOfWarp(over)) return;
        dev::Breathe();
        continue;
      }
      dev::FenceSystem();
      dev::Dawdle(team_.warden.dawdle_ns);
      for (; told != stored; ++told) {  // R11
        const Told::Word& one = told_->word[pusher][told % Told::kWords];
        dev::StoreNote(one.stands, one.number);
      }
      if (serves) dev::StoreForBlock(&told_->told[pusher], told);
    }
  }

  // For a warp that reduces. False when a wait was ended.
  SL_HD bool Reduce() const {
    const dev::Block worker = dev::Draws::WorkerOf(block_);
    UnitCounts* counts = CountsOf(team_);
    const uint64_t first = dev::Poll(&counts->reduced);
    bool given_up = first == kEnded;
    const dev::Draws draws = Draws(&counts->parts_drawn, units_ * kUnitParts, ReducersOf(team_.size));
    const bool is_last = draws.Each([&](uint32_t part) {
      const uint64_t number = first + part / kUnitParts;
      const auto slot = static_cast<uint32_t>(number % slots_);
      for (uint32_t i = worker.thread(); i + 1 < team_.size && !given_up; i += worker.threads()) {  // A11
        const uint32_t peer = team_.Peer(i);
        const dev::Wanted wanted{static_cast<int32_t>(peer), kStepUnit, number + 1};
        given_up = !dev::AwaitAtLeast(Stands(team_.rank, slot, peer), wanted, team_.warden);
      }
      if (!HaveCome(&given_up)) return;
      ReducePart(worker, Slot(team_.rank, slot), part);
      dev::Block::SyncWarp();
      dev::Dawdle(team_.warden.dawdle_ns);
      for (uint32_t i = worker.thread(); i + 1 < team_.size; i += worker.threads()) {  // R12
        dev::StoreNote(Free(team_.Peer(i), slot, part % kUnitParts, team_.rank), number + 1);
      }
    });
    if (is_last && first != kEnded && worker.thread() == 0) dev::StoreNote(&counts->reduced, first + units_);
    return !given_up;
  }

 private:
  // What stands in this slot, and this rank's own.
  SL_HD void ReducePart(const dev::Block& worker, const uint8_t* slot, uint32_t part) const {
    const uint32_t part_bytes = unit_bytes_ / kUnitParts;
    const UnitCut cut{work_.bytes, Skew(team_.rank)};
    const uint64_t begin = cut.Begin(part, part_bytes);
    const uint64_t end = cut.End(part, part_bytes);
    if (begin == end) return;
    UnitOperands in{};
    in.staged = slot + (begin + cut.skew - uint64_t{part / kUnitParts} * unit_bytes_);
    in.stride = unit_bytes_;
    in.own = args_.send + work_.from + begin;
    in.to = args_.recv + work_.to + begin;
    in.bytes = static_cast<uint32_t>(end - begin);
    in.rank = team_.rank;
    in.size = team_.size;
    in.average_over = args_.AverageOver();
    in.before = begin;
    in.after = cut.bytes - end;
    kernels::Reduce<F>(worker, in, args_.reduction);
  }
  // Of where rank r's reduction goes.
  SL_HD uint32_t Skew(uint32_t r) const { return static_cast<uint32_t>((places_.Recv(r) + work_.to) % kWireLineBytes); }
  SL_HD uint32_t MostSkewed() const {
    uint32_t most = 0;
    for (uint32_t r = 0; r < team_.size; ++r) most = Skew(r) > most ? Skew(r) : most;
    return most;
  }
  // At rank r, where the contributions of its peers to a unit stand, one behind the other.
  SL_HD uint8_t* Slot(uint32_t r, uint32_t slot) const {
    return team_.At(r, team_.layout.stage) + uint64_t{slot} * (team_.size - 1) * unit_bytes_;
  }
  SL_HD uint64_t* Stands(uint32_t r, uint32_t slot, uint32_t from) const {
    return team_.Flag(r, team_.layout.units_stand, slot, from);
  }
  SL_HD uint64_t* Free(uint32_t r, uint32_t slot, uint32_t part, uint32_t of) const {
    return team_.Flag(r, team_.layout.units_free, slot * kUnitParts + part, of);
  }
  // `workers`: warps of every block; on a host, its one thread.
  SL_HD dev::Draws Draws(uint32_t* counter, uint32_t pieces, uint32_t workers) const {
    return {counter, pieces, work_.blocks * dev::Draws::WorkersOf(workers * 32)};
  }
  // What the threads of a warp have awaited, each on its own, is visible to all; false when a wait was given up.
  SL_HD static bool HaveCome(bool* given_up) {
    *given_up = !dev::Block::AllOfWarp(!*given_up);
    dev::Block::SyncWarp();
    return !*given_up;
  }
  // What a warp has stored before, as its threads know since they met. The teller, who may be waited for, waits for
  // none.
  SL_HD void Tell(uint32_t pusher, const Told::Word& word) const {
    const uint32_t stored = told_->stored[pusher];
    while (stored - dev::LoadOfBlock(&told_->told[pusher]) >= Told::kWords) dev::Breathe();
    told_->word[pusher][stored % Told::kWords] = word;
    dev::StoreForBlock(&told_->stored[pusher], stored + 1);
  }

  const Args& args_;
  const Places& places_;
  const DirectWork& work_;
  const Team& team_;
  const dev::Block block_;
  Told* const told_;
  const uint32_t slots_;
  const uint32_t unit_bytes_;
  const uint32_t units_;
};

}  // namespace sl::algo_symmetric::kernels
