// SPDX-License-Identifier: Apache-2.0
// Private to the reduction: which instruction sets are compiled, and one lookup per family of types.
#ifndef STARLING_MODULES_DEVICE_HOST_REDUCE_TABLES_H_
#define STARLING_MODULES_DEVICE_HOST_REDUCE_TABLES_H_

#include <cstdint>

#include "sl_base.h"
#include "sl_device.h"

// Three sets on x86 (plain, AVX2 with F16C, AVX-512) keep the compile time down: a CPU between them is older than any
// host of interest and takes the plain one. Defined before any header of Highway, as Highway asks.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// A fused multiply-add rounds once where the sets without it round twice: the bits must not depend on the set.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace sl::device_host {

// The kernels that compute on integers (those of the integer types, MIN and MAX of floats) and the other ones. Null for
// what the other family has. `target` is one of Highway's bits; one not compiled in means the plain set.
sl_reduce_fn FindIntReduce(int64_t target, sl_datatype_t datatype, sl_reduction_t reduction);
sl_reduce_fn FindFloatReduce(int64_t target, sl_datatype_t datatype, sl_reduction_t reduction);

// The sets compiled in, as Highway's bits.
int64_t CompiledReduceTargets();

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_REDUCE_TABLES_H_
