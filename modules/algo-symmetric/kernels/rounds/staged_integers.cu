// SPDX-License-Identifier: Apache-2.0
//
// Staged kernels: moves, and reductions of integers.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_STAGED_KERNEL(staged_move, void)
SL_STAGED_KERNEL(staged_int8, sl::dev::FormatOf<SL_INT8>)
SL_STAGED_KERNEL(staged_uint8, sl::dev::FormatOf<SL_UINT8>)
SL_STAGED_KERNEL(staged_int32, sl::dev::FormatOf<SL_INT32>)
SL_STAGED_KERNEL(staged_uint32, sl::dev::FormatOf<SL_UINT32>)
SL_STAGED_KERNEL(staged_int64, sl::dev::FormatOf<SL_INT64>)
SL_STAGED_KERNEL(staged_uint64, sl::dev::FormatOf<SL_UINT64>)
