// SPDX-License-Identifier: Apache-2.0
//
// The life of one operation: enter, fill the launch, leave. Shared by single operations and groups.
#pragma once

#include <new>
#include <utility>

#include "kernel/plan/select.h"
#include "kernel/runtime/pending.h"
#include "kernel/runtime/stream_order.h"

namespace sl::kernel {

// What `body` returns, or that there was no memory for it: for those who must go on all the same.
template <typename Body>
Status OrNoMemory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Status(SL_ERR_MEMORY);
  }
}

// A send or receive as algorithms take it. It is not counted yet.
void EnterTransfer(const sl_op_t& op, const IssueOrder& order, sl_op_t* entered);
// The same once more as an operation that is issued.
void EnterAgain(const sl_op_t& entered, Pending* pending);
// Numbers and counts the operation, and tells the log of calls.
void Enter(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending);
// Tells observers that it begins, served by the choice of that index.
void TellBegin(const Pending& pending, uint32_t choice);
// Selects, and tells the log of calls and observers.
Result<const Choice*> Choose(Pending* pending);
// Both. NULL: the operation is empty, and has ended.
Result<const Choice*> EnterAndChoose(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending);
// A part of `whole`, which is a sequence and was chosen: an operation in `pending` that has the number and signature of
// the whole, so that people and peers see one call.
void EnterPart(const Pending& whole, const PartChoice& part, Pending* pending);
// A kernel serves it: its own, or the engine's, which runs a plan.
inline bool RunsKernel(const Choice& choice) { return choice.run == SL_RUN_LAUNCH || choice.run == SL_RUN_PLAN; }
// Fills the launch of such a choice. Everything it points to lives in `pending`.
Status FillLaunch(Pending* pending, const Choice& choice, sl_launch_t* launch);
// What serves several sends and receives of one communicator in one launch.
Result<const Choice*> ChooseForGroup(sl_comm_t* handle, const sl_op_t* ops, uint32_t count);
// Tells observers that they begin.
void BeginTransfers(sl_comm_t* handle, const sl_op_t* ops, uint32_t count, const Choice& choice);
// Fills one launch for them.
// returns: SL_ERR_LIMIT it cannot take so many | errors of the algorithm
Status FillGroupLaunch(const Choice& choice, const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
                       sl_launch_t* launch);
// The outcome of a launch becomes that of the operation; a failure is the communicator's.
Status Leave(Pending* pending, sl_status_t code);
// The same as sl_launch_t::done of a pooled Pending.
void LeaveAndGive(void* pending, sl_status_t code);

}  // namespace sl::kernel
