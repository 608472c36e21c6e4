// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/gather.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sl::kernel {
namespace {

// The places of what has these keys, by keys; what has equal ones keeps its order.
std::pmr::vector<uint32_t> ByKeys(const std::pmr::vector<uint32_t>& keys) {
  std::pmr::vector<uint32_t> order(keys.size(), keys.get_allocator());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&keys](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  return order;
}

// A number for each key, in the order in which they are met first.
template <typename Key>
class Numbers {
 public:
  explicit Numbers(std::pmr::polymorphic_allocator<> memory) : numbers_(memory) {}
  uint32_t Of(const Key& key) { return numbers_.emplace(key, static_cast<uint32_t>(numbers_.size())).first->second; }
  size_t size() const { return numbers_.size(); }

 private:
  std::pmr::map<Key, uint32_t> numbers_;
};

}  // namespace

bool IsGathered(const std::pmr::vector<uint64_t>& communicators) {
  if (communicators.size() <= 2) return false;
  Numbers<uint64_t> numbers(communicators.get_allocator());
  for (const uint64_t id : communicators) numbers.Of(id);
  return numbers.size() != 1 && numbers.size() != communicators.size();
}

std::pmr::vector<uint32_t> GatherMembers(const std::pmr::vector<uint64_t>& communicators) {
  Numbers<uint64_t> numbers(communicators.get_allocator());
  std::pmr::vector<uint32_t> keys(communicators.get_allocator());
  for (const uint64_t id : communicators) keys.push_back(numbers.Of(id));
  return ByKeys(keys);
}

std::pmr::vector<uint32_t> GatherCalls(const std::pmr::vector<uint64_t>& communicators,
                                       const std::pmr::vector<Called>& calls) {
  Numbers<std::pair<uint64_t, uint32_t>> numbers(communicators.get_allocator());
  std::pmr::vector<uint32_t> collectives(communicators.size(), communicators.get_allocator());  // of each member so far
  std::pmr::vector<uint32_t> keys(communicators.get_allocator());
  keys.reserve(calls.size());
  for (const auto& [member, is_collective] : calls) {
    keys.push_back(is_collective ? numbers.Of({communicators[member], collectives[member]++}) : UINT32_MAX);
  }
  return ByKeys(keys);
}

}  // namespace sl::kernel
