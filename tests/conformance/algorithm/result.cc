// SPDX-License-Identifier: Apache-2.0
// Every operation the algorithm serves, run by several ranks through libstarling and compared with an oracle.
#include <atomic>
#include <map>
#include <string_view>

#include "sdk/datatype.h"
#include "tests/conformance/algorithm/collective.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"
#include "tests/conformance/kit/job.h"
#include "tests/conformance/kit/random.h"

namespace sl::conform::algorithm {
namespace {

// The rule of a profile by which one algorithm of a module serves whatever it can, and its siblings nothing.
std::string RuleFor(const std::string& algorithm, const sl_module_t& module) {
  std::string others;
  for (uint32_t i = 0; i < module.provide_count; ++i) {
    const sl_provide_t& provide = *module.provides[i];
    if (std::string_view(provide.id) != SL_ALGORITHM_ID || algorithm == provide.name) continue;
    others += fmt::format("{}\"{}\"", others.empty() ? "" : ", ", provide.name);
  }
  return fmt::format("[[select]]\nalgorithm = \"{}\"\nforbid = [{}]\n", algorithm, others);
}

// A job in which the algorithm under test serves whatever it can: itself or, where it is a layer, through what it is
// wrapped around here. Small chunks make plans go several rounds early.
std::unique_ptr<Job> PinnedJob(Trial& trial, bool small_chunks) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const std::string& provider = trial.assignment().provider;
  const std::string links = small_chunks ? "[link]\nchunk_bytes = 8192\n" : "";
  const sl_provide_t* provide = module.Find(SL_ALGORITHM_ID, provider);
  trial.Require(provide != nullptr, "the module provides no algorithm called {}", provider);
  if ((provide->flags & SL_INTERFACE_LAYER) == 0) {
    return std::make_unique<Job>(trial, links + RuleFor(provider, module.table()));
  }
  const auto wrapped = Companion::Find(trial, SL_ALGORITHM_ID, 1, SL_ALGORITHM_REVISION);
  if (wrapped == nullptr)
    trial.Skip("no companion provides an algorithm for the layer to wrap; name one with --with FILE");
  const LoadedModule& inner = wrapped->module();
  return std::make_unique<Job>(trial, links + RuleFor(inner.Find(SL_ALGORITHM_ID, "")->name, inner.table()),
                               inner.path());
}

// Sizes at which things change: nothing, one, odd, around powers of two, more than a chunk.
std::vector<uint64_t> Counts(const Trial& trial, Random* random) {
  if (trial.full()) return {0, 1, 2, 3, 7, 31, 64, 255, 256, 257, 1000, 4095, 4096, 4097, random->Between(5000, 9000)};
  return {random->Between(1, 9), random->Between(60, 70), random->Between(250, 1100)};
}

std::vector<Call> CallsOf(const Trial& trial, sl_op_kind_t kind, uint32_t ranks, Random* random) {
  std::vector<Call> calls;
  const auto add = [&](sl_datatype_t type, sl_reduction_t reduction, uint64_t count) {
    Call call{kind, type, reduction, count, -1, false, 0};
    if (HasRoot(kind)) call.root = static_cast<int32_t>(random->Below(ranks));
    const bool may_overlap = kind != SL_OP_ALL_TO_ALL;
    for (const bool in_place : {false, true}) {
      call.in_place = in_place && may_overlap;
      call.shift = static_cast<uint32_t>(random->Below(4));
      if (trial.full() || random->Below(2) == 0) calls.push_back(call);
    }
  };
  const sl_reduction_t reductions = HasReduction(kind) ? SL_REDUCTION_COUNT : 1;
  for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
    calls.push_back({kind, type, SL_SUM, 0, HasRoot(kind) ? 0 : -1, false, 0});
    for (sl_reduction_t reduction = 0; reduction < reductions; ++reduction) {
      for (const uint64_t count : Counts(trial, random)) add(type, reduction, count);
    }
  }
  for (const uint64_t bytes : {16384, 65536, 131072, 524288}) {
    for (const sl_datatype_t type : {SL_UINT8, SL_FLOAT32, SL_FLOAT64}) {
      const uint64_t count = bytes / DatatypeBytes(type);
      add(type, SL_SUM, count + random->Below(3) - 1);
      if (trial.full()) add(type, SL_MAX, count * 4 + 1);
    }
  }
  return calls;
}

