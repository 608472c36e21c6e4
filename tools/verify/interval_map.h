// SPDX-License-Identifier: Apache-2.0
//
// What is known about ranges of positions: disjoint half-open intervals with one T each, gaps where nothing is known.
// Its cost follows the number of intervals, never the number of positions.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace sl::verify {

template <typename T>
class IntervalMap {
 public:
  // Makes [begin, end) one interval. One search, since this is where executing plans spends its time.
  void Assign(uint64_t begin, uint64_t end, const T& value) {
    if (begin >= end) return;
    auto next = entries_.lower_bound(begin);
    if (next != entries_.end() && next->first == begin && next->second.end == end) {
      next->second.value = value;
      return;
    }
    if (next != entries_.begin()) {
      Entry& before = std::prev(next)->second;
      if (before.end > end) next = entries_.emplace_hint(next, end, Entry{before.end, before.value});
      if (before.end > begin) before.end = begin;
    }
    while (next != entries_.end() && next->first < end) {
      const Entry inside = std::move(next->second);
      next = entries_.erase(next);
      if (inside.end > end) next = entries_.emplace_hint(next, end, inside);
    }
    entries_.emplace_hint(next, begin, Entry{end, value});
  }

  // Calls visit(begin, end, const T*) for every interval's share of [begin, end), in order; NULL for gaps.
  template <typename Visit>
  void ForEach(uint64_t begin, uint64_t end, Visit visit) const {
    auto next = entries_.upper_bound(begin);
    if (next != entries_.begin() && std::prev(next)->second.end > begin) --next;
    while (begin < end) {
      if (next == entries_.end() || next->first >= end) return visit(begin, end, static_cast<const T*>(nullptr));
      if (next->first > begin) visit(begin, next->first, static_cast<const T*>(nullptr));
      const uint64_t from = next->first > begin ? next->first : begin;
      const uint64_t to = next->second.end < end ? next->second.end : end;
      visit(from, to, &next->second.value);
      begin = to;
      ++next;
    }
  }

  // Calls change(T*) for every interval of [begin, end), after cutting those at the edges; gaps are filled with T().
  template <typename Change>
  void Update(uint64_t begin, uint64_t end, Change change) {
    if (begin >= end) return;
    SplitAt(begin);
    SplitAt(end);
    auto next = entries_.lower_bound(begin);
    while (begin < end) {
      const bool gap = next == entries_.end() || next->first > begin;
      if (gap) {
        const uint64_t to = next == entries_.end() || next->first > end ? end : next->first;
        next = entries_.emplace_hint(next, begin, Entry{to, T()});
      }
      change(&next->second.value);
      begin = next->second.end;
      ++next;
    }
  }

 private:
  struct Entry {
    uint64_t end;
    T value;
  };

  void SplitAt(uint64_t position) {
    auto next = entries_.upper_bound(position);
    if (next == entries_.begin()) return;
    const auto entry = std::prev(next);
    if (entry->first == position || entry->second.end <= position) return;
    entries_.emplace_hint(next, position, Entry{entry->second.end, entry->second.value});
    entry->second.end = position;
  }

  std::map<uint64_t, Entry> entries_;  // by begin
};

}  // namespace sl::verify
