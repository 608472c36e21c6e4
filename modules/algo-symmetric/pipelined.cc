// SPDX-License-Identifier: Apache-2.0
//
// Pipelined: messages longer than a slot go in rounds through kRoundSlots slots. In turn i a rank stages the pieces of
// round i, takes those of round i - 1, and collects the results of round i - 2 (two-shot only), so that neighbours may
// be up to two turns apart without waiting.
//
// Every counter belongs to one writer and only grows, also over operations, so a slot's reuse is one comparison:
//   stage slot of round g:  all peers consumed round g - kRoundSlots (R3 -> A3)
//   result slot of round g: the same, since a peer collects a round before it calls it consumed
//   a piece may be read when its owner staged (R1 -> A1) or reduced (R2 -> A2) round g.
// No cycle: consuming round g needs only rounds <= g of others, and staging g needs only consumed rounds < g - 3.
#include <algorithm>

#include "modules/algo-symmetric/work.h"

namespace sl::algo_symmetric {
namespace {

enum class Step : uint32_t { kStage, kTake, kCollect };

struct Frame {
  uint64_t turn;
  uint32_t next_peer;
  Step step;
};
static_assert(sizeof(Frame) <= kFrameBytes);

// The piece of `block` that belongs to local round `round`: where it starts in the block, and how long it is.
struct Piece {
  uint64_t begin;
  uint64_t elements;
};
Piece PieceOf(const Work& work, uint64_t block, uint64_t round) {
  const uint64_t begin = round * work.piece_elements;
  const uint64_t length = work.pattern.Length(block);
  if (begin >= length) return {begin, 0};
  return {begin, std::min(work.piece_elements, length - begin)};
}

uint64_t BlockOffset(const Work& work, uint64_t block, uint64_t begin) {
  return (block * work.pattern.block_elements + begin) * work.element_bytes;
}

// Where block `block` of rank r's publication lies in its stage slot; the slot begins with a line for the signature.
uint8_t* StagedPiece(const Work& work, uint32_t r, uint64_t round, uint64_t block) {
  return work.view->StageOf(r, work.first_round + round) + kLineBytes +
         block * work.piece_elements * work.element_bytes;
}

// All peers' `counter` has reached `target`.
sl_status_t AwaitAll(const Work& work, Frame* frame, uint64_t Counters::*counter, uint64_t target, const char* what,
                     sl_wait_t* wait) {
  const View& view = *work.view;
  for (uint32_t& r = frame->next_peer; r < view.size; ++r) {
    if (r == view.rank) continue;
    const uint64_t seen = dev::LoadAcquire(&(view.CountersOf(r)->*counter));
    if (seen < target) return WaitFor(view, r, what, seen, target, wait);
  }
  frame->next_peer = 0;
  return SL_OK;
}

// The slots that round `round` will overwrite are free.
sl_status_t AwaitSlot(const Work& work, Frame* frame, uint64_t round, sl_wait_t* wait) {
  const uint64_t global = work.first_round + round;
  if (global < kRoundSlots) return SL_OK;
  return AwaitAll(work, frame, &Counters::consumed, global - kRoundSlots + 1, "stage slot", wait);  // A3
}

sl_status_t Stage(const Work& work, Frame* frame, uint64_t round, sl_wait_t* wait) {
  if (sl_status_t status = AwaitSlot(work, frame, round, wait); status != SL_OK) return status;
  const View& view = *work.view;
  const Pattern& pattern = work.pattern;
  const bool own_block_is_private = pattern.blocks > 1 && pattern.sources == Sources::kAll && !work.scales_sends;
  *reinterpret_cast<uint64_t*>(view.StageOf(view.rank, work.first_round + round)) = work.signature;
  for (uint32_t block = 0; pattern.publishes && block < pattern.blocks; ++block) {
    if (own_block_is_private && block == view.rank) continue;
    const Piece piece = PieceOf(work, block, round);
    Publish(work, StagedPiece(work, view.rank, round, block), work.send + BlockOffset(work, block, piece.begin),
            piece.elements);
  }
  dev::StoreRelease(&view.CountersOf(view.rank)->staged, work.first_round + round + 1);  // R1
  view.RingPeers();
  return SL_OK;
}

// SL_OK when rank r's pieces of `round` are staged, and by the same operation.
sl_status_t AwaitStaged(const Work& work, uint32_t r, uint64_t round, sl_wait_t* wait) {
  const View& view = *work.view;
  if (r == view.rank) return SL_OK;
  const uint64_t target = work.first_round + round + 1;
  const uint64_t seen = dev::LoadAcquire(&view.CountersOf(r)->staged);  // A1
  if (seen < target) return WaitFor(view, r, "piece", seen, target, wait);
  if (*reinterpret_cast<const uint64_t*>(view.StageOf(r, target - 1)) == work.signature) [[likely]]
    return SL_OK;
  WaitFor(view, r, "piece", seen, target, wait);
  return SL_ERR_MISMATCH;
}

const uint8_t* TakenFrom(const Work& work, uint32_t r, uint64_t round, uint64_t begin) {
  const View& view = *work.view;
  const uint32_t block = work.pattern.source_block;
  if (r == view.rank && !work.scales_sends) return work.send + BlockOffset(work, block, begin);
  return StagedPiece(work, r, round, block);
}

void ReducePiece(const Work& work, uint64_t round, const Piece& piece) {
  const View& view = *work.view;
  const Pattern& pattern = work.pattern;
  const void** sources = static_cast<const void**>(alloca(view.size * sizeof(void*)));
  for (uint32_t r = 0; r < view.size; ++r) sources[r] = TakenFrom(work, r, round, piece.begin);
  if (!pattern.results_wanted) {
    work.reduce(work.recv + piece.begin * work.element_bytes, nullptr, sources, view.size, piece.elements, &work.scale);
    return;
  }
  void* shown = view.ResultOf(view.rank, work.first_round + round);
  void* kept = pattern.regathers ? work.recv + BlockOffset(work, view.rank, piece.begin) : nullptr;
  work.reduce(shown, kept, sources, view.size, piece.elements, &work.scale);
}

// Takes this rank's block of the publications of `round`.
sl_status_t Take(const Work& work, Frame* frame, uint64_t round, sl_wait_t* wait) {
  View& view = *work.view;
  const Pattern& pattern = work.pattern;
  const Piece piece = PieceOf(work, pattern.source_block, round);
  const uint64_t bytes = piece.elements * work.element_bytes;
  if (pattern.sources == Sources::kRoot) {
    if (sl_status_t status = AwaitStaged(work, work.root, round, wait); status != SL_OK) return status;
    MoveTo(work.recv + piece.begin * work.element_bytes, TakenFrom(work, work.root, round, piece.begin), bytes);
  } else if (pattern.sources == Sources::kAll) {
    for (uint32_t& r = frame->next_peer; r < view.size; ++r) {
      if (sl_status_t status = AwaitStaged(work, r, round, wait); status != SL_OK) return status;
      if (!pattern.reduces) {
        MoveTo(work.recv + BlockOffset(work, r, piece.begin), TakenFrom(work, r, round, piece.begin), bytes);
      }
    }
    frame->next_peer = 0;
    if (pattern.reduces && piece.elements != 0) ReducePiece(work, round, piece);
  }
  if (pattern.results_wanted) {
    dev::StoreRelease(&view.CountersOf(view.rank)->reduced, work.first_round + round + 1);  // R2
    view.RingPeers();
  }
  return SL_OK;
}

// Two-shot: copies the peers' reduced blocks of `round`.
sl_status_t Collect(const Work& work, Frame* frame, uint64_t round, sl_wait_t* wait) {
  const View& view = *work.view;
  const uint64_t target = work.first_round + round + 1;
  for (uint32_t& r = frame->next_peer; work.pattern.regathers && r < view.size; ++r) {
    if (r == view.rank) continue;
    const uint64_t seen = dev::LoadAcquire(&view.CountersOf(r)->reduced);  // A2
    if (seen < target) return WaitFor(view, r, "reduced piece", seen, target, wait);
    const Piece piece = PieceOf(work, r, round);
    std::memcpy(work.recv + BlockOffset(work, r, piece.begin), view.ResultOf(r, target - 1),
                piece.elements * work.element_bytes);
  }
  frame->next_peer = 0;
  dev::StoreRelease(&view.CountersOf(view.rank)->consumed, target);  // R3
  view.RingPeers();
  return SL_OK;
}

}  // namespace

sl_status_t RunPipelined(const void* args, void* frame_memory, sl_wait_t* wait) {
  const Work& work = *static_cast<const Work*>(args);
  auto* frame = static_cast<Frame*>(frame_memory);
  for (; frame->turn < work.rounds + 2; ++frame->turn, frame->step = Step::kStage) {
    const uint64_t turn = frame->turn;
    wait->step = static_cast<uint32_t>(turn);
    if (frame->step == Step::kStage) {
      if (turn < work.rounds) {
        if (sl_status_t status = Stage(work, frame, turn, wait); status != SL_OK) return status;
      }
      frame->step = Step::kTake;
    }
    if (frame->step == Step::kTake) {
      if (turn >= 1 && turn <= work.rounds) {
        if (sl_status_t status = Take(work, frame, turn - 1, wait); status != SL_OK) return status;
      }
      frame->step = Step::kCollect;
    }
    if (turn >= 2) {
      if (sl_status_t status = Collect(work, frame, turn - 2, wait); status != SL_OK) return status;
    }
  }
  return SL_OK;
}

}  // namespace sl::algo_symmetric
