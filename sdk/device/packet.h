// SPDX-License-Identifier: Apache-2.0
//
// Packets that carry their own flag: one cache line holds the flag and a little payload, so that a small message is one
// line transfer and needs no barrier. A flag names the epoch it belongs to and the low half of the operation's
// signature, so that a reader tells "not yet" from "another operation" by the same load.
#pragma once

#include "sdk/device/sync.h"

namespace sl::dev {

constexpr uint32_t kLineBytes = 64;
constexpr uint32_t kPacketPayloadBytes = kLineBytes - 8;

struct alignas(kLineBytes) Packet {
  uint64_t flag;  // epoch in the high half, signature in the low half; 0 before the first epoch
  uint8_t payload[kPacketPayloadBytes];
};
static_assert(sizeof(Packet) == kLineBytes);

SL_HD uint64_t MakeFlag(uint32_t epoch, uint64_t signature) {
  return (static_cast<uint64_t>(epoch) << 32) | static_cast<uint32_t>(signature ^ (signature >> 32));
}
SL_HD uint32_t FlagEpoch(uint64_t flag) { return static_cast<uint32_t>(flag >> 32); }

// True when `flag` is of `epoch` or later; epochs wrap and are never more than 2^31 apart.
SL_HD bool HasReached(uint64_t flag, uint32_t epoch) { return static_cast<int32_t>(FlagEpoch(flag) - epoch) >= 0; }

}  // namespace sl::dev