// One rank of all calls; what is not served is counted, everything else must be right.
bool RunCalls(Trial& trial, const Job& job, sl_comm_t* comm, uint32_t rank, uint32_t ranks,
              const std::vector<Call>& calls, const std::vector<tools::Oracle*>& oracles,
              std::atomic<uint64_t>* served) {
  CallBuffers buffers;
  for (size_t i = 0; i < calls.size(); ++i) {
    const sl_op_t op = buffers.Prepare(calls[i], rank, ranks, oracles[i]);
    const sl_status_t status = job.ops().enqueue(comm, &op, nullptr);
    if (status == SL_ERR_UNSUPPORTED) continue;
    const Scope scope(calls[i].ToString(ranks));
    if (!trial.Expect(status == SL_OK, "rank {}: {}: {}", rank, StatusName(status), job.ops().last_error())) {
      return false;
    }
    const std::string wrong = buffers.Check(oracles[i]);
    if (!trial.Expect(wrong.empty(), "{}", wrong)) return false;
    if (calls[i].count > 0) served->fetch_add(1);  // the kernel serves empty ones itself
  }
  return true;
}

void RunKind(Trial& trial, sl_op_kind_t kind, bool small_chunks) {
  const auto job = PinnedJob(trial, small_chunks);
  Random random(trial.seed() * 1000 + kind);
  std::atomic<uint64_t> served{0};
  const std::vector<uint32_t> sizes =
      trial.full() ? std::vector<uint32_t>{2, 3, 4, 5, 7, 8} : std::vector<uint32_t>{2, 3, 4};
  for (const uint32_t ranks : sizes) {
    const std::vector<Call> calls = CallsOf(trial, kind, ranks, &random);
    std::map<std::pair<sl_datatype_t, sl_reduction_t>, std::unique_ptr<tools::Oracle>> made;
    std::vector<tools::Oracle*> oracles;
    for (const Call& call : calls) {
      auto& oracle = made[{call.datatype, call.reduction}];
      if (oracle == nullptr) oracle = MakeOracle(call, ranks, trial.seed());
      oracles.push_back(oracle.get());
    }
    job->Run(ranks, [&](uint32_t rank, sl_comm_t* comm) {
      return RunCalls(trial, *job, comm, rank, ranks, calls, oracles, &served);
    });
    if (trial.outcome() == Outcome::kFailed) return;  // ranks that failed leave little to learn from more
  }
  if (served == 0) trial.Skip(fmt::format("it serves no {}", OpKindName(kind)));
}

// The class that estimate() declares for the operation, on a team as the job's.
uint32_t DeclaredClass(Trial& trial, const sl_op_t& op, uint32_t ranks) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  const Team team(trial, subject, TeamShape{ranks});
  sl_estimate_t estimate{};
  estimate.struct_size = sizeof(estimate);
  if (!team.IsServed() || subject.ops.estimate(team.algorithm(0), &op, &estimate) != SL_OK) return SL_DETERMINISM_NONE;
  return estimate.determinism;
}

// Inputs whose sum depends on the order of additions; the same call again, and on every rank.
void KeepsItsClass(Trial& trial) {
  constexpr uint32_t kRanks = 4;
  constexpr int kRounds = 8;
  for (const uint64_t count : {uint64_t{33}, uint64_t{70001}}) {
    const Call call{SL_OP_ALL_REDUCE, SL_FLOAT32, SL_SUM, count, -1, false, 0};
    const uint32_t declared = DeclaredClass(trial, MakeOp(call.kind, call.datatype, call.reduction, count, -1), kRanks);
    if (declared == SL_DETERMINISM_NONE) trial.Skip("it declares no class for an all-reduce");
    const auto job = PinnedJob(trial, false);
    const auto oracle = MakeOracle(call, kRanks, trial.seed());
    std::vector<std::string> results[kRanks];
    job->Run(kRanks, [&](uint32_t rank, sl_comm_t* comm) {
      CallBuffers buffers;
      for (int round = 0; round < kRounds; ++round) {
        const sl_op_t op = buffers.Prepare(call, rank, kRanks, oracle.get());
        const sl_status_t status = job->ops().enqueue(comm, &op, nullptr);
        if (!trial.Expect(status == SL_OK, "{}: {}", StatusName(status), job->ops().last_error())) return false;
        results[rank].push_back(buffers.Result());
      }
      return true;
    });
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (const std::string& result : results[rank]) {
        trial.Expect(result == results[rank][0],
                     "{} elements: rank {} has other bits in another run, class {} declared", count, rank, declared);
        const bool same = declared < SL_DETERMINISM_RANK || result == results[0][0];
        trial.Expect(same, "{} elements: rank {} has other bits than rank 0, class {} declared", count, rank, declared);
      }
    }
  }
}

