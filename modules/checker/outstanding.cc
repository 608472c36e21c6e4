// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/outstanding.h"

#include <sched.h>

namespace sl::checker {

// An entry is claimed while it is free (C1), filled, and then made outstanding (R1). Who finishes its token claims it
// in turn (C2, an acquire that pairs with R1: its work is there), empties it, and says what became of it by the same
// store that makes it free (R2). So nobody reads work that is not its own, and whoever is not the first learns the
// truth.
uint64_t Outstanding::Begin(const Work& work) {
  const uint32_t start = next_.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kEntries; ++i) {
    const uint64_t index = (start + i) % kEntries;
    Entry& entry = entries_[index];
    uint64_t last = entry.state.load(std::memory_order_relaxed);
    if ((last & kFree) == 0) continue;
    const uint64_t token = (((TokenOf(last) >> kTurnShift) + 1) << kTurnShift | index) & ~kFree;
    // C1: a claimed entry is neither free nor any token that was given out. Pairs with R2.
    if (!entry.state.compare_exchange_strong(last, 0, std::memory_order_acquire)) continue;
    entry.work = work;
    entry.connection.store(work.connection, std::memory_order_relaxed);
    if (work.region != nullptr) work.region->users.fetch_add(1, std::memory_order_relaxed);
    entry.state.store(token, std::memory_order_release);  // R1
    return token;
  }
  return 0;
}

bool Outstanding::Finish(uint64_t token, Fate fate, Work* out_work) {
  Entry& entry = entries_[token & kIndexMask];
  uint64_t expected = token;
  if (!entry.state.compare_exchange_strong(expected, 0, std::memory_order_acquire)) return false;  // C2
  *out_work = entry.work;
  if (out_work->region != nullptr) out_work->region->users.fetch_sub(1, std::memory_order_relaxed);
  const uint64_t free = kFree | static_cast<uint64_t>(fate) << kFateShift | token;
  entry.state.store(free, std::memory_order_release);  // R2
  return true;
}

Outstanding::Fate Outstanding::Complete(uint64_t token, Work* out_work) {
  if (token == 0 || TokenOf(token) != token || token >> kTurnShift == 0) return Fate::kNever;
  if (Finish(token, Fate::kCompleted, out_work)) return Fate::kOutstanding;
  const Entry& entry = entries_[token & kIndexMask];
  uint64_t state = entry.state.load(std::memory_order_acquire);
  for (; state == 0; state = entry.state.load(std::memory_order_acquire))
    sched_yield();  // a few instructions of another
  if ((state & kFree) != 0 && TokenOf(state) == token) return static_cast<Fate>((state & kFateMask) >> kFateShift);
  return token < TokenOf(state) ? Fate::kForgotten : Fate::kNever;
}

void Outstanding::Retire(const Object* connection) {
  for (uint32_t i = 0; i < kEntries; ++i) {
    const uint64_t state = entries_[i].state.load(std::memory_order_acquire);
    if (state == 0 || (state & kFree) != 0) continue;
    if (entries_[i].connection.load(std::memory_order_relaxed) != connection) continue;
    Work work;
    Finish(state, Fate::kRetired, &work);  // unless it has just completed
  }
}

}  // namespace sl::checker
