// SPDX-License-Identifier: Apache-2.0
//
// The scalar of SL_PREMUL_SUM where it lies in device memory, which belongs to the operation's place in its stream:
// work before it may still write the scalar, work behind it may change it.
#pragma once

#include <cstring>

#include "sdk/datatype.h"
#include "sl_algorithm.h"

namespace sl::kernel {

// Reads the scalar, which the CPU reaches, into the operation. Not before the stream has come to the operation.
inline void TakeScalar(sl_op_t* op) {
  op->scalar_bits = 0;
  std::memcpy(&op->scalar_bits, op->scalar, DatatypeBytes(op->datatype));
  op->scalar = nullptr;
}

}  // namespace sl::kernel
