// SPDX-License-Identifier: Apache-2.0
#ifndef STARLING_MODULES_DEVICE_HOST_BATCH_H_
#define STARLING_MODULES_DEVICE_HOST_BATCH_H_

#include <cstdint>
#include <mutex>

#include "modules/device-host/launch.h"
#include "modules/device-host/stream.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::device_host {

// Launches a group: those on the default stream (null) run on the caller, all together; those on one other stream
// become one item of it. Launches of equal chain run one after the other in the order of the batch, also across
// streams. Every launch was checked (FindKernel). `queueing` is held while the items are queued.
// Returns the first failure, in the order of the batch, of those on the default stream.
Result<sl_status_t> LaunchBatch(uint32_t count, sl_stream_t* const* streams, const sl_launch_t* const* launches,
                                const Tuning& tuning, Counters* counters, std::mutex* queueing);

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_BATCH_H_
