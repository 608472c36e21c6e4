// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a launch of sends and receives: messages, and which block moves which of them; how a message is cut.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"

namespace sl::algo_symmetric::kernels {

struct Message {
  uint8_t* user;
  uint64_t bytes;
  uint64_t other;  // receives: where the sender sees `user`, 0: it does not; copies: where they go
};

// Of a short message, on one channel: what one turn of a block moves.
constexpr uint32_t kShortBytesOfChannel = sizeof(dev::Vec8) * kThreads;

// How a message goes, by its length; equal on all ranks.
struct P2pWays {
  uint64_t mailed_bytes;    // up to this length as packets
  uint32_t channels;        // of a queue, at most
  bool offers;              // of a message not mailed the receiver tells where it goes
  uint32_t short_channels;  // of short mail; 0: there is none

  SL_HD bool IsShort(uint64_t bytes) const { return bytes <= short_channels * kShortBytesOfChannel; }
};

// How long messages may be that go as packets, where a queue has so many channels: a batch for each, and at least so
// much.
constexpr uint64_t kLeastMailedBytes = 128 << 10;
constexpr uint64_t MailedBytes(uint32_t channels) {
  return channels * kMailBatchBytes > kLeastMailedBytes ? channels * kMailBatchBytes : kLeastMailedBytes;
}

enum class TaskKind : uint8_t { kSend, kReceive, kCopy };

// What as many warps do as a block has: the messages [first, first + count) of a queue, as far as they use its
// channels.
struct P2pTask {
  uint16_t peer;
  TaskKind kind;
  uint8_t group;  // of kChannelsOfBlock channels
  uint16_t first;
  uint16_t count;
};

constexpr uint32_t kP2pBlocks = 112;  // that wait for peers: all resident on GPUs from 112 SMs on
constexpr uint32_t kCopyBlocks = 16;  // besides, which wait for nobody

// The task of one part of a block, among so many that wait for peers. The channels of a queue lie in different blocks,
// since blocks that are neighbours share ways out of the GPU: a queue on a few of them would not get more of the wire
// when the others are done.
SL_HD uint32_t WaitingTaskOf(uint32_t block, uint32_t part, uint32_t waiting) {
  const uint32_t i = block + part * (waiting / kChannelsOfBlock);
  return i < waiting ? i : i - waiting;
}

template <uint32_t kBlocks, uint32_t kMessages>
struct P2pArgs {
  static constexpr uint32_t kMost = kMessages;
  Team team;
  P2pWays ways;
  uint32_t waiting;        // tasks that wait for peers, the first ones
  uint32_t copy_channels;  // over which a message that stays is cut, at most
  P2pTask task[kBlocks + kCopyBlocks];
  Message message[kMessages];

  SL_HD uint32_t TaskOf(uint32_t block, uint32_t part) const {
    return block < waiting ? WaitingTaskOf(block, part, waiting) : block;
  }
};
// The fewer bytes a launch passes, the sooner it begins; as many as fit what every device takes, and what CUDA takes
// from sm_70 on.
using FewestMessages = P2pArgs<24, 8>;
using FewMessages = P2pArgs<kP2pBlocks, 110>;
using ManyMessages = P2pArgs<kP2pBlocks, kMostMessages>;
static_assert(sizeof(FewMessages) <= 4096 && sizeof(ManyMessages) <= 32764);

// The count of a channel.
SL_HD ChannelCount* CountOf(const Team& team, uint32_t peer, uint32_t channel, TaskKind kind) {
  const uint64_t table = kind == TaskKind::kReceive ? team.layout.received : team.layout.sent;
  return reinterpret_cast<ChannelCount*>(team.At(team.rank, table)) + peer * team.layout.channels + channel;
}

// Where rank r is told by rank `from`, on all channels, where its messages go: kOfferWords of each.
SL_HD uint64_t* OffersOf(const Team& team, uint32_t r, uint32_t from) {
  const uint64_t first = static_cast<uint64_t>(from) * team.layout.channels;
  return reinterpret_cast<uint64_t*>(team.At(r, team.layout.offer)) + first * kOfferWords;
}

// From this length on, what goes into the receiver's buffer is drawn by the channels of its queue.
constexpr uint64_t kDrawnMessageBytes = 4 << 20;

// Over how many channels a message is cut; both ends compute it. 12 blocks each way are enough for the wire: only who
// would else be left waiting for room takes more.
constexpr uint64_t kShortBytesWorthAChannel = 1 << 10;
constexpr uint64_t kMailedBytesOfChannel = 2 << 10;
constexpr uint64_t kBytesOfChannel = 16 << 10;
constexpr uint32_t kEnoughChannels = 12 * kChannelsOfBlock;
SL_HD uint32_t ChannelsOf(uint64_t bytes, const P2pWays& ways, uint32_t most) {
  if (ways.IsShort(bytes)) {
    const uint32_t worth = static_cast<uint32_t>((bytes + kShortBytesWorthAChannel - 1) / kShortBytesWorthAChannel);
    const uint32_t useful = ways.short_channels < most ? ways.short_channels : most;
    return worth < useful ? worth : useful;
  }
  const bool mailed = bytes <= ways.mailed_bytes;
  const bool crowds = mailed && bytes > kEnoughChannels * kMailBatchBytes;
  const uint32_t useful = crowds || most < kEnoughChannels ? most : kEnoughChannels;
  const uint64_t wanted = mailed ? (bytes + kMailedBytesOfChannel - 1) / kMailedBytesOfChannel
                                 : (bytes + kBytesOfChannel - 1) / kBytesOfChannel;
  return static_cast<uint32_t>(wanted < useful ? wanted : useful);
}

// What each of so many channels has of a message, the last ones perhaps less: whole vectors.
SL_HD uint64_t PartOf(uint64_t bytes, uint32_t channels) {
  const uint64_t vectors = (bytes + sizeof(dev::Vec16) - 1) / sizeof(dev::Vec16);
  if (channels == 1) return vectors * sizeof(dev::Vec16);
  const uint64_t most = vectors + channels - 1;
  // A GPU divides 64 bits in some hundred instructions.
  const uint64_t each = most <= UINT32_MAX ? static_cast<uint32_t>(most) / channels : most / channels;
  return each * sizeof(dev::Vec16);
}

}  // namespace sl::algo_symmetric::kernels
