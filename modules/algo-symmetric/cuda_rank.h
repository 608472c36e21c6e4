// SPDX-License-Identifier: Apache-2.0
//
// One rank of one communicator on a GPU: its slices, and the arguments of launches. Counters live in device memory, so
// a launch is a pure function of the operation and of where peers see its buffers, and captured graphs replay. The
// algorithms of a communicator share one of these: kernels of all families meet in the same slices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/image_shelf.h"
#include "modules/algo-symmetric/kernels/args.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::algo_symmetric {

class CudaRank {
 public:
  // Of each slice, for this many ranks; settings as on their communicator.
  static uint64_t SliceBytes(uint32_t ranks, const GpuSettings& settings);

  CudaRank(const sl_algorithm_env_t& env, const GpuSettings& settings);
  CudaRank(const CudaRank&) = delete;
  CudaRank& operator=(const CudaRank&) = delete;

  // Before the first launch; `shelf` outlives that.
  Status LoadKernels(ImageShelf* shelf);
  // The slices, which one of the algorithms has demanded. Counters are wound if settings say so.
  Status Take(const sl_symmetric_t& symmetric);
  bool has_slices() const { return symmetric_.base != nullptr; }

  kernels::Team TeamFor(uint64_t capture) const;
  // Zeros, in peers' slices, where they were told of callers' buffers.
  Status Retract(uint64_t deadline_ns) const;
  // The arguments of `op`, cut as chosen.
  kernels::Args ArgsFor(const sl_op_t& op, const Choice& choice) const;
  // `*out_of_reach` counts up where a buffer is.
  kernels::LongArgs LongArgsFor(const sl_op_t& op, const Choice& choice, uint64_t* out_of_reach) const;
  void FillGrid(uint32_t image, uint32_t kernel, uint32_t blocks, uint32_t threads, sl_launch_t* out) const;

  const GpuSettings& settings() const { return settings_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  const sl_reach_ops_t* reach_ops() const { return reach_ops_; }  // NULL: peers reach nothing of callers
  sl_reach_t* reach() const { return reach_; }

 private:
  // For tests: starts all counters whose low half wraps at settings.first_epoch. Before the first operation, on all
  // ranks.
  Status WindCounters();
  kernels::Reach ReachFor(const sl_op_t& op, const Choice& choice, uint64_t* out_of_reach) const;
  bool Ask(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses) const;

  const sl_device_ops_t* device_ops_;
  sl_device_t* device_;
  ImageSet images_{};  // of a shelf
  sl_symmetric_t symmetric_{};
  const GpuSettings settings_;
  const kernels::LaneLayout layout_;
  sl_control_t* const control_;
  const sl_reach_ops_t* const reach_ops_;
  sl_reach_t* const reach_;
  const uint32_t rank_;
  const uint32_t size_;
};

// The ranks of communicators that algorithms have been made for. All algorithms of a communicator are made with the
// same shape, which lives as long as they do, so its address tells communicators apart.
class CudaRanks {
 public:
  // That of the communicator; made for the first of its algorithms. Each algorithm shares it, since they are destroyed
  // one by one in any order.   thread: [init]
  Result<std::shared_ptr<CudaRank>> For(const sl_algorithm_env_t& env, const GpuSettings& settings, ImageShelf* shelf);

 private:
  std::mutex mutex_;
  std::map<const sl_comm_shape_t*, std::weak_ptr<CudaRank>> ranks_;  // guarded by mutex_
};

}  // namespace sl::algo_symmetric
