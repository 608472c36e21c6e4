// SPDX-License-Identifier: Apache-2.0
//
// The arguments of one collective on a GPU, all of them in kernel parameters: nothing on the way to the first load of
// data is read from memory.
#pragma once

#include "modules/algo-symmetric/kernels/slice.h"
#include "modules/algo-symmetric/pattern.h"
#include "sdk/device/block.h"
#include "sdk/device/dawdle.h"
#include "sdk/device/grid.h"
#include "sdk/device/vigil.h"

namespace sl::algo_symmetric::kernels {

// When a kernel lets the next one in its stream onto the GPU: see LetNextGridLaunch.
enum class Trigger : uint32_t {
  kExit,   // by the exit of its blocks, as a kernel does that knows nothing of dependent launches
  kHeard,  // once a block has heard all that it waits for, and its counter says that it is over
  kSent,   // the smallest operations once they have sent, direct ones once all have met; others as kHeard
};

// A rank's view of one lane of everybody's slices.
struct Team {
  uint8_t* lane;  // of rank 0
  uint64_t stride;
  LaneLayout layout;
  dev::Warden warden;
  uint32_t rank;
  uint32_t size;
  Trigger trigger;

  // At a place of a kernel where it may be done from this trigger on.
  SL_HD void LetNextIn(Trigger from) const {
    if (trigger >= from) dev::LetNextGridLaunch();
  }
  SL_HD uint8_t* At(uint32_t r, uint64_t offset) const { return lane + r * stride + offset; }
  // Word [block][from] of a table of flags in rank r's slice.
  SL_HD uint64_t* Flag(uint32_t r, uint64_t table, uint32_t block, uint32_t from) const {
    return reinterpret_cast<uint64_t*>(At(r, table)) + block * size + from;
  }
  // Which one of all inboxes of a rank, that have one for each of so many senders. That of the second shot lies behind
  // that of the first, so that who has but one shot has room for twice as much.
  SL_HD static uint64_t Inbox(uint32_t shot, uint32_t epoch, uint32_t block, uint32_t sender, uint32_t senders) {
    const uint32_t region = epoch % kPacketSlots * kPacketBlocks + block;
    return (static_cast<uint64_t>(region) * senders + sender) * kShots + shot;
  }
  // The packets of `sender` in rank r's slice that carry their epoch.
  SL_HD dev::LlPacket* Packets(uint32_t r, uint32_t shot, uint32_t epoch, uint32_t block, uint32_t sender) const {
    return reinterpret_cast<dev::LlPacket*>(At(r, layout.packets)) +
           Inbox(shot, epoch, block, sender, size) * layout.packets_per_block;
  }
  // Ends what the threads of a block have waited for, each on its own; false when a wait was given up.
  SL_HD bool HasCome(const dev::Block& block, bool given_up) const {
    if (block.SyncAny(given_up)) return false;
    dev::Dawdle(warden.dawdle_ns);
    return true;
  }
  // The peers of this rank, beginning behind it, so that no two ranks turn to the same one at once; i < size - 1.
  SL_HD uint32_t Peer(uint32_t i) const {
    const uint32_t r = rank + 1 + i;
    return r < size ? r : r - size;
  }
  // The i of which `other` is Peer(i) of rank r.
  SL_HD uint32_t Behind(uint32_t r, uint32_t other) const { return other > r ? other - r - 1 : other + size - r - 1; }
};

// Whose and which unit.
struct Turn {
  uint32_t rank;
  uint32_t unit;
};

// What packets carry of every pattern block, in bytes.
struct PacketCut {
  uint32_t block_bytes;  // of a pattern block; the last one may be shorter
  uint32_t total_bytes;  // of all of them
  uint32_t share_bytes;  // of each, one CUDA block's: whole packets
  uint32_t send_step;    // from what goes to one rank to what goes to the next; 0: the same goes to all
  uint32_t recv_step;    // from where one rank's goes to where the next one's does
  uint32_t share_units;  // of a share
  uint32_t per_unit;     // 2^31 / share_units, rounded up

