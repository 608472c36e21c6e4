// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/signal_waits.h"

#include <algorithm>
#include <atomic>

namespace sl::kernel {
namespace {

// A replay writes the same numbers as the one before. So whoever finds a captured wait marks its word, which the stream
// writes anew when it goes on: where the mark still stands, it is the very same wait.
constexpr uint64_t kMark = uint64_t{1} << 63;

uint64_t Load(uint64_t& word) { return std::atomic_ref<uint64_t>(word).load(std::memory_order_acquire); }

struct Captured {
  uint64_t wanted;  // 0: nothing
  bool goes_on;     // it was marked before
};

// A1: `had` is read before `awaited`, and a stream writes them the other way round (R1, Words::Take). So a word that
// was taken is never found together with the wait that has taken it.
Captured Find(uint64_t& had, uint64_t& awaited) {
  if (Load(had) != 0) return {};
  uint64_t found = Load(awaited);
  if (found == 0) return {};
  if ((found & kMark) != 0) return {found & ~kMark, true};
  // The stream may go on at this moment; then it keeps its word.
  const uint64_t wanted = found;
  const bool marked = std::atomic_ref<uint64_t>(awaited).compare_exchange_strong(found, wanted | kMark);
  return {marked ? wanted : 0, false};
}

}  // namespace

void SignalWaits::Note(const Wait& wait, bool goes_on) {
  const auto same = [&wait](const Wait& other) {
    return other.kind == wait.kind && other.peer == wait.peer && other.seen == wait.seen && other.wanted == wait.wanted;
  };
  const auto found = goes_on ? std::find_if(before_.begin(), before_.end(), same) : before_.end();
  waits_.push_back(found == before_.end() ? wait : *found);
}

void SignalWaits::Look(const SignalBoard& board, uint32_t own, uint32_t ranks, uint64_t now_ns) {
  waits_.swap(before_);
  waits_.clear();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    SignalBoard::Entry* entry = board.At(own, rank);
    const auto peer = static_cast<int32_t>(rank);
    // Both only grow: what is found twice has gone on in between.
    const uint64_t wanted = Load(entry->raised_awaited);
    if (const uint64_t seen = Load(entry->raised); seen < wanted) {
      Note({Kind::kCounted, peer, seen, wanted, now_ns, false}, true);
    }
    if (const Captured flags = Find(entry->flag, entry->flags_awaited); flags.wanted != 0) {
      Note({Kind::kCaptured, peer, 0, flags.wanted, now_ns, false}, flags.goes_on);
    }
    if (const Captured room = Find(entry->room, entry->room_awaited); room.wanted != 0) {
      Note({Kind::kRoom, peer, 0, room.wanted, now_ns, false}, room.goes_on);
    }
  }
}

}  // namespace sl::kernel
