// SPDX-License-Identifier: Apache-2.0
//
// The last line of argument checks: what would corrupt memory or hang, whatever front end called.
#pragma once

#include "kernel/comm/comm.h"

namespace sl::kernel {

// What is wrong with the arguments of `op` on this communicator, or SL_OK.
Status CheckOp(const Communicator& comm, const sl_op_t& op);
// The same without the buffers, for those who only ask.
Status CheckOpArguments(const Communicator& comm, const sl_op_t& op);

}  // namespace sl::kernel