  // In two shots, of a pattern block: the bytes of the share that begins there.
  SL_HD uint32_t ShareOf(uint32_t block, uint32_t share_begin) const {
    const uint32_t begin = block * block_bytes;
    if (begin >= total_bytes) return 0;
    const uint32_t bytes = Least(total_bytes - begin, block_bytes);
    return share_begin < bytes ? Least(bytes - share_begin, share_bytes) : 0;
  }
  SL_HD static uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  // The at-th, where `units` of every rank follow each other. Those of a share without dividing, which takes longer
  // than much of what is done with them.
  SL_HD Turn TurnOf(uint32_t at, uint32_t units) const {
    if (at < units) return {0, at};
    if (at < 2 * units) return {1, at - units};
    const uint32_t rank = units == share_units ? static_cast<uint32_t>(uint64_t{at} * per_unit >> 31) : at / units;
    return {rank, at - rank * units};
  }
};

struct Args {
  Team team;
  Pattern pattern;
  const uint8_t* send;
  uint8_t* recv;
  const void* scalar;  // SL_PREMUL_SUM: in device memory; NULL: it is scalar_bits
  uint64_t scalar_bits;
  PacketCut packets;         // by packets
  uint64_t share_elements;   // staged: of every pattern block, each CUDA block's
  uint64_t piece_elements;   // staged: of every pattern block, in one round
  uint64_t rounds;           // staged
  sl_reduction_t reduction;  // when the pattern reduces
  uint32_t element_bytes;
  int32_t giver;  // the only rank whose data is taken; -1: all
  int32_t taker;  // the only rank that takes data; -1: all

  SL_HD uint64_t BlockOffset(uint64_t block, uint64_t begin) const {
    return (block * pattern.block_elements + begin) * element_bytes;
  }
  SL_HD bool Scales() const { return pattern.reduces && reduction == SL_PREMUL_SUM; }
  SL_HD uint32_t AverageOver() const { return reduction == SL_AVG ? team.size : 0; }
  SL_APART SL_HD uint64_t Scalar() const {
    if (scalar == nullptr) return scalar_bits;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < element_bytes; ++i) {
      bits |= static_cast<uint64_t>(static_cast<const uint8_t*>(scalar)[i]) << (8 * i);
    }
    return bits;
  }
  // Whether rank `from` sends rank `to` anything but an empty packet.
  SL_HD bool Ships(uint32_t from, uint32_t to) const {
    return (giver < 0 || giver == static_cast<int32_t>(from)) && (taker < 0 || taker == static_cast<int32_t>(to));
  }
};
static_assert(sizeof(Args) <= 512);

// What a kernel that gives up was waiting for: sl_control_t.step.
constexpr uint32_t kStepSlot = 1;     // a peer to have read an older round
constexpr uint32_t kStepStaged = 2;   // a peer's pieces
constexpr uint32_t kStepReduced = 3;  // a peer's reduced piece
constexpr uint32_t kStepPacket = 4;   // a peer's packet, first shot
constexpr uint32_t kStepResult = 5;   // second shot
constexpr uint32_t kStepArrived = 6;  // a peer's chunk
constexpr uint32_t kStepCredit = 7;   // a peer to have copied out an older chunk
constexpr uint32_t kStepMet = 8;      // a peer to begin the operation
constexpr uint32_t kStepLeft = 9;     // a peer to have done with this rank's buffers
constexpr uint32_t kStepOffer = 10;   // a peer to say where a message goes
constexpr uint32_t kStepLanded = 11;  // a peer's message, where it was told to put it
constexpr uint32_t kStepMail = 12;    // a peer's packet of a message
constexpr uint32_t kStepRoom = 13;    // a peer to have read older packets of messages
constexpr uint32_t kStepUnit = 14;    // a peer's contribution to a unit
constexpr uint32_t kStepFreed = 15;   // a peer to have reduced an older unit

}  // namespace sl::algo_symmetric::kernels
