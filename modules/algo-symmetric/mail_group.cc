// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/mail_group.h"

#include <algorithm>

#include "modules/algo-symmetric/kernels/move.h"
#include "modules/algo-symmetric/kernels/packets/packet_format.h"
#include "modules/algo-symmetric/transfer.h"

namespace sl::algo_symmetric {

using kernels::kChannelsOfBlock;
using kernels::kVectorBytes;
using kernels::MailTask;
using kernels::TaskKind;

namespace {

// That a block copies is worth it: a vector for each thread.
constexpr uint64_t kCopiedBytesOfBlock = uint64_t{kVectorBytes} * kernels::kThreads;

constexpr uint32_t kWarp = 32;

}  // namespace

// Blocks for as many channels, so many of each; of `task`, what they have in common is set.
sl_status_t MailGroup::AddParts(const MailTask& task, uint32_t channels, uint32_t of_block, Room* room) {
  for (uint32_t channel = 0; channel < channels; channel += of_block) {
    if (room->filled == room->most) return SL_ERR_LIMIT;
    MailTask& added = room->tasks[room->filled++];
    added = task;
    added.part_bytes = static_cast<uint32_t>(kernels::PartOf(task.bytes, channels));
    added.channel = static_cast<uint8_t>(channel);
  }
  return SL_OK;
}

sl_status_t MailGroup::Add(const sl_op_t& op, Room* room) const {
  const uint64_t bytes = BytesOf(op);
  const TaskKind kind = op.kind == SL_OP_RECV ? TaskKind::kReceive : TaskKind::kSend;
  const MailTask task{UserOf(op), nullptr, static_cast<uint32_t>(bytes), 0, static_cast<uint16_t>(op.peer), kind, 0};
  const uint32_t of_block = ways_.IsShort(bytes) ? 1 : kChannelsOfBlock;
  return AddParts(task, kernels::ChannelsOf(bytes, ways_, ways_.channels), of_block, room);
}

// On what the others leave of the budget; on one block if that is nothing.
sl_status_t MailGroup::AddCopy(const Own& own, Room* room) const {
  const uint64_t bytes = BytesOf(*own.send);
  const MailTask task{UserOf(*own.send), UserOf(*own.recv), static_cast<uint32_t>(bytes), 0, 0, TaskKind::kCopy, 0};
  if (task.user == task.to) return SL_OK;
  const uint64_t most = budget_.Most(room->filled + kernels::kCopyBlocks);
  const uint64_t left = most > room->filled ? most - room->filled : 1;
  const uint64_t worth = (bytes + kCopiedBytesOfBlock - 1) / kCopiedBytesOfBlock;
  return AddParts(task, static_cast<uint32_t>(std::min(worth, left)), 1, room);
}

// Whether it can be such a launch.
sl_status_t MailGroup::Check(const sl_op_t* ops, uint32_t count, bool only_short, Own* own) {
  std::fill(queued_.begin(), queued_.end(), false);
  for (const sl_op_t* op = ops; op != ops + count; ++op) {
    if (!IsTransfer(*op)) return SL_ERR_UNSUPPORTED;
    const uint64_t bytes = BytesOf(*op);
    const size_t queue = QueueOf(*op, ranks_);
    const bool fits = only_short ? ways_.IsShort(bytes) : bytes <= ways_.mailed_bytes;
    if (!fits || queued_[queue]) return SL_ERR_LIMIT;
    queued_[queue] = true;
    if (op->peer == static_cast<int32_t>(rank_)) (op->kind == SL_OP_RECV ? own->recv : own->send) = op;
  }
  if (own->send == nullptr && own->recv == nullptr) return SL_OK;
  const bool is_whole = own->send != nullptr && own->recv != nullptr && BytesOf(*own->send) == BytesOf(*own->recv);
  return is_whole ? SL_OK : SL_ERR_UNSUPPORTED;
}

// One for each packet or vector, in whole warps.
uint32_t MailGroup::ThreadsFor(const Room& room) {
  if (*room.waiting != 0) return kernels::kThreads;
  uint32_t threads = kWarp;
  for (const MailTask* task = room.tasks; task != room.tasks + room.filled; ++task) {
    const uint32_t bytes = kWarp * (task->kind == TaskKind::kCopy ? kVectorBytes : sizeof(kernels::LlFormat::Data));
    const uint32_t warps = (std::min(task->part_bytes, task->bytes) + bytes - 1) / bytes;
    threads = std::clamp(kWarp * warps, threads, kernels::kThreads);
  }
  return threads;
}

sl_status_t MailGroup::Fill(const sl_op_t* ops, uint32_t count, bool only_short, Room* room, MailGrid* out) {
  Own own;
  if (count > room->most + 1) return SL_ERR_LIMIT;  // what stays has two ends
  if (sl_status_t status = Check(ops, count, only_short, &own); status != SL_OK) return status;
  for (const bool shorts : {false, true}) {
    for (const sl_op_t* op = ops; op != ops + count; ++op) {
      if (own.Has(op) || ways_.IsShort(BytesOf(*op)) != shorts) continue;
      if (sl_status_t status = Add(*op, room); status != SL_OK) return status;
    }
    if (!shorts) *room->waiting = room->filled;
  }
  if (own.send != nullptr) {
    if (sl_status_t status = AddCopy(own, room); status != SL_OK) return status;
  }
  if (room->filled == 0) room->tasks[room->filled++] = {nullptr, nullptr, 0, 0, 0, TaskKind::kCopy, 0};
  *out = {room->filled, ThreadsFor(*room)};
  return SL_OK;
}

}  // namespace sl::algo_symmetric
