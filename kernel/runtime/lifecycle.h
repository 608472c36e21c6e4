// SPDX-License-Identifier: Apache-2.0
//
// Communicators from create to destroy, as sl_runtime_ops_t says. lifecycle.cc: one by itself; reshape.cc: one out of
// another; pause.cc: one that stops working.
#pragma once

#include <span>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// What `config` asks for; where it is NULL, `otherwise`.   returns: it | SL_ERR_INVALID
Result<ProcessorBounds> BoundsOf(const sl_comm_config_t* config, const ProcessorBounds& otherwise);
// Where the caller marks its calls; NULL: nowhere.
uint32_t* CallMarkOf(const sl_comm_config_t* config);
Status MakeId(sl_unique_id_t* out_id);
Status CreateComm(const sl_comm_config_t& config, sl_comm_t** out_comm);
Status SplitComm(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config, sl_comm_t** out_comm);
Status ShrinkComm(sl_comm_t* parent, std::span<const uint32_t> excluded, uint32_t flags, const sl_comm_config_t* config,
                  sl_comm_t** out_comm);
Status GrowComm(sl_comm_t* parent, uint32_t size, const sl_unique_id_t* id, const sl_comm_config_t* config,
                sl_comm_t** out_comm);
Status DeclineCall(sl_comm_t* handle, sl_call_t call);
Status RevokeComm(sl_comm_t* handle);
Status SuspendComm(sl_comm_t* handle);
Status ResumeComm(sl_comm_t* handle);
// SL_OK, SL_IN_PROGRESS, or the communicator's error.
Status CommState(sl_comm_t* handle);
Status WaitComm(sl_comm_t* handle, uint64_t deadline_ns);
Status FinalizeComm(sl_comm_t* handle);
Status DestroyComm(sl_comm_t* handle);
Status AbortComm(sl_comm_t* handle);

}  // namespace sl::kernel
