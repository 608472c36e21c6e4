// SPDX-License-Identifier: Apache-2.0
//
// The signals by which a link repairs what was lost: each of them gets through as soon as it can, and none waits for
// the next query. The clock does not reach a second resend time here, so a case in which the next query would have to
// help fails.
#include <gtest/gtest.h>

#include <memory>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"
#include "kernel/link/link_table.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kResendNs = 3'600'000'000'000;
constexpr uint64_t kTickNs = 5'000'000;  // how often a table looks after its links
uint64_t g_now_ns = 1;

class LinkRepair : public ::testing::Test {
 protected:
  LinkRepair() : net_(2, false) {
    ConfigureLog(SL_LOG_ERROR, "");
    net_.UseDescriptors();  // each call of Progress() looks at the clock
  }

  void Open(uint32_t connections) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      LinkTableConfig config;
      config.rank = rank;
      config.size = 2;
      config.chunk_bytes = 64;
      config.connections = connections;
      config.resend_ns = kResendNs;
      config.tell_after_ns = 0;
      config.now_ns = [] { return g_now_ns; };
      config.transports = {net_.LinkTransportOf(rank)};
      tables_[rank] = std::make_unique<LinkTable>(std::move(config));
    }
    const auto is_up = [&] {
      for (uint32_t path = 0; path < connections; ++path) {
        if (!link(0)->IsUp(path) || !link(1)->IsUp(path)) return false;
      }
      return true;
    };
    for (int turn = 0; turn < 100 && !is_up(); ++turn, g_now_ns += kTickNs) Look(0), Look(1);
    ASSERT_TRUE(is_up());
  }

  ChunkLink* link(uint32_t rank) { return static_cast<ChunkLink*>(tables_[rank]->Get(1 - rank, 0)); }
  void Look(uint32_t rank) { EXPECT_EQ(tables_[rank]->Progress(), SL_OK); }
  void Post(uint32_t rank, uint64_t first, uint64_t last) {
    for (uint64_t k = first; k <= last; ++k) {
      void* payload = nullptr;
      ASSERT_EQ(link(rank)->Reserve(&payload), SL_OK);
      ASSERT_EQ(link(rank)->Post(8, {k, 0, 0}), SL_OK);
    }
  }
  bool Take(uint32_t rank, uint64_t sequence) {
    Chunk chunk;
    if (link(rank)->Peek(&chunk) != SL_OK) return false;
    EXPECT_EQ(chunk.header->sequence, sequence);
    EXPECT_EQ(link(rank)->Release(), SL_OK);
    return true;
  }
  // Nothing is acknowledged for so long that rank 0 asks.
  void Stall() {
    g_now_ns += kTickNs;
    Look(0);
    g_now_ns += kResendNs;
    Look(0);
  }
  // Both look after their links, for much less than a resend time, until rank 1 has taken so many chunks.
  void ExpectArrival(uint64_t first, uint64_t last) {
    uint64_t next = first;
    for (int turn = 0; turn < 100 && next <= last; ++turn, g_now_ns += kTickNs) {
      Look(0), Look(1);
      while (next <= last && Take(1, next)) ++next;
    }
    EXPECT_EQ(next, last + 1) << "the next one to arrive, and what was to be the last";
  }
  FakeFaults Faults(uint32_t drop_per_million, uint32_t queue_capacity) {
    FakeFaults faults;
    faults.drop_per_million = drop_per_million;
    faults.queue_capacity = queue_capacity;
    return faults;
  }

  FakeNet net_;
  std::array<std::unique_ptr<LinkTable>, 2> tables_;
};

// Path 1 is answered before chunk 1, which path 0 holds up, has come; its answer comes after the acknowledgement of
// that chunk. The peer takes nothing from path 1 until it hears that what it lacked was sent again.
TEST_F(LinkRepair, GoesOnWhenAnAnswerComesAfterTheAcknowledgementOfWhatItLacked) {
  Open(2);
  net_.Hold(0, 1, true);
  net_.Hold(1, 0, true);
  Post(0, 1, 4);
  Stall();
  Look(1);
  EXPECT_FALSE(Take(1, 1));
  net_.Hold(0, 1, false);
  Look(1);
  ASSERT_TRUE(Take(1, 1));
  ASSERT_FALSE(Take(1, 2)) << "path 1 is frozen";
  Look(0);
  net_.Hold(1, 0, false);
  ExpectArrival(2, 4);
}

// Until then the link is looked after, though it has nothing else to say.
TEST_F(LinkRepair, IsNotIdleUntilThePeerKnowsThatAllWentAgain) {
  Open(2);
  net_.Hold(0, 1, true);
  net_.Hold(1, 0, true);
  Post(0, 1, 4);
  Stall();
  Look(1);
  net_.Hold(0, 1, false);
  Look(1);
  ASSERT_TRUE(Take(1, 1));
  net_.set_faults(Faults(0, 0));  // no room for the word of it
  net_.Hold(1, 0, false);
  for (int turn = 0; turn < 10; ++turn, g_now_ns += kTickNs) {
    Look(0);
    EXPECT_FALSE(link(0)->idle());
    Look(1);
  }
  net_.set_faults(Faults(0, 64));
  ExpectArrival(2, 4);
  for (int turn = 0; turn < 10; ++turn, g_now_ns += kTickNs) Look(0), Look(1);
  EXPECT_TRUE(link(0)->idle());
}

TEST_F(LinkRepair, AnswersWhenThereIsRoomAgain) {
  Open(1);
  net_.set_faults(Faults(1'000'000, 64));
  Post(0, 1, 1);
  net_.set_faults(Faults(0, 1));
  Stall();
  net_.Hold(0, 0, true);
  Post(1, 1, 1);  // no room is left on the way to rank 0
  Look(1);
  net_.Hold(0, 0, false);
  ExpectArrival(1, 1);
}

TEST_F(LinkRepair, AsksWhenThereIsRoomAgain) {
  Open(1);
  net_.set_faults(Faults(1'000'000, 64));
  Post(0, 1, 1);
  net_.set_faults(Faults(0, 1));
  net_.Hold(0, 1, true);
  Post(0, 2, 2);  // no room is left on the way to rank 1
  Stall();
  net_.Hold(0, 1, false);
  ExpectArrival(1, 2);
}

TEST_F(LinkRepair, SendsTheRestAgainWhenThereIsRoom) {
  Open(1);
  net_.set_faults(Faults(1'000'000, 64));
  Post(0, 1, 6);
  net_.set_faults(Faults(0, 2));
  Stall();
  ExpectArrival(1, 6);
  EXPECT_EQ(tables_[0]->resends(), 6u) << "each once";
}

}  // namespace
}  // namespace sl::kernel
