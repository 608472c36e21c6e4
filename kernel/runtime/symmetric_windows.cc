// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/symmetric_windows.h"

#include <sched.h>

#include <algorithm>

#include "kernel/plan/signature.h"
#include "kernel/runtime/handle.h"
#include "sdk/datatype.h"
#include "sdk/overlap.h"

namespace sl::kernel {

const sl_comm_window_t* SymmetricWindows::Find(const void* memory, uint64_t bytes) const {
  const List* list = newest_.load(std::memory_order_seq_cst);
  if (list == nullptr || memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  for (const sl_comm_window_t* window : *list) {
    const auto base = reinterpret_cast<uintptr_t>(window->memory);
    if (address >= base && bytes <= window->bytes && address - base <= window->bytes - bytes) return window;
  }
  return nullptr;
}

void SymmetricWindows::Add(const sl_comm_window_t* window) {
  const std::lock_guard lock(mutex_);
  const List* now = newest_.load();
  auto list = now == nullptr ? std::make_unique<List>() : std::make_unique<List>(*now);
  list->push_back(window);
  Replace(std::move(list));
}

void SymmetricWindows::TakeOut(const sl_comm_window_t* window) {
  const std::lock_guard lock(mutex_);
  const List* now = newest_.load();
  if (now == nullptr || std::find(now->begin(), now->end(), window) == now->end()) return;
  auto list = std::make_unique<List>(*now);
  std::erase(*list, window);
  Replace(list->empty() ? nullptr : std::move(list));
}

// The list is replaced before the mark is read, and a call sets that before it reads the list: a call that is not seen
// here looks at the new one.
void SymmetricWindows::Replace(std::unique_ptr<const List> list) {
  const std::unique_ptr<const List> before(newest_.exchange(list.release(), std::memory_order_seq_cst));
  const std::atomic_ref<uint32_t> in_call(*mark_.load());
  while (in_call.load(std::memory_order_seq_cst) != 0) sched_yield();
}

void FindSymmetricBuffers(Pending* pending) {
  const SymmetricWindows& windows = pending->handle->symmetric_windows;
  sl_op_t& op = pending->op;
  const uint32_t rank = pending->handle->comm.rank();
  const uint32_t ranks = pending->handle->comm.size();
  const uint64_t block = op.count * DatatypeBytes(op.datatype);
  const bool all_send = op.kind != SL_OP_BROADCAST && op.kind != SL_OP_SCATTER;
  const bool all_receive = op.kind != SL_OP_REDUCE && op.kind != SL_OP_GATHER;
  // In place, one of them is a block of the other, at another place on every rank; and who would store into buffers
  // that are still to be sent must not do so at all.
  const bool sends_blocks = op.kind == SL_OP_REDUCE_SCATTER || op.kind == SL_OP_SCATTER || op.kind == SL_OP_ALL_TO_ALL;
  const bool receives_blocks = op.kind == SL_OP_ALL_GATHER || op.kind == SL_OP_GATHER || op.kind == SL_OP_ALL_TO_ALL;
  const bool in_place =
      Overlap(op.send, sends_blocks ? block * ranks : block, op.recv, receives_blocks ? block * ranks : block);
  if (all_send && !(in_place && receives_blocks)) {
    pending->send_window = windows.Find(op.send, SendElements(op, rank, ranks) * DatatypeBytes(op.datatype));
  }
  if (all_receive && !(in_place && sends_blocks)) {
    pending->recv_window = windows.Find(op.recv, RecvElements(op, rank, ranks) * DatatypeBytes(op.datatype));
  }
  op.symmetric = (pending->send_window != nullptr ? SL_OP_SEND_SYMMETRIC : 0) |
                 (pending->recv_window != nullptr ? SL_OP_RECV_SYMMETRIC : 0);
}

}  // namespace sl::kernel
