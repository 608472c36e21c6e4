// SPDX-License-Identifier: Apache-2.0
//
// What lies where in a GPU rank's slice of the symmetric heap. A slice has lanes that share nothing: lane 0 for eager
// work, the others for captured graphs, which replay in an order of their own. One list of regions yields every offset.
//
// All counters live here, only grow, and outlast launches and replays: nothing is cleared after creation. The counter
// of a block or channel that gave up becomes kEnded: what it left half done must not be mistaken for an operation that
// is launched later, so launches find the mark and leave at once.
#pragma once

#include <cstdint>

#include "modules/algo-symmetric/kernels/direct/push_units.h"
#include "sdk/device/lamport_packet.h"
#include "sdk/device/ll_packet.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kSliceHeadBytes = 4096;  // the claim on the fault record
constexpr uint32_t kRegionBytes = 256;      // every region begins at a multiple

// Packets. Epochs alternate between two slots; a block owns its epoch and its packets, so that blocks never meet.
constexpr uint32_t kPacketBlocks = 24;
constexpr uint32_t kEpochWords = 2;         // of a block: ended, begun
constexpr uint32_t kPacketsPerBlock = 688;  // in one slot, of all ranks; of many, kFewestPackets each
constexpr uint32_t kFewestPackets = 86;
constexpr uint32_t kLamportPerBlock = 1792;  // the same of packets that are all data, of all peers
constexpr uint32_t kFewestLamport = 256;
constexpr uint32_t kLamportUnit = 4;    // that go together
constexpr uint32_t kLamportTile = 128;  // and among which they lie
constexpr uint32_t kPacketSlots = 2;
constexpr uint32_t kShots = 2;
constexpr uint32_t kSharedBytes = 32768;  // of packets' data that a block keeps in shared memory at a time

// Staged rounds in flight.
constexpr uint32_t kStagedBlocks = 32;  // at most
constexpr uint32_t kRoundSlots = 3;
constexpr uint32_t kStageBytes = 131072;  // a stage slot, at most
constexpr uint32_t kPieceBytes = 61440;   // a rank's part of it, and a result slot, at most

// Meetings of blocks that reach into each other's buffers: what a rank tells alternates between two places.
constexpr uint32_t kMeetingSlots = 2;
constexpr uint32_t kMeetingWords = 4;

// Point to point: chunks under way on a channel.
constexpr uint32_t kInboxSlots = 2;
constexpr uint32_t kOfferWords = 2;
constexpr uint32_t kChunkBytes = 16384;
constexpr uint32_t kChannelsOfBlock = 4;  // whose hops overlap
constexpr uint32_t kMostMessages = 1304;  // of a group
constexpr uint32_t kMailUnits = 256;      // in flight on a channel; a power of two
constexpr uint64_t kMailBatchBytes = kMailUnits / 2 * kLamportUnit * sizeof(dev::LamportPacket);
constexpr uint32_t kShortPackets = 1024;  // of short messages, in flight on a channel; a power of two

constexpr uint32_t kThreads = 512;  // of a block

// Channels of short messages between two of so many ranks, each way: where all send to all, their blocks are no more
// than those of packets.
constexpr uint32_t ShortChannelsOf(uint32_t ranks) {
  const uint32_t share = ranks > 1 ? kPacketBlocks / (2 * (ranks - 1)) : 1;
  return share < 1 ? 1 : share > 8 ? 8 : share;
}

constexpr uint64_t kEnded = UINT64_MAX;
constexpr uint32_t kEndedEpoch = UINT32_MAX;  // NextEpoch makes it 0

// What goes round a ring at the receiver, in one direction of a channel: units of packets, or short messages' packets.
// All are kEnded once it gave up.
struct alignas(16) MailCount {
  uint64_t units;  // sent, or read
  uint64_t room;   // sending: how many the receiver has read, as far as known; receiving: of how many it told
};

// How far one direction of a channel has come. Once a launch gave up, all are kEnded; after one of nothing but mail,
// the mail alone.
struct alignas(16) ChannelCount {
  uint64_t chunks;  // pushed, or copied out
  uint64_t offers;  // messages for which the receiver told where they go
  MailCount mail;
};

