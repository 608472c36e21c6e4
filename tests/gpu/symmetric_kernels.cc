// SPDX-License-Identifier: Apache-2.0
//
// The kernels of algo-symmetric on the GPUs that are there, against a plain oracle, and their times.
//
//   gpu.symmetric_kernels [ranks …] [--cases N] [--dawdle NS] [--abort-seconds S] [--bench] [--sweep] [--types]
//                         [--triggers]
//
// --cases bounds what is checked of each family (600), --dawdle times hostilely (sdk/device/dawdle.h), --abort-seconds
// is how long kernels may run after an abort (1).
// --bench times every family by size, --sweep the direct one by the number of blocks and the direction of its moves,
// --triggers small operations by when kernels let the next one in (gpu_dependent_trigger).
// Without ranks: as many as there are GPUs, at least two, so that one GPU suffices. Exit code: 0 right, 1 wrong or
// failed, 77 no GPU.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "modules/algo-symmetric/tests/collective_case.h"
#include "tests/gpu/arena.h"
#include "tests/gpu/gpu_team.h"
#include "tests/gpu/symmetric_aborts.h"
#include "tests/gpu/symmetric_times.h"
#include "tests/gpu/verdict.h"

namespace sl::gpu_test {
namespace {

using algo_symmetric::Case;
using algo_symmetric::Image;
using algo_symmetric::kernels::Trigger;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Runs the cases back to back on every rank; returns how many came out wrong.
uint32_t RunCases(GpuTeam& team, std::vector<Case>& cases, Verdicts* verdicts) {
  uint64_t bytes = 0;
  for (Case& one : cases) bytes += one.send[0].size() + one.recv[0].size() + 512;
  std::barrier all_ready(team.size());
  team.InThreads([&](uint32_t r) {
    Arena arena(bytes);
    std::vector<std::pair<uint8_t*, uint8_t*>> places;
    for (Case& one : cases) {
      uint8_t* send = arena.Take(one.send[r].size());
      uint8_t* recv = arena.Take(one.recv[r].size());
      places.emplace_back(send, recv);
      Demand(cudaMemcpy(send, one.send[r].data(), one.send[r].size(), cudaMemcpyHostToDevice), "upload");
      Demand(cudaMemcpy(recv, one.recv[r].data(), one.recv[r].size(), cudaMemcpyHostToDevice), "upload");
    }
    AwaitUploads();
    // What is allocated while a peer's kernel runs is unknown to compute-sanitizer, which would stop that kernel.
    all_ready.arrive_and_wait();
    for (size_t i = 0; i < cases.size(); ++i) team.Launch(r, cases[i].For(r, places[i].first, places[i].second));
    Demand(cudaStreamSynchronize(team[r].stream), "run the cases");
    for (size_t i = 0; i < cases.size(); ++i) {
      Image& recv = cases[i].recv[r];
      Demand(cudaMemcpy(recv.data(), places[i].second, recv.size(), cudaMemcpyDeviceToHost), "download");
    }
  });
  uint32_t wrong = 0;
  for (Case& one : cases) {
    const std::string what = one.Wrong();
    if (what.empty()) continue;
    if (++wrong <= 10) verdicts->Say(false, "%s", what.c_str());
  }
  return wrong;
}

// How much is checked, and how.
struct Effort {
  uint32_t cases = 600;  // of a family, more or less
  uint32_t dawdle_ns = 0;
  double abort_seconds = 1;
};

// `refused`: buffers are out of reach now and then. `drawn`: all direct work is drawn, else the long one. `trigger`:
// when kernels let the next one in.
void CheckFamily(Verdicts* verdicts, const Effort& effort, uint32_t ranks, const std::string& family,
                 bool pushes = true, bool refused = false, bool drawn = false, Trigger trigger = Trigger::kExit) {
  const Clock::time_point start = Clock::now();
  TeamSettings settings = GpuTeam::SettingsOf(family);
  settings.pushes = pushes;
  settings.dawdle_ns = effort.dawdle_ns;
  if (drawn) settings.drawn_bytes = 1;
  settings.trigger = trigger;
  GpuTeam team(ranks, settings);
  if (refused) team.RefuseNowAndThen();
  std::mt19937 random(ranks * 1000 + static_cast<uint32_t>(family.size()));
  uint32_t wrong = 0;
  uint32_t checked = 0;
  const auto run = [&](std::vector<Case> cases) {
    wrong += RunCases(team, cases, verdicts);
    checked += static_cast<uint32_t>(cases.size());
  };
  std::vector<Case> cases;
  for (uint32_t i = 0; i < effort.cases; ++i) cases.push_back(Case::Random(ranks, random));
  run(std::move(cases));
  cases.clear();
  const uint32_t every = SL_DATATYPE_COUNT * SL_REDUCTION_COUNT * 3;
  const uint32_t step = std::max(every / effort.cases, 1u) | 1;  // odd: meets all kinds
  for (uint32_t i = 0; i < every; i += step) {
    Case one = Case::Random(ranks, random);
    one.op.kind = i % 3 == 0 ? SL_OP_ALL_REDUCE : i % 3 == 1 ? SL_OP_REDUCE_SCATTER : SL_OP_REDUCE;
    one.op.datatype = i / 3 % SL_DATATYPE_COUNT;
    one.op.reduction = i / 3 / SL_DATATYPE_COUNT;
    one.in_place = false;
    one.Fill();
    cases.push_back(std::move(one));
  }
  run(std::move(cases));
  cases.clear();
  for (sl_op_kind_t kind = 0; kind < 8; ++kind) {
    Case one = Case::Random(ranks, random);
    one.op.kind = kind;
    one.op.datatype = SL_BFLOAT16;
    one.op.reduction = SL_SUM;
    one.op.count = effort.cases < 100 ? 100001 : 700001;
    one.in_place = false;
    one.Fill();
    cases.push_back(std::move(one));
  }
  run(std::move(cases));
  team.WindEpochs(UINT32_MAX - 20);  // the largest one is reached in the next cases
  cases.clear();
  for (uint32_t i = 0; i < effort.cases / 2; ++i) cases.push_back(Case::Random(ranks, random));
  run(std::move(cases));
  verdicts->Say(wrong == 0, "%u ranks, %s%s%s%s: %u cases, %u wrong, %.1f s", ranks,
                family.empty() ? "auto" : family.c_str(), pushes ? "" : ", moves load",
                trigger == Trigger::kExit    ? ""
                : trigger == Trigger::kHeard ? ", next let in when heard"
                                             : ", when sent",
                refused ? ", often refused"
                : drawn ? ", all drawn"
                        : "",
                checked, wrong, SecondsSince(start));
}

// What `from` sends `to`.
std::vector<uint8_t> MessageOf(uint32_t from, uint32_t to, uint64_t bytes) {
  std::vector<uint8_t> message(bytes);
  for (uint64_t i = 0; i < bytes; ++i) message[i] = static_cast<uint8_t>(i * 7 + i / 251 + from * 31 + to);
  return message;
}

sl_op_t TransferOf(sl_op_kind_t kind, uint32_t peer, uint8_t* user, uint64_t bytes) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_UINT8;
  op.count = bytes;
  op.peer = static_cast<int32_t>(peer);
  op.send = user;
  op.recv = user;
  return op;
}

// One launch in which every rank sends one message of each size to every other and to itself; returns how many came
// out wrong at rank r.
uint32_t TransferAll(GpuTeam& team, uint32_t r, const std::vector<uint64_t>& sizes, std::barrier<>* all_ready) {
  const uint32_t ranks = team.size();
  uint64_t total = 0;
  for (uint64_t bytes : sizes) total += bytes + 512;
  Arena arena(total * ranks * 2);
  std::vector<sl_op_t> ops;
  for (uint64_t bytes : sizes) {
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      uint8_t* send = arena.Take(bytes + 1) + bytes % 2;
      Demand(cudaMemcpy(send, MessageOf(r, peer, bytes).data(), bytes, cudaMemcpyHostToDevice), "upload");
      ops.push_back(TransferOf(SL_OP_SEND, peer, send, bytes));
      ops.push_back(TransferOf(SL_OP_RECV, peer, arena.Take(bytes + 1) + bytes % 2, bytes));
    }
  }
  AwaitUploads();
  all_ready->arrive_and_wait();  // as in RunCases
  team.LaunchGroup(r, ops);
  Demand(cudaStreamSynchronize(team[r].stream), "run the transfers");
  uint32_t wrong = 0;
  for (const sl_op_t& op : ops) {
    if (op.kind != SL_OP_RECV) continue;
    std::vector<uint8_t> received(op.count);
    Demand(cudaMemcpy(received.data(), op.recv, op.count, cudaMemcpyDeviceToHost), "download");
    if (received != MessageOf(static_cast<uint32_t>(op.peer), r, op.count)) ++wrong;
  }
  return wrong;
}

