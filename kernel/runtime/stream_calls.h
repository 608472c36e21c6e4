// SPDX-License-Identifier: Apache-2.0
//
// What streams do without a kernel: write words, wait for them, and copy; of one stream, in its order.
#pragma once

#include "kernel/comm/process.h"
#include "kernel/events/last_error.h"

namespace sl::kernel {

class StreamCalls {
 public:
  StreamCalls(const Device& device, sl_stream_t* stream) : device_(device), stream_(stream) {}

  // All that the stream has done before is seen by who sees the value.
  Status Write(uint64_t* word, uint64_t value) const {
    return StatusOf(device_.ops->stream_write_value(device_.handle, stream_, word, value));
  }
  Status AwaitAtLeast(uint64_t* word, uint64_t value) const {
    return StatusOf(device_.ops->stream_wait_value(device_.handle, stream_, word, value));
  }
  Status Copy(void* to, const void* from, uint64_t bytes) const {
    return StatusOf(device_.ops->copy(device_.handle, stream_, to, from, bytes));
  }
  // Goes on when what was issued to `other` so far is done. `event` is used at once.
  Status Await(sl_stream_t* other, sl_event_t* event) const {
    SL_TRY(StatusOf(device_.ops->event_record(device_.handle, event, other)));
    return StatusOf(device_.ops->stream_wait_event(device_.handle, stream_, event));
  }

  static Status StatusOf(sl_status_t status) { return status == SL_OK ? Status() : Status(status, LastError()); }

 private:
  const Device& device_;
  sl_stream_t* const stream_;
};

}  // namespace sl::kernel
