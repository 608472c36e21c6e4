// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point kernels.
#include "modules/algo-symmetric/kernels/p2p.h"

using sl::algo_symmetric::kernels::FewMessages;
using sl::algo_symmetric::kernels::kThreads;
using sl::algo_symmetric::kernels::ManyMessages;
using sl::algo_symmetric::kernels::P2pBlock;

extern "C" __global__ void __launch_bounds__(kThreads) p2p_few(const __grid_constant__ FewMessages args) {
  P2pBlock(args, sl::dev::Block::Whole(blockIdx.x)).Run();
}

extern "C" __global__ void __launch_bounds__(kThreads) p2p_many(const __grid_constant__ ManyMessages args) {
  P2pBlock(args, sl::dev::Block::Whole(blockIdx.x)).Run();
}
