// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/p2p_group.h"

#include <algorithm>

#include "modules/algo-symmetric/kernels/move.h"
#include "modules/algo-symmetric/transfer.h"

namespace sl::algo_symmetric {

using kernels::ChannelsOf;
using kernels::kChannelsOfBlock;
using kernels::kCopyBlocks;
using kernels::Message;
using kernels::P2pTask;
using kernels::TaskKind;
using kernels::Team;

namespace {

bool SameQueue(const sl_op_t& a, const sl_op_t& b) { return a.kind == b.kind && a.peer == b.peer; }

// The next operation of `kind` between this rank and itself; `count` when there is none.
uint32_t NextOwn(const sl_op_t* ops, uint32_t from, uint32_t count, sl_op_kind_t kind, uint32_t rank) {
  while (from < count && (ops[from].kind != kind || ops[from].peer != static_cast<int32_t>(rank))) ++from;
  return from;
}

}  // namespace

// Where `peer` sees the buffer of a long receive; 0: it does not, or another way is quicker.
uint64_t P2pGroup::ReachedBy(uint32_t peer, const Message& message, uint64_t capture) {
  if (!ways_.offers || message.bytes <= ways_.mailed_bytes) return 0;
  if (reach_ops_->addresses(reach_, message.user, message.bytes, capture, addresses_.data()) != SL_OK) {
    ++out_of_reach_;
    return 0;
  }
  return addresses_[peer];
}

// Asks where the senders of all tasks see the buffers.
void P2pGroup::AskReach(uint64_t capture, const Room& room) {
  for (const P2pTask* task = room.tasks; task != room.tasks + *room.waiting; ++task) {
    if (task->kind != TaskKind::kReceive || task->group != 0) continue;
    for (Message* message = room.messages + task->first; message != room.messages + task->first + task->count;
         ++message) {
      message->other = ReachedBy(task->peer, *message, capture);
    }
  }
}

// Blocks for as many channels; of `task`, all but its group is set.
sl_status_t P2pGroup::AddTasks(const P2pTask& task, uint32_t channels, const Room& room, Filled* filled) {
  const uint32_t groups = (channels + kChannelsOfBlock - 1) / kChannelsOfBlock;
  const uint32_t most = room.waiting_tasks + (task.kind == TaskKind::kCopy ? kCopyBlocks : 0);
  if (filled->tasks + groups > most) return SL_ERR_LIMIT;
  for (uint32_t group = 0; group < groups; ++group) {
    P2pTask& added = room.tasks[filled->tasks++];
    added = task;
    added.group = static_cast<uint8_t>(group);
  }
  return SL_OK;
}

// The queue of ops[0].
sl_status_t P2pGroup::FillQueue(const sl_op_t* ops, uint32_t count, const Room& room, Filled* filled) {
  const sl_op_t& op = ops[0];
  const TaskKind kind = op.kind == SL_OP_RECV ? TaskKind::kReceive : TaskKind::kSend;
  const uint32_t first = filled->messages;
  uint32_t used = 0;
  for (uint32_t j = 0; j < count; ++j) {
    const uint64_t bytes = BytesOf(ops[j]);
    if (!SameQueue(ops[j], op) || bytes == 0) continue;
    room.messages[filled->messages++] = {UserOf(ops[j]), bytes, 0};
    used = std::max(used, ChannelsOf(bytes, ways_, ways_.channels));
  }
  const P2pTask task{static_cast<uint16_t>(op.peer), kind, 0, static_cast<uint16_t>(first),
                     static_cast<uint16_t>(filled->messages - first)};
  return AddTasks(task, used, room, filled);
}

// What this rank sends itself, on what the others leave of the budget; on one block if that is nothing.
sl_status_t P2pGroup::FillCopies(const sl_op_t* ops, uint32_t count, const Team& team, const Room& room,
                                 Filled* filled) const {
  const uint32_t first = filled->messages;
  const uint32_t most = budget_.Most(UINT32_MAX);
  const uint32_t left = most > filled->tasks ? most - filled->tasks : 1;
  *room.copy_channels = kChannelsOfBlock * std::min(left, team.layout.channels / kChannelsOfBlock);
  uint32_t used = 0;
  uint32_t send = NextOwn(ops, 0, count, SL_OP_SEND, team.rank);
  uint32_t recv = NextOwn(ops, 0, count, SL_OP_RECV, team.rank);
  while (send < count && recv < count) {
    const uint64_t bytes = BytesOf(ops[send]);
    if (bytes != BytesOf(ops[recv])) return SL_ERR_UNSUPPORTED;
    uint8_t* to = UserOf(ops[recv]);
    if (bytes != 0 && UserOf(ops[send]) != to) {
      room.messages[filled->messages++] = {UserOf(ops[send]), bytes, reinterpret_cast<uintptr_t>(to)};
      used = std::max(used, ChannelsOf(bytes, ways_, *room.copy_channels));
    }
    send = NextOwn(ops, send + 1, count, SL_OP_SEND, team.rank);
    recv = NextOwn(ops, recv + 1, count, SL_OP_RECV, team.rank);
  }
  if (send < count || recv < count) return SL_ERR_UNSUPPORTED;
  const P2pTask task{static_cast<uint16_t>(team.rank), TaskKind::kCopy, 0, static_cast<uint16_t>(first),
                     static_cast<uint16_t>(filled->messages - first)};
  return AddTasks(task, used, room, filled);
}

sl_status_t P2pGroup::Fill(const sl_op_t* ops, uint32_t count, const Team& team, const Room& room,
                           uint32_t* out_blocks) {
  if (count > room.most_messages) return SL_ERR_LIMIT;
  std::fill(queued_.begin(), queued_.end(), false);
  Filled filled;
  bool copies = false;
  for (uint32_t i = 0; i < count; ++i) {
    const sl_op_t& op = ops[i];
    if (!IsTransfer(op)) return SL_ERR_UNSUPPORTED;
    if (op.peer == static_cast<int32_t>(team.rank)) {
      copies = true;
      continue;
    }
    const size_t queue = QueueOf(op, ranks_);
    if (queued_[queue]) continue;
    queued_[queue] = true;
    const sl_status_t status = FillQueue(ops + i, count - i, room, &filled);
    if (status != SL_OK) return status;
  }
  *room.waiting = filled.tasks;
  *room.copy_channels = 0;
  // Behind the others: these wait for nobody.
  if (copies) {
    const sl_status_t status = FillCopies(ops, count, team, room, &filled);
    if (status != SL_OK) return status;
  }
  AskReach(ops[0].capture, room);  // all fits: whoever tries a larger launch has asked for nothing before
  if (filled.tasks == 0) room.tasks[filled.tasks++] = {};  // nothing to move
  *out_blocks = filled.tasks;
  return SL_OK;
}

}  // namespace sl::algo_symmetric
