// SPDX-License-Identifier: Apache-2.0
//
// ncclCollConfig_t: what a program wants of one collective call. Read as far as the caller's size and version say,
// checked, and told to the kernel, which gives it a number.
#pragma once

#include <cstdint>
#include <string>

#include "modules/frontend-nccl/comm.h"
#include "nccl.h"
#include "sl_runtime.h"

namespace sl::frontend_nccl {

// What an operation carries of it. All zero: a plain one.
struct CallConfig {
  uint32_t settings = 0;           // sl_op_t::settings
  uint64_t tag = 0;                // sl_group_entry_t::tag
  sl_event_t* launched = nullptr;  // and launched
  bool is_forced = false;          // it names algorithms, and nothing else will do
};

// `comm` is ready and pinned.
// returns: ncclSuccess | ncclInvalidArgument with the field, its value and what it must be in the last error text
ncclResult_t ReadCallConfig(const char* function, const ncclCollConfig_t& user, ncclComm* comm, CallConfig* out);

// NCCL's names of algorithms beside those of ours that mean the same: "ring_simple" becomes "ring_simple|ring". What
// joins them stays.
std::string WaysOfSelection(const char* selection);

}  // namespace sl::frontend_nccl
