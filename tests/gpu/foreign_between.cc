// SPDX-License-Identifier: Apache-2.0
//
// Part of gpu.launch_order: two operations of the library keep their order although a kernel lies between them that is
// launched dependently and never waits. Where kernels let others in before their exit, the epochs of operations are
// kept apart, but not data that one leaves to the next.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "tests/gpu/launch_order_checks.h"

namespace sl::gpu_test {
namespace {

using algo_symmetric::kernels::Trigger;

constexpr uint32_t kWords = 2;   // of an operation
constexpr uint32_t kTurns = 50;  // between two looks at results
constexpr uint32_t kMostHoldNs = 40000;

uint32_t ValueOf(uint32_t r, uint32_t turn, uint32_t word) { return r * 1000003 + turn * 7919 + word * 31 + 1; }

// What a turn's two operations take and leave at a rank; the second takes what the first has left, or the same.
struct Places {
  uint32_t* send;
  uint32_t* middle;
  uint32_t* last;
};

class Chain {
 public:
  Chain(uint32_t ranks, const TeamSettings& settings, bool messages)
      : team_(ranks, settings),
        foreign_(team_),
        messages_(messages),
        passes_on_(settings.trigger == Trigger::kExit),
        together_(ranks) {
    for (uint32_t r = 0; r < ranks; ++r) {
      memory_.push_back(std::make_unique<DeviceMemory>(team_[r].device, 3 * kBytes));
    }
  }

  // Returns how many words came out wrong; `turns` is rounded up.
  uint32_t RunEager(uint32_t turns, Verdicts* verdicts, const char* what) {
    for (uint32_t done = 0; done < turns; done += kTurns) {
      Fill(done);
      team_.InThreads([&](uint32_t r) {
        std::mt19937 random(done * 64 + r);
        together_.arrive_and_wait();
        for (uint32_t turn = 0; turn < kTurns; ++turn) Turn(r, turn, 0, random);
      });
      DemandEnd(team_, verdicts, what);
      Count(done);
    }
    return wrong_;
  }

