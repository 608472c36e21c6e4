// SPDX-License-Identifier: Apache-2.0
//
// Reduce-scatters whose contributions are pushed.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_PUSH_REDUCE_KERNEL(push_int8, SL_INT8)
SL_PUSH_REDUCE_KERNEL(push_uint8, SL_UINT8)
SL_PUSH_REDUCE_KERNEL(push_int32, SL_INT32)
SL_PUSH_REDUCE_KERNEL(push_uint32, SL_UINT32)
SL_PUSH_REDUCE_KERNEL(push_int64, SL_INT64)
SL_PUSH_REDUCE_KERNEL(push_uint64, SL_UINT64)
SL_PUSH_REDUCE_KERNEL(push_float16, SL_FLOAT16)
SL_PUSH_REDUCE_KERNEL(push_float32, SL_FLOAT32)
SL_PUSH_REDUCE_KERNEL(push_float64, SL_FLOAT64)
SL_PUSH_REDUCE_KERNEL(push_bfloat16, SL_BFLOAT16)
SL_PUSH_REDUCE_KERNEL(push_fp8e4m3, SL_FLOAT8E4M3)
SL_PUSH_REDUCE_KERNEL(push_fp8e5m2, SL_FLOAT8E5M2)