// Groups of messages of many sizes, each of which becomes one launch; short ones often enough for rings to go round.
void CheckTransfers(Verdicts* verdicts, const Effort& effort, uint32_t ranks, const std::string& family) {
  constexpr uint64_t kShort[] = {1, 8, 33, 1024, 1025, 5000, 40000, 131072, 131073};
  const uint32_t rounds = std::min(effort.cases / 6, 100u);
  GpuTeam team(ranks, family, 24, true, effort.dawdle_ns);
  std::atomic<uint32_t> wrong{0};
  std::barrier all_ready(ranks);
  team.InThreads([&](uint32_t r) {
    wrong += TransferAll(team, r, {1, 16, 4097, 65536, 1048583, 20000000, 0, 33}, &all_ready);
    // One of a queue: mail, of each kernel that there is for it, and what is none.
    for (const uint64_t bytes : {33u, 5000u, 40001u, 131072u, 1048583u})
      wrong += TransferAll(team, r, {bytes}, &all_ready);
    std::mt19937 random(1);  // alike on all ranks
    for (uint32_t round = 0; round < rounds; ++round) {
      std::vector<uint64_t> sizes(1 + random() % 3);
      for (uint64_t& bytes : sizes) bytes = kShort[random() % std::size(kShort)];
      wrong += TransferAll(team, r, sizes, &all_ready);
    }
  });
  verdicts->Say(wrong == 0, "%u ranks, sends and receives, %s: %u groups, %u messages wrong", ranks,
                family.empty() ? "auto" : family.c_str(), 6 + rounds, wrong.load());
}

