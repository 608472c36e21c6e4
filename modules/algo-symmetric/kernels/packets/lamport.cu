// SPDX-License-Identifier: Apache-2.0
//
// Kernels by packets that are all data, of all formats.
#include "modules/algo-symmetric/kernels/entry.cuh"

SL_PACKET_KERNELS(LamportFormat)
