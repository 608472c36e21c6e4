// SPDX-License-Identifier: Apache-2.0
//
// A block of a reduction whose contributions are pushed: it meets its peers', then its warps play their roles.
#pragma once

#include "modules/algo-symmetric/kernels/direct/meeting.h"
#include "modules/algo-symmetric/kernels/direct/push_reduce.h"

namespace sl::algo_symmetric::kernels {

// For all threads of a block. Whether it goes on: it has met its peers. If it does not, what other blocks leave undone
// must not be mistaken for an operation that is launched later.
SL_HD bool BeginPushReduce(const LongArgs& args, const dev::Block& block, Places* places) {
  const Team& team = args.args.team;
  for (uint32_t i = block.thread(); i < kMostPushers; i += block.threads()) {
    Told* told = ToldOf(team, block);  // as all see behind the meeting's barriers
    told->stored[i] = told->told[i] = told->over[i] = 0;
  }
  if (Meeting(team, block).Begin(args.reach, places) == Outcome::kInReach) return true;
  if (block.thread() == 0) {
    UnitCounts* counts = CountsOf(team);
    dev::StoreNote(&counts->pushed, kEnded);
    dev::StoreNote(&counts->reduced, kEnded);
  }
  return false;
}
// For all threads of a block that has gone on.
SL_HD void EndPushReduce(const LongArgs& args, const dev::Block& block, bool given_up) {
  const Team& team = args.args.team;
  if (!team.HasCome(block, given_up) && block.thread() == 0) *Meeting::Count(team, block) = kEnded;
  team.LetNextIn(Trigger::kHeard);
}

#ifdef __CUDACC__
template <typename F>
__device__ void RunPushReduce(const LongArgs& args, const dev::Block& block, Places* places) {
  if (!BeginPushReduce(args, block, places)) return;
  const uint32_t warp = block.thread() / 32;
  const uint32_t reducers = ReducersOf(args.args.team.size);
  const PushReduce<F> reduce(args, block, *places);
  bool done = true;
  if (warp < reducers) {
    done = reduce.Reduce();
  } else if (warp < reducers + PushersOf(args.args.team.size)) {
    done = reduce.Push(warp - reducers);
  } else {
    reduce.TellPeers();
  }
  EndPushReduce(args, block, !done);
}
#endif

}  // namespace sl::algo_symmetric::kernels
