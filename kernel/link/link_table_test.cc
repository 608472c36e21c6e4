// SPDX-License-Identifier: Apache-2.0
//
// Making, losing and refusing links.
#include "kernel/link/link_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "kernel/events/log.h"
#include "kernel/events/ring.h"
#include "kernel/link/fake_transport_test_util.h"

namespace sl::kernel {
namespace {

uint64_t g_now_ns = 1;
uint64_t g_look_ns = 0;  // how much later it is after each look at the clock
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kCommId = 0x1234567890ull;

class LinkTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ConfigureLog(SL_LOG_ERROR, ""); }

  void Open(uint32_t size, bool mapped = true) {
    net_ = std::make_unique<FakeNet>(size, mapped);
    for (uint32_t rank = 0; rank < size; ++rank) tables_.push_back(std::make_unique<LinkTable>(Config(rank, size)));
  }

  LinkTableConfig Config(uint32_t rank, uint32_t size) {
    LinkTableConfig config;
    config.rank = rank;
    config.size = size;
    config.comm_id = kCommId;
    config.chunk_bytes = 64;
    config.slots = 2;
    config.now_ns = [] { return g_now_ns += g_look_ns; };
    config.transports = {net_->LinkTransportOf(rank)};
    return config;
  }

  // Drives every rank for `ms` of virtual time.
  void Drive(uint64_t ms) {
    for (const uint64_t end = g_now_ns + ms * kMs; g_now_ns < end; g_now_ns += kMs / 4) {
      for (const auto& table : tables_) {
        if (table == nullptr) continue;
        ASSERT_EQ(table->Progress(), SL_OK);
      }
    }
  }

  static bool Send(Link* link, uint64_t value) {
    void* payload = nullptr;
    if (link->Reserve(&payload) != SL_OK) return false;
    std::memcpy(payload, &value, sizeof value);
    return link->Post(sizeof value, {1, 2, 0}) == SL_OK;
  }

  static uint64_t Receive(Link* link) {
    Chunk chunk;
    if (link->Peek(&chunk) != SL_OK) return 0;
    uint64_t value;
    std::memcpy(&value, chunk.payload, sizeof value);
    EXPECT_EQ(link->Release(), SL_OK);
    return value;
  }

  static sl_status_t PeekStatus(Link* link) {
    Chunk chunk;
    return link->Peek(&chunk);
  }

  // Connects to `rank` as an outsider of the table does.
  sl_connection_t* Visit(uint32_t from, uint32_t to, const std::function<void(sl_connect_args_t*)>& change) {
    const LinkGeometry geometry{2, 64};
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    args.peer = to;
    args.tag = kCommId << 40 | 1;
    args.window_bytes = geometry.WindowBytes();
    args.signal_count = Path::kSignalCount;
    change(&args);
    const std::vector<sl_address_t> addresses = net_->Addresses();
    sl_connection_t* connection = nullptr;
    EXPECT_EQ(FakeNet::Ops()->connect(net_->Transport(from), &addresses[to], &args, &connection), SL_OK);
    return connection;
  }

  std::unique_ptr<FakeNet> net_;
  std::vector<std::unique_ptr<LinkTable>> tables_;
};

TEST_F(LinkTableTest, ConnectsEveryPairOnEveryLane) {
  constexpr uint32_t kSize = 5;
  constexpr uint32_t kLanes = 3;  // one more than configured
  Open(kSize);
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    for (uint32_t peer = 0; peer < kSize; ++peer) {
      for (uint32_t lane = 0; lane < kLanes && peer != rank; ++lane) {
        Link* link = tables_[rank]->Get(peer, lane);
        EXPECT_EQ(link->peer(), peer);
        EXPECT_EQ(link->lane(), lane);
        EXPECT_EQ(link, tables_[rank]->Get(peer, lane));
      }
    }
  }
  Drive(5);
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    for (uint32_t peer = 0; peer < kSize; ++peer) {
      for (uint32_t lane = 0; lane < kLanes && peer != rank; ++lane) {
        EXPECT_TRUE(Send(tables_[rank]->Get(peer, lane), 1 + rank * 100 + lane));
      }
    }
  }
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(tables_[rank]->link_count(), (kSize - 1) * kLanes);
    EXPECT_NE(tables_[rank]->doorbell(), nullptr);
    for (uint32_t peer = 0; peer < kSize; ++peer) {
      for (uint32_t lane = 0; lane < kLanes && peer != rank; ++lane) {
        EXPECT_EQ(Receive(tables_[rank]->Get(peer, lane)), 1 + peer * 100 + lane);
      }
    }
  }
}

