// SPDX-License-Identifier: Apache-2.0
//
// GPU protocols on a host: ranks over one heap, a thread for each rank or for each block of it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "modules/algo-symmetric/cuda_algorithm.h"
#include "modules/algo-symmetric/p2p_group.h"
#include "modules/algo-symmetric/tests/collective_case.h"
#include "modules/algo-symmetric/tests/run_block.h"

namespace sl::algo_symmetric {

template <typename F, typename Format>
void RunPackets(Family family, const Args& args, uint32_t block) {
  if (IsOneShot(family)) {
    RunPackets<OneShotPackets, F, Format>(args, block);
  } else if constexpr (!std::is_void_v<F>) {
    RunPackets<TwoShotPackets, F, Format>(args, block);
  } else {
    RunPackets<HandOnPackets, void, Format>(args, block);
  }
}

// What the kernel of a family does in one block.
template <typename F>
void RunBlock(Family family, const LongArgs& args, bool prompt, uint32_t block) {
  if (prompt) return Prompt<F>(args.args, dev::Block::Whole(block)).Run();
  if (IsLamport(family)) return RunPackets<F, LamportFormat>(family, args.args, block);
  if (IsOneShot(family) || IsTwoShot(family)) return RunPackets<F, LlFormat>(family, args.args, block);
  if constexpr (!std::is_void_v<F>) {
    if (family == Family::kPush) return RunPushReduce<F>(args, block);
  }
  RunLong<F>(args, block);
}

inline bool TakesPrompt(const Choice& choice, const LongArgs& args) {
  return choice.family == Family::kOneShot && IsPrompt(args.args, choice.threads);
}
inline void RunBlock(const Choice& choice, sl_datatype_t datatype, const LongArgs& args, uint32_t block) {
  const bool prompt = TakesPrompt(choice, args);
  if (!args.args.pattern.reduces) return RunBlock<void>(choice.family, args, prompt, block);
  WithFormat(datatype, [&](auto* format) {
    RunBlock<std::remove_pointer_t<decltype(format)>>(choice.family, args, prompt, block);
  });
}

// How a rank's memory is reached where all ranks are threads: at its own address, unless this rank refuses.
struct FakeReach {
  uint32_t size = 0;
  uint32_t refuses_every = 0;  // n: every n-th time; 0: never
  uint32_t asked = 0;
};
inline sl_status_t FakeAddresses(sl_reach_t* reach, const void* memory, uint64_t /*bytes*/, uint64_t /*capture*/,
                                 uint64_t* out_addresses) {
  auto* fake = reinterpret_cast<FakeReach*>(reach);
  ++fake->asked;
  if (fake->refuses_every != 0 && fake->asked % fake->refuses_every == 0) return SL_ERR_UNSUPPORTED;
  for (uint32_t r = 0; r < fake->size; ++r) out_addresses[r] = reinterpret_cast<uintptr_t>(memory);
  return SL_OK;
}
inline constexpr sl_reach_ops_t kFakeReachOps = {sizeof(sl_reach_ops_t), 0, FakeAddresses};

// The part of a device that counters are wound with: its memory is the host's.
inline sl_status_t FakeStream(sl_device_t*, sl_stream_t** out) {
  *out = nullptr;
  return SL_OK;
}
inline sl_status_t FakeCopy(sl_device_t*, sl_stream_t*, void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return SL_OK;
}
// An image is known by the names of its kernels.
inline sl_status_t FakeLoad(sl_device_t*, const sl_image_desc_t* image, sl_image_t** out) {
  *out = reinterpret_cast<sl_image_t*>(const_cast<const char**>(image->kernel_names));
  return SL_OK;
}
inline std::string KernelOf(const sl_launch_t& launch) {
  return reinterpret_cast<const char* const*>(launch.image)[launch.kernel];
}
inline constexpr sl_device_ops_t kFakeDeviceOps = [] {
  sl_device_ops_t ops{};
  ops.stream_create = FakeStream;
  ops.stream_destroy = [](sl_device_t*, sl_stream_t*) { return SL_OK; };
  ops.stream_wait_idle = [](sl_device_t*, sl_stream_t*, uint64_t) { return SL_OK; };
  ops.copy = FakeCopy;
  ops.image_load = FakeLoad;
  ops.image_unload = [](sl_device_t*, sl_image_t*) { return SL_OK; };
  return ops;
}();

class GpuTeam {
 public:
  static GpuSettings SettingsOf(uint32_t blocks) { return {blocks, 1, false, Family::kStaged, true, true}; }

