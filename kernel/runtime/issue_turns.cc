// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue_turns.h"

#include <algorithm>
#include <numeric>

namespace sl::kernel {

std::pmr::vector<uint32_t> ByTurns(const std::pmr::vector<uint32_t>& queues) {
  std::pmr::vector<uint32_t> before(queues.get_allocator());  // items of each queue so far
  std::pmr::vector<uint32_t> turns(queues.get_allocator());
  turns.reserve(queues.size());
  for (const uint32_t queue : queues) {
    if (queue >= before.size()) before.resize(queue + 1);
    turns.push_back(before[queue]++);
  }
  std::pmr::vector<uint32_t> order(queues.size(), queues.get_allocator());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&turns](uint32_t a, uint32_t b) { return turns[a] < turns[b]; });
  return order;
}

}  // namespace sl::kernel