// Offsets inside a lane of a slice.
struct LaneLayout {
  uint64_t epochs;          // [word][block]: the packet epochs that the block ended last and began last; 0: none
  uint64_t rounds;          // [block]: how many staged rounds the block has run
  uint64_t staged;          // [block][rank]: rounds whose pieces stand in that rank's stage; written by that rank
  uint64_t reduced;         // [block][rank]: rounds whose result stands in that rank's result slots
  uint64_t consumed;        // [block][rank]: rounds after which that rank reads nothing of this one any more
  uint64_t meetings;        // [block]: how many meetings the block has had
  uint64_t met;             // [slot][block][rank][word]: what that rank has told; written by that rank
  uint64_t left;            // [block][rank]: meetings after which that rank touches this one's buffers no more
  uint64_t drawn;           // pieces of a direct operation that blocks have drawn; 0 between launches
  uint64_t units;           // UnitCounts
  uint64_t told;            // [block]: Told
  uint64_t units_stand;     // [slot][rank]: units of that rank that stand in the slot; written by that rank
  uint64_t units_free;      // [slot][part][rank]: units of which that rank has reduced the part; written by that rank
  uint64_t packets;         // [slot][block][sender][shot][packet]
  uint64_t lamport;         // [slot][block][peer, beginning behind the owner][shot][packet]: of those that are all data
  uint64_t notes;           // [slot][block][peer][shot][unit]: what is to be said of them
  uint64_t stage;           // [block][slot]: one piece for every rank
  uint64_t result;          // [block][slot]: one piece
  uint64_t sent;            // [rank][channel]: ChannelCount of what goes to that rank
  uint64_t received;        // [rank][channel]: ChannelCount of what comes from that rank
  uint64_t arrived;         // [rank][channel]: chunks of that rank that stand in the inbox; written by that rank
  uint64_t credit;          // [rank][channel]: chunks to that rank which it has copied out; written by that rank
  uint64_t offer;           // [rank][channel][word]: what that rank told last; written by that rank
  uint64_t landed;          // [rank][channel]: messages of that rank that stand where it was told; written by that rank
  uint64_t inbox;           // [peer, beginning behind the owner][channel][slot]: one chunk
  uint64_t room;            // [rank][channel]: units to that rank which it has read; written by that rank
  uint64_t parts;           // [message]: pieces of a group's message that channels have drawn; 0 between launches
  uint64_t mail;            // [peer, beginning behind the owner][channel][place]: packets of a unit
  uint64_t mail_notes;      // the same: what is to be said of them
  uint64_t short_sent;      // [rank][channel]: MailCount of short messages to that rank
  uint64_t short_received;  // [rank][channel]: MailCount of those from that rank
  uint64_t short_room;      // [rank][channel]: packets to that rank which it has read; written by that rank
  uint64_t short_mail;      // [peer, beginning behind the owner][channel][place]: a packet
  uint64_t piece_bytes;
  uint64_t stage_slot_bytes;
  uint64_t total;
  uint32_t staged_blocks;      // of a grid that stages or meets, at most
  uint32_t unit_slots;         // in stages and results, of units that peers push
  uint32_t channels;           // between two ranks, each way
  uint32_t short_channels;     // of short messages
  uint32_t packets_per_block;  // from one sender, in one slot, of one shot
  uint32_t lamport_per_block;  // the same of those that are all data

