// SPDX-License-Identifier: Apache-2.0
//
// A host device for tests that can do nothing but reduce, plainly: one element at a time, in double or 64-bit integers,
// rounded once to the format.
#pragma once

#include <cstdint>

#include "sl_device.h"

namespace sl::kernel {

// A table whose info() and reduce_function() work with any device pointer.
const sl_device_ops_t* ReferenceDeviceOps();

// The same, as plain functions of elements. Integers travel as exact int64 (uint64 modulo 2^64).
double ReadElement(const void* buffer, uint64_t index, sl_datatype_t datatype);
void WriteElement(void* buffer, uint64_t index, sl_datatype_t datatype, double value);

// The bits of `value` in a format, for premul scalars.
uint64_t ScalarBits(sl_datatype_t datatype, double value);

// Half a unit in the last place relative to the value, 0 for integers.
double Precision(sl_datatype_t datatype);

}  // namespace sl::kernel
