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

struct Captured {   // a wait whose word is written anew by each stream that comes to it
  uint64_t wanted;  // 0: nothing
  bool goes_on;     // it was marked before
};

// Marks the wait that `awaited` tells of.
Captured Mark(uint64_t& awaited) {
  uint64_t found = Load(awaited);
  if (found == 0) return {};
  if ((found & kMark) != 0) return {found & ~kMark, true};
  // The stream may go on at this moment; then it keeps its word.
  const uint64_t wanted = found;
  const bool marked = std::atomic_ref<uint64_t>(awaited).compare_exchange_strong(found, wanted | kMark);
  return {marked ? wanted : 0, false};
}

// A1: `had` is read before `awaited`, and a stream writes them the other way round (R1, Take() of puts and signals). So
// a word that was taken is never found together with the wait that has taken it.
Captured Find(uint64_t& had, uint64_t& awaited) { return Load(had) != 0 ? Captured{} : Mark(awaited); }

}  // namespace

void SignalWaits::Note(const Wait& wait, bool goes_on) {
  const auto same = [&wait](const Wait& other) {
    return other.kind == wait.kind && other.peer == wait.peer && other.seen == wait.seen && other.wanted == wait.wanted;
  };
  const auto found = goes_on ? std::find_if(before_.begin(), before_.end(), same) : before_.end();
  waits_.push_back(found == before_.end() ? wait : *found);
}

// A2: the flags are read before the mark is found to stand still, and a stream takes the wait back before it takes
// flags (R2, in copies.cc). So a flag that is down while the mark stands was not raised yet.
void SignalWaits::LookAtGates(const SignalBoard& board, uint32_t own, uint32_t ranks, SignalBoard::Space space,
                              uint64_t now_ns) {
  uint64_t& awaited = board.At(own, own)->gate_awaited[space];
  const Captured wait = Mark(awaited);
  if (wait.wanted == 0 || wait.wanted > SignalBoard::kGates) return;
  std::vector<int32_t> missing;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == own || Load(board.At(own, rank)->gates[space][wait.wanted - 1]) != 0) continue;
    missing.push_back(static_cast<int32_t>(rank));
  }
  if (Load(awaited) != (wait.wanted | kMark)) return;
  const Kind kind = space == SignalBoard::kEager ? Kind::kGate : Kind::kCapturedGate;
  for (const int32_t peer : missing) Note({kind, peer, 0, wait.wanted, now_ns, false}, wait.goes_on);
}

void SignalWaits::Look(const SignalBoard& board, uint32_t own, uint32_t ranks, uint64_t now_ns) {
  waits_.swap(before_);
  waits_.clear();
  for (const auto space : {SignalBoard::kEager, SignalBoard::kCaptured, SignalBoard::kCapturedToo}) {
    LookAtGates(board, own, ranks, space, now_ns);
  }
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
