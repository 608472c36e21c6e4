// SPDX-License-Identifier: Apache-2.0
//
// Kernels by packets that carry their epoch, of all formats.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_PACKET_KERNELS(LlFormat)
