// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue.h"

#include "kernel/runtime/admission.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/schedule.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

[[gnu::cold]] Status AloneToSelf(const sl_op_t& op) {
  return {SL_ERR_INVALID, op.kind == SL_OP_SEND ? "a send to the own rank needs its receive in the same group"
                                                : "a receive from the own rank needs its send in the same group"};
}

// A sequence is several items, each of which is prepared before the first is issued.
[[gnu::noinline]] Status IssueParts(Member* member, const Pending& whole, const Choice& sequence) {
  constexpr size_t kArenaBytes = 4096;
  alignas(std::max_align_t) std::byte memory[kArenaBytes];
  std::pmr::monotonic_buffer_resource arena(memory, sizeof(memory));
  Schedule schedule(&arena, sequence.parts.size(), 1);
  SL_TRY(schedule.AddParts(member, whole, sequence));
  return Close(*member, schedule.Issue());
}

// A group of one, whose item needs no schedule.
[[gnu::always_inline]] inline Status IssueOne(Item* item, const sl_op_t& op) {
  Member* member = item->member;
  if (item->together.empty()) {
    SL_ASSIGN(item->choice, EnterAndChoose(member->handle, op, *member->order, item->pending));
    if (item->choice == nullptr) return {};
    if (item->choice->run == SL_RUN_SEQUENCE) [[unlikely]]
      return IssueParts(member, *item->pending, *item->choice);
  } else {
    Enter(member->handle, op, *member->order, item->pending);
    if (op.count == 0) return {};
  }
  return Close(*member, IssueItem(item));
}

// One that outlives the call: on a stream of the host, or relayed.
[[gnu::noinline]] Status IssuePooled(Member* member, const sl_op_t& op) {
  PooledPending pending = TakePending(member->handle);
  if (member->handle->relay != nullptr) {
    Item item(member, std::span(&pending, 1));
    return IssueOne(&item, op);
  }
  Item item(member, std::move(pending));
  return IssueOne(&item, op);
}

// A call that is marked.
[[gnu::always_inline]] inline Status IssueMarked(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  SL_TRY(AdmitOperation(handle, op, stream));
  if (IsTransfer(op.kind) && op.peer == static_cast<int32_t>(handle->comm.rank())) [[unlikely]]
    return AloneToSelf(op);
  handle->comm.selector()->Collect();
  SL_ASSIGN(IssueOrder* const order, JoinOrder(handle, stream));
  Member member{.handle = handle, .lead = stream, .order = order};
  const bool outlives_call = stream != nullptr && handle->comm.device().is_watched();
  if (outlives_call || handle->relay != nullptr) [[unlikely]]
    return IssuePooled(&member, op);
  const LocalPending pending;
  Item item(&member, pending.get());
  return IssueOne(&item, op);
}

}  // namespace

[[gnu::noinline]] Status MarkAndIssue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  const InCall in_call(handle);
  if (!in_call.is_alone()) [[unlikely]]
    return TwoCallsAtOnce();
  return IssueMarked(handle, op, stream);
}

Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  if (handle->is_marked_by_caller) [[likely]] {
    handle->CountCall();
    return IssueMarked(handle, op, stream);
  }
  return MarkAndIssue(handle, op, stream);
}

}  // namespace sl::kernel
