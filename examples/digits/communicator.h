// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "launch.h"
#include "nccl.h"

namespace digits {

// Everything that this program asks of NCCL. Each call is made by every rank, in the same order with the same sizes, on
// ordinary host memory; it returns when the result is there. A failed call throws std::runtime_error.
class Communicator {
 public:
  // Connects the ranks of `world`; returns when all of them have come.
  explicit Communicator(World& world);

  // Aborts, so that an exception on this rank never leaves the others waiting, unless Close() came first.
  ~Communicator();

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Copies rank 0's values to every rank.
  void Broadcast(std::span<float> values);

  // Replaces the values on every rank by their sums over all ranks.
  void Sum(std::span<float> values);
  void Sum(int64_t& count);

  // The same for two numbers of different types, as one group: NCCL may let the two sums travel together.
  void Sum(double& value, int64_t& count);

  // Parts from the other ranks in good order.
  void Close();

 private:
  // Throws, saying that `call` failed and why, unless `result` is good.
  void Check(ncclResult_t result, const char* call) const;

  const int rank_;
  const int size_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace digits