  static constexpr LaneLayout Of(uint32_t ranks, uint32_t staged_blocks) {
    LaneLayout layout{};
    uint64_t at = 0;
    auto take = [&at](uint64_t bytes) {
      const uint64_t offset = at;
      at += (bytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
      return offset;
    };
    const uint64_t flags = uint64_t{staged_blocks} * ranks * sizeof(uint64_t);
    const uint64_t piece = kStageBytes / ranks / kRegionBytes * kRegionBytes;
    layout.piece_bytes = piece > kPieceBytes ? kPieceBytes : piece < kRegionBytes ? kRegionBytes : piece;
    layout.stage_slot_bytes = ranks * layout.piece_bytes;
    layout.staged_blocks = staged_blocks;
    layout.epochs = take(kEpochWords * kPacketBlocks * sizeof(uint32_t));
    layout.rounds = take(staged_blocks * sizeof(uint64_t));
    layout.staged = take(flags);
    layout.reduced = take(flags);
    layout.consumed = take(flags);
    layout.meetings = take(staged_blocks * sizeof(uint64_t));
    layout.met = take(kMeetingSlots * kMeetingWords * flags);
    layout.left = take(flags);
    layout.drawn = take(sizeof(uint32_t));
    layout.units = take(sizeof(UnitCounts));
    layout.told = take(staged_blocks * sizeof(Told));
    layout.units_stand = take(uint64_t{kUnitSlots} * ranks * sizeof(uint64_t));
    layout.units_free = take(uint64_t{kUnitSlots} * kUnitParts * ranks * sizeof(uint64_t));
    const uint32_t packets = kPacketsPerBlock / ranks;
    layout.packets_per_block = packets > kFewestPackets ? packets : kFewestPackets;
    const uint64_t inboxes = uint64_t{kPacketSlots} * kPacketBlocks * kShots;  // of each sender
    layout.packets = take(inboxes * ranks * layout.packets_per_block * sizeof(dev::LlPacket));
    const uint32_t peers = ranks - 1;
    const uint32_t lamport = kLamportPerBlock / (peers != 0 ? peers : 1) / kLamportTile * kLamportTile;
    layout.lamport_per_block = lamport > kFewestLamport ? lamport : kFewestLamport;
    layout.lamport = take(inboxes * peers * layout.lamport_per_block * sizeof(dev::LamportPacket));
    layout.notes = take(inboxes * peers * (layout.lamport_per_block / kLamportUnit) * sizeof(uint64_t));
    layout.stage = take(staged_blocks * kRoundSlots * layout.stage_slot_bytes);
    layout.result = take(uint64_t{staged_blocks} * kRoundSlots * layout.piece_bytes);
    const uint64_t slots = (at - layout.stage) / (uint64_t{ranks > 1 ? ranks - 1 : 1} * UnitBytesOf(ranks));
    layout.unit_slots = static_cast<uint32_t>(slots < kUnitSlots ? slots : kUnitSlots);
    layout.channels = kChannelsOfBlock * (ranks >= 32 ? 1 : ranks <= 2 ? 16 : 32 / ranks);
    const uint64_t channels = uint64_t{ranks} * layout.channels;
    layout.sent = take(channels * sizeof(ChannelCount));
    layout.received = take(channels * sizeof(ChannelCount));
    layout.arrived = take(channels * sizeof(uint64_t));
    layout.credit = take(channels * sizeof(uint64_t));
    layout.offer = take(kOfferWords * channels * sizeof(uint64_t));
    layout.landed = take(channels * sizeof(uint64_t));
    layout.inbox = take((channels - layout.channels) * kInboxSlots * kChunkBytes);
    layout.room = take(channels * sizeof(uint64_t));
    layout.parts = take(kMostMessages * sizeof(uint32_t));
    const uint64_t units = (channels - layout.channels) * kMailUnits;
    layout.mail = take(units * kLamportUnit * sizeof(dev::LamportPacket));
    layout.mail_notes = take(units * sizeof(uint64_t));
    layout.short_channels = ShortChannelsOf(ranks);
    const uint64_t shorts = uint64_t{ranks} * layout.short_channels;
    layout.short_sent = take(shorts * sizeof(MailCount));
    layout.short_received = take(shorts * sizeof(MailCount));
    layout.short_room = take(shorts * sizeof(uint64_t));
    layout.short_mail = take((shorts - layout.short_channels) * kShortPackets * sizeof(dev::LlPacket));
    layout.total = at;
    return layout;
  }
};
static_assert(LaneLayout::Of(8, 24).total % kRegionBytes == 0);
constexpr bool SlicesAreWithin(uint64_t bytes, uint32_t most_ranks, uint32_t lanes) {
  for (uint32_t ranks = 1; ranks <= most_ranks; ++ranks) {
    if (kSliceHeadBytes + lanes * LaneLayout::Of(ranks, 24).total > bytes) return false;
  }
  return true;
}
static_assert(SlicesAreWithin(64 << 20, 8, 3), "what a communicator may take of a GPU");
static_assert(kPieceBytes % kRegionBytes == 0);

}  // namespace sl::algo_symmetric::kernels
