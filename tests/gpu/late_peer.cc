// SPDX-License-Identifier: Apache-2.0
//
// Part of gpu.launch_order: nothing comes in while a peer is missing.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "tests/gpu/launch_order_checks.h"

namespace sl::gpu_test {

void DemandEnd(GpuTeam& team, Verdicts* verdicts, const char* what) {
  if (team.AwaitAll(20)) return;
  verdicts->Say(false, "%s: a rank's stream is not idle after 20 s", what);
  std::printf("\nlaunch order: FAIL, %s hangs\n", what);
  std::fflush(stdout);
  team.AwaitAll(5);
  std::_Exit(1);  // nothing can be freed
}

DeviceMemory::DeviceMemory(int device, uint64_t bytes) {
  Demand(cudaSetDevice(device), "set device");
  Demand(cudaMalloc(&base_, bytes), "allocate buffers");
  Demand(cudaMemset(base_, 0, bytes), "clear buffers");
  Demand(cudaDeviceSynchronize(), "clear buffers");
}
DeviceMemory::~DeviceMemory() { Demand(cudaFree(base_), "free buffers"); }

sl_op_t CollectiveOf(sl_op_kind_t kind, sl_datatype_t datatype, uint64_t count, const void* send, void* recv) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = datatype;
  op.reduction = SL_SUM;
  op.root = -1;
  op.count = count;
  op.send = send;
  op.recv = recv;
  return op;
}

sl_op_t MessageOf(sl_op_kind_t kind, uint32_t peer, void* user, uint64_t bytes) {
  sl_op_t op = CollectiveOf(kind, SL_UINT8, bytes, user, user);
  op.peer = static_cast<int32_t>(peer);
  return op;
}

namespace {

using algo_symmetric::kernels::Trigger;

constexpr uint64_t kBufferBytes = 32 << 20;

// Ranks with a buffer each for what they send and what they receive.
struct Party {
  Party(uint32_t ranks, const TeamSettings& settings) : team(ranks, settings), foreign(team) {
    for (uint32_t r = 0; r < ranks; ++r) {
      send.push_back(std::make_unique<DeviceMemory>(team[r].device, kBufferBytes));
      recv.push_back(std::make_unique<DeviceMemory>(team[r].device, kBufferBytes));
    }
  }
  GpuTeam team;
  ForeignKernels foreign;
  std::vector<std::unique_ptr<DeviceMemory>> send;
  std::vector<std::unique_ptr<DeviceMemory>> recv;
};

using LaunchOn = std::function<void(Party&, uint32_t)>;

// `launch` runs on the first rank alone, then on all others. What comes behind it on the first one must come when they
// have.
void ExpectNothingComesIn(Verdicts* verdicts, Party& party, const std::string& what, const LaunchOn& launch) {
  GpuTeam& team = party.team;
  party.foreign.ClearWord(0);
  Demand(cudaSetDevice(team[0].device), "set device");
  launch(party, 0);
  party.foreign.RunAtOnce(0, 1, true);
  // A kernel says that it waits some 10 ms after it has begun to, long after it would have let others in.
  const bool waits = team.SaysThatItWaits(0);
  const bool came_early = party.foreign.word(0) != 0;
  for (uint32_t r = 1; r < team.size(); ++r) {
    Demand(cudaSetDevice(team[r].device), "set device");
    launch(party, r);
  }
  DemandEnd(team, verdicts, what.c_str());
  const bool came = party.foreign.word(0) == 1;
  verdicts->Say(waits && !came_early && came, "%s: %s, the next kernel %s", what.c_str(),
                waits ? "waits for a peer" : "does not say that it waits",
                came_early ? "came in meanwhile"
                : came     ? "came in afterwards"
                           : "did not come at all");
}

// Of kernels, by name for what is said of them.
struct How {
  const char* name;
  bool depends;
  Trigger trigger;

