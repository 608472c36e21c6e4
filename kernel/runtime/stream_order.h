// SPDX-License-Identifier: Apache-2.0
//
// Operations of a communicator run in the order of their issue, whatever their streams: a stream goes on after what was
// issued before, and the end of what it got can be waited for.
#pragma once

#include <cstdint>

#include "sdk/status.h"
#include "sl_device.h"

struct sl_comm_t;

namespace sl::kernel {

struct Device;

// The eager operations, or those of one capture. These are apart: they run when their graph is launched.
struct IssueOrder {
  uint64_t capture = 0;           // 0: of eager operations; else the communicator's how-manieth capture
  uint64_t capture_id = 0;        // the device's name for it
  sl_stream_t* stream = nullptr;  // of the newest operation
  uint64_t stream_id = 0;         // the device's for it; 0: unknown
  bool begun = false;
};

// SL_ERR_INVALID with the remedy when the device is the host and `stream` is not one of its streams. Before anything of
// the operation has begun: its number must not be lost.
Status CheckStream(const sl_comm_t* handle, sl_stream_t* stream);
// Whether the stream is in a capture, and in which; else the stream's id, 0: unknown.
Result<bool> IsCaptured(const Device& device, sl_stream_t* stream, uint64_t* out_id);
// The eager operations, or those of the capture that `stream` is in: it goes on after what was issued of them so far.
Result<IssueOrder*> JoinOrder(sl_comm_t* handle, sl_stream_t* stream);
// The end of what this order has issued to `stream` can be waited for from now on, whatever becomes of the stream.
// Nothing to do where the end of a launch is known. When it cannot be marked, the communicator fails and its launches
// are ended; of those that do not end soon it keeps the memory.
Status MarkEnd(sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream);
// `issued`, and where that failed half-way the same for what the device has got of it.
Status MarkEndOf(const Status& issued, sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream);

}  // namespace sl::kernel
