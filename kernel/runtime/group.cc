// SPDX-License-Identifier: Apache-2.0
//
// Groups: several operations as one schedule. All are checked before the first is issued; then all progress together,
// and only collectives of one communicator keep their order.
#include <algorithm>
#include <map>
#include <set>

#include "kernel/events/last_error.h"
#include "kernel/runtime/op_life.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

bool IsSelf(const sl_group_entry_t& entry) {
  const sl_op_t& op = *entry.op;
  return (op.kind == SL_OP_SEND || op.kind == SL_OP_RECV) && op.peer == static_cast<int32_t>(entry.comm->comm.rank());
}

// Sends to the own rank, each with its receive, in order.
using SelfPairs = std::vector<std::pair<const sl_group_entry_t*, const sl_group_entry_t*>>;

Status PairSelfSends(const sl_group_entry_t* entries, uint32_t count, SelfPairs* out_pairs) {
  struct Queues {
    std::vector<const sl_group_entry_t*> sends, recvs;
  };
  std::map<sl_comm_t*, Queues> queues;
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsSelf(entries[i])) continue;
    Queues& mine = queues[entries[i].comm];
    (entries[i].op->kind == SL_OP_SEND ? mine.sends : mine.recvs).push_back(&entries[i]);
  }
  for (const auto& [comm, mine] : queues) {
    if (mine.sends.size() != mine.recvs.size()) {
      return {SL_ERR_INVALID, "rank " + std::to_string(comm->comm.rank()) + " sends " +
                                  std::to_string(mine.sends.size()) + " and receives " +
                                  std::to_string(mine.recvs.size()) + " messages to itself in one group"};
    }
    for (size_t i = 0; i < mine.sends.size(); ++i) {
      const sl_op_t& send = *mine.sends[i]->op;
      const sl_op_t& recv = *mine.recvs[i]->op;
      if (send.count * DatatypeBytes(send.datatype) != recv.count * DatatypeBytes(recv.datatype)) {
        return {SL_ERR_MISMATCH, "rank " + std::to_string(comm->comm.rank()) + " sends " + std::to_string(send.count) +
                                     " " + DatatypeName(send.datatype) + " to itself but receives " +
                                     std::to_string(recv.count) + " " + DatatypeName(recv.datatype)};
      }
      out_pairs->emplace_back(mine.sends[i], mine.recvs[i]);
    }
  }
  return {};
}

Status CopySelfSends(const SelfPairs& pairs) {
  for (const auto& [send, recv] : pairs) {
    const uint64_t bytes = send->op->count * DatatypeBytes(send->op->datatype);
    if (bytes == 0 || send->op->send == recv->op->recv) continue;
    const Device& device = send->comm->comm.device();
    const sl_status_t status = device.ops->copy(device.handle, send->stream, recv->op->recv, send->op->send, bytes);
    if (status != SL_OK) return {status, LastError()};
  }
  return {};
}

// A group on its way: calls marked, operations entered, launches filled.
class GroupIssue {
 public:
  ~GroupIssue() {
    for (Pending* pending : filled_) LeaveAndGive(pending, SL_ERR_ABORTED);  // only after a failure half-way
    for (sl_comm_t* handle : handles_) handle->in_call.store(0, std::memory_order_release);
  }

  Status Check(const sl_group_entry_t& entry) {
    if (std::find(handles_.begin(), handles_.end(), entry.comm) == handles_.end()) {
      entry.comm->in_call.exchange(1, std::memory_order_seq_cst);  // as InCall, for many
      handles_.push_back(entry.comm);
    }
    SL_TRY(CheckUsable(entry.comm, *entry.op));
    return CheckOp(entry.comm->comm, *entry.op);
  }

  // All operations of a communicator go to the stream it used first in this group; that stream waits for the others'
  // earlier work, and they wait for the group.
  Status Add(const sl_group_entry_t& entry) {
    sl_comm_t* handle = entry.comm;
    const auto [lead, is_first] = leads_.emplace(handle, entry.stream);
    if (is_first) SL_TRY(ChainStreams(handle, entry.stream));
    if (lead->second != entry.stream && followers_.emplace(handle, entry.stream).second) {
      SL_TRY(WaitForStream(handle, lead->second, entry.stream));
    }
    Pending* pending = handle->pending.Take();
    Enter(handle, *entry.op, pending);
    if (entry.op->count == 0) {
      handle->pending.Give(pending);
      return {};
    }
    sl_launch_t launch;
    if (Status filled = FillLaunch(pending, &launch); !filled.ok()) {
      handle->pending.Give(pending);
      return filled;
    }
    launch.done = LeaveAndGive;
    launch.done_ctx = pending;
    launch.chain = pending->op.seq != 0 ? handle : nullptr;
    filled_.push_back(pending);
    launches_.push_back(launch);
    streams_.push_back(lead->second);
    return {};
  }

  Status Launch() {
    if (launches_.empty()) return {};
    SL_TRY(LaunchAll());
    for (const auto& [handle, stream] : followers_) SL_TRY(WaitForStream(handle, stream, leads_[handle]));
    return {};
  }

 private:
  // `stream` goes on when what was issued to `other` so far is done.
  static Status WaitForStream(sl_comm_t* handle, sl_stream_t* stream, sl_stream_t* other) {
    const Device& device = handle->comm.device();
    sl_status_t status = device.ops->event_record(device.handle, handle->order_event, other);
    if (status == SL_OK) status = device.ops->stream_wait_event(device.handle, stream, handle->order_event);
    return status == SL_OK ? Status() : Status(status, LastError());
  }

  Status LaunchAll() {
    std::vector<const sl_launch_t*> pointers;
    for (const sl_launch_t& launch : launches_) pointers.push_back(&launch);
    const Device device = filled_.front()->handle->comm.device();
    filled_.clear();  // each is given back by its launch
    const sl_status_t status = device.ops->launch_batch(device.handle, static_cast<uint32_t>(pointers.size()),
                                                        streams_.data(), pointers.data());
    if (status == SL_OK) return {};
    for (const sl_comm_t* handle : handles_) SL_TRY(handle->comm.Health());
    return {status, LastError()};
  }

  std::vector<sl_comm_t*> handles_;
  std::map<sl_comm_t*, sl_stream_t*> leads_;
  std::set<std::pair<sl_comm_t*, sl_stream_t*>> followers_;
  std::vector<Pending*> filled_;
  std::vector<sl_launch_t> launches_;
  std::vector<sl_stream_t*> streams_;
};

}  // namespace

Status IssueGroup(const sl_group_entry_t* entries, uint32_t count) {
  if (count == 1) return Issue(entries[0].comm, *entries[0].op, entries[0].stream);
  SelfPairs pairs;
  GroupIssue group;
  for (uint32_t i = 0; i < count; ++i) SL_TRY(group.Check(entries[i]));
  for (uint32_t i = 0; i < count; ++i) entries[i].comm->comm.selector()->Collect();
  SL_TRY(PairSelfSends(entries, count, &pairs));
  SL_TRY(CopySelfSends(pairs));
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsSelf(entries[i])) SL_TRY(group.Add(entries[i]));
  }
  return group.Launch();
}

}  // namespace sl::kernel
