// SPDX-License-Identifier: Apache-2.0
//
// Layers in either order over the transport of a whole job: results are right whatever is delayed, repeated, reordered
// or broken off, and no promise of any header is broken on the way (the checker ends who breaks one).
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

struct Faults {
  const char* name;
  std::vector<std::pair<const char*, const char*>> options;  // of fault-inject
};

const Faults kFaults[] = {
    {"Nothing", {}},
    // Lost puts are for tests/links: between its operations nobody drives a rank's links, so the last ones stay lost.
    {"Repeats", {{"DUPLICATE_PER_MILLION", "200000"}}},
    {"ALongLine", {{"DELAY_US", "2000"}, {"RATE_BYTES_PER_SECOND", "1000000000"}, {"REORDER_PER_MILLION", "100000"}}},
    {"Resets", {{"KILL_AFTER_PUTS", "40"}, {"KILL_LIMIT", "2"}}},
    {"AStallAndALostPort",
     {{"STALL_AFTER_PUTS", "20"}, {"STALL_MS", "30"}, {"PORT_DOWN_AFTER_PUTS", "60"}, {"PORT_DOWN_MS", "20"}}},
};

using Case = std::tuple<const char*, size_t>;  // order, index of faults

class Layers : public ::testing::TestWithParam<Case> {};

void ReduceAndExchange(Team& team) {
  const ncclComm_t comm = team.MakeComm();
  const float ranks = static_cast<float>(team.size());
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{100'000}}) {
    std::vector<float> a(count), b(count, -1), c(count, -1);
    std::iota(a.begin(), a.end(), static_cast<float>(team.rank()));
    NCCL_OK(ncclAllReduce(a.data(), b.data(), count, ncclFloat32, ncclSum, comm, nullptr));
    const int next = (team.rank() + 1) % team.size();
    const int before = (team.rank() + team.size() - 1) % team.size();
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(a.data(), count, ncclFloat32, next, comm, nullptr));
    NCCL_OK(ncclRecv(c.data(), count, ncclFloat32, before, comm, nullptr));
    NCCL_OK(ncclGroupEnd());
    for (size_t i = 0; i < count; ++i) {
      const auto index = static_cast<float>(i);
      ASSERT_EQ(b[i], ranks * index + ranks * (ranks - 1) / 2) << i << " of " << count;
      ASSERT_EQ(c[i], index + static_cast<float>(before)) << i << " of " << count;
    }
  }
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
}

TEST_P(Layers, LeaveResultsRight) {
  const char* order = std::get<0>(GetParam());
  const size_t index = std::get<1>(GetParam());
  const Environment layers("STARLING_LAYERS", order);
  const std::string links = std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/configs/links.toml";
  const Environment profile("STARLING_PROFILE", links.c_str());
  const Environment resend("STARLING_LINK_RESEND_MS", "20");
  const Environment chunk("STARLING_LINK_CHUNK_BYTES", "16384");
  std::vector<std::string> names;
  for (const auto& [name, value] : kFaults[index].options) {
    names.push_back(std::string("STARLING_FAULT_INJECT_") + name);
    setenv(names.back().c_str(), value, 1);
  }
  RunProcesses(3, ReduceAndExchange);
  for (const std::string& name : names) unsetenv(name.c_str());
}

// A message of 50 chunks that come 40 ms apart, at least: it takes twice the limit, and no wait is nearly as long.
TEST(LayersAndLimits, AnOperationThatMovesOutlastsTheLimitOnItsWaits) {
  const std::string links = std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/configs/links.toml";
  const Environment layers("STARLING_LAYERS", "checker,fault-inject");
  const Environment profile("STARLING_PROFILE", links.c_str());
  const Environment chunk("STARLING_LINK_CHUNK_BYTES", "4096");
  const Environment slow("STARLING_FAULT_INJECT_SLOW_US", "40000");
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    constexpr size_t kCount = size_t{50} * 4096;
    std::vector<uint8_t> bytes(kCount, team.rank() == 0 ? 7 : 0);
    if (team.rank() == 0) {
      NCCL_OK(ncclSend(bytes.data(), kCount, ncclUint8, 1, comm, nullptr));
    } else {
      NCCL_OK(ncclRecv(bytes.data(), kCount, ncclUint8, 0, comm, nullptr));
      EXPECT_EQ(bytes, std::vector<uint8_t>(kCount, 7));
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

INSTANTIATE_TEST_SUITE_P(InBothOrders, Layers,
                         ::testing::Combine(::testing::Values("checker,fault-inject", "fault-inject,checker"),
                                            ::testing::Range(size_t{0}, std::size(kFaults))),
                         [](const auto& made) {
                           const bool checker_first = std::string(std::get<0>(made.param)).starts_with("checker");
                           return std::string(checker_first ? "CheckerOver" : "CheckerUnder") +
                                  kFaults[std::get<1>(made.param)].name;
                         });

}  // namespace
}  // namespace sl::integration
