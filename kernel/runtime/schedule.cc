// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/issue_turns.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/transfer_join.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// The entry of a member, made where there is none: most often it is the newest.
template <typename Entry>
Entry& EntryOf(std::pmr::vector<Entry>* entries, Member* member) {
  const auto found =
      std::find_if(entries->rbegin(), entries->rend(), [member](const Entry& entry) { return entry.member == member; });
  if (found != entries->rend()) return *found;
  return entries->emplace_back(Entry{member, decltype(Entry::ops)(entries->get_allocator())});
}

// Sends and receives of a device that runs launches one after the other: each would wait for those behind it.
bool IsServedTogether(const Member& member, const sl_op_t& op) {
  return IsTransfer(op.kind) && !member.handle->comm.device().is_watched();
}

// Each gets the device's next commands in turn, as a queue that is full makes its caller wait until the device, and
// with it the other ranks of this thread, get on.
Status IssueInTurn(const std::pmr::vector<Item*>& items) {
  Status outcome;
  for (bool has_more = true, is_first = true; has_more; is_first = false) {
    has_more = false;
    for (Item* item : items) {
      if (is_first ? item->member->has_failed : !item->has_more) continue;
      if (Status issued = IssueNext(item); !issued.ok() && outcome.ok()) outcome = std::move(issued);
      has_more |= item->has_more;
    }
  }
  return outcome;
}

}  // namespace

Status Schedule::Add(Member* member, const sl_op_t& op) {
  sl_comm_t* handle = member->handle;
  if (handle->relay == nullptr && IsServedTogether(*member, op)) {
    AddTransfer(member, op);
    return {};
  }
  PooledPending pending = TakePending(handle);
  if (handle->relay != nullptr) {
    Enter(handle, op, *member->order, pending.get());
    if (op.count != 0) EntryOf(&relayed_, member).ops.push_back(std::move(pending));
    return {};
  }
  SL_ASSIGN(const Choice* choice, EnterAndChoose(handle, op, *member->order, pending.get()));
  if (choice == nullptr) return {};
  if (choice->run == SL_RUN_SEQUENCE) return AddParts(member, *pending, *choice);
  return AddItem(member, std::move(pending), *choice);
}

void Schedule::AddTransfer(Member* member, const sl_op_t& op) {
  member->handle->CountOperations(1);
  if (op.count == 0) return;
  std::pmr::vector<sl_op_t>& ops = EntryOf(&transfers_, member).ops;
  if (ops.empty()) ops.reserve((operations_ + members_ - 1) / members_);
  EnterTransfer(op, *member->order, &ops.emplace_back());
}

Status Schedule::AddParts(Member* member, const Pending& whole, const Choice& sequence) {
  for (const PartChoice& part : sequence.parts) {
    PooledPending own = TakePending(member->handle);
    EnterPart(whole, part, own.get());
    SL_TRY(AddItem(member, std::move(own), *part.choice));
    items_.back().continues = &part != sequence.parts.data();
    items_.back().may_fill_queue = true;
  }
  return {};
}

// Served by no sequence.
Status Schedule::AddItem(Member* member, PooledPending pending, const Choice& choice) {
  if (items_.empty()) items_.reserve(operations_);
  Item& item = items_.emplace_back(member, std::move(pending));
  item.choice = &choice;
  Status prepared = PrepareItem(&item);
  if (!prepared.ok()) items_.pop_back();
  return prepared;
}

Status Schedule::AddTransfers(const Transfers& transfers) {
  const auto& [member, ops] = transfers;
  const auto count = static_cast<uint32_t>(ops.size());
  if (count == 1) {
    PooledPending pending = TakePending(member->handle);
    EnterAgain(ops.front(), pending.get());
    SL_ASSIGN(const Choice* choice, Choose(pending.get()));
    return AddItem(member, std::move(pending), *choice);
  }
  SL_ASSIGN(const Choice* choice, ChooseForGroup(member->handle, ops.data(), count));
  BeginTransfers(member->handle, ops.data(), count, *choice);
  return JoinTransfers(member, *choice, ops, &items_);
}

// Ranks of one communicator come one after the other, as their members stand, however they were called: where
// communicators share streams, a rank would else wait in one for a message that is behind another's in its stream. What
// is relayed comes last: beginning it may wait for what other ranks of this thread have issued before.
Status Schedule::Complete() {
  const auto as_members = [](const auto& one, const auto& other) { return one.member < other.member; };
  std::sort(transfers_.begin(), transfers_.end(), as_members);
  std::sort(relayed_.begin(), relayed_.end(), as_members);
  for (const Transfers& transfers : transfers_) SL_TRY(AddTransfers(transfers));
  for (Relayed& relayed : relayed_) {
    SL_TRY(PrepareItem(&items_.emplace_back(relayed.member, std::span(relayed.ops))));
  }
  return {};
}

// A number for each item. Communicators that share a stream keep their order in it: other ranks may need fewer launches
// for the same.
std::pmr::vector<uint32_t> Schedule::Queues() const {
  std::pmr::map<std::pair<const Device*, sl_stream_t*>, uint32_t> numbers(items_.get_allocator());
  std::pmr::vector<uint32_t> queues(items_.get_allocator());
  for (const Item& item : items_) {
    if (!item.together.empty()) break;  // the last ones
    const auto stream = std::pair(&item.member->handle->comm.device(), item.member->lead);
    queues.push_back(numbers.emplace(stream, static_cast<uint32_t>(numbers.size())).first->second);
  }
  return queues;
}

// As they were called; but where a communicator may fill a queue of the device, with copies or with many launches,
// queues take turns: one that is full makes its caller wait until the device gets on, and that waits for the ranks that
// this very thread issues next.
std::pmr::vector<Item*> Schedule::InOrder() {
  std::pmr::vector<Item*> ordered(items_.get_allocator());
  ordered.reserve(items_.size());
  const bool is_shared = std::any_of(items_.begin(), items_.end(),
                                     [this](const Item& item) { return item.member != items_.front().member; });
  const bool takes_turns =
      is_shared && std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.may_fill_queue; });
  if (takes_turns) {
    for (const uint32_t i : ByTurns(Queues())) ordered.push_back(&items_[i]);
  }
  while (ordered.size() < items_.size()) ordered.push_back(&items_[ordered.size()]);
  return ordered;
}

Status Schedule::Issue() {
  std::pmr::vector<Item*> in_turn(items_.get_allocator());
  std::pmr::vector<Item*> batch(items_.get_allocator());
  in_turn.reserve(items_.size());
  for (Item* item : InOrder()) (item->route->issue_batch != nullptr ? batch : in_turn).push_back(item);
  Status outcome = IssueInTurn(in_turn);
  if (batch.empty()) return outcome;
  Status issued = batch.front()->route->issue_batch(batch, items_.get_allocator().resource());
  return outcome.ok() ? issued : outcome;
}

}  // namespace sl::kernel
