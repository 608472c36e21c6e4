// SPDX-License-Identifier: Apache-2.0
//
// What streams do without a kernel: write words, wait for them, and copy; of one stream, in its order.
#pragma once

#include <vector>

#include "kernel/comm/process.h"
#include "kernel/events/last_error.h"

namespace sl::kernel {

// Words that a stream writes and waits for, one after the other.
class StreamValues {
 public:
  // All that the stream has done before is seen by who sees the value.
  void Write(uint64_t* word, uint64_t value) { values_.push_back({word, value, SL_VALUE_WRITE, 0}); }
  void AwaitAtLeast(uint64_t* word, uint64_t value) { values_.push_back({word, value, SL_VALUE_WAIT, 0}); }

  const std::vector<sl_stream_value_t>& all() const { return values_; }

 private:
  std::vector<sl_stream_value_t> values_;
};

class StreamCalls {
 public:
  StreamCalls(const Device& device, sl_stream_t* stream) : device_(device), stream_(stream) {}

  Status Issue(const StreamValues& values) const {
    const std::vector<sl_stream_value_t>& all = values.all();
    if (all.empty()) return {};
    const sl_status_t status =
        device_.ops->stream_batch_values(device_.handle, stream_, static_cast<uint32_t>(all.size()), all.data());
    if (status != SL_ERR_UNSUPPORTED) return StatusOf(status);
    ClearLastError();
    return IssueEach(all);
  }
  Status Copy(void* to, const void* from, uint64_t bytes) const {
    return StatusOf(device_.ops->copy(device_.handle, stream_, to, from, bytes));
  }
  // Goes on when what was issued to `other` so far is done. `event` is used at once.
  Status Await(sl_stream_t* other, sl_event_t* event) const {
    SL_TRY(StatusOf(device_.ops->event_record(device_.handle, event, other)));
    return StatusOf(device_.ops->stream_wait_event(device_.handle, stream_, event));
  }

 private:
  // Of a device of revision 1.
  Status IssueEach(const std::vector<sl_stream_value_t>& values) const {
    for (const auto& [word, value, action, reserved] : values) {
      const auto issue = action == SL_VALUE_WRITE ? device_.ops->stream_write_value : device_.ops->stream_wait_value;
      SL_TRY(StatusOf(issue(device_.handle, stream_, word, value)));
    }
    return {};
  }

  const Device& device_;
  sl_stream_t* const stream_;
};

}  // namespace sl::kernel
