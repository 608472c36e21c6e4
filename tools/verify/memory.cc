// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/memory.h"

#include "kernel/plan/signature.h"

namespace sl::verify {
namespace {

constexpr uint32_t kSendSpace = 0;
constexpr uint32_t kRecvSpace = 1;
constexpr uint32_t kScratchSpace = 2;

}  // namespace

// NCCL's rules: the smaller buffer is the rank's block of the larger one, buffers of equal length are one.
MemoryLayout MemoryLayout::Of(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t scratch_elements,
                              bool in_place) {
  MemoryLayout layout;
  layout.send_elements = kernel::SendElements(op, rank, size);
  layout.recv_elements = kernel::RecvElements(op, rank, size);
  layout.scratch_elements = scratch_elements;
  layout.shared = in_place && layout.send_elements != 0 && layout.recv_elements != 0;
  if (!layout.shared) return layout;
  if (layout.send_elements < layout.recv_elements) layout.send_base = rank * op.count;
  if (layout.recv_elements < layout.send_elements) layout.recv_base = rank * op.count;
  return layout;
}

Memory::Memory(const MemoryLayout& layout, NodeId input) : layout_(layout) {
  Cell cell;
  cell.value = {input, -static_cast<int64_t>(layout.send_base)};
  const Position start = PositionOf(SL_BUFFER_SEND, 0);
  spaces_[start.space].Assign(start.offset, start.offset + layout.send_elements, cell);
}

Memory::Position Memory::PositionOf(uint32_t buffer, uint64_t element) const {
  if (buffer == SL_BUFFER_SCRATCH) return {kScratchSpace, element};
  const bool sends = buffer == SL_BUFFER_SEND;
  if (!layout_.shared) return {sends ? kSendSpace : kRecvSpace, element};
  return {kRecvSpace, element + (sends ? layout_.send_base : layout_.recv_base)};
}

bool Memory::Contains(uint32_t buffer, uint64_t offset, uint64_t elements) const {
  uint64_t length = layout_.scratch_elements;
  if (buffer == SL_BUFFER_SEND) length = layout_.send_elements;
  if (buffer == SL_BUFFER_RECV) length = layout_.recv_elements;
  return offset <= length && elements <= length - offset;
}

bool Memory::Read(uint32_t buffer, uint64_t offset, uint64_t elements, Pieces* out, uint64_t* out_unwritten) const {
  const Position start = PositionOf(buffer, offset);
  bool whole = true;
  out->clear();
  spaces_[start.space].ForEach(start.offset, start.offset + elements,
                               [&](uint64_t from, uint64_t to, const Cell* cell) {
                                 if (cell != nullptr) {
                                   Append(out, to - from, cell->value.Moved(static_cast<int64_t>(start.offset)));
                                 } else if (whole) {
                                   whole = false;
                                   *out_unwritten = offset + (from - start.offset);
                                 }
                               });
  return whole;
}

void Memory::Write(uint32_t buffer, uint64_t offset, const Pieces& pieces, const Place& writer) {
  const Position start = PositionOf(buffer, offset);
  uint64_t from = start.offset;
  for (const Piece& piece : pieces) {
    const Value value = piece.value.Moved(-static_cast<int64_t>(start.offset));
    spaces_[start.space].Assign(from, from + piece.elements, {value, writer, true});
    from += piece.elements;
  }
}

bool Memory::FindWriter(uint32_t buffer, uint64_t element, Place* out_writer) const {
  const Position at = PositionOf(buffer, element);
  bool found = false;
  spaces_[at.space].ForEach(at.offset, at.offset + 1, [&](uint64_t, uint64_t, const Cell* cell) {
    found = cell != nullptr && cell->written;
    if (found) *out_writer = cell->writer;
  });
  return found;
}

}  // namespace sl::verify
