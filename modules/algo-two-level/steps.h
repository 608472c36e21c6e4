// SPDX-License-Identifier: Apache-2.0
//
// Steps that plans have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "hosts.h"
#include "sdk/plan_writer.h"

namespace sl::algo_two_level {

// Sends this rank's own contribution, as only it can scale it.
inline void Contribute(uint32_t to, sl_operand_t send, PlanWriter* writer) {
  writer->Reserve(to, send);
  writer->Reduce(send, SL_STEP_A_RAW, send, kNoOperand, Outbox(to));
  writer->Put(to, send);
}

// The sum over this host's members of the block named, in `into`; the others contribute theirs.
inline void SumOfHost(const Hosts& hosts, sl_operand_t send, sl_operand_t into, PlanWriter* writer) {
  const std::vector<uint32_t> others = hosts.Others();
  if (others.empty()) writer->Reduce(send, SL_STEP_A_RAW, send, kNoOperand, into);
  for (size_t i = 0; i < others.size(); ++i) {
    writer->Wait(others[i], send);
    writer->Reduce(send, i == 0 ? SL_STEP_A_RAW : 0, i == 0 ? send : into, Inbox(others[i]), into);
    writer->Release(others[i], send);
  }
}

inline void Take(uint32_t from, sl_operand_t into, PlanWriter* writer) {
  writer->Wait(from, into);
  writer->Copy(into, Inbox(from), into);
  writer->Release(from, into);
}

}  // namespace sl::algo_two_level
