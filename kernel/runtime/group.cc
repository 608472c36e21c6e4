// SPDX-License-Identifier: Apache-2.0
//
// Groups: several operations as one schedule. All are checked before the first is issued; then all progress together,
// and only collectives of one communicator keep their order.
//
// What a group needs while it is issued lives in an arena on the caller's stack, so that groups of up to some sixty
// messages allocate nothing.
#include <cstddef>

#include "kernel/plan/select.h"
#include "kernel/runtime/issue.h"
#include "kernel/runtime/members.h"
#include "kernel/runtime/schedule.h"
#include "kernel/runtime/self_pairs.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr size_t kArenaBytes = 16384;

using Entries = std::span<const sl_group_entry_t>;

Status AdmitAll(Entries entries, Members* members, SelfPairs* selves) {
  for (const sl_group_entry_t& entry : entries) {
    SL_TRY(members->Admit(entry));
    if (IsToSelf(entry)) {
      selves->Add(entry);
    } else if (IsTransfer(entry.op->kind) && entry.op->count != 0) {
      members->Of(entry.comm).transfer = entry.op;
    }
  }
  return {};
}

// Whether one launch serves what a rank sends to itself, or receives from itself, and its transfers to other ranks.
bool GoesAlong(const Member& member, const sl_op_t& op) {
  sl_comm_t* handle = member.handle;
  if (member.transfer == nullptr || handle->relay != nullptr || handle->comm.device().is_watched()) return false;
  const Result<const Choice*> own = handle->comm.selector()->Select(op);
  const Result<const Choice*> other = handle->comm.selector()->Select(*member.transfer);
  return own.ok() && other.ok() && own.value()->run == SL_RUN_LAUNCH &&
         own.value()->algorithm == other.value()->algorithm;
}

class GroupSchedule {
 public:
  GroupSchedule(Members* members, Schedule* schedule) : members_(members), schedule_(schedule) {}

  Status Fill(Entries entries, const SelfPairs& selves) {
    for (const sl_group_entry_t& entry : entries) {
      if (!IsToSelf(entry)) SL_TRY(Add(entry));
    }
    for (size_t i = 0; i < selves.size(); ++i) SL_TRY(AddPair(selves.send(i), selves.receive(i)));
    return schedule_->Complete();
  }

 private:
  Status Add(const sl_group_entry_t& entry) {
    SL_TRY(members_->Join(entry));
    return schedule_->Add(&members_->Of(entry.comm), *entry.op);
  }

  // A pair goes along with the communicator's other transfers, if it can, or is copied at once.
  Status AddPair(const sl_group_entry_t& send, const sl_group_entry_t& receive) {
    const Member& member = members_->Of(send.comm);
    if (!GoesAlong(member, *send.op) || !GoesAlong(member, *receive.op)) return CopyPair(send, receive);
    SL_TRY(Add(send));
    return Add(receive);
  }

  Members* const members_;
  Schedule* const schedule_;
};

}  // namespace

Status IssueEntries(const sl_group_entry_t* entries, uint32_t count) {
  if (count == 1) return MarkAndIssue(entries[0].comm, *entries[0].op, entries[0].stream);
  alignas(std::max_align_t) std::byte memory[kArenaBytes];
  std::pmr::monotonic_buffer_resource arena(memory, sizeof(memory));
  Members members(&arena);
  SelfPairs selves(&arena);
  SL_TRY(AdmitAll({entries, count}, &members, &selves));
  std::pmr::vector<sl_group_entry_t> gathered(&arena);
  const Entries ordered = members.Gather({entries, count}, &gathered);
  for (const Member& member : members.all()) member.handle->comm.selector()->Collect();
  SL_TRY(selves.Pair());

  Schedule schedule(&arena, count, members.all().size());
  SL_TRY(GroupSchedule(&members, &schedule).Fill(ordered, selves));
  if (schedule.empty()) return {};
  Status issued = schedule.Issue();
  for (const Member& member : members.all()) issued = Close(member, issued);
  SL_TRY(issued);
  return members.LetFollowersGo();
}

}  // namespace sl::kernel
