// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "kernel/comm/reach_keeper.h"
#include "kernel/comm/reach_test_util.h"

namespace sl::kernel {
namespace {

TEST_F(ReachTest, TellsWhereEveryRankSeesABuffer) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB + 100), SL_OK);
  EXPECT_EQ(addresses_[0], kMiB + 100);
  EXPECT_EQ(addresses_[1], 2 * kShift + kMiB + 100);
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 100);
  EXPECT_EQ(devices_[1].last_type, SL_HANDLE_LOCAL);
  EXPECT_EQ(devices_[2].last_type, SL_HANDLE_IPC);
}

TEST_F(ReachTest, AsksPeersOnceForAnAllocation) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  ASSERT_EQ(ranks_[0]->Addresses(At(kMiB + 512), 16, 0, addresses_), SL_OK);  // nobody answers now
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 512);
  EXPECT_EQ(devices_[2].imports, 1u);
  EXPECT_EQ(rings_, 1u);
}

TEST_F(ReachTest, WithdrawsWhatWasFreed) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_TRUE(ranks_[0]->Keep(Yes));  // it goes on looking
  Free(kMiB);
  EXPECT_FALSE(ranks_[0]->Keep(Yes));
  KeepPeers();
  EXPECT_EQ(ranks_[0]->offered(), 0u);
  EXPECT_EQ(ranks_[1]->mapped(), 0u);
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, KnowsThatAnAddressWasAllocatedAgain) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(kMiB, 8);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, 2u);
  EXPECT_EQ(devices_[2].mappings, 1u);
}

TEST_F(ReachTest, UnmapsWhenNoLaunchRuns) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  std::atomic<bool> idle{false};
  ranks_[1]->WatchUse([&] { return idle.load(); }, [] { return false; });
  Free(kMiB);
  ranks_[0]->Keep(Yes);
  EXPECT_TRUE(ranks_[1]->Keep([&] { return ranks_[1]->IsIdle(); }));
  EXPECT_EQ(ranks_[1]->mapped(), 1u);
  idle = true;
  EXPECT_FALSE(ranks_[1]->Keep([&] { return ranks_[1]->IsIdle(); }));
  EXPECT_EQ(ranks_[1]->mapped(), 0u);
}

// A peer that comes later still finds what an operation has told it that was given up.
TEST_F(ReachTest, LeavesWithPeersWhatAnOperationThatWasGivenUpMayHaveTold) {
  Allocate(kMiB, 7);
  Allocate(2 * kMiB, 8);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  ASSERT_EQ(Ask(2 * kMiB), SL_OK);
  gives_up_ = true;
  Free(kMiB);
  ranks_[0]->Keep(Yes);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  KeepPeers();
  EXPECT_EQ(ranks_[1]->mapped(), 2u);
  ranks_[0]->Close();
  KeepPeers();
  EXPECT_EQ(ranks_[2]->mapped(), 2u);
  ranks_[2]->Close();
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, MakesRoomByWhatWasNotUsedForLongest) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(5 * kMiB, 5);
  ASSERT_EQ(Ask(5 * kMiB), SL_OK);
  KeepPeers();
  EXPECT_EQ(ranks_[0]->offered(), 4u);
  const uint32_t imports = devices_[1].imports;
  ASSERT_EQ(Ask(kMiB), SL_OK);  // stayed
  EXPECT_EQ(devices_[1].imports, imports);
}

TEST_F(ReachTest, RefusesMoreThanItsShareWhileLaunchesRun) {
  ranks_[0]->WatchUse([] { return false; }, [] { return true; });
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
}

TEST_F(ReachTest, KeepsWhatWasJustAskedFor) {
  rest_ns_ = 30'000'000'000;
  ranks_[0] = Make(0);
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);  // the call may be about to launch with any of the four
  EXPECT_EQ(ranks_[0]->offered(), 4u);
}

TEST_F(ReachTest, KeepsWhatAGraphHasCaptured) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB, 16, 1), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
  Free(2 * kMiB);
  ranks_[0]->Keep(Yes);
  KeepPeers();
  EXPECT_EQ(Ask(5 * kMiB), SL_OK);
}

TEST_F(ReachTest, KeepsWhatIsPinned) {
  Reach::Pin pins[4];
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    pins[i - 1] = PinWhileKept(i * kMiB, kMiB);
    EXPECT_EQ(addresses_[2], 3 * kShift + i * kMiB);
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
  ranks_[0]->Unpin(pins[2]);
  sl_status_t status = Ask(5 * kMiB);
  if (status != SL_OK) status = Ask(5 * kMiB);  // its bytes are free again once peers have answered
  EXPECT_EQ(status, SL_OK);
  Free(kMiB);
  ranks_[0]->Keep(Yes);
  ranks_[0]->Unpin(pins[0]);  // gone already
  ranks_[0]->Unpin(Reach::Pin{});
}