  TeamSettings On(const std::string& family) const {
    TeamSettings settings = GpuTeam::SettingsOf(family);
    settings.depends = depends;
    settings.trigger = trigger;
    return settings;
  }
};

void CheckCollectives(Verdicts* verdicts, uint32_t ranks, const std::string& family, const How& how) {
  struct One {
    const char* name;
    sl_op_kind_t kind;
    sl_datatype_t datatype;
    uint64_t count;
  };
  constexpr One kAll[] = {
      {"all-reduce of 8 bytes", SL_OP_ALL_REDUCE, SL_UINT32, 2},
      {"all-gather of 8 bytes", SL_OP_ALL_GATHER, SL_UINT32, 2},
      {"all-reduce of 1,001 bytes", SL_OP_ALL_REDUCE, SL_UINT8, 1001},
      {"all-gather of 20,001 bytes", SL_OP_ALL_GATHER, SL_UINT8, 20001},
      {"all-reduce of 40,000 bytes", SL_OP_ALL_REDUCE, SL_FLOAT32, 10000},
      {"reduce-scatter of 1 MiB", SL_OP_REDUCE_SCATTER, SL_FLOAT32, 262144},
      {"all-gather of 1 MiB", SL_OP_ALL_GATHER, SL_FLOAT32, 262144},
      {"broadcast of 70,000 bytes", SL_OP_BROADCAST, SL_UINT8, 70000},
  };
  Party party(ranks, how.On(family));
  for (const One& one : kAll) {
    const std::string what = std::string(how.name) + ", " + (family.empty() ? "auto" : family) + ", " + one.name;
    ExpectNothingComesIn(verdicts, party, what, [&one](Party& all, uint32_t r) {
      sl_op_t op = CollectiveOf(one.kind, one.datatype, one.count, all.send[r]->As(), all.recv[r]->As());
      if (one.kind == SL_OP_BROADCAST) op.root = 1;  // the first rank waits for it
      all.team.Launch(r, op);
    });
  }
}

// Every rank sends every other one message of each size, and itself, too.
void CheckGroups(Verdicts* verdicts, uint32_t ranks, const How& how) {
  Party party(ranks, how.On(""));
  const std::vector<std::vector<uint64_t>> groups = {
      {33},           {5000},           {40001},           {131072},      {1048583},
      {33, 40001},    {5000, 1048583},  {40001, 40001, 8}, {1048583, 33}, {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8},
      {40001, 40001}, {20000, 2000000},
  };
  for (const std::vector<uint64_t>& sizes : groups) {
    std::string what = std::string(how.name) + ", group of messages of";
    for (const uint64_t bytes : sizes) what += " " + std::to_string(bytes);
    ExpectNothingComesIn(verdicts, party, what + " bytes", [&sizes](Party& all, uint32_t r) {
      std::vector<sl_op_t> ops;
      uint64_t at = 0;
      for (uint32_t peer = 0; peer < all.team.size(); ++peer) {
        for (const uint64_t bytes : sizes) {
          ops.push_back(MessageOf(SL_OP_SEND, peer, all.send[r]->As() + at, bytes));
          ops.push_back(MessageOf(SL_OP_RECV, peer, all.recv[r]->As() + at, bytes));
          at += (bytes + 255) / 256 * 256;
        }
      }
      all.team.LaunchGroup(r, ops);
    });
  }
}

constexpr const char* kFamilies[] = {"one_shot", "two_shot", "lamport_one_shot", "lamport_two_shot", "staged", "direct",
                                     "bulk",     "push"};

}  // namespace

void CheckLatePeer(Verdicts* verdicts, const OrderEffort& effort) {
  for (const How& how : {How{"by exit", true, Trigger::kExit}, How{"when heard", true, Trigger::kHeard}}) {
    for (const char* family : kFamilies) CheckCollectives(verdicts, effort.ranks, family, how);
    CheckCollectives(verdicts, effort.ranks, "", how);
    CheckGroups(verdicts, effort.ranks, how);
  }
}

void CheckOption(Verdicts* verdicts, const OrderEffort& effort) {
  constexpr How kOff{"not launched dependently", false, Trigger::kSent};
  for (const char* family : {"one_shot", "direct", ""}) CheckCollectives(verdicts, effort.ranks, family, kOff);
  CheckGroups(verdicts, effort.ranks, kOff);
}

}  // namespace sl::gpu_test
