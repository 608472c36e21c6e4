// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point kernels.
#include "modules/algo-symmetric/kernels/p2p.h"
#include "sdk/device/grid.h"

using sl::algo_symmetric::kernels::FewestMessages;
using sl::algo_symmetric::kernels::FewMessages;
using sl::algo_symmetric::kernels::kChannelsOfBlock;
using sl::algo_symmetric::kernels::kOfferWords;
using sl::algo_symmetric::kernels::kThreads;
using sl::algo_symmetric::kernels::ManyMessages;
using sl::algo_symmetric::kernels::P2pChannel;

namespace {

template <typename Args>
__device__ void RunChannel(const Args& args) {
  __shared__ uint32_t told[kChannelsOfBlock][kOfferWords];
  constexpr uint32_t kPart = kThreads / kChannelsOfBlock;
  const uint32_t part = threadIdx.x / kPart;
  P2pChannel channel(args, sl::dev::Block::Part(blockIdx.x, part * kPart, kPart, 1 + part), part, told[part]);
  sl::dev::AwaitEarlierGrids();
  channel.Run();
  sl::dev::LetNextGridLaunch();
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
