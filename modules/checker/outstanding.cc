// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/outstanding.h"

namespace sl::checker {

// An entry is claimed by moving its turn on while it is still free (C1), filled, and then made outstanding (R1), which
// pairs with the acquire in Finish(): who completes it sees its work.
uint64_t Outstanding::Begin(const Work& work) {
  const uint32_t start = next_.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kEntries; ++i) {
    const uint64_t index = (start + i) % kEntries;
    Entry& entry = entries_[index];
    uint64_t last = entry.state.load(std::memory_order_acquire);
    if ((last & kFree) == 0) continue;
    const uint64_t token = ((((last & ~kFree) >> 16) + 1) << 16 | index) & ~kFree;
    // C1: a claimed entry is neither free nor any token that was given out.
    if (!entry.state.compare_exchange_strong(last, 0, std::memory_order_acquire)) continue;
    entry.work = work;
    if (work.region != nullptr) work.region->users.fetch_add(1, std::memory_order_relaxed);
    entry.fate.store(Fate::kOutstanding, std::memory_order_relaxed);
    entry.state.store(token, std::memory_order_release);  // R1
    return token;
  }
  return 0;
}

bool Outstanding::Finish(uint64_t token, Fate fate) {
  const uint64_t index = token & kIndexMask;
  if (index >= kEntries) return false;
  Entry& entry = entries_[index];
  if (entry.state.load(std::memory_order_acquire) != token) return false;
  const Work work = entry.work;
  uint64_t expected = token;
  entry.fate.store(fate, std::memory_order_relaxed);
  if (!entry.state.compare_exchange_strong(expected, token | kFree, std::memory_order_acq_rel)) return false;
  if (work.region != nullptr) work.region->users.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

Outstanding::Fate Outstanding::Complete(uint64_t token, Work* out_work) {
  const uint64_t index = token & kIndexMask;
  if (token == 0 || (token & kFree) != 0 || index >= kEntries) return Fate::kNever;
  Entry& entry = entries_[index];
  const uint64_t state = entry.state.load(std::memory_order_acquire);
  if (state == token) {
    *out_work = entry.work;
    if (Finish(token, Fate::kCompleted)) return Fate::kOutstanding;
  }
  // An entry that was used again since: this token has completed or was retired before that.
  if (state == (token | kFree)) return entry.fate.load(std::memory_order_relaxed);
  return token < (state & ~kFree) ? Fate::kCompleted : Fate::kNever;
}

void Outstanding::Retire(const Object* connection) {
  for (uint32_t i = 0; i < kEntries; ++i) {
    const uint64_t state = entries_[i].state.load(std::memory_order_acquire);
    if (state == 0 || (state & kFree) != 0 || entries_[i].work.connection != connection) continue;
    Finish(state, Fate::kRetired);
  }
}

}  // namespace sl::checker