// A ring of sends by `distance`, and every rank's receive, in one group.
bool SendAround(Trial& trial, const Job& job, sl_comm_t* comm, uint32_t rank, uint32_t ranks, uint32_t distance,
                uint64_t bytes, std::atomic<uint64_t>* served) {
  const uint32_t to = (rank + distance) % ranks;
  const uint32_t from = (rank + ranks - distance) % ranks;
  std::vector<uint8_t> out(bytes + 1);
  std::vector<uint8_t> in(bytes + 1, 0x5a);
  const auto byte_of = [&](uint32_t of, uint64_t at) { return static_cast<uint8_t>(of * 37 + at * 11 + at / 256); };
  for (uint64_t i = 0; i < bytes; ++i) out[i] = byte_of(rank, i);
  sl_op_t send{};
  send.struct_size = sizeof(send);
  send.kind = SL_OP_SEND;
  send.datatype = SL_UINT8;
  send.root = -1;
  send.peer = static_cast<int32_t>(to);
  send.count = bytes;
  send.send = out.data();
  sl_op_t recv = send;
  recv.kind = SL_OP_RECV;
  recv.peer = static_cast<int32_t>(from);
  recv.send = nullptr;
  recv.recv = in.data();
  const sl_group_entry_t entries[] = {{comm, &send, nullptr, 0, nullptr}, {comm, &recv, nullptr, 0, nullptr}};
  const sl_status_t status = job.ops().enqueue_group(entries, 2);
  if (status == SL_ERR_UNSUPPORTED) return true;
  const Scope scope(fmt::format("{} bytes from rank {} to rank {} of {}", bytes, from, rank, ranks));
  if (!trial.Expect(status == SL_OK, "{}: {}", StatusName(status), job.ops().last_error())) return false;
  for (uint64_t i = 0; i < bytes; ++i) {
    if (!trial.Expect(in[i] == byte_of(from, i), "byte {} is {}, sent was {}", i, in[i], byte_of(from, i)))
      return false;
  }
  if (bytes > 0) served->fetch_add(1);
  return trial.Expect(in[bytes] == 0x5a, "it wrote behind the receive buffer");
}

void SendsAndReceives(Trial& trial) {
  const auto job = PinnedJob(trial, true);
  std::atomic<uint64_t> served{0};
  for (const uint32_t ranks : {2u, 3u, 5u}) {
    job->Run(ranks, [&](uint32_t rank, sl_comm_t* comm) {
      for (const uint64_t bytes : {0, 1, 63, 8191, 8192, 8193, 300000}) {
        for (uint32_t distance = 1; distance < ranks; ++distance) {
          if (!SendAround(trial, *job, comm, rank, ranks, distance, bytes, &served)) return false;
        }
      }
      return true;
    });
    if (trial.outcome() == Outcome::kFailed) return;
  }
  if (served == 0) trial.Skip("it serves no sends and receives");
}

}  // namespace

std::vector<Test> ResultTests() {
  std::vector<Test> tests;
  for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
    tests.push_back({fmt::format("Result.IsRight.{}", OpKindName(kind)),
                     "all types, reductions and sizes, in and out of place, against a high-precision oracle",
                     [kind](Trial& trial) { RunKind(trial, kind, false); }, 20});
    tests.push_back({fmt::format("Result.IsRightInSmallChunks.{}", OpKindName(kind)),
                     "the same over links of 8 KiB chunks", [kind](Trial& trial) { RunKind(trial, kind, true); }, 20,
                     true});
  }
  tests.push_back({"Result.IsRight.send_recv", "bytes arrive as sent, at the right rank, in every direction at once",
                   SendsAndReceives, 20});
  tests.push_back({"Result.KeepsTheDeclaredClass", "the same bits again, and on every rank, where that is declared",
                   KeepsItsClass, 20});
  return tests;
}

}  // namespace sl::conform::algorithm
