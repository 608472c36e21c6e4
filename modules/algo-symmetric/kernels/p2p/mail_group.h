// SPDX-License-Identifier: Apache-2.0
//
// Groups of nothing but mail, one message of a queue, which most are. They have kernels of their own, of little code,
// and the host cuts their messages: what they take is the time of its instructions, more than that of any wire. To the
// other end they look like any other group.
#pragma once

#include "modules/algo-symmetric/kernels/move.h"
#include "modules/algo-symmetric/kernels/p2p/mail.h"
#include "modules/algo-symmetric/kernels/p2p/mail_args.h"
#include "modules/algo-symmetric/kernels/p2p/short_mail.h"

namespace sl::algo_symmetric::kernels {

// What is of one channel of a task, or of one block that copies.
struct MailPart {
  uint32_t begin;  // in the message
  uint32_t bytes;

  SL_HD MailPart(const MailTask& task, uint32_t channel) : begin(channel * task.part_bytes), bytes(0) {
    if (begin < task.bytes) bytes = task.bytes - begin < task.part_bytes ? task.bytes - begin : task.part_bytes;
  }
};

// A short message's channel, or a copy, by all threads of a block.
SL_HD void RunShort(const Team& team, const MailTask& task, const dev::Block& block) {
  const MailPart part(task, task.channel);
  uint8_t* user = task.user + part.begin;
  if (task.kind == TaskKind::kCopy) {
    const Range copied{user, task.to + part.begin, part.bytes};
    const bool aligned = dev::IsAligned(copied.from, kVectorBytes) && dev::IsAligned(copied.to, kVectorBytes);
    return MoveRanges(block, 1, copied.bytes, aligned, FromUser{}, [&](uint32_t) { return copied; });
  }
  ShortMail mail(team, block, task.peer, task.channel, task.kind);
  task.kind == TaskKind::kReceive ? mail.Receive(user, part.bytes) : mail.Send(user, part.bytes);
}

// Another message's channel, by the threads of one of kChannelsOfBlock parts of a block.
SL_HD void RunMail(const Team& team, const MailTask& task, const dev::Block& own, uint32_t part_of_block) {
  const uint32_t channel = task.channel + part_of_block;
  const MailPart part(task, channel);
  if (part.bytes == 0) return;
  uint8_t* user = task.user + part.begin;
  Mail mail(team, own, task.peer, channel, &CountOf(team, task.peer, channel, task.kind)->mail);
  task.kind == TaskKind::kReceive ? mail.Receive(user, part.bytes) : mail.Send(user, part.bytes);
}

}  // namespace sl::algo_symmetric::kernels
