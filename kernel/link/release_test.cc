// SPDX-License-Identifier: Apache-2.0
//
// When a sender is told that its chunks were released: with what goes the other way, and soon enough without.
#include <gtest/gtest.h>

#include <cstring>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"
#include "kernel/link/link_table.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kSlots = 8;
constexpr uint64_t kTellAfterNs = 200'000;
uint64_t g_now_ns = 1;

class LinkReleases : public ::testing::Test {
 protected:
  LinkReleases() : net_(2, false) {
    ConfigureLog(SL_LOG_ERROR, "");
    net_.UseDescriptors();  // as networks do
    for (uint32_t rank = 0; rank < 2; ++rank) {
      LinkTableConfig config;
      config.rank = rank;
      config.size = 2;
      config.chunk_bytes = 64;
      config.slots = kSlots;
      config.resend_ns = 3'600'000'000'000;  // no timer of repairs helps
      config.tell_after_ns = kTellAfterNs;
      config.now_ns = [] { return g_now_ns; };
      config.transports = {net_.LinkTransportOf(rank)};
      tables_[rank] = std::make_unique<LinkTable>(std::move(config));
    }
    for (int i = 0; i < 4; ++i) {
      for (uint32_t rank = 0; rank < 2; ++rank) Look(rank), link(rank);
    }
    EXPECT_EQ(Count(0), 0u);
  }

  Link* link(uint32_t rank) { return tables_[rank]->Get(1 - rank, 0); }
  void Look(uint32_t rank) { EXPECT_EQ(tables_[rank]->Progress(), SL_OK); }

  bool Send(uint32_t rank) {
    void* payload = nullptr;
    Look(rank);
    if (link(rank)->Reserve(&payload) != SL_OK) return false;
    EXPECT_EQ(link(rank)->Post(8, {1, 1, 0}), SL_OK);
    link(rank)->Notify();
    return true;
  }
  bool Receive(uint32_t rank) {
    Chunk chunk;
    Look(rank);
    if (link(rank)->Peek(&chunk) != SL_OK) return false;
    EXPECT_EQ(link(rank)->Release(), SL_OK);
    link(rank)->Notify();
    return true;
  }
  // Messages of a rank since the last call.
  uint64_t Count(uint32_t rank) {
    const uint64_t now = net_.messages(rank);
    return now - std::exchange(counted_[rank], now);
  }
  bool Idle(uint32_t rank) {
    Look(rank);
    return tables_[rank]->Idle();
  }

  FakeNet net_;
  std::array<std::unique_ptr<LinkTable>, 2> tables_;
  std::array<uint64_t, 2> counted_ = {};
};

// A message each way a turn, where there were two.
TEST_F(LinkReleases, TravelWithChunksThatGoTheOtherWay) {
  constexpr uint64_t kTurns = 1000;
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    for (uint32_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(Send(rank));
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(Receive(rank));
      link(rank)->EndReceiving();
    }
    g_now_ns += 10'000;
  }
  EXPECT_EQ(Count(0), kTurns);
  EXPECT_EQ(Count(1), kTurns);
}

TEST_F(LinkReleases, AreToldTogetherWhereNothingGoesTheOtherWay) {
  constexpr uint64_t kChunks = 1000;
  for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    ASSERT_TRUE(Send(0));
    ASSERT_TRUE(Receive(1));
  }
  EXPECT_EQ(Count(1), kChunks / (kSlots / 4));
}

TEST_F(LinkReleases, AreToldWhenTheReceiverLeavesAOneWayLink) {
  ASSERT_TRUE(Send(0));
  ASSERT_TRUE(Receive(1));
  EXPECT_FALSE(Idle(0));
  link(1)->EndReceiving();
  EXPECT_TRUE(Idle(0));
  EXPECT_EQ(Count(1), 1u);
}

// The sender wants every slot, and the receiver, who owes it one, takes nothing before it has them.
TEST_F(LinkReleases, AreToldInTimeToASenderThatNeedsEverySlot) {
  ASSERT_TRUE(Send(0));
  ASSERT_TRUE(Receive(1));
  for (uint32_t slot = 1; slot < kSlots; ++slot) ASSERT_TRUE(Send(0));
  EXPECT_FALSE(Send(0));
  Look(1);
  g_now_ns += kTellAfterNs - 1;
  Look(1);
  EXPECT_FALSE(Send(0)) << "told too early to find company";
  g_now_ns += 1;
  Look(1);
  EXPECT_TRUE(Send(0));
  EXPECT_EQ(Count(1), 1u);
}

// What a chunk has carried is not owed any more: the next release has its own time.
TEST_F(LinkReleases, WaitFromTheirOwnTimeOn) {
  ASSERT_TRUE(Send(0));
  ASSERT_TRUE(Receive(1));
  Look(1);
  g_now_ns += kTellAfterNs - 1;
  ASSERT_TRUE(Send(1));
  ASSERT_TRUE(Receive(0));
  EXPECT_EQ(Count(1), 1u);
  ASSERT_TRUE(Send(0));
  ASSERT_TRUE(Receive(1));
  g_now_ns += kTellAfterNs / 2;
  Look(1);
  EXPECT_EQ(Count(1), 0u);
}

TEST_F(LinkReleases, AreToldBeforeARankIsIdle) {
  ASSERT_TRUE(Send(0));
  ASSERT_TRUE(Receive(1));
  EXPECT_FALSE(Idle(1));
  g_now_ns += kTellAfterNs;
  EXPECT_TRUE(Idle(1));
  EXPECT_TRUE(Idle(0));
}

}  // namespace
}  // namespace sl::kernel
