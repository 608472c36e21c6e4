// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point kernels. Parts of a block end each on its own, and some hear from nobody, so the next grid is let in
// by the exit of blocks alone.
#include "modules/algo-symmetric/kernels/p2p/mail_group.h"
#include "modules/algo-symmetric/kernels/p2p/p2p.h"
#include "sdk/device/grid.h"

using sl::algo_symmetric::kernels::AnyMailArgs;
using sl::algo_symmetric::kernels::FewestMessages;
using sl::algo_symmetric::kernels::FewMessages;
using sl::algo_symmetric::kernels::kChannelsOfBlock;
using sl::algo_symmetric::kernels::kOfferWords;
using sl::algo_symmetric::kernels::kThreads;
using sl::algo_symmetric::kernels::MailTask;
using sl::algo_symmetric::kernels::ManyMessages;
using sl::algo_symmetric::kernels::P2pChannel;
using sl::algo_symmetric::kernels::RunMail;
using sl::algo_symmetric::kernels::RunShort;
using sl::algo_symmetric::kernels::ShortArgs;
using sl::algo_symmetric::kernels::TaskKind;
using sl::algo_symmetric::kernels::WaitingTaskOf;
using sl::dev::AwaitEarlierGrids;
using sl::dev::Block;
using sl::dev::Fetch;

namespace {

constexpr uint32_t kPart = kThreads / kChannelsOfBlock;  // threads of a channel

template <typename Args>
__device__ void RunChannel(const Args& args) {
  __shared__ uint32_t told[kChannelsOfBlock][kOfferWords];
  const uint32_t part = threadIdx.x / kPart;
  P2pChannel channel(args, Block::Part(blockIdx.x, part * kPart, kPart, 1 + part), part, told[part]);
  AwaitEarlierGrids();
  channel.Run();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) p2p_fewest(const __grid_constant__ FewestMessages args) {
  RunChannel(args);
}

extern "C" __global__ void __launch_bounds__(kThreads) p2p_few(const __grid_constant__ FewMessages args) {
  RunChannel(args);
}

extern "C" __global__ void __launch_bounds__(kThreads) p2p_many(const __grid_constant__ ManyMessages args) {
  RunChannel(args);
}

extern "C" __global__ void __launch_bounds__(kThreads) mail_short(const __grid_constant__ ShortArgs args) {
  const MailTask& task = args.task[blockIdx.x];
  Fetch(args.team.lane, args.team.layout.short_mail, args.team.size, task.user, task.bytes);
  AwaitEarlierGrids();
  RunShort(args.team, task, Block::Whole(blockIdx.x));
}

extern "C" __global__ void __launch_bounds__(kThreads) mail_any(const __grid_constant__ AnyMailArgs args) {
  AwaitEarlierGrids();
  if (blockIdx.x < args.waiting) {
    const uint32_t part = threadIdx.x / kPart;
    const MailTask& task = args.task[WaitingTaskOf(blockIdx.x, part, args.waiting)];
    RunMail(args.team, task, Block::Part(blockIdx.x, part * kPart, kPart, 1 + part), part);
  } else {
    RunShort(args.team, args.task[blockIdx.x], Block::Whole(blockIdx.x));
  }
}
