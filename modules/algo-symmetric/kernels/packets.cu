// SPDX-License-Identifier: Apache-2.0
//
// Packet kernels of all formats.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_PACKET_KERNEL(one_shot_move, OneShotPackets, void)
SL_PACKET_KERNEL(one_shot_int8, OneShotPackets, sl::dev::FormatOf<SL_INT8>)
SL_PACKET_KERNEL(one_shot_uint8, OneShotPackets, sl::dev::FormatOf<SL_UINT8>)
SL_PACKET_KERNEL(one_shot_int32, OneShotPackets, sl::dev::FormatOf<SL_INT32>)
SL_PACKET_KERNEL(one_shot_uint32, OneShotPackets, sl::dev::FormatOf<SL_UINT32>)
SL_PACKET_KERNEL(one_shot_int64, OneShotPackets, sl::dev::FormatOf<SL_INT64>)
SL_PACKET_KERNEL(one_shot_uint64, OneShotPackets, sl::dev::FormatOf<SL_UINT64>)
SL_PACKET_KERNEL(one_shot_float16, OneShotPackets, sl::dev::FormatOf<SL_FLOAT16>)
SL_PACKET_KERNEL(one_shot_float32, OneShotPackets, sl::dev::FormatOf<SL_FLOAT32>)
SL_PACKET_KERNEL(one_shot_float64, OneShotPackets, sl::dev::FormatOf<SL_FLOAT64>)
SL_PACKET_KERNEL(one_shot_bfloat16, OneShotPackets, sl::dev::FormatOf<SL_BFLOAT16>)
SL_PACKET_KERNEL(one_shot_fp8e4m3, OneShotPackets, sl::dev::FormatOf<SL_FLOAT8E4M3>)
SL_PACKET_KERNEL(one_shot_fp8e5m2, OneShotPackets, sl::dev::FormatOf<SL_FLOAT8E5M2>)

SL_PACKET_KERNEL(two_shot_int8, TwoShotPackets, sl::dev::FormatOf<SL_INT8>)
SL_PACKET_KERNEL(two_shot_uint8, TwoShotPackets, sl::dev::FormatOf<SL_UINT8>)
SL_PACKET_KERNEL(two_shot_int32, TwoShotPackets, sl::dev::FormatOf<SL_INT32>)
SL_PACKET_KERNEL(two_shot_uint32, TwoShotPackets, sl::dev::FormatOf<SL_UINT32>)
SL_PACKET_KERNEL(two_shot_int64, TwoShotPackets, sl::dev::FormatOf<SL_INT64>)
SL_PACKET_KERNEL(two_shot_uint64, TwoShotPackets, sl::dev::FormatOf<SL_UINT64>)
SL_PACKET_KERNEL(two_shot_float16, TwoShotPackets, sl::dev::FormatOf<SL_FLOAT16>)
SL_PACKET_KERNEL(two_shot_float32, TwoShotPackets, sl::dev::FormatOf<SL_FLOAT32>)
SL_PACKET_KERNEL(two_shot_float64, TwoShotPackets, sl::dev::FormatOf<SL_FLOAT64>)
SL_PACKET_KERNEL(two_shot_bfloat16, TwoShotPackets, sl::dev::FormatOf<SL_BFLOAT16>)
SL_PACKET_KERNEL(two_shot_fp8e4m3, TwoShotPackets, sl::dev::FormatOf<SL_FLOAT8E4M3>)
SL_PACKET_KERNEL(two_shot_fp8e5m2, TwoShotPackets, sl::dev::FormatOf<SL_FLOAT8E5M2>)
