// SPDX-License-Identifier: Apache-2.0
// One rank of a measurement: its communicator, its two buffers, and the operation under test called on them.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "tools/starling/bench_options.h"
#include "tools/starling/bench_types.h"
#include "tools/starling/nccl_api.h"

namespace sl::tools {

// A buffer of host memory, made known to the library as -R asks.
struct RankBuffer {
  char* base = nullptr;  // as allocated
  char* data = nullptr;  // base, or a little behind it
  size_t bytes = 0;
  void* registration = nullptr;
  NcclWindow window = nullptr;
};

// What one call needs beside the rank: the same on all ranks.
struct Call {
  Collective collective;
  Shape shape;
  DataType type;
  RedOp op;
  int root;
  bool in_place;
};

class Rank {
 public:
  Rank(const NcclApi& api, int rank, int ranks) : api_(api), rank_(rank), ranks_(ranks) {}

  // Creates the communicator; with several ranks per thread call it inside a group.
  void Init(const NcclUniqueId& id);
  // Allocates both buffers, from ncclMemAlloc or the heap.
  void Allocate(size_t bytes, bool from_library);
  // Makes the buffers known as -R asks. Collective for windows: grouped like Init.
  void Register(int local_register);
  // Moves both buffers' data so many bytes into the allocation (-u).
  void Shift(size_t bytes);
  // Frees everything. A rank that failed is left to the end of the process instead: a call might never return.
  void Close();

  // Enters one operation. Throws CommandError when the library refuses it.
  void Run(const Call& call);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  NcclComm comm() const { return comm_; }
  char* SendBuffer(const Call& call) const;
  char* RecvBuffer(const Call& call) const;
  RankBuffer& send() { return send_; }
  RankBuffer& recv() { return recv_; }

 private:
  int RunGrouped(const Call& call, const char* send, char* recv);
  int OpNumber(RedOp op, DataType type);
  void AllocateOne(RankBuffer& buffer, size_t bytes);
  void CloseOne(RankBuffer& buffer);

  const NcclApi& api_;
  const int rank_;
  const int ranks_;
  NcclComm comm_ = nullptr;
  RankBuffer send_;
  RankBuffer recv_;
  std::map<DataType, int> mulsum_;  // operators made for this communicator
  bool from_library_ = false;       // buffers came from ncclMemAlloc
};

}  // namespace sl::tools
