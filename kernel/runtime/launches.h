// SPDX-License-Identifier: Apache-2.0
//
// What issuing operations needs of a communicator's device, from the beginning to the end; and which launches may still
// run there that nobody watches.
#pragma once

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// Loads the engine's kernel and the event that orders streams. Once, when the communicator is ready.
Status PrepareToIssue(sl_comm_t* handle);
void StopIssuing(sl_comm_t* handle);
// Whether eager launches may still run that nobody watches.   [any]
bool LaunchesMayRun(const sl_comm_t& handle);
// The process forgets that launches of it may run: who frees memory does not wait for them.   [control]
void LeaveRoll(sl_comm_t* handle);
// Until the eager launches that nobody watches have ended, at most until the deadline; true when they have.
bool AwaitLaunches(sl_comm_t* handle, uint64_t deadline_ns);

}  // namespace sl::kernel
