// SPDX-License-Identifier: Apache-2.0
//
// The copies of one rank in one operation, as an algorithm lists them (SL_RUN_COPIES), checked.
#pragma once

#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::kernel {

struct CopyList {
  std::vector<sl_copy_t> copies;  // phase after phase
  uint32_t phases = 1;            // of the operation, on all ranks
};

// Asks the algorithm.   returns: SL_ERR_INTERNAL it lists what it may not | what copies() returned
Result<CopyList> ListCopies(const sl_algorithm_ops_t& ops, sl_algorithm_t* algorithm, const sl_op_t& op,
                            const sl_comm_shape_t& shape);

// What is wrong with a copy of rank `rank`, or NULL. Of `op` its kind, type, count, root and symmetric are looked at.
const char* WrongCopy(const sl_copy_t& copy, const sl_op_t& op, uint32_t rank, uint32_t size);

}  // namespace sl::kernel
