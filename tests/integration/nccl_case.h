// SPDX-License-Identifier: Apache-2.0
//
// One collective as nccl.h takes it, with buffers whose every element is known in advance, and the oracle that says
// what must come out. Contributions are small whole numbers that every data type holds exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nccl.h"

namespace sl::integration {

enum class Kind : uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kCount
};

// Beside ncclRedOp_t's own: a premul-sum operator made for the call.
constexpr int kPremulSum = 100;

struct NcclCase {
  Kind kind = Kind::kAllReduce;
  ncclDataType_t type = ncclFloat32;
  int reduction = ncclSum;
  size_t count = 1;
  int root = 0;
  bool in_place = false;
  uint32_t salt = 0;  // other salt, other contributions

  bool reduces() const;
  bool has_root() const;
  std::string ToString() const;
};

size_t TypeBytes(ncclDataType_t type);
double ReadElement(const void* memory, size_t index, ncclDataType_t type);
void WriteElement(void* memory, size_t index, ncclDataType_t type, double value);
// The scalar that `rank` multiplies with.
double PremulScalar(int rank);

// The buffers of one rank, between canaries.
class NcclBuffers {
 public:
  NcclBuffers(const NcclCase& test, int rank, int size);

  // For tests on devices: the memory as it lies here, guards included (`send_memory` is empty in place), and the copies
  // of it that Issue names instead from now on. Check looks at what lies here.
  std::vector<uint8_t>& send_memory() { return send_memory_; }
  std::vector<uint8_t>& recv_memory() { return recv_memory_; }
  void UseCopies(uint8_t* send_memory, uint8_t* recv_memory);

  // Issues the case; outside a group with a NULL stream it is complete on return.
  ncclResult_t Issue(ncclComm_t comm, cudaStream_t stream);
  // "" when every element is right and nothing else was written.
  std::string Check() const;
  // Of the received elements: equal sums, equal bits.
  uint64_t Hash() const;

 private:
  ncclResult_t IssueReduction(ncclComm_t comm, ncclRedOp_t op, cudaStream_t stream);

  NcclCase test_;
  int rank_;
  int size_;
  std::vector<uint8_t> send_memory_;  // empty in place
  std::vector<uint8_t> recv_memory_;
  uint8_t* send_ = nullptr;
  uint8_t* recv_ = nullptr;
  uint8_t* given_send_ = nullptr;  // what Issue names
  uint8_t* given_recv_ = nullptr;
};

}  // namespace sl::integration
