// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/transfer_steps.h"

#include <algorithm>
#include <numeric>

namespace sl::kernel {
namespace {

// All messages between ranks so far apart and nearer come before those between ranks that are farther apart: where a
// launch has no room for the queues of all peers, it has many messages of some.
constexpr uint64_t kNear = 48;

uint64_t Distance(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const auto peer = static_cast<uint32_t>(op.peer);
  return (op.kind == SL_OP_SEND ? peer + size - rank : rank + size - peer) % size;
}

}  // namespace

TransferSteps::TransferSteps(const std::pmr::vector<sl_op_t>& ops, uint32_t rank, uint32_t size)
    : ops_(ops.get_allocator()), steps_(ops.get_allocator()) {
  std::pmr::vector<uint32_t> before(2 * uint64_t{size}, ops.get_allocator());  // of each queue
  std::pmr::vector<uint64_t> steps(ops.get_allocator());
  steps.reserve(ops.size());
  for (const sl_op_t& op : ops) {
    const uint64_t queue = (op.kind == SL_OP_SEND ? 0 : size) + static_cast<uint64_t>(op.peer);
    const uint64_t distance = Distance(op, rank, size);
    const uint64_t round = before[queue]++;
    steps.push_back(distance / kNear << 48 | round << 16 | distance % kNear);
  }
  std::pmr::vector<uint32_t> order(ops.size(), ops.get_allocator());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&steps](uint32_t a, uint32_t b) { return steps[a] < steps[b]; });
  ops_.reserve(ops.size());
  steps_.reserve(ops.size());
  for (const uint32_t i : order) {
    ops_.push_back(ops[i]);
    steps_.push_back(steps[i]);
  }
}

uint32_t TransferSteps::Cut(uint32_t begin, uint32_t most) const {
  const uint32_t left = count() - begin;
  if (most >= left) return count();
  uint32_t end = begin + most;
  while (end > begin && steps_[end] == steps_[end - 1]) --end;
  if (end > begin) return end;
  do {
    ++end;
  } while (end < count() && steps_[end] == steps_[begin]);
  return end;
}

}  // namespace sl::kernel
