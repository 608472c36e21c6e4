// SPDX-License-Identifier: Apache-2.0
//
// The operations by way of which another one is served, as an algorithm lists them (SL_RUN_SEQUENCE), checked.
#pragma once

#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::kernel {

// Asks the algorithm.   returns: SL_ERR_INTERNAL it lists what it may not | what parts() returned
Result<std::vector<sl_part_t>> ListParts(const sl_algorithm_ops_t& ops, sl_algorithm_t* algorithm, const sl_op_t& op,
                                         const sl_comm_shape_t& shape);

// What is wrong with a part, or NULL. Of `op` its kind, type, count, root and symmetric are looked at.
const char* WrongPart(const sl_part_t& part, const sl_op_t& op, uint32_t rank, uint32_t size);

// The part as an operation of its own: what it does not state is as in `op`, whose buffers it lies in. seq and
// signature, too; of the call's settings the bounds.
sl_op_t PartOp(const sl_part_t& part, const sl_op_t& op);

}  // namespace sl::kernel
