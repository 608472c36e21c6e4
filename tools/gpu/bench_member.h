// SPDX-License-Identifier: Apache-2.0
// One GPU of a comparison: its thread's stream, the buffers that all libraries share, a communicator of each library.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tools/gpu/bench_point.h"
#include "tools/gpu/cuda_api.h"
#include "tools/starling/nccl_api.h"

namespace sl::bench {

// Where threads meet; spins, since what follows is timed.
class Meeting {
 public:
  explicit Meeting(int members) : members_(members) {}
  void Wait();

 private:
  const int members_;
  std::atomic<int> waiting_{0};
  std::atomic<int> turn_{0};
};

class Member {
 public:
  // On its own thread, with the GPU of this rank current. `libraries` outlive it. `more_elements`: of every rank's part
  // than points say.
  Member(const std::vector<tools::NcclApi>& libraries, int rank, int ranks, tools::DataType type, tools::RedOp op,
         size_t max_bytes, int more_elements = 0);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Instead of those that are open, a communicator of each library, which is asked for `ctas` blocks a kernel. `ids`,
  // one of each library, were not used before. Collective; Use() comes next.
  void Open(const std::vector<tools::NcclUniqueId>& ids, std::optional<int> ctas);
  // False: it has refused so many blocks, on all ranks alike.
  bool Serves(size_t library, const Point& point) const {
    return sides_[library].comm != nullptr && (point.ctas != 0 || point.MayHoldNoSms());
  }
  // Makes the buffers of all libraries such as `memory` says. Collective.
  void Use(Memory memory);
  // Microseconds of an operation of `library` on this GPU. Collective over `meeting`.
  double Measure(size_t library, const Point& point, Meeting* meeting);
  // Runs the operation once on known input; what a library leaves in the receive buffer, in part, if that is long.
  // Inputs are small integers, so that every order of addition gives the same bits. Collective over `meeting`.
  std::vector<uint8_t> Result(size_t library, const Point& point, Meeting* meeting);

 private:
  struct Side {  // of one library
    tools::NcclComm comm = nullptr;
    void* registered[2] = {};
    tools::NcclWindow window[2] = {};
    uint8_t* symmetric[2] = {};  // of ncclMemAlloc
  };

  int Init(size_t library, const tools::NcclUniqueId& id, std::optional<int> ctas);
  void Release(size_t library);
  tools::Shape ShapeOf(const Point& point) const;
  // Bytes that one rank sends another in an uneven all-to-all.
  size_t UnevenBytesOf(const Point& point, int from, int to) const;
  // The operation that comes after `turn` others.
  void Run(size_t library, const Point& point, int turn);
  int RunUneven(const tools::NcclApi& api, tools::NcclComm comm, const Point& point, const uint8_t* send,
                uint8_t* recv);
  void Await(size_t library, const Point& point);
  // The buffer that is sent (0) or received into (1) unless they have changed roles.
  uint8_t* buffer(size_t library, int which) const;
  // The known input, from the start of the buffer that is sent.
  void Fill(uint8_t* to, size_t bytes) const;

  const std::vector<tools::NcclApi>& libraries_;
  const int rank_;
  const int ranks_;
  const tools::DataType type_;
  const tools::RedOp op_;
  const size_t more_;   // elements of every rank's part
  const size_t bytes_;  // of a buffer
  gpu::CudaStream stream_;
  uint8_t* plain_[2];
  std::vector<Side> sides_;
  Memory memory_ = Memory::kPlain;
};

}  // namespace sl::bench
