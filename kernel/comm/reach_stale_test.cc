// SPDX-License-Identifier: Apache-2.0
//
// Rows of which a piece is mapped anew, as a program may while operations on other pieces run or are captured: whoever
// was told of the row still finds it.
#include <gtest/gtest.h>

#include <atomic>

#include "kernel/comm/reach_test_util.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kPieces = 12;
constexpr uint64_t kPiece = kMiB / 8;
constexpr uint64_t kBase = kMiB;
constexpr uint64_t kLast = kBase + (kPieces - 1) * kPiece;

// Offers a row of 12 pieces, of which operations use the head.
class StaleRowTest : public ReachTest {
 protected:
  void SetUp() override {
    ranks_[0]->WatchUse([this] { return have_ended_.load(); }, [this] { return is_called_.load(); });
    AllocateRow(kBase, 100, kPieces, kPiece);
    ASSERT_EQ(Ask(kBase, kPieces * kPiece), SL_OK);
    ASSERT_EQ(ranks_[2]->mapped(), 1u);
  }
  sl_status_t AskForHead(uint64_t capture = 0) { return Ask(kBase, 4 * kPiece, capture); }
  static void MapAnew(uint64_t piece) { AllocateRow(kBase + piece * kPiece, ++next_id_, 1, kPiece); }

  // Until the owner has looked at every piece, and all peers have done what it tells them.
  void LookAtAll() {
    for (uint64_t i = 0; i < kPieces; ++i) ranks_[0]->Keep(Yes);
    KeepPeers();
  }
  // Of peers; the owner's stays an offer as long.
  void ExpectMapped(uint32_t rows) const {
    EXPECT_EQ(ranks_[0]->offered(), rows);
    for (const uint32_t peer : {1, 2}) EXPECT_EQ(ranks_[peer]->mapped(), rows) << "of rank " << peer;
  }

  static inline uint64_t next_id_ = 1000;
  std::atomic<bool> have_ended_{true};
  std::atomic<bool> is_called_{false};
};

TEST_F(StaleRowTest, StaysMappedWhileALaunchMayUseIt) {
  ASSERT_EQ(AskForHead(), SL_OK);
  have_ended_ = false;
  MapAnew(kPieces - 1);
  LookAtAll();
  ExpectMapped(1);
  have_ended_ = true;
  LookAtAll();
  ExpectMapped(0);
}

TEST_F(StaleRowTest, StaysMappedWhileACallMayBeAboutToLaunch) {
  ASSERT_EQ(AskForHead(), SL_OK);
  is_called_ = true;
  MapAnew(kPieces - 1);
  LookAtAll();
  ExpectMapped(1);
  is_called_ = false;
  LookAtAll();
  ExpectMapped(0);
}

// It is the call that finds the piece changed, before the keeper does.
TEST_F(StaleRowTest, StaysMappedWhenACallFindsThatAPieceIsAnother) {
  ASSERT_EQ(AskForHead(), SL_OK);
  have_ended_ = false;
  is_called_ = true;
  MapAnew(kPieces - 1);
  ASSERT_EQ(Ask(kLast, kPiece), SL_OK);
  EXPECT_EQ(devices_[2].imports, kPieces + 1);
  LookAtAll();
  ExpectMapped(2);
  have_ended_ = true;
  is_called_ = false;
  LookAtAll();
  ExpectMapped(1);
}

TEST_F(StaleRowTest, AnswersNoNewRequest) {
  have_ended_ = false;
  ASSERT_EQ(AskForHead(), SL_OK);
  const uint64_t before = addresses_[2];
  MapAnew(kPieces - 1);
  LookAtAll();
  ASSERT_EQ(AskForHead(), SL_OK);
  EXPECT_NE(addresses_[2], before);
  EXPECT_EQ(devices_[2].imports, kPieces + 4) << "the head is offered by itself";
  ExpectMapped(2);
  have_ended_ = true;
  LookAtAll();
  ExpectMapped(1);
  ASSERT_EQ(AskForHead(), SL_OK);
  EXPECT_EQ(devices_[2].imports, kPieces + 4);
}

TEST_F(StaleRowTest, StaysMappedWhileAGraphHasCapturedAPieceThatIsLeft) {
  ASSERT_EQ(AskForHead(1), SL_OK);
  MapAnew(kPieces - 1);
  LookAtAll();
  ExpectMapped(1);
  for (const uint64_t piece : {3, 1, 0}) Free(kBase + piece * kPiece);
  LookAtAll();
  ExpectMapped(1);
  Free(kBase + 2 * kPiece);  // the last one; other pieces of the row are there
  LookAtAll();
  ExpectMapped(0);
}

TEST_F(StaleRowTest, StaysMappedWhileItIsPinned) {
  const Reach::Pin pin = PinWhileKept(kBase, 4 * kPiece);
  MapAnew(kPieces - 1);
  LookAtAll();
  ExpectMapped(1);
  ranks_[0]->Unpin(pin);
  LookAtAll();
  ExpectMapped(0);
}

// The graph has the addresses that the window was told, and outlives it.
TEST_F(StaleRowTest, StaysMappedWhileAGraphHasCapturedAWindow) {
  const Reach::Pin pin = PinWhileKept(kBase, 4 * kPiece);
  const uint64_t seen = addresses_[2];
  MapAnew(kPieces - 1);
  LookAtAll();
  EXPECT_TRUE(ranks_[0]->HoldPinned(pin, At(kBase), 4 * kPiece));
  ranks_[0]->Unpin(pin);
  LookAtAll();
  ExpectMapped(1);
  EXPECT_EQ(devices_[2].placed[seen], kBase);
  MapAnew(0);
  EXPECT_FALSE(ranks_[0]->HoldPinned(pin, At(kBase), 4 * kPiece)) << "other memory lies there";
  EXPECT_FALSE(ranks_[0]->HoldPinned({}, At(kBase), kPiece)) << "nothing was pinned";
}

// What is gone altogether nothing uses: it goes at once, so that its memory is free again.
TEST_F(StaleRowTest, GoesAtOnceWhenEveryPieceIsGone) {
  ASSERT_EQ(AskForHead(1), SL_OK);
  have_ended_ = false;
  for (uint64_t piece = 0; piece < kPieces; ++piece) Free(kBase + piece * kPiece);
  LookAtAll();
  ExpectMapped(0);
}

TEST_F(StaleRowTest, MakesRoomForOthersFirst) {
  AllocateRow(16 * kMiB, 200, 2);
  ASSERT_EQ(Ask(16 * kMiB, 2 * kMiB), SL_OK);
  MapAnew(kPieces - 1);
  have_ended_ = false;
  LookAtAll();
  have_ended_ = true;
  AllocateRow(32 * kMiB, 300, 2);
  EXPECT_EQ(Ask(32 * kMiB, 2 * kMiB), SL_OK);  // of 4 MiB the stale row had 1.5
  KeepPeers();
  ExpectMapped(2);
  const uint32_t imports = devices_[2].imports;
  EXPECT_EQ(Ask(16 * kMiB, 2 * kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, imports);
}

}  // namespace
}  // namespace sl::kernel
