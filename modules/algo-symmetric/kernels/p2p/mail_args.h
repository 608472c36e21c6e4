// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a launch of nothing but mail, one message of a queue.
#pragma once

#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"

namespace sl::algo_symmetric::kernels {

// What a block does.
struct MailTask {
  uint8_t* user;        // the whole message
  uint8_t* to;          // copies
  uint32_t bytes;       // of it
  uint32_t part_bytes;  // of each channel, or block that copies, the last one perhaps less
  uint16_t peer;
  TaskKind kind;
  uint8_t channel;  // the first of kChannelsOfBlock; of short messages and copies the only one
};

template <uint32_t kTasks>
struct MailArgs {
  static constexpr uint32_t kMost = kTasks;
  Team team;
  uint32_t waiting;  // tasks of several channels, the first ones
  MailTask task[kTasks];
};
// The fewer bytes a launch passes, the sooner it begins: of nothing but short messages, which go on kPacketBlocks at
// most, and some copies; and of as many as fit what every device takes.
using ShortArgs = MailArgs<kPacketBlocks + 4>;
using AnyMailArgs = MailArgs<110>;
static_assert(sizeof(AnyMailArgs) <= 4096 && AnyMailArgs::kMost <= kP2pBlocks);

}  // namespace sl::algo_symmetric::kernels
