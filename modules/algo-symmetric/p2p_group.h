// SPDX-License-Identifier: Apache-2.0
//
// The sends and receives of a group become the tasks of one launch.
#pragma once

#include <vector>

#include "modules/algo-symmetric/kernels/p2p.h"

namespace sl::algo_symmetric {

class P2pGroup {
 public:
  explicit P2pGroup(uint32_t ranks) : queued_(2 * ranks) {}

  // [data] Fills args.task and args.message. Messages of one queue keep the order of their calls.
  // returns: SL_OK | SL_ERR_UNSUPPORTED something else than a send or receive | SL_ERR_LIMIT they do not fit
  template <uint32_t kMessages>
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, kernels::P2pArgs<kMessages>* args, uint32_t* out_blocks) {
    return Fill(ops, count, args->team.layout.channels, args->task, args->message, kMessages, out_blocks);
  }

 private:
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, uint32_t channels, kernels::P2pTask* tasks,
                   kernels::Message* messages, uint32_t most_messages, uint32_t* out_blocks);

  std::vector<bool> queued_;  // [direction][peer]: during Fill, the queue has been taken
};

}  // namespace sl::algo_symmetric
