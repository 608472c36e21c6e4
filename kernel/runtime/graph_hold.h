// SPDX-License-Identifier: Apache-2.0
//
// Captured graphs go on using a communicator's memory after the program has destroyed it: they hold it, and the last
// one to go frees it. A launch of such a graph does no harm; what it computes is right as long as every rank's lives.
#pragma once

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// The capture that `stream` is in, met for the first time as the communicator's of that number, holds the communicator
// until its graph is gone.   [data]
Status HoldByGraph(sl_comm_t* handle, uint64_t capture, sl_stream_t* stream);
// The program's part is over: frees the communicator, or leaves that to the last graph. What is freed of a device whose
// launches nobody watches is freed aside (late_free.h), and waited for until the deadline at most.   [control]
void Drop(sl_comm_t* handle, uint64_t deadline_ns);
// The same of one whose work has not ended in time: once it has. Memory of which nobody can say so is kept.   [control]
void DropWhenItStops(sl_comm_t* handle);

}  // namespace sl::kernel
