// SPDX-License-Identifier: Apache-2.0
//
// The sends and receives of a group become the tasks of one launch. Of most groups MailGroup makes a quicker one.
#pragma once

#include <vector>

#include "modules/algo-symmetric/grid.h"
#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"

namespace sl::algo_symmetric {

class P2pGroup {
 public:
  // `reach_ops` may be NULL where nothing is offered: peers reach nothing of callers.
  // `ways` are within `budget` where each queue has its share of it.
  P2pGroup(uint32_t ranks, const sl_reach_ops_t* reach_ops, sl_reach_t* reach, const kernels::P2pWays& ways,
           const SmBudget& budget = {})
      : reach_ops_(reach_ops),
        reach_(reach),
        ranks_(ranks),
        ways_(ways),
        budget_(budget),
        queued_(2 * ranks),
        addresses_(ranks) {}

  const kernels::P2pWays& ways() const { return ways_; }
  // Receives so far that were to be offered, but whose buffer the sender cannot reach.
  uint64_t out_of_reach() const { return out_of_reach_; }

  // [data] Fills what follows args.team. Messages of one queue keep the order of their calls; the n-th send to the own
  // rank belongs to the n-th receive from it.
  // returns: SL_OK | SL_ERR_UNSUPPORTED something else than a send or receive, or a send to the own rank without its
  // receive | SL_ERR_LIMIT they do not fit
  template <uint32_t kBlocks, uint32_t kMessages>
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, kernels::P2pArgs<kBlocks, kMessages>* args,
                   uint32_t* out_blocks) {
    args->ways = ways_;
    const Room room{args->task, kBlocks, &args->waiting, &args->copy_channels, args->message, kMessages};
    return Fill(ops, count, args->team, room, out_blocks);
  }

 private:
  // What a launch has to fill.
  struct Room {
    kernels::P2pTask* tasks;
    uint32_t waiting_tasks;  // at most; kCopyBlocks more copy
    uint32_t* waiting;       // how many there are
    uint32_t* copy_channels;
    kernels::Message* messages;
    uint32_t most_messages;
  };
  // How far it is filled.
  struct Filled {
    uint32_t tasks = 0;
    uint32_t messages = 0;
  };

  sl_status_t Fill(const sl_op_t* ops, uint32_t count, const kernels::Team& team, const Room& room,
                   uint32_t* out_blocks);
  sl_status_t FillQueue(const sl_op_t* ops, uint32_t count, const Room& room, Filled* filled);
  sl_status_t FillCopies(const sl_op_t* ops, uint32_t count, const kernels::Team& team, const Room& room,
                         Filled* filled) const;
  static sl_status_t AddTasks(const kernels::P2pTask& task, uint32_t channels, const Room& room, Filled* filled);

  void AskReach(uint64_t capture, const Room& room);
  uint64_t ReachedBy(uint32_t peer, const kernels::Message& message, uint64_t capture);

  const sl_reach_ops_t* const reach_ops_;
  sl_reach_t* const reach_;
  const uint32_t ranks_;
  const kernels::P2pWays ways_;
  const SmBudget budget_;
  uint64_t out_of_reach_ = 0;
  std::vector<bool> queued_;         // [direction][peer]: during Fill, the queue has been taken
  std::vector<uint64_t> addresses_;  // of each rank, during ReachedBy
};

}  // namespace sl::algo_symmetric
