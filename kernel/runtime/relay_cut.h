// SPDX-License-Identifier: Apache-2.0
//
// How operations are cut into pieces that fit the relay's memory (relay.h). Pure: what all ranks know alike is cut
// alike.
//
// A collective is cut by element ranges inside its blocks, so that every piece is the same collective of fewer
// elements. Sends and receives are cut into parts, which are packed into pieces. Both ends of a message must get to it:
// while pieces are few, a rank that holds only messages whose other ends are not yet held elsewhere would wait for
// ever. So all ranks take the parts in one order, by (place among the parts from this sender to this receiver, distance
// from sender to receiver). The least part that is not done yet is then, at both its ends, in the first piece that is
// not done yet, and pieces are begun in order; so it is done next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

// What one run moves: elements [first, first + count) of every block of an operation.
struct RelayPart {
  uint32_t op;  // of the operations that are relayed together
  uint64_t first;
  uint64_t count;
  uint64_t send_at;  // bytes from the start of the piece's memory for sending, and
  uint64_t recv_at;  // for receiving
};

// What passes one slot of the relay's memory at once: parts [first, end).
struct RelayPiece {
  uint32_t first;
  uint32_t end;
};

struct RelaySchedule {
  std::vector<RelayPart> parts;
  std::vector<RelayPiece> pieces;
};

// Elements of each block that a piece of `op` has at most; 0: not even one fits.
uint64_t RelayPieceCount(const sl_op_t& op, uint32_t size, uint64_t area_bytes);

// Appends the pieces of collective ops[index]. At least one element of every block fits into an area.
void CutCollective(std::span<const sl_op_t> ops, uint32_t index, uint32_t size, uint64_t area_bytes,
                   RelaySchedule* schedule);

// Appends the pieces of all sends and receives of `ops`, in which messages between two ranks pair up in order.
void CutTransfers(std::span<const sl_op_t> ops, uint32_t rank, uint32_t size, uint64_t area_bytes,
                  RelaySchedule* schedule);

}  // namespace sl::kernel