TEST_F(ReachTest, UsesEveryPlaceAgain) {
  for (uint64_t i = 1; i <= 3 * OfferBoard::kOffers; ++i) {
    Allocate(kMiB, i);
    sl_status_t status = Ask(kMiB);
    if (status != SL_OK) status = Ask(kMiB);  // places are free again once peers have answered
    ASSERT_EQ(status, SL_OK) << i;
  }
  EXPECT_EQ(ranks_[0]->offered(), 1u);
}

TEST_F(ReachTest, OffersNoMoreThanIsFreeBesides) {
  devices_[0].free_bytes = 3 * kMiB - 1;
  Allocate(kMiB, 1);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(2 * kMiB, 2);
  EXPECT_EQ(Ask(2 * kMiB), SL_ERR_UNSUPPORTED);
  devices_[0].free_bytes = 3 * kMiB;
  EXPECT_EQ(AskUntilItIsOffered(2 * kMiB), SL_OK);
}

TEST_F(ReachTest, AsksTheDriverSeldomWhileMemoryIsScarce) {
  devices_[0].free_bytes = kMiB;
  Allocate(2 * kMiB, 2);
  constexpr uint32_t kCalls = 1000;
  const uint64_t begin_ns = NowNs();
  for (uint32_t i = 0; i < kCalls; ++i) ASSERT_EQ(Ask(2 * kMiB), SL_ERR_UNSUPPORTED);
  const uint64_t took_ns = NowNs() - begin_ns;
  EXPECT_LE(devices_[0].free_asked, 1 + took_ns / 10'000'000);
  devices_[0].free_bytes = 64 * kMiB;
  EXPECT_EQ(AskUntilItIsOffered(2 * kMiB), SL_OK);
}

TEST_F(ReachTest, WithdrawsWhenLessIsFree) {
  for (uint64_t i = 1; i <= 3; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  devices_[0].free_bytes = 2 * kMiB;
  while (ranks_[0]->offered() > 1) {
    ranks_[0]->Keep(Yes);
    KeepPeers();
  }
  ranks_[0]->Keep(Yes);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  EXPECT_EQ(ranks_[1]->mapped(), 1u);
}

TEST_F(ReachTest, RefusesWhatCannotBeShared) {
  Allocate(kMiB, 7, Kind::kPrivate);
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  Allocate(2 * kMiB, 8);
  EXPECT_EQ(Ask(3 * kMiB - 8), SL_ERR_UNSUPPORTED);  // reaches behind its end
  Allocate(3 * kMiB, 10);
  EXPECT_EQ(Ask(3 * kMiB - 8), SL_ERR_UNSUPPORTED);  // spans two that were not mapped by hand
  EXPECT_EQ(ranks_[0]->refused(), 3u);
  EXPECT_EQ(Ask(64 * kMiB), SL_ERR_UNSUPPORTED);  // nobody's
  Allocate(8 * kMiB, 9, Kind::kPlain, 5 * kMiB);
  EXPECT_EQ(Ask(8 * kMiB), SL_ERR_UNSUPPORTED);  // more than the limit
  EXPECT_EQ(rings_, 0u);
}

TEST_F(ReachTest, RefusesWhatAPeerCannotMapAndAsksNoMore) {
  Allocate(kMiB, 7);
  devices_[2].refuses = true;
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(devices_[2].imports, 1u);
}

TEST_F(ReachTest, GoesAnotherWayWhenPeersDoNotAnswer) {
  Allocate(kMiB, 7);
  is_over_ = true;
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_ERR_UNSUPPORTED);
  is_over_ = false;
  KeepPeers();
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_OK);  // they have, in the meantime
}

TEST_F(ReachTest, FetchesDescriptorsOfWhatIsMappedByHand) {
  Allocate(kMiB, 7, Kind::kByHand);
  ASSERT_EQ(Ask(kMiB + 100), SL_OK);
  EXPECT_EQ(addresses_[1], 2 * kShift + kMiB + 100);
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 100);
  EXPECT_EQ(devices_[1].last_type, SL_HANDLE_LOCAL);
  EXPECT_EQ(devices_[2].last_type, SL_HANDLE_FD);
}

