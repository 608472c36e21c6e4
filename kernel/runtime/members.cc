// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/members.h"

#include <algorithm>

#include "kernel/runtime/admission.h"
#include "kernel/runtime/gather.h"
#include "kernel/runtime/stream_calls.h"
#include "sdk/datatype.h"

namespace sl::kernel {

Members::~Members() {
  for (const Member& member : all_) {
    member.handle->group_member.store(UINT32_MAX, std::memory_order_relaxed);
    EndCall(member.handle);
  }
}

// Not if it has a place in the group of another thread.
bool Members::Holds(const sl_comm_t* handle) const {
  const uint32_t place = PlaceOf(handle);
  return place < all_.size() && all_[place].handle == handle;
}

Status Members::Admit(const sl_group_entry_t& entry) {
  if (!Holds(entry.comm)) {
    all_.push_back({.handle = entry.comm});  // first: what is marked must be remembered
    if (!BeginCall(entry.comm)) {
      all_.pop_back();
      return TwoCallsAtOnce();
    }
    entry.comm->group_member.store(static_cast<uint32_t>(all_.size() - 1), std::memory_order_relaxed);
  }
  return AdmitOperation(entry.comm, *entry.op, entry.stream);
}

std::span<const sl_group_entry_t> Members::Gather(std::span<const sl_group_entry_t> entries,
                                                  std::pmr::vector<sl_group_entry_t>* gathered) {
  if (all_.size() <= 2) return entries;
  std::pmr::vector<uint64_t> communicators(all_.get_allocator());
  for (const Member& member : all_) communicators.push_back(member.handle->comm.id());
  if (!IsGathered(communicators)) return entries;
  std::pmr::vector<Called> calls(all_.get_allocator());
  for (const auto& entry : entries) calls.push_back({PlaceOf(entry.comm), IsCollective(entry.op->kind)});
  for (const uint32_t i : GatherCalls(communicators, calls)) gathered->push_back(entries[i]);
  const std::pmr::vector<Member> before(all_, all_.get_allocator());
  all_.clear();
  for (const uint32_t i : GatherMembers(communicators)) all_.push_back(before[i]);
  for (uint32_t i = 0; i < all_.size(); ++i) all_[i].handle->group_member.store(i, std::memory_order_relaxed);
  return *gathered;
}

Status Members::Join(const sl_group_entry_t& entry) {
  Member& member = Of(entry.comm);
  if (member.order == nullptr) {
    member.lead = entry.stream;
    SL_ASSIGN(member.order, JoinOrder(member.handle, entry.stream));
    return {};
  }
  if (entry.stream == member.lead) return {};
  const Follower follower{PlaceOf(entry.comm), entry.stream};
  if (std::find(followers_.begin(), followers_.end(), follower) != followers_.end()) return {};
  followers_.push_back(follower);
  return StreamCalls(member.handle->comm.device(), member.lead).Await(entry.stream, member.handle->join_event);
}

Status Members::LetFollowersGo() const {
  for (const auto& [place, stream] : followers_) {
    const Member& member = all_[place];
    SL_TRY(StreamCalls(member.handle->comm.device(), stream).Await(member.lead, member.handle->join_event));
  }
  return {};
}

}  // namespace sl::kernel
