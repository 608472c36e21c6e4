// SPDX-License-Identifier: Apache-2.0
//
// What ncclWindow_t points to here: not device memory as with NCCL, so the device API cannot read it, and refuses.
#pragma once

#include <cstdint>

#include "modules/frontend-nccl/comm.h"
#include "nccl.h"
#include "sl_runtime.h"

namespace sl::frontend_nccl {

// Registers the buffer with the kernel on all ranks and makes the handle. In api_memory.cc.
ncclResult_t RegisterWindow(const char* function, ncclComm* comm, void* memory, uint64_t bytes, uint32_t flags,
                            ncclWindow_t* out_window);
// The kernel's window behind a handle of the communicator; NULL with the last error set. In api_memory.cc.
sl_comm_window_t* KernelWindow(const char* function, ncclComm* comm, ncclWindow_t window);
// Frees the handle alone; the communicator, which owned the window, is gone.
void ForgetWindow(ncclWindow_t window) noexcept;

}  // namespace sl::frontend_nccl
