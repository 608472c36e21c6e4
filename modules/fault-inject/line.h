// SPDX-License-Identifier: Apache-2.0
//
// The line of one direction of a connection: puts that have been sent and have not arrived. It holds any number of
// bytes, so that a link of a thousand kilometres can be had at full rate; what bounds it is who sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "modules/fault-inject/settings.h"
#include "sl_transport.h"

namespace sl::fault_inject {

class Line {
 public:
  struct Held {
    sl_put_t put;
    std::vector<uint8_t> bytes;  // a copy of the source, unless it stands in registered memory
    uint64_t due_ns;
    bool yields;  // the next put without a signal overtakes it
  };

  // Takes a put in at the end, sent now: it arrives after what is before it, at the rate and in the time of `settings`;
  // at once where there is neither. `flip_bit` < 0: as it is; else that bit of it is wrong. Registered memory is not
  // copied, since its owner leaves it alone until the completion, and is not flipped, since it is its owner's. Where
  // there is no memory for it, it throws and nothing has changed.
  void Append(const sl_put_t& put, const Settings& settings, uint64_t now_ns, int64_t flip_bit, bool yields);

  bool empty() const { return held_.empty(); }
  Held& front() { return held_.front(); }
  void PopFront() noexcept;

  // A copy, in a buffer that nobody reads any more where there is one; and where such buffers go.
  std::vector<uint8_t> Copy(const void* source, uint64_t bytes);
  void Recycle(std::vector<uint8_t> bytes) noexcept;

 private:
  // Takes the line for so many bytes; when they arrive.
  uint64_t Send(const Settings& settings, uint64_t now_ns, uint64_t bytes) noexcept;

  std::deque<Held> held_;
  std::vector<std::vector<uint8_t>> spare_;  // buffers to be used again: mapping fresh ones costs more than copying
  uint64_t free_at_ns_ = 0;                  // when the sender's end can take the next put
  uint64_t last_due_ns_ = 0;                 // arrivals keep their order when the delay shrinks
};

}  // namespace sl::fault_inject