  GpuTeam(uint32_t size, uint32_t blocks) : GpuTeam(size, SettingsOf(blocks)) {}
  GpuTeam(uint32_t size, const GpuSettings& settings) : settings_(settings), reaches_(size), controls_(size) {
    const uint64_t slice = CudaAlgorithm::SliceBytes(size, settings_);
    heap_.resize(slice * size / sizeof(Line) + 1);
    for (uint32_t r = 0; r < size; ++r) {
      sl_comm_shape_t shape{};
      shape.rank = r;
      shape.size = size;
      shape.struct_size = sizeof(shape);
      shape.processors_min = settings_.budget.least;
      shape.processors_max = settings_.budget.most;
      shape.processor_weight = settings_.budget.weight;
      sl_algorithm_env_t env{};
      env.shape = &shape;
      env.symmetric = {heap_[0].bytes, slice, slice};
      env.control = &controls_[r];
      env.device_ops = &kFakeDeviceOps;
      reaches_[r].size = size;
      env.reach_ops = &kFakeReachOps;
      env.reach = reinterpret_cast<sl_reach_t*>(&reaches_[r]);
      ranks_.push_back(std::make_unique<CudaAlgorithm>(nullptr, env, settings_));
      if (settings_.first_epoch != 0 && !ranks_[r]->WindCounters().ok()) std::abort();
    }
  }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  FakeReach& reach(uint32_t rank) { return reaches_[rank]; }
  // Whether direct moves store to their peers.
  void SetPushes(bool pushes) { settings_.pushes = pushes; }
  // From how many bytes on direct work is drawn.
  void SetDrawnBytes(uint64_t bytes) { settings_.drawn_bytes = bytes; }
  sl_control_t& control(uint32_t rank) { return controls_[rank]; }
  P2pGroup MakeGroup(uint32_t rank) {
    return {size(), &kFakeReachOps, reinterpret_cast<sl_reach_t*>(&reaches_[rank]), WaysOf(settings_, size()),
            settings_.budget};
  }
  MailGroup MakeMailGroup(uint32_t rank) { return {rank, size(), WaysOf(settings_, size()), settings_.budget}; }
  CudaAlgorithm& algorithm(uint32_t rank) { return *ranks_[rank]; }
  Team team(uint32_t rank) { return ranks_[rank]->ArgsFor(sl_op_t{}, Choice{}).team; }

  Choice ChoiceFor(uint32_t rank, const sl_op_t& op, Family family) const {
    GpuSettings settings = settings_;
    settings.forced = true;
    settings.family = family;
    return Choose(op, rank, size(), settings);
  }
  bool IsPromptOn(uint32_t rank, const sl_op_t& op) const {
    const Choice choice = ChoiceFor(rank, op, Family::kOneShot);
    return TakesPrompt(choice, ArgsOf(rank, op, choice));
  }
  // Runs the cases back to back, a thread a rank.
  void RunAll(std::vector<Case>& cases) {
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < size(); ++r) {
      threads.emplace_back([&, r] {
        for (Case& one : cases) Run(r, one.For(r), one.family);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // The whole launch of one rank, block after block; blocks of different numbers never wait for each other.
  void Run(uint32_t rank, const sl_op_t& op, Family family) {
    const Choice choice = ChoiceFor(rank, op, family);
    const LongArgs args = ArgsOf(rank, op, choice);
    for (uint32_t b = 0; b < choice.blocks; ++b) RunBlock(choice, op.datatype, args, b);
  }
  // Before launches are asked for by their kernels.
  void LoadKernels() {
    for (const auto& rank : ranks_) {
      if (!rank->LoadKernels(&shelf_).ok()) std::abort();
    }
  }
  // The launch of a collective; its arguments are overwritten by the next one's.
  sl_status_t LaunchOf(uint32_t rank, const sl_op_t& op, sl_launch_t* out) {
    return ranks_[rank]->Launch(op, launch_args_, out);
  }
  sl_status_t Estimate(uint32_t rank, const sl_op_t& op, sl_estimate_t* out) const {
    return ranks_[rank]->Estimate(op, out);
  }
  LongArgs ArgsOf(uint32_t rank, const sl_op_t& op, const Choice& choice) const {
    return ranks_[rank]->LongArgsFor(op, choice);
  }

 private:
  struct alignas(256) Line {
    uint8_t bytes[256] = {};
  };
  GpuSettings settings_;
  ImageShelf shelf_;
  alignas(16) uint8_t launch_args_[4096] = {};
  std::vector<Line> heap_;
  std::vector<FakeReach> reaches_;
  std::vector<sl_control_t> controls_;
  std::vector<std::unique_ptr<CudaAlgorithm>> ranks_;
};

}  // namespace sl::algo_symmetric
