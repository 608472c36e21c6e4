// SPDX-License-Identifier: Apache-2.0
//
// A call that asks for several buffers before it launches.
#include <gtest/gtest.h>

#include <atomic>

#include "kernel/comm/reach_test_util.h"

namespace sl::kernel {
namespace {

class ReachCallTest : public ReachTest {
 protected:
  void WatchCalls() {
    ranks_[0]->WatchUse([] { return true; }, [] { return true; }, [this] { return call_.load(); });
  }
  void AllocateOne(uint64_t number) { Allocate(number * kMiB, number); }

  std::atomic<uint64_t> call_{7};
};

TEST_F(ReachCallTest, KeepsWhatItHasAskedForItself) {
  WatchCalls();
  for (uint64_t i = 1; i <= 4; ++i) {
    AllocateOne(i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  const uint32_t imports = devices_[2].imports;
  AllocateOne(5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED) << "more than may be offered at a time";
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  EXPECT_EQ(devices_[2].imports, imports);
  ++call_;
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_EQ(Ask(5 * kMiB), SL_OK) << "what earlier calls asked for goes";
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, imports + 1);
}

TEST_F(ReachCallTest, WaitsForSilentPeersNoLongerThanForOneBuffer) {
  patience_ns_ = 50'000'000;
  ranks_[0] = Make(0);
  WatchCalls();
  const auto ask = [this](uint64_t number) {
    AllocateOne(number);
    const uint32_t before = waits_;
    EXPECT_EQ(ranks_[0]->Addresses(At(number * kMiB), 16, 0, addresses_), SL_ERR_UNSUPPORTED);
    return waits_ != before;
  };
  EXPECT_TRUE(ask(1));
  for (const uint64_t another : {2, 3}) EXPECT_FALSE(ask(another)) << another;
  const uint32_t before = waits_;
  AllocateOne(4);
  EXPECT_EQ(ranks_[0]->PinAddresses(At(4 * kMiB), 16, addresses_).place, UINT32_MAX);
  EXPECT_NE(waits_, before) << "a registration is no part of the call";
  KeepPeers();
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(ranks_[0]->Addresses(At(i * kMiB), 16, 0, addresses_), SL_OK) << i;
  ++call_;
  Free(kMiB);
  ranks_[0]->Keep(Yes);
  EXPECT_TRUE(ask(5)) << "another call waits again";
}

}  // namespace
}  // namespace sl::kernel