TEST_F(LinkTableTest, SendsAtOnceFromTheConnectingEndAndMakesTheOtherUnasked) {
  Open(2);
  EXPECT_TRUE(Send(tables_[0]->Get(1, 0), 42)) << "the connecting end needs no answer";
  EXPECT_EQ(tables_[1]->link_count(), 0u);
  Drive(10);
  EXPECT_EQ(tables_[1]->link_count(), 1u);
  EXPECT_EQ(Receive(tables_[1]->Get(0, 0)), 42u);
}

// The connecting end, rank 0, says how many connections there are; the other is told 1.
TEST_F(LinkTableTest, HasSlotsForEachConnectionToAnotherHost) {
  constexpr uint32_t kSlots = 2;
  const char* const hosts[] = {"a", "b", "a"};
  struct Case {
    uint32_t connections;
    uint32_t peer;
    uint32_t slots;
  };
  for (const Case& test :
       {Case{1, 1, kSlots}, Case{3, 1, 3 * kSlots}, Case{9, 1, PathMaker::kMostShares * kSlots}, Case{3, 2, kSlots}}) {
    tables_.clear();
    net_ = std::make_unique<FakeNet>(3, false);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      LinkTableConfig config = Config(rank, 3);
      config.connections = rank == 0 ? test.connections : 1;
      config.hosts = hosts;
      tables_.push_back(std::make_unique<LinkTable>(config));
    }
    Link* const ends[] = {tables_[0]->Get(test.peer, 0), tables_[test.peer]->Get(0, 0)};
    Drive(5);
    for (const uint32_t from : {0, 1}) {
      uint64_t sent = 0;
      while (sent < 100 && Send(ends[from], sent + 1)) ++sent;
      EXPECT_EQ(sent, test.slots) << test.connections << " connections to rank " << test.peer << ", end " << from;
      Drive(5);
      for (uint64_t value = 1; value <= sent; ++value) EXPECT_EQ(Receive(ends[1 - from]), value);
    }
    for (const auto& table : tables_) EXPECT_EQ(table->strangers(), 0u);
  }
}

TEST_F(LinkTableTest, HasNoDoorbellWhileAPeerCannotRing) {
  Open(2);
  Link* link = tables_[1]->Get(0, 0);
  EXPECT_EQ(PeekStatus(link), SL_ERR_AGAIN);
  sl_wait_t wait = {};
  link->DescribeWait(false, &wait);
  EXPECT_STREQ(wait.what, "connection");
  EXPECT_EQ(wait.doorbell, nullptr);
  EXPECT_EQ(tables_[1]->doorbell(), nullptr);
  tables_[0]->Get(1, 0);
  Drive(1);
  EXPECT_NE(tables_[1]->doorbell(), nullptr);
  link->DescribeWait(false, &wait);
  EXPECT_STREQ(wait.what, "chunk");
  EXPECT_EQ(wait.peer, 0);
  EXPECT_EQ(wait.wanted, 1u);
  EXPECT_EQ(wait.doorbell, tables_[1]->doorbell());
}

TEST_F(LinkTableTest, CountsCreditsAndNamesTheWait) {
  Open(2);
  Link* link = tables_[0]->Get(1, 0);
  EXPECT_TRUE(Send(link, 1));
  EXPECT_TRUE(Send(link, 2));
  EXPECT_FALSE(Send(link, 3));
  sl_wait_t wait = {};
  link->DescribeWait(true, &wait);
  EXPECT_STREQ(wait.what, "credit");
  EXPECT_EQ(wait.seen, 0u);
  EXPECT_EQ(wait.wanted, 1u);
  EXPECT_FALSE(tables_[0]->Idle());
  Drive(10);
  EXPECT_EQ(Receive(tables_[1]->Get(0, 0)), 1u);
  EXPECT_TRUE(Send(link, 3));
  EXPECT_EQ(Receive(tables_[1]->Get(0, 0)), 2u);
  EXPECT_EQ(Receive(tables_[1]->Get(0, 0)), 3u);
  EXPECT_TRUE(tables_[0]->Idle());
}