// A rank waits for one that never comes, and is told to give up.
void CheckAbort(Verdicts* verdicts, uint32_t ranks, const std::string& family, double bound_seconds) {
  GpuTeam team(ranks, family);
  std::mt19937 random(1);
  Case one = Case::Random(ranks, random);
  one.op.kind = SL_OP_ALL_REDUCE;
  one.op.count = 5000;
  one.in_place = false;
  one.Fill();
  Demand(cudaSetDevice(team[0].device), "set device");
  Arena arena(one.send[0].size() + one.recv[0].size() + 512);
  uint8_t* send = arena.Take(one.send[0].size());
  team.Launch(0, one.For(0, send, arena.Take(one.recv[0].size())));
  const bool waited = team.SaysThatItWaits(0);
  std::atomic_ref<int32_t>(team[0].control->abort).store(SL_ERR_ABORTED, std::memory_order_release);
  const Clock::time_point start = Clock::now();
  while (cudaStreamQuery(team[0].stream) == cudaErrorNotReady && SecondsSince(start) < 5 * bound_seconds)
    std::this_thread::yield();
  const double took = SecondsSince(start);
  const sl_control_t& control = *team[0].control;
  const bool told = std::atomic_ref<uint32_t>(team[0].control->fault).load(std::memory_order_acquire) == 1;
  verdicts->Say(
      waited && told && took < bound_seconds && control.peer > 0,
      "abort of %s: %s before, %s after, ended after %.1f ms, waited for rank %d step %u, saw %llu, wanted %llu",
      family.c_str(), waited ? "waited" : "did not wait", told ? "told" : "did not tell", took * 1e3, control.peer,
      control.step, static_cast<unsigned long long>(control.seen), static_cast<unsigned long long>(control.wanted));
  if (took >= 5 * bound_seconds) std::_Exit(1);  // the kernel still spins: nothing can be freed
}

