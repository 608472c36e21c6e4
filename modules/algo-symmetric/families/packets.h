// SPDX-License-Identifier: Apache-2.0
//
// What the families of packets share: formats, room, the cut of a pattern's blocks over the grid.
#pragma once

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/grid.h"
#include "modules/algo-symmetric/kernels/packets/packet_format.h"
#include "modules/algo-symmetric/kernels/slice.h"

namespace sl::algo_symmetric {

// One format.
struct PacketKind {
  uint32_t payload;  // bytes of data
  uint32_t carried;  // bytes that travel for it
  uint32_t unit;     // packets that go together
  uint32_t (*units)(uint32_t packets);
  uint32_t kernels::LaneLayout::*per_block;
};
inline constexpr PacketKind kLlKind = {
    .payload = sizeof(dev::Vec8),
    .carried = sizeof(dev::LlPacket),
    .unit = kernels::LlFormat::kUnit,
    .units = kernels::LlFormat::Unit::Count,
    .per_block = &kernels::LaneLayout::packets_per_block,
};
inline constexpr PacketKind kLamportKind = {
    .payload = sizeof(dev::Vec16),
    .carried = sizeof(dev::LamportPacket) + sizeof(uint64_t) / kernels::kLamportUnit,
    .unit = kernels::LamportFormat::kUnit,
    .units = kernels::LamportFormat::Unit::Count,
    .per_block = &kernels::LaneLayout::lamport_per_block,
};

// Whether at least one unit of every rank meets in shared memory.
bool FitsShared(const PacketKind& kind, uint32_t size);

// What all blocks that there may be can send another rank in each of so many shots.
uint64_t PacketBytes(const PacketKind& kind, uint32_t size, uint32_t shots, const SmBudget& budget);

// Why it does not go in one shot or in two; NULL: it does.
const char* RefusesOneShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const GpuSettings& settings);
const char* RefusesTwoShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const GpuSettings& settings);

// What a family of packets costs.
struct PacketCosts {
  Cost move;
  Cost reduce;
};
// The cut, with its cost.
Choice CutOneShot(const PacketKind& kind, const PacketCosts& costs, const sl_op_t& op, uint32_t rank, uint32_t size,
                  const GpuSettings& settings);
Choice CutTwoShot(const PacketKind& kind, const PacketCosts& costs, const sl_op_t& op, uint32_t rank, uint32_t size,
                  const GpuSettings& settings);

}  // namespace sl::algo_symmetric
