// SPDX-License-Identifier: Apache-2.0
//
// User memory: shareable allocations, registrations, windows.
#pragma once

#include "kernel/runtime/handle.h"

namespace sl::kernel {

Status AllocateMemory(int32_t device_kind, uint64_t bytes, void** out_memory);
Status ReleaseMemory(void* memory);
Status RegisterMemory(sl_comm_t* comm, void* memory, uint64_t bytes, sl_registration_t** out_registration);
Status DeregisterMemory(sl_comm_t* comm, sl_registration_t* registration);
// Collective: all ranks register a buffer of the same size with the same flags.
Status RegisterWindow(sl_comm_t* comm, void* memory, uint64_t bytes, uint32_t flags, sl_comm_window_t** out_window);
Status DeregisterWindow(sl_comm_t* comm, sl_comm_window_t* window);

}  // namespace sl::kernel
