// SPDX-License-Identifier: Apache-2.0
//
// Where a group of sends and receives may be cut into several launches, which run one after the other.
//
// Every message has a step, which both of its ends compute alike: from how many went before it between the two ranks,
// and from how far apart these are. A rank's launches take its transfers by steps, and a step whole: one send and one
// receive at most, and what it sends itself.
//
// Then ranks need not cut alike, nor know what others hold, or how much a launch takes there. Of the messages that are
// not done, look at one of the least step. All that the earlier launches of its ends hold, and what goes before it in
// its queue, is of lesser steps, hence done. So both ends have begun the launch that holds it, their queues have come
// to it, and it goes on: no cycle of waits.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

class TransferSteps {
 public:
  // Of a rank's sends and receives in the order of their calls, none of them empty; the n-th send to itself belongs to
  // the n-th receive.
  TransferSteps(const std::pmr::vector<sl_op_t>& ops, uint32_t rank, uint32_t size);

  // By steps; calls of a step keep their order.
  const sl_op_t* ops() const { return ops_.data(); }
  uint32_t count() const { return static_cast<uint32_t>(ops_.size()); }
  // The end of a launch from `begin` on of at most `most` transfers, or of one step if that is more.
  uint32_t Cut(uint32_t begin, uint32_t most) const;

 private:
  std::pmr::vector<sl_op_t> ops_;
  std::pmr::vector<uint64_t> steps_;  // of each
};

}  // namespace sl::kernel
