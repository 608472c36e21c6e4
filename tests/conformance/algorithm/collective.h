// SPDX-License-Identifier: Apache-2.0
//
// One call of an operation with its buffers: filled from an oracle, and checked against it to the last byte, with what
// lies around the buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sl_algorithm.h"
#include "tools/starling/bench_oracle.h"

namespace sl::conform::algorithm {

struct Call {
  sl_op_kind_t kind = SL_OP_ALL_REDUCE;
  sl_datatype_t datatype = SL_FLOAT32;
  sl_reduction_t reduction = SL_SUM;
  uint64_t count = 0;
  int32_t root = -1;
  bool in_place = false;
  uint32_t shift = 0;  // elements that the buffers are away from a page's start: alignment

  std::string ToString(uint32_t ranks) const;
};

// Elements of rank `rank`'s buffers; 0 where it takes no part.
uint64_t SendCount(const Call& call, uint32_t rank, uint32_t ranks);
uint64_t RecvCount(const Call& call, uint32_t rank, uint32_t ranks);

// What all ranks of a call compare with: complete before it is shared, then read by all of them.
std::unique_ptr<tools::Oracle> MakeOracle(const Call& call, uint32_t ranks, uint64_t seed);

// Memory for one rank's calls, kept from one to the next.
class CallBuffers {
 public:
  // Lays the buffers out, fills the input, and everything else with a pattern. The result can be issued.
  sl_op_t Prepare(const Call& call, uint32_t rank, uint32_t ranks, tools::Oracle* oracle);
  // "" when the result is right and nothing else changed; else what is wrong.
  std::string Check(tools::Oracle* oracle) const;
  // The result's bytes.
  std::string Result() const;

 private:
  std::string CheckResult(tools::Oracle* oracle) const;
  bool IsUntouched(const uint8_t* begin, const uint8_t* end) const;
  uint8_t* Place(std::vector<uint8_t>* memory, uint64_t bytes) const;

  Call call_;
  uint32_t rank_ = 0;
  uint32_t ranks_ = 0;
  std::vector<uint8_t> send_memory_;
  std::vector<uint8_t> recv_memory_;
  uint8_t* send_ = nullptr;
  uint8_t* recv_ = nullptr;
  uint64_t send_bytes_ = 0;
  uint64_t recv_bytes_ = 0;
};

}  // namespace sl::conform::algorithm
