// SPDX-License-Identifier: Apache-2.0
//
// One rank's buffers, as symbols: which expression each range of elements holds, and who wrote it. In place, the send
// and the receive buffer are two windows on the same elements.
#pragma once

#include <cstdint>

#include "tools/verify/expression.h"
#include "tools/verify/interval_map.h"

namespace sl::verify {

// What a rank's memory is made of; all numbers are elements.
struct MemoryLayout {
  uint64_t send_elements = 0;
  uint64_t recv_elements = 0;
  uint64_t scratch_elements = 0;
  uint64_t send_base = 0;  // place of the buffer in what it shares with the other one; both 0 when they share nothing
  uint64_t recv_base = 0;
  bool shared = false;

  static MemoryLayout Of(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t scratch_elements, bool in_place);
};

class Memory {
 public:
  // The send buffer holds the rank's input, everything else nothing.
  Memory(const MemoryLayout& layout, NodeId input);

  // Whether [offset, offset + elements) lies inside the buffer.
  bool Contains(uint32_t buffer, uint64_t offset, uint64_t elements) const;
  // The values of a range; false, with the first element that nothing has written, when there is one.
  bool Read(uint32_t buffer, uint64_t offset, uint64_t elements, Pieces* out, uint64_t* out_unwritten) const;
  void Write(uint32_t buffer, uint64_t offset, const Pieces& pieces, const Place& writer);
  // The step that wrote an element last; false: none did.
  bool FindWriter(uint32_t buffer, uint64_t element, Place* out_writer) const;

  // Where an element lies, comparable between the send and the receive buffer: a space and a position in it.
  struct Position {
    uint32_t space;
    uint64_t offset;
  };
  static constexpr uint32_t kSpaces = 3;
  Position PositionOf(uint32_t buffer, uint64_t element) const;

 private:
  struct Cell {
    Value value;  // read at the position in the space
    Place writer;
    bool written = false;  // by a step; else it is the rank's input
  };

  const MemoryLayout layout_;
  IntervalMap<Cell> spaces_[kSpaces];
};

}  // namespace sl::verify