TEST_F(LinkTableTest, DeliversWhatAClosedPeerHadSentThenNamesIt) {
  Open(2);
  EXPECT_TRUE(Send(tables_[0]->Get(1, 0), 5));
  tables_[0].reset();
  Link* link = tables_[1]->Get(0, 0);
  Drive(10);
  EXPECT_EQ(Receive(link), 5u);
  EXPECT_EQ(PeekStatus(link), SL_ERR_PEER_LOST);
  void* payload = nullptr;
  EXPECT_EQ(link->Reserve(&payload), SL_ERR_PEER_LOST);
}

TEST_F(LinkTableTest, OutlivesANetworkThatIsOutForAWhile) {
  Open(2);
  net_->SetOutage(0, "no route");
  Link* link = tables_[0]->Get(1, 0);
  Drive(5000);
  EXPECT_EQ(PeekStatus(link), SL_ERR_AGAIN) << "a first connection has the caller's time";
  net_->SetOutage(0, nullptr);
  Drive(200);
  ASSERT_TRUE(Send(link, 1));
  net_->SetOutage(0, "no route");
  net_->KillAll();
  Drive(500);
  EXPECT_EQ(PeekStatus(link), SL_ERR_AGAIN) << "nobody said that the peer has gone";
  net_->SetOutage(0, nullptr);
  Drive(200);
  EXPECT_TRUE(Send(link, 2));
}

TEST_F(LinkTableTest, SaysWhatTheTransportSaidWhenAnOutageLasts) {
  Open(2);
  Link* link = tables_[0]->Get(1, 0);
  Drive(10);
  ASSERT_TRUE(Send(link, 1));
  net_->SetOutage(0, "no route");
  net_->KillAll();
  Drive(1500);
  EXPECT_EQ(PeekStatus(link), SL_ERR_LINK_DOWN);
  EXPECT_EQ(link->why(), "it went down and could not be made again in time: no route");
}

TEST_F(LinkTableTest, WaitsForItsPortToComeUpAgain) {
  Open(2);
  Link* link = tables_[0]->Get(1, 0);
  Drive(10);
  ASSERT_TRUE(Send(link, 1));
  net_->SetPortUp(0, false);
  net_->KillAll();
  Drive(300);
  EXPECT_EQ(PeekStatus(link), SL_ERR_AGAIN) << "the peer is not to blame";
  net_->SetPortUp(0, true);
  Drive(200);
  EXPECT_TRUE(Send(link, 2));
}

TEST_F(LinkTableTest, WaitsForALatePeerWithoutLimit) {
  Open(2);
  Link* link = tables_[1]->Get(0, 0);
  Drive(5000);
  EXPECT_EQ(PeekStatus(link), SL_ERR_AGAIN);
}

TEST_F(LinkTableTest, FailsALinkThatIsNotMadeAgainInTime) {
  Open(2);
  Link* lower = tables_[0]->Get(1, 0);
  Link* higher = tables_[1]->Get(0, 0);
  Drive(10);
  net_->StopListening(1);
  net_->KillAll();
  Drive(50);
  EXPECT_EQ(PeekStatus(lower), SL_ERR_PEER_LOST);
  EXPECT_EQ(PeekStatus(higher), SL_ERR_AGAIN);
  Drive(1100);
  EXPECT_EQ(PeekStatus(higher), SL_ERR_LINK_DOWN);
}

