// SPDX-License-Identifier: Apache-2.0
//
// What a waiting operation finds out about why it waits. Slow path: every few milliseconds of waiting.
#pragma once

#include "kernel/runtime/pending.h"
#include "sl_device.h"

namespace sl::kernel {

// SL_ERR_MISMATCH with both sides' arguments when a rank of this host called something else, by the log of the last
// calls. Not every mismatch makes somebody wait: a small broadcast whose roots differ only leaves wrong results. Asked
// again, it looks at what was called since.
Status FindMismatch(sl_comm_t* handle);

// `found`, with the rank that was lost or has failed. A link may notice an end before the control plane does, and it
// only knows its neighbour, who may have left because of another one; so the control plane gets a moment to tell. Slow
// path.
Status NameTheLost(const Pending& pending, const Status& found);

// Called while a launch waits (sl_launch_t::check): decides whether waiting still makes sense.
sl_status_t CheckWait(void* pending, const sl_wait_t* wait, uint64_t waited_ns);

}  // namespace sl::kernel
