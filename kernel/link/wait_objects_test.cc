// SPDX-License-Identifier: Apache-2.0
//
// Sleeping on networks without help of the keeper. Real time: every sleep here ends when what it waits for comes, and
// fails after ten seconds.
#include "kernel/link/wait_objects.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <random>
#include <thread>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"
#include "kernel/link/link_table.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
namespace {

class WaitObjectsTest : public ::testing::Test {
 protected:
  WaitObjectsTest() : net_(2, false) {
    ConfigureLog(SL_LOG_ERROR, "");
    net_.UseDescriptors();
    for (uint32_t rank = 0; rank < 2; ++rank) {
      LinkTableConfig config;
      config.rank = rank;
      config.size = 2;
      config.chunk_bytes = 64;
      config.slots = 2;
      config.transports = {net_.LinkTransportOf(rank)};
      tables_[rank] = std::make_unique<LinkTable>(std::move(config));
    }
    for (int i = 0; i < 4; ++i) {
      for (uint32_t rank = 0; rank < 2; ++rank) Receive(rank);
    }
  }

  template <typename Call>
  auto Drive(uint32_t rank, Call&& call) {
    const Driving driving = Driving::Await(tables_[rank].get());
    static_cast<void>(tables_[rank]->Progress());
    return call(tables_[rank]->Get(1 - rank, 0));
  }
  bool Send(uint32_t rank) {
    return Drive(rank, [](Link* link) {
      void* payload = nullptr;
      return link->Reserve(&payload) == SL_OK && link->Post(8, {1, 1, 0}) == SL_OK;
    });
  }
  bool Receive(uint32_t rank) {
    return Drive(rank, [](Link* link) {
      Chunk chunk;
      return link->Peek(&chunk) == SL_OK && link->Release() == SL_OK;
    });
  }
  std::span<const int32_t> Offered(uint32_t rank) {
    return Drive(rank, [&](Link*) { return tables_[rank]->descriptors(); });
  }
  // False: nothing became readable within ten seconds.
  static bool Sleep(std::span<const int32_t> descriptors, int limit_ms = 10'000) {
    std::vector<pollfd> polled;
    for (const int32_t fd : descriptors) polled.push_back({fd, POLLIN, 0});
    return poll(polled.data(), polled.size(), limit_ms) > 0;
  }

  FakeNet net_;
  std::array<std::unique_ptr<LinkTable>, 2> tables_;
};

// Both ranks answer each other; where they look, and when they sleep, differs from turn to turn.
TEST_F(WaitObjectsTest, LetARankSleepUntilItsNetworkHasNews) {
  constexpr uint64_t kTurns = 1500;
  const auto play = [&](uint32_t rank) {
    std::mt19937 random(7 + rank);
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      if (turn % 2 == rank) {
        while (!Send(rank)) std::this_thread::yield();
        continue;
      }
      for (uint32_t looks = random() % 8; !Receive(rank);) {
        if (looks-- > 0) continue;
        looks = 0;
        const std::span<const int32_t> offered = Offered(rank);
        if (Receive(rank)) break;
        ASSERT_FALSE(offered.empty());
        ASSERT_TRUE(Sleep(offered)) << "rank " << rank << " missed message " << turn;
      }
    }
  };
  for (const auto& table : tables_) table->BeginUse();
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  for (const auto& table : tables_) table->EndUse();
}

TEST_F(WaitObjectsTest, AreRetractedWhenAnotherRunMayTakeTheNews) {
  tables_[0]->BeginUse();
  const std::span<const int32_t> offered = Offered(0);
  ASSERT_FALSE(offered.empty());
  EXPECT_FALSE(Sleep(offered, 0));
  Drive(0, [&](Link*) {
    tables_[0]->BeginUse();
    return true;
  });
  EXPECT_TRUE(Sleep(offered, 0)) << "the sleeper was not woken";
  EXPECT_TRUE(Offered(0).empty()) << "two runs share the links";
  tables_[0]->EndUse();
  EXPECT_FALSE(Sleep(Offered(0), 0)) << "the offer is still readable";
  tables_[0]->EndUse();
}

// A transport by what it has to wait on: a descriptor, a bell, or nothing.
sl_status_t GiveDescriptor(sl_transport_t*, sl_wait_object_t* out) {
  out->type = SL_WAIT_FD;
  out->fd = 0;
  return SL_OK;
}
sl_doorbell_t g_bell{};
sl_status_t GiveBell(sl_transport_t*, sl_wait_object_t* out) {
  out->type = SL_WAIT_DOORBELL;
  out->doorbell = &g_bell;
  return SL_OK;
}
sl_status_t GiveNothing(sl_transport_t*, sl_wait_object_t*) { return SL_ERR_UNSUPPORTED; }

// Of a run that sleeps already when another transport comes into use.
TEST(WaitObjects, WakeWhoSleepsOnABellThatGoes) {
  for (const auto& next : {GiveBell, GiveNothing}) {
    sl_transport_ops_t ops{};
    WaitObjects objects;
    ops.wait_object = GiveDescriptor;
    EXPECT_TRUE(objects.Use(&ops, nullptr));
    sl_doorbell_t* const bell = objects.bell();
    ASSERT_NE(bell, nullptr);
    BellGuard sleeper(bell);
    EXPECT_TRUE(objects.NeedsWatch());
    const uint32_t rings = bell->rings;
    ops.wait_object = next;
    EXPECT_FALSE(objects.Use(&ops, nullptr));
    EXPECT_NE(bell->rings, rings);
    EXPECT_FALSE(objects.KeepWatching());
  }
}

TEST_F(WaitObjectsTest, AreNotOfferedWhereMemoryIsMapped) {
  FakeNet net(2, true);
  LinkTableConfig config;
  config.size = 2;
  config.transports = {net.LinkTransportOf(0)};
  LinkTable table(std::move(config));
  table.Get(1, 0);
  table.BeginUse();
  EXPECT_TRUE(table.descriptors().empty());
  table.EndUse();
}

}  // namespace
}  // namespace sl::kernel
