// SPDX-License-Identifier: Apache-2.0
//
// Ranks of one process on the GPUs that are there, one or several on each: symmetric slices, streams, launches. What
// the kernel does between processes, in small, so that kernels are tested without it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "modules/algo-symmetric/family_algorithm.h"
#include "modules/algo-symmetric/transfer_algorithm.h"

namespace sl::gpu_test {

// Ends the program with the place and CUDA's words.
void Demand(cudaError_t status, const char* what);
void Demand(CUresult status, const char* what);

// A copy of pageable memory returns before it has arrived, and streams of ranks do not wait for the one that it is on.
inline void AwaitUploads() { Demand(cudaDeviceSynchronize(), "upload"); }

// The symmetric heap: one address range, which every GPU reads and writes; slice r lies on the GPU of rank r, or all of
// it in pinned host memory.
class Heap {
 public:
  Heap(uint32_t ranks, uint64_t slice_bytes, const std::vector<int>& device_of, bool on_host);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  uint8_t* base() const { return reinterpret_cast<uint8_t*>(base_); }
  uint64_t stride() const { return stride_; }

 private:
  void MapSlices(uint32_t ranks, const std::vector<int>& device_of);

  const bool on_host_;
  CUdeviceptr base_ = 0;
  uint64_t stride_ = 0;
  std::vector<CUmemGenericAllocationHandle> slices_;
};

// How the memory of a rank is reached: every GPU sees it at its own address. Refuses every n-th time, 0: never.
struct SameAddresses {
  uint32_t ranks = 0;
  uint32_t refuses_every = 0;
  uint32_t asked = 0;
};

struct Rank {
  int device = 0;
  bool can_depend = false;  // the GPU and its driver know programmatic dependent launches
  uint32_t asked = 0;       // how often SaysThatItWaits has asked
  SameAddresses reach;
  cudaStream_t stream = nullptr;
  sl_control_t* control = nullptr;                                         // pinned
  std::vector<std::unique_ptr<algo_symmetric::FamilyAlgorithm>> families;  // as kFamilies
  std::unique_ptr<algo_symmetric::TransferAlgorithm> transfers;
};

struct TeamSettings : algo_symmetric::GpuSettings {
  const algo_symmetric::Family* family = nullptr;  // serves all that it can, rounds the rest; NULL: the cheapest serves
};

class GpuTeam {
 public:
  // `family` empty: as the module chooses. `pushes`, `drawn_bytes`: see GpuSettings. Ranks that share a GPU get fewer
  // blocks, if need be.
  GpuTeam(uint32_t ranks, const std::string& family, uint32_t blocks = 24, bool pushes = true, uint32_t dawdle_ns = 0,
          uint64_t drawn_bytes = algo_symmetric::kDrawnBytes);
  GpuTeam(uint32_t ranks, const TeamSettings& settings);
  ~GpuTeam();
  // As the first constructor makes them. Where staged serves, messages go through inboxes; where a direct family does,
  // into buffers.
  static TeamSettings SettingsOf(const std::string& family, uint32_t blocks = 24);
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t blocks() const { return settings_.staged_blocks; }
  Rank& operator[](uint32_t r) { return ranks_[r]; }
  const Heap& heap() const { return *heap_; }
  void Launch(uint32_t r, const sl_op_t& op);
  // Sends and receives, as one launch.
  void LaunchGroup(uint32_t r, const std::vector<sl_op_t>& ops);
  // Clears the heap, then starts the packet epochs of all ranks and lanes, and the low half of the numbers of meetings,
  // near their end. Nothing runs.
  void WindEpochs(uint32_t epoch);
  // Makes all as it was at first, after an abort; nothing runs.
  void Restart();
  // Every rank's buffers are out of reach now and then, other ranks' at other times.
  void RefuseNowAndThen();
  // Whether the rank's kernel says within 10 s that it waits for a peer.
  bool SaysThatItWaits(uint32_t r);
  // Whether all streams are idle within so many seconds. If not, every rank is told to give up.
  bool AwaitAll(double seconds);
  // Runs work(rank) in one thread a rank, each on its GPU.
  void InThreads(const std::function<void(uint32_t)>& work);

 private:
  sl_algorithm_t* AlgorithmFor(uint32_t r, const sl_op_t& op);
  void Issue(uint32_t r, const sl_launch_t& launch);

  TeamSettings settings_;
  algo_symmetric::ImageShelf images_;
  std::unique_ptr<Heap> heap_;
  std::vector<Rank> ranks_;
};

}  // namespace sl::gpu_test
