// SPDX-License-Identifier: Apache-2.0
//
// Staged kernels: reductions of floats.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_STAGED_KERNEL(staged_float16, sl::dev::FormatOf<SL_FLOAT16>)
SL_STAGED_KERNEL(staged_float32, sl::dev::FormatOf<SL_FLOAT32>)
SL_STAGED_KERNEL(staged_float64, sl::dev::FormatOf<SL_FLOAT64>)
SL_STAGED_KERNEL(staged_bfloat16, sl::dev::FormatOf<SL_BFLOAT16>)
SL_STAGED_KERNEL(staged_fp8e4m3, sl::dev::FormatOf<SL_FLOAT8E4M3>)
SL_STAGED_KERNEL(staged_fp8e5m2, sl::dev::FormatOf<SL_FLOAT8E5M2>)
