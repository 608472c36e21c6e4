// SPDX-License-Identifier: Apache-2.0
//
// What happens on links while no operation runs. Real time: every wait here ends as soon as what it waits for is there,
// and fails after ten seconds.
#include "kernel/link/keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
namespace {

class LinkKeeperTest : public ::testing::Test {
 protected:
  void Open(bool mapped, bool by_descriptor = false, uint32_t slots = 2) {
    ConfigureLog(SL_LOG_ERROR, "");
    net_ = std::make_unique<FakeNet>(2, mapped);
    if (by_descriptor) net_->UseDescriptors();
    for (uint32_t rank = 0; rank < 2; ++rank) {
      LinkTableConfig config;
      config.rank = rank;
      config.size = 2;
      config.comm_id = 5;
      config.chunk_bytes = 64;
      config.slots = slots;
      config.resend_ns = 5'000'000;
      config.keeper = &keeper_;
      config.transports = {net_->LinkTransportOf(rank)};
      tables_[rank] = std::make_unique<LinkTable>(std::move(config));
    }
  }

  // Does `call` as an operation does: nobody else drives meanwhile.
  template <typename Call>
  auto Drive(uint32_t rank, Call&& call) {
    const Driving driving = Driving::Await(tables_[rank].get());
    static_cast<void>(tables_[rank]->Progress());
    return call();
  }

  bool Send(uint32_t rank, uint64_t value) {
    return Drive(rank, [&] {
      Link* link = tables_[rank]->Get(1 - rank, 0);
      void* payload = nullptr;
      if (link->Reserve(&payload) != SL_OK) return false;
      std::memcpy(payload, &value, sizeof value);
      return link->Post(sizeof value, {1, 1, 0}) == SL_OK;
    });
  }

  uint64_t Receive(uint32_t rank) {
    return Drive(rank, [&] {
      Link* link = tables_[rank]->Get(1 - rank, 0);
      Chunk chunk;
      uint64_t value = 0;
      if (link->Peek(&chunk) != SL_OK) return value;
      std::memcpy(&value, chunk.payload, sizeof value);
      EXPECT_EQ(link->Release(), SL_OK);
      return value;
    });
  }

  static bool Until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      if (is_so()) return true;
      std::this_thread::yield();
    }
    return false;
  }

  // Waits for a message as a driver of runs does: looks a few times, then sleeps on the doorbell, far longer than a
  // message can take. False: the sleep ran out.
  bool Await(uint32_t rank, uint64_t value, uint32_t looks) {
    for (uint32_t look = 0; look < looks; ++look) {
      if (Receive(rank) == value) return true;
    }
    for (;;) {
      sl_doorbell_t* bell = Drive(rank, [&] { return tables_[rank]->doorbell(); });
      if (bell == nullptr) return false;
      const uint32_t rings = std::atomic_ref(bell->rings).load();
      BellGuard guard(bell);
      if (Receive(rank) == value) return true;
      Drive(rank, [&] { return tables_[rank]->doorbell(); });
      guard.Sleep(10'000'000'000);
      ++sleeps_;
      if (std::atomic_ref(bell->rings).load() == rings) return false;
      if (Receive(rank) == value) return true;
    }
  }

  std::atomic<uint64_t> sleeps_{0};
  LinkKeeper keeper_;
  std::unique_ptr<FakeNet> net_;
  std::array<std::unique_ptr<LinkTable>, 2> tables_;
};

TEST_F(LinkKeeperTest, SendsAgainWhatWasLostInTheLastOperation) {
  Open(false);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  ASSERT_TRUE(Until([&] { return Receive(1) == 1; }));
  net_->set_faults({.drop_per_million = 1'000'000});
  ASSERT_TRUE(Until([&] { return Send(0, 2); }));
  net_->set_faults({});
  // Rank 0 does nothing any more.
  EXPECT_TRUE(Until([&] { return Receive(1) == 2; }));
}

TEST_F(LinkKeeperTest, AnswersForARankThatComputes) {
  Open(false);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  ASSERT_TRUE(Until([&] { return Receive(1) == 1; }));
  // From here on rank 1 does nothing: its end is made again all the same, and what rank 0 sends gets there.
  net_->KillAll();
  ASSERT_TRUE(Until([&] { return Send(0, 2); }));
  const uint64_t puts = net_->puts();
  EXPECT_TRUE(Until([&] {
    Drive(0, [] { return true; });
    return net_->live_ends() == 2 && net_->puts() > puts;
  }));
  EXPECT_TRUE(Until([&] { return Receive(1) == 2; }));
}

// Rank 1 owes word of a release, and computes.
TEST_F(LinkKeeperTest, TellsWhatWasReleasedForARankThatComputes) {
  Open(false, false, 8);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  ASSERT_TRUE(Until([&] { return Receive(1) == 1; }));
  EXPECT_TRUE(Until([&] { return Drive(0, [&] { return tables_[0]->Idle(); }); }));
}

TEST_F(LinkKeeperTest, HasNothingToDoWhereMemoryIsMapped) {
  Open(true);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  ASSERT_TRUE(Until([&] { return Receive(1) == 1; }));
  EXPECT_EQ(keeper_.rounds(), 0u);
}

// Both ranks answer each other; where they look, and when they sleep, differs from turn to turn.
TEST_F(LinkKeeperTest, WakesWhoSleepsWhenANetworkHasNews) {
  constexpr uint64_t kTurns = 1500;
  Open(false, true);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  ASSERT_TRUE(Until([&] { return Receive(1) == 1; }));
  const auto play = [&](uint32_t rank) {
    std::mt19937 random(7 + rank);
    for (uint64_t turn = 2; turn < kTurns; ++turn) {
      if (turn % 2 == rank) {
        while (!Send(rank, turn)) std::this_thread::yield();
      } else if (!Await(rank, turn, random() % 8)) {
        ADD_FAILURE() << "rank " << rank << " missed message " << turn;
        return;
      }
    }
  };
  for (const auto& table : tables_) table->BeginUse();
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  for (const auto& table : tables_) table->EndUse();
  EXPECT_GT(sleeps_.load(), 0u);
}

// A rank that waits is not driven by anybody else, nor is the processor taken from it.
TEST_F(LinkKeeperTest, StaysAwayFromWhoWaitsAwake) {
  Open(false, true);
  ASSERT_TRUE(Until([&] { return Send(0, 1); }));
  for (const auto& table : tables_) table->BeginUse();
  std::vector<pollfd> watched;
  EXPECT_FALSE(tables_[0]->Keep(&watched).busy) << "though something is under way";
  EXPECT_TRUE(watched.empty());
  for (const auto& table : tables_) table->EndUse();
}

TEST_F(LinkKeeperTest, LeavesATableBeforeItGoes) {
  for (int i = 0; i < 20; ++i) {
    Open(false);
    ASSERT_TRUE(Until([&] { return Send(0, 1); }));
    tables_[0].reset();
    tables_[1].reset();
    EXPECT_EQ(net_->live_ends(), 0u);
  }
}

}  // namespace
}  // namespace sl::kernel