constexpr const char* kFamilyNames[] = {
    "one_shot", "two_shot", "lamport_one_shot", "lamport_two_shot", "staged", "direct", "bulk", "push"};

int Main(int argc, char** argv) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // no load may wait for a kernel that waits for a peer
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no GPU here: nothing was checked\n");
    return 77;
  }
  std::vector<uint32_t> ranks;
  bool bench = false;
  bool sweep = false;
  bool types = false;
  bool triggers = false;
  Effort effort;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bench") == 0) {
      bench = true;
    } else if (std::strcmp(argv[i], "--sweep") == 0) {
      sweep = true;
    } else if (std::strcmp(argv[i], "--types") == 0) {
      types = true;
    } else if (std::strcmp(argv[i], "--triggers") == 0) {
      triggers = true;
    } else if (std::strcmp(argv[i], "--cases") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      effort.cases = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--dawdle") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      effort.dawdle_ns = std::min(static_cast<uint32_t>(std::atoi(argv[++i])), dev::kMostDawdleNs);
    } else if (std::strcmp(argv[i], "--abort-seconds") == 0 && i + 1 < argc && std::atof(argv[i + 1]) > 0) {
      effort.abort_seconds = std::atof(argv[++i]);
    } else if (std::atoi(argv[i]) > 0) {
      ranks.push_back(static_cast<uint32_t>(std::atoi(argv[i])));
    } else {
      std::fprintf(stderr,
                   "usage: %s [ranks …] [--cases N] [--dawdle NS] [--abort-seconds S] [--bench] [--sweep] [--types] "
                   "[--triggers]\n",
                   argv[0]);
      return 2;
    }
  }
  if (ranks.empty()) ranks.push_back(std::max(2u, static_cast<uint32_t>(devices)));
  Verdicts verdicts;
  for (uint32_t n : ranks) {
    for (const char* family : kFamilyNames) CheckFamily(&verdicts, effort, n, family);
    CheckFamily(&verdicts, effort, n, "");
    CheckFamily(&verdicts, effort, n, "direct", false);
    CheckFamily(&verdicts, effort, n, "direct", true, true);
    CheckFamily(&verdicts, effort, n, "direct", true, false, true);
    CheckFamily(&verdicts, effort, n, "direct", false, false, true);
    for (const char* family : {"one_shot", "two_shot", "staged", ""}) {
      CheckFamily(&verdicts, effort, n, family, true, false, false, Trigger::kHeard);
      CheckFamily(&verdicts, effort, n, family, true, false, false, Trigger::kSent);
    }
    for (const char* family : {"staged", "direct", ""}) CheckTransfers(&verdicts, effort, n, family);
    for (const char* family : kFamilyNames) {
      CheckAborts(&verdicts, n, family, effort.dawdle_ns, std::max(effort.cases / 10, 1u), effort.abort_seconds);
    }
  }
  for (const char* family : kFamilyNames) CheckAbort(&verdicts, ranks[0], family, effort.abort_seconds);
  if (bench) Bench(ranks[0]);
  if (sweep) Sweep(ranks[0]);
  if (types) SweepTypes(ranks[0]);
  if (triggers) SweepTriggers(ranks[0]);
  const std::string& wrong = verdicts.first_wrong();
  std::printf("\nsymmetric kernels on %d GPUs: %s%s\n", devices,
              wrong.empty() ? "all right" : "WRONG, first: ", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sl::gpu_test

int main(int argc, char** argv) { return sl::gpu_test::Main(argc, argv); }
