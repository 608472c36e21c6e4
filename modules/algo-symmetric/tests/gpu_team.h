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

#include "modules/algo-symmetric/cuda_rank.h"
#include "modules/algo-symmetric/family_algorithm.h"
#include "modules/algo-symmetric/mail_group.h"
#include "modules/algo-symmetric/p2p_group.h"
#include "modules/algo-symmetric/tests/cheapest.h"
#include "modules/algo-symmetric/tests/collective_case.h"
#include "modules/algo-symmetric/tests/fake_gpu.h"
#include "modules/algo-symmetric/tests/run_block.h"
#include "modules/algo-symmetric/transfer.h"
#include "modules/algo-symmetric/transfer_algorithm.h"
#include "modules/algo-symmetric/transfer_cost.h"

namespace sl::algo_symmetric {

template <typename F, typename Format>
void RunPackets(const Family& family, const Args& args, uint32_t block) {
  if (family.protocol == Protocol::kOneShot) {
    RunPackets<OneShotPackets, F, Format>(args, block);
  } else if constexpr (!std::is_void_v<F>) {
    RunPackets<TwoShotPackets, F, Format>(args, block);
  } else {
    RunPackets<HandOnPackets, void, Format>(args, block);
  }
}

// What the kernel of a family does in one block.
template <typename F>
void RunBlock(const Family& family, const LongArgs& args, bool prompt, uint32_t block) {
  if (prompt) return Prompt<F>(args.args, dev::Block::Whole(block)).Run();
  if (family.is_lamport) return RunPackets<F, LamportFormat>(family, args.args, block);
  if (family.is_packets()) return RunPackets<F, LlFormat>(family, args.args, block);
  if constexpr (!std::is_void_v<F>) {
    if (family.protocol == Protocol::kUnits) return RunPushReduce<F>(args, block);
  }
  RunLong<F>(args, block);
}

inline bool TakesPrompt(const Choice& choice, const LongArgs& args) {
  return choice.family == &families::kOneShot && IsPrompt(args.args, choice.threads);
}
inline void RunBlock(const Choice& choice, sl_datatype_t datatype, const LongArgs& args, uint32_t block) {
  const bool prompt = TakesPrompt(choice, args);
  if (!args.args.pattern.reduces) return RunBlock<void>(*choice.family, args, prompt, block);
  WithFormat(datatype, [&](auto* format) {
    RunBlock<std::remove_pointer_t<decltype(format)>>(*choice.family, args, prompt, block);
  });
}

class GpuTeam {
 public:
  static GpuSettings SettingsOf(uint32_t blocks) { return {blocks, 1, true}; }

  GpuTeam(uint32_t size, uint32_t blocks) : GpuTeam(size, SettingsOf(blocks)) {}
  GpuTeam(uint32_t size, const GpuSettings& settings) : settings_(settings), reaches_(size), controls_(size) {
    const uint64_t slice = CudaRank::SliceBytes(size, settings_);
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
      ranks_.push_back(std::make_shared<CudaRank>(env, settings_));
      if (!ranks_[r]->Take(env.symmetric).ok()) std::abort();
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
  Status Retract(uint32_t rank) const { return ranks_[rank]->Retract(0); }
  Team team(uint32_t rank) { return ranks_[rank]->ArgsFor(sl_op_t{}, Choice{}).team; }

  Choice ChoiceFor(uint32_t r, const sl_op_t& op, const Family* f) const {
    return ChooseOf(*f, op, r, size(), settings_);
  }
  bool IsPromptOn(uint32_t rank, const sl_op_t& op) const {
    const Choice choice = ChoiceFor(rank, op, &families::kOneShot);
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
  void Run(uint32_t rank, const sl_op_t& op, const Family* family) {
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
  // By the cheapest family; arguments are overwritten by the next launch's.
  sl_status_t LaunchOf(uint32_t rank, const sl_op_t& op, sl_launch_t* out) {
    return CheapestOf(rank, op).Launch(op, launch_args_, out);
  }
  sl_status_t Estimate(uint32_t rank, const sl_op_t& op, sl_estimate_t* out) const {
    if (IsTransfer(op)) return TransferAlgorithm(nullptr, ranks_[rank]).Estimate(op, out);
    return CheapestOf(rank, op).Estimate(op, out);
  }
  LongArgs ArgsOf(uint32_t rank, const sl_op_t& op, const Choice& choice) const {
    uint64_t out_of_reach = 0;
    return ranks_[rank]->LongArgsFor(op, choice, &out_of_reach);
  }

 private:
  FamilyAlgorithm CheapestOf(uint32_t rank, const sl_op_t& op) const {
    return {nullptr, *Choose(op, rank, size(), settings_).family, ranks_[rank]};
  }
  struct alignas(256) Line {
    uint8_t bytes[256] = {};
  };
  GpuSettings settings_;
  ImageShelf shelf_;
  alignas(16) uint8_t launch_args_[4096] = {};
  std::vector<Line> heap_;
  std::vector<FakeReach> reaches_;
  std::vector<sl_control_t> controls_;
  std::vector<std::shared_ptr<CudaRank>> ranks_;
};

}  // namespace sl::algo_symmetric
