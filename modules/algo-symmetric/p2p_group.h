// SPDX-License-Identifier: Apache-2.0
//
// The sends and receives of a group become the tasks of one launch.
#pragma once

#include <vector>

#include "modules/algo-symmetric/kernels/p2p.h"

namespace sl::algo_symmetric {

class P2pGroup {
 public:
  // `reach_ops` may be NULL where `offered_bytes` is UINT64_MAX: peers reach nothing of callers.
  P2pGroup(uint32_t ranks, const sl_reach_ops_t* reach_ops, sl_reach_t* reach, uint64_t offered_bytes)
      : reach_ops_(reach_ops), reach_(reach), offered_bytes_(offered_bytes), queued_(2 * ranks), addresses_(ranks) {}

  // See P2pArgs.
  uint64_t offered_bytes() const { return offered_bytes_; }
  // Receives so far that were to be offered, but whose buffer the sender cannot reach.
  uint64_t out_of_reach() const { return out_of_reach_; }

  // [data] Fills what follows args.team. Messages of one queue keep the order of their calls.
  // returns: SL_OK | SL_ERR_UNSUPPORTED something else than a send or receive | SL_ERR_LIMIT they do not fit
  template <uint32_t kMessages>
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, kernels::P2pArgs<kMessages>* args, uint32_t* out_blocks) {
    args->offered_bytes = offered_bytes_;
    return Fill(ops, count, args->team.layout.channels, args->task, args->message, kMessages, out_blocks);
  }

 private:
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, uint32_t channels, kernels::P2pTask* tasks,
                   kernels::Message* messages, uint32_t most_messages, uint32_t* out_blocks);

  uint64_t ReachedBy(uint32_t peer, const sl_op_t& op, uint64_t bytes);

  const sl_reach_ops_t* const reach_ops_;
  sl_reach_t* const reach_;
  const uint64_t offered_bytes_;
  uint64_t out_of_reach_ = 0;
  std::vector<bool> queued_;         // [direction][peer]: during Fill, the queue has been taken
  std::vector<uint64_t> addresses_;  // of each rank, during ReachedBy
};

}  // namespace sl::algo_symmetric
