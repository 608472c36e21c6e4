// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction of n host buffers, for every data type and operation of the ABI.
//
// A reduction reads element i of every source in the order 0 … n_srcs-1, combines, and stores to dst and, when it is
// not null, to dst2. dst and dst2 may each equal a source exactly; any other overlap is a caller's error. Buffers need
// no alignment. Nothing is allocated, locked or remembered: any thread may call, at any time.
//
// Arithmetic
// - 8- and 16-bit floats are widened to float32, combined over all sources, and rounded once (see float_formats.h for
//   the rounding and for what overflow becomes). float32 and float64 compute in themselves.
// - Floats round to nearest even, keep subnormal numbers and trap nothing, whatever mode the calling thread is in
//   (sdk/float_mode.h); its mode is as it was afterwards.
// - Integers wrap modulo 2^n.
// - MAX and MIN of floats: a NaN wins, -0 is less than +0, so the result does not depend on the order of the sources.
//   Infinities survive in every format that has them. The NaN returned is canonical (all ones below the sign).
// - A NaN out of a sum or product has unspecified sign and payload. All other results are the same bits on every
//   instruction set.
// - AVG is the sum, then, under SL_REDUCE_FINAL, floats times 1/world in the accumulator's type, integers divided by
//   world truncating toward zero. Without that flag, floats multiply the contributions named by premul_mask by 1/world
//   instead: partial sums that travel in a narrow type then cannot overflow. A world of 0 counts as 1.
// - PREMUL_SUM multiplies the sources named by premul_mask by the scalar, in the accumulator's type.
// - SUM, PROD, MAX and MIN use of `scale` only the hint; for the other two a null `scale` means a plain sum.
// - One source, unscaled, is copied bit for bit.
// - SL_REDUCE_STREAM_STORES stores dst (not dst2) past the caches. Measured with two float32 sources on a CPU with 32
// MiB
//   of last-level cache, GB/s of output: 64 MiB 21.7 against 14.7; it gains nothing when dst is a source.
#ifndef STARLING_MODULES_DEVICE_HOST_REDUCE_H_
#define STARLING_MODULES_DEVICE_HOST_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "sdk/datatype.h"
#include "sl_base.h"
#include "sl_device.h"

namespace sl::device_host {

// The kernel for this CPU; null when the type or the operation is none of the ABI's.
sl_reduce_fn FindReduce(sl_datatype_t datatype, sl_reduction_t reduction);

// For tests: the instruction sets both compiled in and supported by this CPU, best first. `set` counts from 0; past the
// last one, the name and the kernel are null.
const char* InstructionSetName(size_t set);
sl_reduce_fn FindReduceFor(size_t set, sl_datatype_t datatype, sl_reduction_t reduction);

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_REDUCE_H_