// A path that ended before it was accepted takes the link down a moment after the accepting round looked at the clock.
TEST_F(LinkTableTest, CountsAnOutageFromThePresentThoughTheRoundBeganBefore) {
  Open(2);
  tables_[0]->Get(1, 0);
  Link* higher = tables_[1]->Get(0, 0);
  Drive(10);
  sl_connection_t* late = Visit(0, 1, [](sl_connect_args_t* args) {
    args->peer = 1;
    args->tag = kCommId << 40 | 2;
  });
  net_->KillAll();
  g_now_ns += 10 * kMs;
  g_look_ns = 1;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(tables_[1]->Progress(), SL_OK);
  g_look_ns = 0;
  EXPECT_EQ(static_cast<ChunkLink*>(higher)->EpochOf(0), 2u) << "the path was not taken";
  EXPECT_FALSE(static_cast<ChunkLink*>(higher)->up());
  EXPECT_EQ(PeekStatus(higher), SL_ERR_AGAIN);
  FakeNet::Ops()->retire(late);
}

TEST_F(LinkTableTest, MakesALostPathAgainAndTellsObservers) {
  SetEventMask(uint64_t{1} << SL_EVENT_LINK_STATE);
  Open(2);
  Link* lower = tables_[0]->Get(1, 0);
  Link* higher = tables_[1]->Get(0, 0);
  Drive(10);
  EXPECT_TRUE(Send(lower, 1));
  EXPECT_TRUE(Send(lower, 2));
  net_->KillAll();
  Drive(20);
  EXPECT_TRUE(Send(higher, 3));
  EXPECT_EQ(Receive(higher), 1u);
  EXPECT_EQ(Receive(higher), 2u);
  EXPECT_EQ(Receive(lower), 3u);
  std::vector<sl_record_t> records;
  DrainEventRings(
      [](void* ctx, const EventBatch& batch) {
        auto* out = static_cast<std::vector<sl_record_t>*>(ctx);
        out->insert(out->end(), batch.records, batch.records + batch.count);
      },
      &records);
  SetEventMask(0);
  std::string states;
  for (const sl_record_t& record : records) {
    EXPECT_EQ(record.comm_id, kCommId);
    EXPECT_EQ(record.peer, record.rank == 0 ? 1 : 0);
    if (record.rank == 0) states += (record.value != 0 ? "up" : "down") + std::to_string(record.value2) + " ";
  }
  EXPECT_EQ(states, "up1 down1 up2 ");
}

TEST_F(LinkTableTest, DropsStrangers) {
  Open(3);
  std::vector<sl_connection_t*> visits;
  const auto visit = [&](uint32_t from, uint32_t to, const std::function<void(sl_connect_args_t*)>& change) {
    visits.push_back(Visit(from, to, change));
  };
  visit(0, 1, [](sl_connect_args_t* args) { args->tag = uint64_t{77} << 40 | 1; });  // another communicator
  visit(2, 1, [](sl_connect_args_t*) {});                                            // the higher rank accepts
  visit(0, 1, [](sl_connect_args_t* args) { args->lane = LinkTable::kMaxLanes; });
  ConfigureLog(SL_LOG_ERROR, "/dev/null");
  visit(0, 1, [](sl_connect_args_t* args) { args->window_bytes += 64; });
  visit(0, 1, [](sl_connect_args_t* args) { args->window_bytes *= PathMaker::kMostShares + 1; });
  visit(0, 1, [](sl_connect_args_t* args) { args->signal_count = 2; });
  Drive(10);
  EXPECT_EQ(tables_[1]->strangers(), 6u);
  EXPECT_EQ(tables_[1]->link_count(), 0u);
  for (sl_connection_t* connection : visits) {
    EXPECT_EQ(FakeNet::Ops()->connection_state(connection), SL_CONNECTION_CLOSED);
    FakeNet::Ops()->retire(connection);
  }
}

TEST_F(LinkTableTest, DropsPathsWhoseWindowIsCutDifferently) {
  Open(2);
  sl_connection_t* first = Visit(0, 1, [](sl_connect_args_t* args) { args->window_bytes *= 2; });
  Drive(10);
  ConfigureLog(SL_LOG_ERROR, "/dev/null");
  sl_connection_t* second = Visit(0, 1, [](sl_connect_args_t* args) { args->tag |= uint64_t{1} << 32; });
  Drive(10);
  EXPECT_EQ(tables_[1]->strangers(), 1u);
  EXPECT_EQ(FakeNet::Ops()->connection_state(first), SL_CONNECTION_UP);
  EXPECT_EQ(FakeNet::Ops()->connection_state(second), SL_CONNECTION_CLOSED);
  FakeNet::Ops()->retire(first);
  FakeNet::Ops()->retire(second);
}