  // The same in a graph, which is replayed.
  uint32_t RunCaptured(uint32_t turns, Verdicts* verdicts, const char* what) {
    std::vector<cudaGraphExec_t> graphs(team_.size());
    team_.InThreads([&](uint32_t r) {
      std::mt19937 random(r);
      cudaGraph_t graph{};
      cudaStream_t stream = team_[r].stream;
      Demand(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
      for (uint32_t turn = 0; turn < kTurns; ++turn) Turn(r, turn, 1, random);
      Demand(cudaStreamEndCapture(stream, &graph), "capture");
      Demand(cudaGraphInstantiate(&graphs[r], graph, 0), "instantiate");
      Demand(cudaGraphDestroy(graph), "destroy");
      Demand(cudaGraphUpload(graphs[r], stream), "upload the graph");
      Demand(cudaStreamSynchronize(stream), "upload the graph");
    });
    for (uint32_t done = 0; done < turns; done += kTurns) {
      Fill(done);
      team_.InThreads([&](uint32_t r) {
        together_.arrive_and_wait();
        Demand(cudaGraphLaunch(graphs[r], team_[r].stream), "launch the graph");
      });
      DemandEnd(team_, verdicts, what);
      Count(done);
    }
    for (cudaGraphExec_t graph : graphs) Demand(cudaGraphExecDestroy(graph), "destroy");
    return wrong_;
  }

 private:
  static constexpr uint64_t kBytes = kTurns * kWords * sizeof(uint32_t);  // of each of a rank's three places

  Places PlacesOf(uint32_t r, uint32_t turn) const {
    auto* base = memory_[r]->As<uint32_t>() + turn * kWords;
    return {base, base + kTurns * kWords, base + 2 * kTurns * kWords};
  }

  // Half of the turns a rank comes late; which ones differs from rank to rank.
  void Turn(uint32_t r, uint32_t turn, uint64_t capture, std::mt19937& random) {
    if (random() % 2 == 0) foreign_.HoldUp(r, random() % kMostHoldNs);
    const Places places = PlacesOf(r, turn);
    Operate(r, places.send, places.middle, capture);
    foreign_.RunAtOnce(r, turn + 1, false);
    Operate(r, passes_on_ ? places.middle : places.send, places.last, capture);
  }
  void Operate(uint32_t r, uint32_t* from, uint32_t* to, uint64_t capture) {
    if (!messages_) {
      sl_op_t op = CollectiveOf(SL_OP_ALL_REDUCE, SL_UINT32, kWords, from, to);
      op.capture = capture;
      return team_.Launch(r, op);
    }
    const uint32_t ranks = team_.size();
    sl_op_t send = MessageOf(SL_OP_SEND, (r + 1) % ranks, from, kWords * sizeof(uint32_t));
    sl_op_t recv = MessageOf(SL_OP_RECV, (r + ranks - 1) % ranks, to, kWords * sizeof(uint32_t));
    send.capture = recv.capture = capture;
    team_.LaunchGroup(r, {send, recv});
  }

  void Fill(uint32_t salt) {
    for (uint32_t r = 0; r < team_.size(); ++r) {
      std::vector<uint32_t> words(3 * kTurns * kWords);
      for (uint32_t i = 0; i < kTurns * kWords; ++i) words[i] = ValueOf(r, salt + i / kWords, i % kWords);
      Demand(cudaSetDevice(team_[r].device), "set device");
      Demand(cudaMemcpy(memory_[r]->As(), words.data(), 3 * kBytes, cudaMemcpyHostToDevice), "upload");
      AwaitUploads();
    }
  }
  void Count(uint32_t salt) {
    const uint32_t ranks = team_.size();
    for (uint32_t r = 0; r < ranks; ++r) {
      std::vector<uint32_t> words(3 * kTurns * kWords);
      Demand(cudaSetDevice(team_[r].device), "set device");
      Demand(cudaMemcpy(words.data(), memory_[r]->As(), 3 * kBytes, cudaMemcpyDeviceToHost), "download");
      for (uint32_t i = 0; i < kTurns * kWords; ++i) {
        const uint32_t turn = salt + i / kWords;
        uint32_t sum = 0;
        for (uint32_t other = 0; other < ranks; ++other) sum += ValueOf(other, turn, i % kWords);
        const uint32_t one_back = ValueOf((r + ranks - 1) % ranks, turn, i % kWords);
        const uint32_t two_back = ValueOf((r + 2 * ranks - 2) % ranks, turn, i % kWords);
        wrong_ += words[kTurns * kWords + i] != (messages_ ? one_back : sum) ? 1 : 0;
        const uint32_t last = messages_ ? (passes_on_ ? two_back : one_back) : (passes_on_ ? sum * ranks : sum);
        wrong_ += words[2 * kTurns * kWords + i] != last ? 1 : 0;
      }
    }
  }

  GpuTeam team_;
  ForeignKernels foreign_;
  const bool messages_;
  const bool passes_on_;
  std::barrier<> together_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  uint32_t wrong_ = 0;
};

void CheckChain(Verdicts* verdicts, const OrderEffort& effort, const std::string& family, bool messages,
                Trigger trigger = Trigger::kExit) {
  const std::string name = (messages ? "messages of 8 bytes" : family + ", all-reduces of 8 bytes") +
                           (trigger == Trigger::kExit    ? ", by exit"
                            : trigger == Trigger::kHeard ? ", when heard"
                                                         : ", when sent");
  for (const bool captured : {false, true}) {
    TeamSettings settings = GpuTeam::SettingsOf(family);
    settings.trigger = trigger;
    Chain chain(effort.ranks, settings, messages);
    const std::string what = name + (captured ? ", in graphs" : ", eager") + ", around a kernel that never waits";
    const uint32_t wrong = captured ? chain.RunCaptured(effort.rounds, verdicts, what.c_str())
                                    : chain.RunEager(effort.rounds, verdicts, what.c_str());
    verdicts->Say(wrong == 0, "%s: %u turns, %u words wrong", what.c_str(), effort.rounds, wrong);
  }
}

}  // namespace

void CheckForeignKernels(Verdicts* verdicts, const OrderEffort& effort) {
  for (const char* family : {"one_shot", "lamport_one_shot", "two_shot", "direct"}) {
    CheckChain(verdicts, effort, family, false);
  }
  CheckChain(verdicts, effort, "", true);
  for (const Trigger trigger : {Trigger::kHeard, Trigger::kSent}) {
    for (const char* family : {"one_shot", "lamport_one_shot", "two_shot"}) {
      CheckChain(verdicts, effort, family, false, trigger);
    }
    CheckChain(verdicts, effort, "", true, trigger);
  }
}

}  // namespace sl::gpu_test
