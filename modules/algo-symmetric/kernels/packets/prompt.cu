// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the smallest operations.
#include "modules/algo-symmetric/kernels/packets/prompt.h"

#define SL_PROMPT_KERNEL(name, Format)                                                          \
  extern "C" __global__ void __launch_bounds__(sl::algo_symmetric::kernels::kThreads)           \
      name(const __grid_constant__ sl::algo_symmetric::kernels::Args args) {                    \
    sl::algo_symmetric::kernels::Prompt<Format>(args, sl::dev::Block::Whole(blockIdx.x)).Run(); \
  }

SL_PROMPT_KERNEL(prompt_move, void)
SL_PROMPT_KERNEL(prompt_int8, sl::dev::FormatOf<SL_INT8>)
SL_PROMPT_KERNEL(prompt_uint8, sl::dev::FormatOf<SL_UINT8>)
SL_PROMPT_KERNEL(prompt_int32, sl::dev::FormatOf<SL_INT32>)
SL_PROMPT_KERNEL(prompt_uint32, sl::dev::FormatOf<SL_UINT32>)
SL_PROMPT_KERNEL(prompt_int64, sl::dev::FormatOf<SL_INT64>)
SL_PROMPT_KERNEL(prompt_uint64, sl::dev::FormatOf<SL_UINT64>)
SL_PROMPT_KERNEL(prompt_float16, sl::dev::FormatOf<SL_FLOAT16>)
SL_PROMPT_KERNEL(prompt_float32, sl::dev::FormatOf<SL_FLOAT32>)
SL_PROMPT_KERNEL(prompt_float64, sl::dev::FormatOf<SL_FLOAT64>)
SL_PROMPT_KERNEL(prompt_bfloat16, sl::dev::FormatOf<SL_BFLOAT16>)
SL_PROMPT_KERNEL(prompt_fp8e4m3, sl::dev::FormatOf<SL_FLOAT8E4M3>)
SL_PROMPT_KERNEL(prompt_fp8e5m2, sl::dev::FormatOf<SL_FLOAT8E5M2>)
