// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/symmetric_aborts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "tests/gpu/gpu_team.h"

namespace sl::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBufferBytes = 512 << 10;  // of one block: from each, and for each
constexpr int kOps = 12;                      // of a round

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// An operation of all ranks; a send stands for a ring.
sl_op_t RandomOp(uint32_t ranks, std::mt19937& random) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = random() % 9;
  if (op.kind == 8) op.kind = SL_OP_SEND;
  op.datatype = SL_BFLOAT16;
  op.reduction = SL_SUM;
  op.root = static_cast<int32_t>(random() % ranks);
  op.count = 1 + random() % (uint64_t{1} << random() % 18);  // 256 KiB at most, from each and for each
  return op;
}

void Launch(GpuTeam& team, uint32_t r, sl_op_t op, uint8_t* buffers) {
  op.send = buffers;
  op.recv = buffers + kBufferBytes * team.size();
  if (op.kind != SL_OP_SEND) return team.Launch(r, op);
  sl_op_t recv = op;
  recv.kind = SL_OP_RECV;
  op.peer = static_cast<int32_t>((r + 1) % team.size());
  recv.peer = static_cast<int32_t>((r + team.size() - 1) % team.size());
  team.LaunchGroup(r, {op, recv});
}

// Seconds until the stream of every rank was idle.
double AwaitAll(GpuTeam& team, double bound_seconds) {
  const Clock::time_point start = Clock::now();
  for (uint32_t r = 0; r < team.size(); ++r) {
    Demand(cudaSetDevice(team[r].device), "set device");
    while (cudaStreamQuery(team[r].stream) == cudaErrorNotReady) {
      if (SecondsSince(start) < 5 * bound_seconds) continue;
      std::printf("WRONG: rank %u still runs %g s after an abort\n", r, SecondsSince(start));
      std::fflush(stdout);
      std::_Exit(1);  // nothing can be freed
    }
    Demand(cudaStreamSynchronize(team[r].stream), "end after an abort");
  }
  return SecondsSince(start);
}

}  // namespace

void CheckAborts(Verdicts* verdicts, uint32_t ranks, const std::string& family, uint32_t dawdle_ns, uint32_t rounds,
                 double bound_seconds) {
  GpuTeam team(ranks, family, 24, true, dawdle_ns);
  std::vector<uint8_t*> buffers(ranks);
  team.InThreads([&](uint32_t r) {
    void* memory = nullptr;
    Demand(cudaMalloc(&memory, 2 * kBufferBytes * ranks), "allocate buffers");
    buffers[r] = static_cast<uint8_t*>(memory);
  });
  std::mt19937 random(ranks);
  std::map<uint32_t, uint32_t> steps;  // how many gave up there
  uint32_t late = 0;
  double slowest = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<sl_op_t> ops(kOps);
    for (sl_op_t& op : ops) op = RandomOp(ranks, random);
    // One rank stops short, so that the others wait for it; all are told at moments of their own.
    const uint32_t lazy = random() % ranks;
    const size_t short_of = random() % ops.size();
    std::vector<std::chrono::microseconds> moments;
    for (uint32_t r = 0; r < ranks; ++r) moments.emplace_back(random() % 600);
    team.InThreads([&](uint32_t r) {
      for (size_t i = 0; i < (r == lazy ? short_of : ops.size()); ++i) Launch(team, r, ops[i], buffers[r]);
      const auto moment = Clock::now() + moments[r];
      while (Clock::now() < moment) std::this_thread::yield();
      std::atomic_ref<int32_t>(team[r].control->abort).store(SL_ERR_ABORTED, std::memory_order_release);
    });
    const double took = AwaitAll(team, bound_seconds);
    slowest = std::max(slowest, took);
    if (took > bound_seconds) ++late;
    for (uint32_t r = 0; r < ranks; ++r) {
      const sl_control_t& control = *team[r].control;
      if (std::atomic_ref<uint32_t>(team[r].control->fault).load(std::memory_order_acquire) != 0) ++steps[control.step];
    }
    team.Restart();
  }
  team.InThreads([&](uint32_t r) { Demand(cudaFree(buffers[r]), "free buffers"); });
  std::string where;
  for (const auto& [step, count] : steps)
    where += " " + std::to_string(step) + " (" + std::to_string(count) + " times)";
  verdicts->Say(late == 0, "%u ranks, %u aborts of %s, %u late, ended after %.1f ms at most; gave up at steps%s", ranks,
                rounds, family.c_str(), late, slowest * 1e3, where.c_str());
}

}  // namespace sl::gpu_test
