// SPDX-License-Identifier: Apache-2.0
//
// What a plan takes, by the α–β model: every hop a chunk makes in sequence costs a latency, every byte that a rank has
// to move costs a time. The defaults were chosen for shared memory on a server core; set the options where they differ.
#pragma once

#include <cstdint>

#include "pieces.h"
#include "sl_algorithm.h"

namespace sl::algo_ring {

struct CostOptions {
  uint64_t latency_ns = 700;                          // one hop within a host
  uint64_t bytes_per_second = 6'000'000'000;          // through one link within a host, copies and reduction included
  uint64_t network_latency_ns = 20'000;               // one hop between hosts
  uint64_t network_bytes_per_second = 3'000'000'000;  // of one host
  uint32_t direct_ranks = 32;  // largest communicator whose ranks all connect to each other for one operation
};

// Handling one chunk, at either end, apart from its latency and bytes: about what the engine takes.
constexpr uint64_t kMessageNs = 150;

// What the slowest rank does.
struct Work {
  uint64_t hops;      // one after the other
  uint64_t messages;  // that one rank sends or receives, whichever are more
  double bytes;       // through one rank
  bool all_pairs;     // every rank talks to every other, so all ranks of a host share its network
};

class CostModel {
 public:
  CostModel(const Shape& shape, const CostOptions& options);

  uint64_t Time(const Work& work) const;
  uint64_t hop_ns() const { return hop_ns_; }

 private:
  uint64_t hop_ns_;
  double ns_per_byte_;
  double ns_per_byte_all_pairs_;
};

}  // namespace sl::algo_ring