TEST_F(LinkTableTest, IgnoresAnOldEpoch) {
  Open(2);
  Link* lower = tables_[0]->Get(1, 0);
  tables_[1]->Get(0, 0);
  Drive(10);
  net_->KillAll();
  Drive(20);
  sl_connection_t* late = Visit(0, 1, [](sl_connect_args_t*) {});  // epoch 1 again
  Drive(10);
  EXPECT_EQ(FakeNet::Ops()->connection_state(late), SL_CONNECTION_CLOSED);
  FakeNet::Ops()->retire(late);
  EXPECT_TRUE(Send(lower, 6));
  EXPECT_EQ(Receive(tables_[1]->Get(0, 0)), 6u);
}

// A peer that writes nonsense into the window is found out, whatever it writes.
TEST_F(LinkTableTest, RefusesImpossibleChunks) {
  constexpr uint32_t kMark = (1 * 16 + 0 + 1) * 2654435769u;  // of epoch 1 of path 0
  const ChunkHeader good = {1, 1 + kMark, 0, 8, 0, 0, 1, 0};
  struct {
    ChunkHeader header;
    uint64_t posted;
  } const cases[] = {
      {{1, 1 + kMark, 0, 65, 0, 0, 1, 0}, 1}, {{2, 1 + kMark, 0, 8, 0, 0, 1, 0}, 1}, {good, 5}, {good, UINT64_MAX}};
  ConfigureLog(SL_LOG_ERROR, "/dev/null");
  for (const auto& bad : cases) {
    tables_.clear();
    Open(2);
    tables_.resize(2);
    tables_[0].reset();
    sl_connection_t* forger = Visit(0, 1, [](sl_connect_args_t*) {});
    sl_window_t window = {};
    window.struct_size = sizeof window;
    ASSERT_EQ(FakeNet::Ops()->window(forger, &window), SL_OK);
    std::memcpy(static_cast<uint8_t*>(window.peer) + LinkGeometry::kHeader, &bad.header, sizeof bad.header);
    sl_put_t put = {};
    put.signal = Path::kPosted;
    put.signal_value = bad.posted;
    ASSERT_EQ(FakeNet::Ops()->put(forger, &put), SL_OK);
    Drive(10);
    EXPECT_EQ(PeekStatus(tables_[1]->Get(0, 0)), SL_ERR_LINK_CORRUPT);
    EXPECT_EQ(PeekStatus(tables_[1]->Get(0, 0)), SL_ERR_LINK_CORRUPT) << "for good";
    put.signal = Path::kDone;
    put.signal_value = 7;  // acknowledges what was never sent
    FakeNet::Ops()->put(forger, &put);
    FakeNet::Ops()->retire(forger);
  }
  tables_.clear();
}

TEST_F(LinkTableTest, SaysWhenNoTransportReachesThePeer) {
  Open(2);
  LinkTableConfig config = Config(0, 2);
  config.transports[0].peers = std::make_shared<const LinkPeers>(2);
  ConfigureLog(SL_LOG_ERROR, "/dev/null");
  LinkTable table(std::move(config));
  EXPECT_EQ(PeekStatus(table.Get(1, 0)), SL_ERR_NOT_FOUND);
}

TEST_F(LinkTableTest, RefusesCallsInTheWrongOrder) {
  Open(2);
  Link* link = tables_[0]->Get(1, 0);
  EXPECT_EQ(link->Post(1, {1, 1, 0}), SL_ERR_INVALID);
  EXPECT_EQ(link->Release(), SL_ERR_STATE);
  void* payload = nullptr;
  void* again = nullptr;
  EXPECT_EQ(link->Reserve(&payload), SL_OK);
  EXPECT_EQ(link->Reserve(&again), SL_OK);
  EXPECT_EQ(payload, again);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(payload) % 64, 0u);
  EXPECT_EQ(link->Post(65, {1, 1, 0}), SL_ERR_INVALID);
}

}  // namespace
}  // namespace sl::kernel
