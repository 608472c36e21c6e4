// SPDX-License-Identifier: Apache-2.0
//
// Communicators from create to destroy, blocking or not. A non-blocking call runs on the communicator's own worker
// thread, which exists only while it has work.
#pragma once

#include <span>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

Status MakeId(sl_unique_id_t* out_id);
Status CreateComm(const sl_comm_config_t& config, sl_comm_t** out_comm);
Status SplitComm(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config, sl_comm_t** out_comm);
Status ShrinkComm(sl_comm_t* parent, std::span<const uint32_t> excluded, uint32_t flags, const sl_comm_config_t* config,
                  sl_comm_t** out_comm);
// SL_OK, SL_IN_PROGRESS, or the communicator's error.
Status CommState(sl_comm_t* handle);
Status WaitComm(sl_comm_t* handle, uint64_t deadline_ns);
Status FinalizeComm(sl_comm_t* handle);
Status DestroyComm(sl_comm_t* handle);
Status AbortComm(sl_comm_t* handle);

}  // namespace sl::kernel