TEST_F(ReachTest, MapsARowOfAllocationsSideBySide) {
  constexpr uint64_t kPiece = kMiB / 2;
  AllocateRow(kMiB, 7, 3, kPiece);
  ASSERT_EQ(Ask(kMiB + 100, 2 * kPiece), SL_OK);
  EXPECT_EQ(addresses_[0], kMiB + 100);
  for (const uint32_t rank : {1, 2}) {
    const uint64_t base = addresses_[rank] - 100;
    const std::map<uint64_t, uint64_t> row = {
        {base, kMiB}, {base + kPiece, kMiB + kPiece}, {base + 2 * kPiece, kMiB + 2 * kPiece}};
    EXPECT_EQ(devices_[rank].placed, row);
  }
  const uint64_t base = addresses_[2] - 100;
  ASSERT_EQ(Ask(kMiB + 2 * kPiece - 8, 16), SL_OK);  // within it
  EXPECT_EQ(addresses_[2], base + 2 * kPiece - 8);
  EXPECT_EQ(devices_[2].imports, 3u);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  AllocateRow(kMiB + 3 * kPiece, 10, 1, kPiece);
  ASSERT_EQ(Ask(kMiB + 3 * kPiece - 8, 16), SL_OK);  // reaches out of it
  EXPECT_EQ(devices_[2].imports, 5u);
  EXPECT_EQ(ranks_[0]->offered(), 2u);
}

TEST_F(ReachTest, KnowsThatAPieceOfARowWasMappedAnew) {
  AllocateRow(kMiB, 7, 2);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  AllocateRow(2 * kMiB, 9, 1);
  ASSERT_EQ(Ask(kMiB), SL_OK) << "the first piece is what it was";
  EXPECT_EQ(devices_[2].imports, 2u);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, 4u);
  ranks_[0]->Keep(Yes);
  KeepPeers();
  EXPECT_EQ(devices_[2].mappings, 2u);
  EXPECT_EQ(devices_[2].reservations, 1u);
}

TEST_F(ReachTest, WithdrawsARowOfWhichAPieceWasFreed) {
  constexpr uint64_t kPieces = 20;
  AllocateRow(kMiB, 7, kPieces, kMiB / 16);
  ASSERT_EQ(Ask(kMiB, kMiB), SL_OK);
  Free(kMiB + (kPieces - 5) * kMiB / 16);
  while (ranks_[0]->Keep(Yes)) {
  }
  EXPECT_EQ(ranks_[0]->offered(), 0u);
  KeepPeers();
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, KeepsDescriptorsUntilAllPeersHaveThem) {
  AllocateRow(kMiB, 7, 2);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  EXPECT_TRUE(Fetch(0, {0, 1}).ok());
  ranks_[0]->Keep(Yes);
  EXPECT_EQ(Fetch(0, {0, 1}).status().code(), SL_ERR_STATE);
}

TEST_F(ReachTest, RefusesARowThatCannotAllBeShared) {
  Allocate(kMiB, 7, Kind::kByHand);
  Allocate(2 * kMiB, 8);  // no descriptor
  EXPECT_EQ(Ask(kMiB, 2 * kMiB), SL_ERR_UNSUPPORTED);
  AllocateRow(8 * kMiB, 100, Extent::kMostPieces + 1, 4096);
  EXPECT_EQ(Ask(8 * kMiB, (Extent::kMostPieces + 1) * 4096), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(rings_, 0u);
  EXPECT_EQ(Ask(8 * kMiB, Extent::kMostPieces * 4096), SL_OK);
  EXPECT_EQ(devices_[2].imports, Extent::kMostPieces);
}

TEST_F(ReachTest, LeavesNothingOfARowThatAPeerCannotMap) {
  AllocateRow(kMiB, 7, 3);
  devices_[2].imports_left = 2;
  EXPECT_EQ(Ask(kMiB, 3 * kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(devices_[2].mappings, 0u);
  EXPECT_EQ(devices_[2].reservations, 0u);
}

TEST_F(ReachTest, IsServedByTheKeeper) {
  ReachKeeper keeper;
  for (const auto& reach : ranks_) ASSERT_TRUE(keeper.Add(reach.get()).ok());
  Allocate(kMiB, 7);
  keeper.Wake();
  std::thread late([&] {  // of an offer that comes after it has looked
    while (rings_ == 0) std::this_thread::yield();
    keeper.Wake();
  });
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_OK);
  late.join();
  Free(kMiB);  // and it looks after what was offered, by itself
  while (ranks_[0]->offered() != 0) std::this_thread::yield();
  keeper.Wake();
  for (const auto& reach : ranks_) keeper.Remove(reach.get());
}

}  // namespace
}  // namespace sl::kernel
