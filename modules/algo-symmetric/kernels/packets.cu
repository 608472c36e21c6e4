// SPDX-License-Identifier: Apache-2.0
//
// Packet kernels of all formats.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_ONE_SHOT_KERNEL(one_shot_move, void)
SL_ONE_SHOT_KERNEL(one_shot_int8, sl::dev::FormatOf<SL_INT8>)
SL_ONE_SHOT_KERNEL(one_shot_uint8, sl::dev::FormatOf<SL_UINT8>)
SL_ONE_SHOT_KERNEL(one_shot_int32, sl::dev::FormatOf<SL_INT32>)
SL_ONE_SHOT_KERNEL(one_shot_uint32, sl::dev::FormatOf<SL_UINT32>)
SL_ONE_SHOT_KERNEL(one_shot_int64, sl::dev::FormatOf<SL_INT64>)
SL_ONE_SHOT_KERNEL(one_shot_uint64, sl::dev::FormatOf<SL_UINT64>)
SL_ONE_SHOT_KERNEL(one_shot_float16, sl::dev::FormatOf<SL_FLOAT16>)
SL_ONE_SHOT_KERNEL(one_shot_float32, sl::dev::FormatOf<SL_FLOAT32>)
SL_ONE_SHOT_KERNEL(one_shot_float64, sl::dev::FormatOf<SL_FLOAT64>)
SL_ONE_SHOT_KERNEL(one_shot_bfloat16, sl::dev::FormatOf<SL_BFLOAT16>)
SL_ONE_SHOT_KERNEL(one_shot_fp8e4m3, sl::dev::FormatOf<SL_FLOAT8E4M3>)
SL_ONE_SHOT_KERNEL(one_shot_fp8e5m2, sl::dev::FormatOf<SL_FLOAT8E5M2>)
