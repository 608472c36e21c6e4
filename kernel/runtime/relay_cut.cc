// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_cut.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// Parts of one piece lie at multiples of it, as copies and vector instructions like it.
constexpr uint64_t kAlignment = 64;

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool HasBlocks(sl_op_kind_t kind) {
  return kind == SL_OP_ALL_GATHER || kind == SL_OP_REDUCE_SCATTER || kind == SL_OP_ALL_TO_ALL || kind == SL_OP_GATHER ||
         kind == SL_OP_SCATTER;
}

// A part of a message and its place in the order that all ranks take.
struct Message {
  uint64_t place;
  uint32_t distance;
  RelayPart part;

  bool operator<(const Message& other) const {
    return std::tie(place, distance, part.op) < std::tie(other.place, other.distance, other.part.op);
  }
};

std::vector<Message> MessagesOf(std::span<const sl_op_t> ops, uint32_t rank, uint32_t size, uint64_t area_bytes) {
  std::vector<Message> messages;
  std::unordered_map<uint64_t, uint64_t> places;  // by peer and direction: parts so far
  for (uint32_t op = 0; op < ops.size(); ++op) {
    if (!IsTransfer(ops[op].kind)) continue;
    const auto peer = static_cast<uint32_t>(ops[op].peer);
    const bool sends = ops[op].kind == SL_OP_SEND;
    const uint32_t distance = (sends ? peer + size - rank : rank + size - peer) % size;
    uint64_t& place = places[uint64_t{peer} * 2 + (sends ? 1 : 0)];
    const uint64_t most = area_bytes / DatatypeBytes(ops[op].datatype);
    for (uint64_t first = 0; first < ops[op].count; first += most) {
      messages.push_back({place++, distance, {op, first, std::min(most, ops[op].count - first), 0, 0}});
    }
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

}  // namespace

uint64_t RelayPieceCount(const sl_op_t& op, uint32_t size, uint64_t area_bytes) {
  return area_bytes / DatatypeBytes(op.datatype) / (HasBlocks(op.kind) ? size : 1);
}

void CutCollective(std::span<const sl_op_t> ops, uint32_t index, uint32_t size, uint64_t area_bytes,
                   RelaySchedule* schedule) {
  const sl_op_t& op = ops[index];
  const uint64_t most = RelayPieceCount(op, size, area_bytes);
  for (uint64_t first = 0; first < op.count; first += most) {
    const auto part = static_cast<uint32_t>(schedule->parts.size());
    schedule->parts.push_back({index, first, std::min(most, op.count - first), 0, 0});
    schedule->pieces.push_back({part, part + 1});
  }
}

void CutTransfers(std::span<const sl_op_t> ops, uint32_t rank, uint32_t size, uint64_t area_bytes,
                  RelaySchedule* schedule) {
  uint64_t send_end = 0;  // of the newest piece
  uint64_t recv_end = 0;
  bool has_piece = false;
  for (Message& message : MessagesOf(ops, rank, size, area_bytes)) {
    const sl_op_t& op = ops[message.part.op];
    const bool sends = op.kind == SL_OP_SEND;
    const uint64_t bytes = message.part.count * DatatypeBytes(op.datatype);
    if (!has_piece || (sends ? send_end : recv_end) + bytes > area_bytes) {
      const auto next = static_cast<uint32_t>(schedule->parts.size());
      schedule->pieces.push_back({next, next});
      send_end = recv_end = 0;
      has_piece = true;
    }
    uint64_t& end = sends ? send_end : recv_end;
    (sends ? message.part.send_at : message.part.recv_at) = end;
    end += Aligned(bytes);
    schedule->parts.push_back(message.part);
    schedule->pieces.back().end = static_cast<uint32_t>(schedule->parts.size());
  }
}

}  // namespace sl::kernel
