// SPDX-License-Identifier: Apache-2.0
//
// The thread that maps and unmaps, while mapping takes long and launches begin.
#include "kernel/comm/reach_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "kernel/comm/reach_test_util.h"

namespace sl::kernel {
namespace {

// Rank 2 looks after what ranks 0 and 1 offer. It fetches handles of what is mapped by hand.
class ReachKeeperTest : public ReachTest {
 protected:
  ReachKeeperTest() { is_over_ = true; }  // who offers does not wait

  void Offer(uint32_t owner, uint64_t address, Kind kind) {
    Allocate(address, address, kind);
    EXPECT_EQ(ranks_[owner]->Addresses(At(address), 16, 0, addresses_), SL_ERR_UNSUPPORTED);
  }
  // Rank 2 has mapped it.
  void OfferAndMap(uint32_t owner, uint64_t address) {
    Offer(owner, address, Kind::kPlain);
    ranks_[2]->Keep(Yes);
  }
  // Rank 2 is to unmap it.
  void Withdraw(uint32_t owner, uint64_t address) {
    Free(address);
    ranks_[owner]->Keep(Yes);
  }
};

// A launch begins while the keeper fetches handles.
TEST_F(ReachKeeperTest, AsksRightBeforeItUnmapsWhetherNoLaunchRuns) {
  std::atomic<bool> have_ended{true};
  ranks_[2]->WatchUse([&] { return have_ended.load(); }, [] { return false; });
  OfferAndMap(1, kMiB);
  Withdraw(1, kMiB);
  Offer(0, 8 * kMiB, Kind::kByHand);
  on_fetch_ = [&] { have_ended = false; };
  ReachKeeper keeper;
  for (const uint32_t rank : {2, 1}) ASSERT_TRUE(keeper.Add(ranks_[rank].get()).ok());
  keeper.Wake();
  while (devices_[1].imports == 0) std::this_thread::yield();  // it is done with rank 2, once
  for (const uint32_t rank : {2, 1}) keeper.Remove(ranks_[rank].get());
  EXPECT_EQ(devices_[2].done, "ii");
  EXPECT_EQ(ranks_[2]->mapped(), 2u);
}

TEST_F(ReachKeeperTest, MapsBeforeItUnmaps) {
  OfferAndMap(0, kMiB);
  Withdraw(0, kMiB);
  Offer(1, 2 * kMiB, Kind::kPlain);
  ranks_[2]->Keep(Yes);
  EXPECT_EQ(devices_[2].done, "iiu");
}

TEST_F(ReachKeeperTest, AsksBeforeEveryUnmapping) {
  for (const uint32_t owner : {0, 1}) OfferAndMap(owner, (1 + owner) * kMiB);
  for (const uint32_t owner : {0, 1}) Withdraw(owner, (1 + owner) * kMiB);
  uint32_t asked = 0;
  EXPECT_TRUE(ranks_[2]->Keep([&] { return asked++ == 0; }));
  EXPECT_EQ(asked, 2u);
  EXPECT_EQ(ranks_[2]->mapped(), 1u);
}

// Its communicator ends; others' handles need not be fetched any more.
TEST_F(ReachKeeperTest, StopsAfterTheFetchThatIsUnderWay) {
  for (uint64_t i = 1; i <= 3; ++i) Offer(0, i * kMiB, Kind::kByHand);
  uint32_t fetches = 0;
  on_fetch_ = [&] {
    ++fetches;
    ranks_[2]->StopKeeping();
  };
  EXPECT_FALSE(ranks_[2]->Keep(Yes));
  EXPECT_EQ(fetches, 1u);
  EXPECT_EQ(ranks_[2]->mapped(), 1u);
}

// Its communicator ends while the driver makes the thread wait; it is not freed before the thread has left it.
TEST_F(ReachKeeperTest, ForgetsWithoutWaiting) {
  for (uint64_t i = 1; i <= 2; ++i) Offer(0, i * kMiB, Kind::kByHand);
  std::latch fetches(1);
  std::latch goes_on(1);
  on_fetch_ = [&] {
    fetches.count_down();
    goes_on.wait();
  };
  ReachKeeper keeper;
  ASSERT_TRUE(keeper.Add(ranks_[2].get()).ok());
  keeper.Wake();
  fetches.wait();
  auto forgotten = std::async(std::launch::async, [&] { keeper.Forget(ranks_[2].get()); });
  EXPECT_EQ(forgotten.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "it waits for the fetch";
  auto removed = std::async(std::launch::async, [&] {
    keeper.Remove(ranks_[2].get());
    return ranks_[2]->mapped();
  });
  goes_on.count_down();
  EXPECT_EQ(removed.get(), 1u) << "the thread is still inside";
}

// Launches of one whose end nobody can know would keep everybody's memory mapped.
TEST_F(ReachKeeperTest, AsksNothingOfWhoIsForgotten) {
  OfferAndMap(1, kMiB);
  Withdraw(1, kMiB);
  ranks_[0]->WatchUse([] { return false; }, [] { return true; });
  ReachKeeper keeper;
  for (const uint32_t rank : {2, 0}) ASSERT_TRUE(keeper.Add(ranks_[rank].get()).ok());
  keeper.Forget(ranks_[0].get());
  keeper.Wake();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ranks_[2]->mapped() != 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
  for (const uint32_t rank : {2, 0}) keeper.Remove(ranks_[rank].get());
}

TEST_F(ReachKeeperTest, AddsAndRemovesOthersWhileItFetches) {
  Offer(0, kMiB, Kind::kByHand);
  std::latch fetches(1);
  std::latch goes_on(1);
  on_fetch_ = [&] {
    fetches.count_down();
    goes_on.wait();
  };
  ReachKeeper keeper;
  ASSERT_TRUE(keeper.Add(ranks_[2].get()).ok());
  keeper.Wake();
  fetches.wait();
  auto others = std::async(std::launch::async, [&] {
    EXPECT_TRUE(keeper.Add(ranks_[1].get()).ok());
    keeper.Remove(ranks_[1].get());
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "they wait for the fetch";
  goes_on.count_down();
  others.wait();
  keeper.Remove(ranks_[2].get());
  EXPECT_EQ(ranks_[2]->mapped(), 1u) << "what was under way came to its end";
}

}  // namespace
}  // namespace sl::kernel
