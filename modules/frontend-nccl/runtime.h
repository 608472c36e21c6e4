// SPDX-License-Identifier: Apache-2.0
//
// The way to the kernel: the table of sl_runtime.h, asked for at the first call that needs it.
#pragma once

#include <atomic>

#include "nccl.h"
#include "sl_runtime.h"

namespace sl::frontend_nccl {

// The table once it is known; NULL before. Written once, by AskForRuntime().
extern constinit std::atomic<const sl_runtime_ops_t*> g_runtime;

// The table; at the first call asks libstarling.so for it. NULL, with the last error set, when that is too old.
const sl_runtime_ops_t* AskForRuntime() noexcept;

inline const sl_runtime_ops_t* Runtime() noexcept {
  const sl_runtime_ops_t* ops = g_runtime.load(std::memory_order_acquire);
  return ops != nullptr ? ops : AskForRuntime();
}

// The table where the caller holds a live communicator, and so the table is known.
inline const sl_runtime_ops_t& LoadedRuntime() noexcept { return *g_runtime.load(std::memory_order_relaxed); }

// What every call that makes something does first: finds the kernel and, once per process, says in the log which
// library this is and which NCCL variables are set in vain. ncclInternalError when there is no kernel to be had.
ncclResult_t EnsureRuntime() noexcept;

// One line through the kernel's log; nothing while the kernel has not been needed yet.
void Log(sl_log_level_t level, const char* text) noexcept;

}  // namespace sl::frontend_nccl
