// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/symmetric_times.h"

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <memory>
#include <vector>

#include "sdk/datatype.h"
#include "tests/gpu/arena.h"
#include "tests/gpu/gpu_team.h"

namespace sl::gpu_test {
namespace {

using algo_symmetric::kernels::Trigger;

// A send stands for a ring: every rank sends to the next one and receives from the one before.
void LaunchTimed(GpuTeam& team, uint32_t r, const sl_op_t& op) {
  if (op.kind != SL_OP_SEND) return team.Launch(r, op);
  sl_op_t send = op;
  sl_op_t recv = op;
  recv.kind = SL_OP_RECV;
  send.peer = static_cast<int32_t>((r + 1) % team.size());
  recv.peer = static_cast<int32_t>((r + team.size() - 1) % team.size());
  team.LaunchGroup(r, {send, recv});
}

// Microseconds of one operation inside a graph, each waiting for the one before it: the slowest rank, the best of a few
// replays.
double TimeInGraph(GpuTeam& team, sl_op_t op, uint64_t bytes) {
  constexpr int kIn = 20;
  constexpr int kReplays = 5;
  const uint32_t n = team.size();
  const bool many = op.kind != SL_OP_ALL_REDUCE && op.kind != SL_OP_BROADCAST && op.kind != SL_OP_SEND;
  op.count = bytes / DatatypeBytes(op.datatype) / (many ? n : 1);
  std::barrier together(static_cast<std::ptrdiff_t>(n));
  std::vector<std::vector<float>> times(n, std::vector<float>(kReplays));
  team.InThreads([&](uint32_t r) {
    Arena arena(2 * bytes + 1024);
    sl_op_t mine = op;
    mine.capture = 1;
    mine.send = arena.Take(bytes);
    mine.recv = arena.Take(bytes);
    Demand(cudaMemset(const_cast<void*>(mine.send), 1, bytes), "fill");
    cudaStream_t stream = team[r].stream;
    cudaGraph_t graph{};
    cudaGraphExec_t exec{};
    Demand(cudaDeviceSynchronize(), "fill");
    together.arrive_and_wait();
    Demand(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kIn; ++i) LaunchTimed(team, r, mine);
    Demand(cudaStreamEndCapture(stream, &graph), "capture");
    Demand(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    Demand(cudaGraphUpload(exec, stream), "upload the graph");
    cudaEvent_t begin{}, end{};
    Demand(cudaEventCreate(&begin), "make an event");
    Demand(cudaEventCreate(&end), "make an event");
    Demand(cudaStreamSynchronize(stream), "upload the graph");
    for (int replay = 0; replay < kReplays; ++replay) {
      together.arrive_and_wait();
      Demand(cudaGraphLaunch(exec, stream), "warm up");  // aligns the ranks
      Demand(cudaEventRecord(begin, stream), "record");
      Demand(cudaGraphLaunch(exec, stream), "launch the graph");
      Demand(cudaEventRecord(end, stream), "record");
      Demand(cudaStreamSynchronize(stream), "run the graph");
      Demand(cudaEventElapsedTime(&times[r][replay], begin, end), "time");
    }
    Demand(cudaGraphExecDestroy(exec), "destroy");
    Demand(cudaGraphDestroy(graph), "destroy");
    Demand(cudaEventDestroy(begin), "destroy");
    Demand(cudaEventDestroy(end), "destroy");
    together.arrive_and_wait();
  });
  double best = 1e9;
  for (int replay = 0; replay < kReplays; ++replay) {
    double slowest = 0;
    for (uint32_t r = 0; r < n; ++r) slowest = std::max<double>(slowest, times[r][replay]);
    best = std::min(best, slowest);
  }
  return best * 1e3 / kIn;
}

sl_op_t BenchOf(sl_op_kind_t kind) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_BFLOAT16;
  op.reduction = SL_SUM;
  op.root = kind == SL_OP_BROADCAST ? 0 : -1;
  return op;
}

}  // namespace

void Sweep(uint32_t ranks) {
  struct Variant {
    const char* name;
    sl_op_kind_t kind;
    bool pushes;
  };
  constexpr Variant kVariants[] = {
      {"all-reduce", SL_OP_ALL_REDUCE, true},         {"reduce-scatter", SL_OP_REDUCE_SCATTER, true},
      {"all-gather, stored", SL_OP_ALL_GATHER, true}, {"all-gather, loaded", SL_OP_ALL_GATHER, false},
      {"all-to-all, stored", SL_OP_ALL_TO_ALL, true}, {"all-to-all, loaded", SL_OP_ALL_TO_ALL, false},
  };
  constexpr uint32_t kBlocks[] = {4, 8, 12, 16, 24, 32};
  std::vector<std::unique_ptr<GpuTeam>> teams[2];
  for (bool pushes : {false, true}) {
    for (uint32_t blocks : kBlocks) {
      teams[pushes ? 1 : 0].push_back(std::make_unique<GpuTeam>(ranks, "direct", blocks, pushes));
    }
  }
  for (const Variant& variant : kVariants) {
    std::printf("\n%s, direct, %u ranks: microseconds in a graph, bfloat16\n%12s", variant.name, ranks, "bytes");
    for (uint32_t blocks : kBlocks) std::printf("    %2u blocks", blocks);
    std::printf("\n");
    for (uint64_t bytes = 512 << 10; bytes <= 256 << 20; bytes *= bytes < 2 << 20 ? 2 : 8) {
      std::printf("%12llu", static_cast<unsigned long long>(bytes));
      for (const auto& team : teams[variant.pushes ? 1 : 0]) {
        std::printf(" %12.2f", TimeInGraph(*team, BenchOf(variant.kind), bytes));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

// What reductions cost a block, by data type. Ranks may share a GPU: its memory then stands for the wire.
void SweepTypes(uint32_t ranks) {
  struct Column {
    const char* name;
    sl_datatype_t datatype;
    sl_reduction_t reduction;
  };
  constexpr Column kColumns[] = {
      {"bf16 sum", SL_BFLOAT16, SL_SUM},   {"bf16 max", SL_BFLOAT16, SL_MAX},   {"fp16 sum", SL_FLOAT16, SL_SUM},
      {"fp32 sum", SL_FLOAT32, SL_SUM},    {"fp64 sum", SL_FLOAT64, SL_SUM},    {"int32 sum", SL_INT32, SL_SUM},
      {"int8 sum", SL_INT8, SL_SUM},       {"int8 max", SL_INT8, SL_MAX},       {"uint8 prod", SL_UINT8, SL_PROD},
      {"e4m3 sum", SL_FLOAT8E4M3, SL_SUM}, {"e4m3 max", SL_FLOAT8E4M3, SL_MAX}, {"e5m2 sum", SL_FLOAT8E5M2, SL_SUM},
  };
  constexpr uint64_t kBytes = 32 << 20;
  std::printf("\nall-reduce of %llu bytes, direct, %u ranks: microseconds in a graph\n%12s",
              static_cast<unsigned long long>(kBytes), ranks, "blocks");
  for (const Column& column : kColumns) std::printf(" %11s", column.name);
  std::printf("\n");
  for (uint32_t blocks : {4, 8, 16, 32}) {
    GpuTeam team(ranks, "direct", blocks, true);
    if (team.blocks() < blocks) break;
    std::printf("%12u", blocks);
    for (const Column& column : kColumns) {
      sl_op_t op = BenchOf(SL_OP_ALL_REDUCE);
      op.datatype = column.datatype;
      op.reduction = column.reduction;
      std::printf(" %11.2f", TimeInGraph(team, op, kBytes));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void Bench(uint32_t ranks) {
  struct Column {
    const char* name;
    const char* family;
    sl_op_kind_t kind;
  };
  const Column columns[] = {
      {"ar one-shot", "one_shot", SL_OP_ALL_REDUCE},
      {"ar two-shot", "two_shot", SL_OP_ALL_REDUCE},
      {"ar lamport 1", "lamport_one_shot", SL_OP_ALL_REDUCE},
      {"ar lamport 2", "lamport_two_shot", SL_OP_ALL_REDUCE},
      {"ar staged", "staged", SL_OP_ALL_REDUCE},
      {"ar direct", "direct", SL_OP_ALL_REDUCE},
      {"ag one-shot", "one_shot", SL_OP_ALL_GATHER},
      {"ag lamport 1", "lamport_one_shot", SL_OP_ALL_GATHER},
      {"ag direct", "direct", SL_OP_ALL_GATHER},
      {"ag bulk", "bulk", SL_OP_ALL_GATHER},
      {"rs one-shot", "one_shot", SL_OP_REDUCE_SCATTER},
      {"rs lamport 1", "lamport_one_shot", SL_OP_REDUCE_SCATTER},
      {"rs direct", "direct", SL_OP_REDUCE_SCATTER},
      {"bc one-shot", "one_shot", SL_OP_BROADCAST},
      {"bc lamport 1", "lamport_one_shot", SL_OP_BROADCAST},
      {"bc lamport 2", "lamport_two_shot", SL_OP_BROADCAST},
      {"ar auto", "", SL_OP_ALL_REDUCE},
      {"ag auto", "", SL_OP_ALL_GATHER},
      {"rs auto", "", SL_OP_REDUCE_SCATTER},
      {"a2a auto", "", SL_OP_ALL_TO_ALL},
      {"bcast auto", "", SL_OP_BROADCAST},
      {"ring auto", "", SL_OP_SEND},
  };
  std::printf("\nmicroseconds in a graph, bfloat16 sum, %u ranks, sizes in total bytes of the larger buffer\n%12s",
              ranks, "bytes");
  for (const Column& column : columns) std::printf(" %12s", column.name);
  std::printf("\n");
  std::vector<std::unique_ptr<GpuTeam>> teams;
  for (const Column& column : columns) {
    // One team a family: they are alike but for the choice.
    teams.push_back(std::make_unique<GpuTeam>(ranks, column.family));
  }
  for (uint64_t bytes : {128ull, 2048ull, 8192ull, 32768ull, 65536ull, 131072ull, 262144ull, 524288ull, 786432ull,
                         1048576ull, 2097152ull, 8388608ull, 33554432ull, 134217728ull, 268435456ull}) {
    std::printf("%12llu", static_cast<unsigned long long>(bytes));
    for (size_t c = 0; c < std::size(columns); ++c) {
      std::printf(" %12.2f", TimeInGraph(*teams[c], BenchOf(columns[c].kind), bytes));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void SweepTriggers(uint32_t ranks) {
  struct Row {
    const char* name;
    sl_op_kind_t kind;
    uint64_t bytes;
  };
  constexpr Row kRows[] = {
      {"all-reduce", SL_OP_ALL_REDUCE, 8},
      {"all-reduce", SL_OP_ALL_REDUCE, 2048},
      {"all-reduce", SL_OP_ALL_REDUCE, 32768},
      {"all-reduce", SL_OP_ALL_REDUCE, 262144},
      {"all-reduce", SL_OP_ALL_REDUCE, 4 << 20},
      {"all-gather", SL_OP_ALL_GATHER, 512},
      {"all-gather", SL_OP_ALL_GATHER, 65536},
      {"all-to-all", SL_OP_ALL_TO_ALL, 512},
      {"ring", SL_OP_SEND, 8},
      {"ring", SL_OP_SEND, 65536},
  };
  std::vector<std::unique_ptr<GpuTeam>> teams;
  for (const Trigger trigger : {Trigger::kExit, Trigger::kHeard, Trigger::kSent, Trigger::kExit}) {
    TeamSettings settings = GpuTeam::SettingsOf("");
    settings.trigger = trigger;
    settings.depends = teams.size() < 3;
    teams.push_back(std::make_unique<GpuTeam>(ranks, settings));
  }
  std::printf("\nmicroseconds in a graph, bfloat16 sum, %u ranks, by gpu_dependent_trigger\n%24s %9s %9s %9s %9s\n",
              ranks, "bytes", "exit", "heard", "sent", "no launch");
  for (const Row& row : kRows) {
    std::printf("%13s %10llu", row.name, static_cast<unsigned long long>(row.bytes));
    for (const auto& team : teams) std::printf(" %9.2f", TimeInGraph(*team, BenchOf(row.kind), row.bytes));
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace sl::gpu_test
