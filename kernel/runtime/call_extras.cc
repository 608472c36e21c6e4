// SPDX-License-Identifier: Apache-2.0
//
// What entries of a group have besides their operations: numbers for records, and events recorded behind their work.
// Entries without either go straight on.
#include <algorithm>
#include <string>
#include <vector>

#include "kernel/events/last_error.h"
#include "kernel/events/ring.h"
#include "kernel/plan/signature.h"
#include "kernel/profile/profile.h"
#include "kernel/runtime/admission.h"
#include "kernel/runtime/issue.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

bool HasExtras(const sl_group_entry_t& entry) { return entry.tag != 0 || entry.launched != nullptr; }

Status CheckExtras(const sl_group_entry_t* entries, uint32_t count) {
  for (const sl_group_entry_t* entry = entries; entry != entries + count; ++entry) {
    if (!HasExtras(*entry)) continue;
    if (IsTransfer(entry->op->kind))
      return {SL_ERR_INVALID, "tags and events are for collectives, not for sends and receives"};
    if (entry->launched == nullptr) continue;
    if (entry->comm->comm.device().is_host()) {
      return {SL_ERR_INVALID, "events are recorded on GPUs; this communicator's operations on host memory have none"};
    }
    const bool is_second = std::any_of(entries, entry, [entry](const sl_group_entry_t& other) {
      return other.comm == entry->comm && other.launched != nullptr;
    });
    if (is_second) return {SL_ERR_INVALID, "a group records one event for each communicator"};
  }
  return {};
}

// Of entry i, the how-manieth collective of its communicator it is from the group's end, from 0.
uint32_t CollectivesBehind(const sl_group_entry_t* entries, uint32_t count, uint32_t i) {
  return static_cast<uint32_t>(std::count_if(entries + i + 1, entries + count, [&](const sl_group_entry_t& other) {
    return other.comm == entries[i].comm && IsCollective(other.op->kind);
  }));
}

void TellTag(const sl_group_entry_t& entry, uint64_t seq) {
  const Communicator& comm = entry.comm->comm;
  sl_record_t record{};
  record.kind = SL_EVENT_OP_TAG;
  record.rank = comm.rank();
  record.comm_id = comm.id();
  record.op_seq = seq;
  record.peer = -1;
  record.bytes = OpBytes(*entry.op, comm.size());
  record.value = entry.tag;
  Emit(record);
}

// The operations have been issued. Their numbers are the communicator's last ones.
Status FollowUp(const sl_group_entry_t* entries, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const sl_group_entry_t& entry = entries[i];
    if (!HasExtras(entry)) continue;
    const InCall in_call(entry.comm);
    if (!in_call.is_alone()) return TwoCallsAtOnce();
    if (entry.tag != 0) TellTag(entry, entry.comm->collectives - CollectivesBehind(entries, count, i));
    if (entry.launched == nullptr) continue;
    const Device& device = entry.comm->comm.device();
    const sl_status_t status = device.ops->event_record(device.handle, entry.launched, entry.stream);
    if (status != SL_OK) return {status, std::string("the event of an operation: ") + LastError()};
  }
  return {};
}

}  // namespace

Status IssueGroup(const sl_group_entry_t* entries, uint32_t count) {
  if (std::none_of(entries, entries + count, HasExtras)) [[likely]]
    return IssueEntries(entries, count);
  SL_TRY(CheckExtras(entries, count));
  SL_TRY(IssueEntries(entries, count));
  return FollowUp(entries, count);
}

}  // namespace sl::kernel
