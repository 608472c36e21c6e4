// SPDX-License-Identifier: Apache-2.0
//
// Part of gpu.launch_order: many small operations, one right behind the other, on a heap in host memory. There a packet
// and what makes its place blank again come over different links, and a late blank would erase a newer packet.
#include <barrier>
#include <memory>
#include <vector>

#include "tests/gpu/launch_order_checks.h"

namespace sl::gpu_test {
namespace {

constexpr uint32_t kOfGraph = 200;                       // operations
constexpr uint32_t kWords[] = {2, 64, 512, 2, 6, 1024};  // of an operation, in turn

class HostHeap {
 public:
  HostHeap(uint32_t ranks, const std::string& family) : team_(ranks, SettingsOn(family)), together_(ranks) {
    for (uint32_t i = 0; i < kOfGraph; ++i) {
      begin_.push_back(words_);
      words_ += (WordsOf(i) + 3) / 4 * 4;
    }
    for (uint32_t r = 0; r < ranks; ++r) {
      memory_.push_back(std::make_unique<DeviceMemory>(team_[r].device, 2 * Bytes()));
    }
  }

  // Returns how many words came out wrong.
  uint64_t Run(uint64_t operations, Verdicts* verdicts, const char* what) {
    Capture();
    const uint64_t replays = (operations + kOfGraph - 1) / kOfGraph;
    for (uint64_t replay = 0; replay < replays; ++replay) {
      // Every byte of what a rank sends; no two replays near each other send the same.
      const auto salt = static_cast<int>(1 + replay % 100);
      team_.InThreads([&](uint32_t r) {
        cudaStream_t stream = team_[r].stream;
        Demand(cudaMemsetAsync(memory_[r]->As(), salt, Bytes(), stream), "fill");
        together_.arrive_and_wait();
        Demand(cudaGraphLaunch(graphs_[r], stream), "launch the graph");
      });
      DemandEnd(team_, verdicts, what);
      Count(static_cast<uint32_t>(salt) * 0x01010101u * team_.size());
    }
    for (cudaGraphExec_t graph : graphs_) Demand(cudaGraphExecDestroy(graph), "destroy");
    return wrong_;
  }

 private:
  static TeamSettings SettingsOn(const std::string& family) {
    TeamSettings settings = GpuTeam::SettingsOf(family);
    settings.on_host = true;
    settings.trigger = algo_symmetric::kernels::Trigger::kSent;  // which is not to matter here
    return settings;
  }
  static uint32_t WordsOf(uint32_t i) { return kWords[i % std::size(kWords)]; }
  uint64_t Bytes() const { return words_ * sizeof(uint32_t); }

  void Capture() {
    graphs_.resize(team_.size());
    team_.InThreads([&](uint32_t r) {
      cudaStream_t stream = team_[r].stream;
      cudaGraph_t graph{};
      Demand(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
      for (uint32_t i = 0; i < kOfGraph; ++i) {
        auto* send = memory_[r]->As<uint32_t>() + begin_[i];
        sl_op_t op = CollectiveOf(SL_OP_ALL_REDUCE, SL_UINT32, WordsOf(i), send, send + words_);
        op.capture = 1;
        team_.Launch(r, op);
      }
      Demand(cudaStreamEndCapture(stream, &graph), "capture");
      Demand(cudaGraphInstantiate(&graphs_[r], graph, 0), "instantiate");
      Demand(cudaGraphDestroy(graph), "destroy");
      Demand(cudaGraphUpload(graphs_[r], stream), "upload the graph");
      Demand(cudaStreamSynchronize(stream), "upload the graph");
    });
  }
  void Count(uint32_t wanted) {
    std::vector<uint32_t> got(words_);
    for (uint32_t r = 0; r < team_.size(); ++r) {
      Demand(cudaSetDevice(team_[r].device), "set device");
      Demand(cudaMemcpy(got.data(), memory_[r]->As() + Bytes(), Bytes(), cudaMemcpyDeviceToHost), "download");
      for (uint32_t i = 0; i < kOfGraph; ++i) {
        for (uint32_t word = 0; word < WordsOf(i); ++word) wrong_ += got[begin_[i] + word] != wanted ? 1 : 0;
      }
    }
  }

  GpuTeam team_;
  std::barrier<> together_;
  std::vector<uint32_t> begin_;  // of every operation, in words
  uint32_t words_ = 0;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  // what is sent, then what is received
  std::vector<cudaGraphExec_t> graphs_;
  uint64_t wrong_ = 0;
};

}  // namespace

void CheckHostHeap(Verdicts* verdicts, const OrderEffort& effort) {
  for (const char* family : {"one_shot", "lamport_one_shot", "two_shot", "lamport_two_shot"}) {
    const std::string what = std::string(family) + " on a host heap";
    HostHeap heap(effort.ranks, family);
    const uint64_t wrong = heap.Run(effort.operations, verdicts, what.c_str());
    verdicts->Say(wrong == 0, "%s: %llu operations, %llu words wrong", what.c_str(),
                  static_cast<unsigned long long>(effort.operations), static_cast<unsigned long long>(wrong));
  }
}

}  // namespace sl::gpu_test
