// SPDX-License-Identifier: Apache-2.0
//
// What a plan takes, by the α–β model: every hop a chunk makes in sequence costs a latency, every message and every
// byte that a rank has to handle costs a time.
#pragma once

#include <cstdint>

#include "pieces.h"
#include "sdk/link_cost.h"
#include "sl_algorithm.h"

namespace sl::algo_ring {

struct CostOptions {
  LinkCost link;
  uint32_t direct_ranks = 32;  // largest communicator whose ranks all connect to each other for one operation
};

// What the slowest rank does.
struct Work {
  uint64_t hops;      // one after the other
  uint64_t messages;  // that one rank sends or receives, whichever are more
  double bytes;       // through one rank
  bool all_pairs;     // every rank talks to every other, so all ranks of a host share its network
};

class CostModel {
 public:
  CostModel(const Shape& shape, const LinkCost& cost);

  uint64_t Time(const Work& work) const;
  uint64_t hop_ns() const { return hop_ns_; }

 private:
  uint64_t hop_ns_;
  uint64_t message_ns_;
  uint64_t message_ns_all_pairs_;
  double ns_per_byte_;
  double ns_per_byte_all_pairs_;
};

}  // namespace sl::algo_ring
