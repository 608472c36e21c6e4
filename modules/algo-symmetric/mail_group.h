// SPDX-License-Identifier: Apache-2.0
//
// The sends and receives of a group of nothing but mail, one message of a queue, become the tasks of one launch.
#pragma once

#include <vector>

#include "modules/algo-symmetric/grid.h"
#include "modules/algo-symmetric/kernels/p2p/mail_args.h"

namespace sl::algo_symmetric {

// What a launch goes on.
struct MailGrid {
  uint32_t blocks;
  uint32_t threads;  // of each
};

class MailGroup {
 public:
  // Of rank `rank`; the rest as P2pGroup has it.
  MailGroup(uint32_t rank, uint32_t ranks, const kernels::P2pWays& ways, const SmBudget& budget = {})
      : rank_(rank), ranks_(ranks), ways_(ways), budget_(budget), queued_(2 * ranks) {}

  // [data] Fill what follows args.team, and say what it goes on. Ours is the send to the own rank
  // that belongs to the receive from it.
  // returns: SL_OK | SL_ERR_UNSUPPORTED as P2pGroup::Fill | SL_ERR_LIMIT something is no mail, for ShortArgs not short;
  // a queue has several; or they do not fit
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, kernels::ShortArgs* args, MailGrid* out) {
    Room room{args->task, kernels::ShortArgs::kMost, 0, &args->waiting};
    return Fill(ops, count, true, &room, out);
  }
  sl_status_t Fill(const sl_op_t* ops, uint32_t count, kernels::AnyMailArgs* args, MailGrid* out) {
    Room room{args->task, kernels::AnyMailArgs::kMost, 0, &args->waiting};
    return Fill(ops, count, false, &room, out);
  }

 private:
  // What a launch has to fill.
  struct Room {
    kernels::MailTask* tasks;
    uint32_t most;
    uint32_t filled;
    uint32_t* waiting;
  };
  // The two ends of what stays here; NULL: there is none.
  struct Own {
    const sl_op_t* send = nullptr;
    const sl_op_t* recv = nullptr;

    bool Has(const sl_op_t* op) const { return op == send || op == recv; }
  };

  sl_status_t Fill(const sl_op_t* ops, uint32_t count, bool only_short, Room* room, MailGrid* out);
  sl_status_t Check(const sl_op_t* ops, uint32_t count, bool only_short, Own* own);
  sl_status_t Add(const sl_op_t& op, Room* room) const;
  sl_status_t AddCopy(const Own& own, Room* room) const;
  static sl_status_t AddParts(const kernels::MailTask& task, uint32_t channels, uint32_t of_block, Room* room);
  static uint32_t ThreadsFor(const Room& room);

  const uint32_t rank_;
  const uint32_t ranks_;
  const kernels::P2pWays ways_;
  const SmBudget budget_;
  std::vector<bool> queued_;  // [direction][peer]: during Fill, the queue has a message
};

}  // namespace sl::algo_symmetric
