// SPDX-License-Identifier: Apache-2.0
//
// The protocol between two ranks over a transport in memory that loses, repeats, delays and breaks.
#include "kernel/link/chunk_link.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"
#include "kernel/link/link_table.h"

namespace {
thread_local uint64_t t_allocations = 0;
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++t_allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {
namespace {

constexpr uint32_t kChunkBytes = 256;

// Virtual time: a turn of a test's loop is 100 us.
uint64_t g_now_ns = 1;
uint64_t VirtualNs() { return g_now_ns; }

LinkTableConfig Config(FakeNet* net, uint32_t rank, uint32_t size, uint32_t slots) {
  LinkTableConfig config;
  config.rank = rank;
  config.size = size;
  config.comm_id = 0xabcd0000ull << 32 | 0x77;
  config.chunk_bytes = kChunkBytes;
  config.slots = slots;
  config.resend_ns = 5'000'000;
  config.now_ns = VirtualNs;
  config.transports = {net->LinkTransportOf(rank)};
  return config;
}

uint32_t SizeOf(uint64_t sequence) { return static_cast<uint32_t>(sequence * 2654435761u % (kChunkBytes + 1)); }
uint8_t ByteOf(uint32_t rank, uint64_t sequence) { return static_cast<uint8_t>(sequence * 31 + rank * 7); }

// One rank's half of a stream both ways: sends and checks `total` chunks, a step at a time. The first one is number
// begin + 1.
class Half {
 public:
  Half(LinkTable* table, uint32_t rank, uint32_t peer, uint32_t lane, uint64_t total, uint64_t begin = 0)
      : table_(table), link_(table->Get(peer, lane)), rank_(rank), peer_(peer), total_(total), begin_(begin) {}

  // Does at most one send and one receive. `hold` keeps chunks a few steps, reserved and peeked.
  void Step(bool hold) {
    ++steps_;
    Send(hold);
    Receive(hold);
    link_->Notify();
    ASSERT_EQ(table_->Progress(), SL_OK);
  }
  bool done() const { return sent_ == total_ && received_ == total_; }
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }

 private:
  void Send(bool hold) {
    if (sent_ == total_) return;
    if (payload_ == nullptr) {
      void* payload = nullptr;
      const sl_status_t status = link_->Reserve(&payload);
      if (status == SL_ERR_AGAIN) return;
      ASSERT_EQ(status, SL_OK);
      payload_ = static_cast<uint8_t*>(payload);
      std::memset(payload_, ByteOf(rank_, sent_ + 1), SizeOf(sent_ + 1));
      if (hold && steps_ % 3 == 0) return;
    }
    ASSERT_EQ(link_->Post(SizeOf(sent_ + 1), {sent_ + 1, rank_, 0}), SL_OK);
    payload_ = nullptr;
    ++sent_;
  }

  void Receive(bool hold) {
    if (received_ == total_) return;
    Chunk chunk;
    const sl_status_t status = link_->Peek(&chunk);
    if (status == SL_ERR_AGAIN) return;
    ASSERT_EQ(status, SL_OK);
    const uint64_t sequence = received_ + 1;
    ASSERT_EQ(uint64_t{chunk.header->sequence_high} << 32 | chunk.header->sequence, begin_ + sequence);
    ASSERT_EQ(chunk.header->op_seq, sequence);
    ASSERT_EQ(chunk.header->signature, peer_);
    ASSERT_EQ(chunk.header->bytes, SizeOf(sequence));
    for (uint32_t i = 0; i < chunk.header->bytes; ++i) ASSERT_EQ(chunk.payload[i], ByteOf(peer_, sequence));
    if (hold && steps_ % 5 != 0) return;
    ASSERT_EQ(link_->Release(), SL_OK);
    ++received_;
  }

  LinkTable* const table_;
  Link* const link_;
  const uint32_t rank_;
  const uint32_t peer_;
  const uint64_t total_;
  const uint64_t begin_;
  uint8_t* payload_ = nullptr;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t steps_ = 0;
};

struct Case {
  const char* name;
  bool mapped;
  uint32_t slots;
  FakeFaults faults;
  bool hold;
  uint32_t connections = 1;
  uint64_t begin = 0;
};

class ChunkLinkStream : public ::testing::TestWithParam<Case> {};

// Both ranks on this thread; every chunk arrives once, in order, and credits are never exceeded.
TEST_P(ChunkLinkStream, DeliversEveryChunkOnceInOrder) {
  const Case& c = GetParam();
  ConfigureLog(SL_LOG_ERROR, "");
  constexpr uint64_t kChunks = 4'000;
  FakeNet net(2, c.mapped, c.faults);
  {
    LinkTableConfig config = Config(&net, 0, 2, c.slots);
    config.connections = c.connections;
    config.begin = c.begin;
    LinkTable a(std::move(config));
    config = Config(&net, 1, 2, c.slots);
    config.begin = c.begin;
    LinkTable b(std::move(config));
    Half left(&a, 0, 1, 0, kChunks, c.begin);
    Half right(&b, 1, 0, 0, kChunks, c.begin);
    uint64_t turns = 0;
    while (!(left.done() && right.done()) && !HasFatalFailure()) {
      left.Step(c.hold);
      if (turns % 7 != 0) right.Step(c.hold);
      ASSERT_LE(left.sent() - right.received(), c.slots);
      ASSERT_LE(right.sent() - left.received(), c.slots);
      g_now_ns += 100'000;
      ASSERT_LT(++turns, 5'000'000u) << "stuck at " << left.received() << " and " << right.received();
    }
    for (int i = 0; i < 100'000 && !(a.Idle() && b.Idle()); ++i, g_now_ns += 100'000) {
      ASSERT_EQ(a.Progress(), SL_OK);
      ASSERT_EQ(b.Progress(), SL_OK);
    }
    EXPECT_TRUE(a.Idle() && b.Idle());
    if (c.faults.drop_per_million != 0) {
      EXPECT_GT(net.dropped(), 0u);
      EXPECT_GT(a.resends() + b.resends(), 0u);
    }
    if (c.faults.kill_every_puts != 0) {
      const auto* link = static_cast<const ChunkLink*>(a.Get(1, 0));
      uint32_t epochs = 0;
      for (uint32_t path = 0; path < c.connections; ++path) epochs += link->EpochOf(path);
      EXPECT_GT(epochs, 10u + c.connections);
    }
  }
  EXPECT_EQ(net.live_ends(), 0u) << "a connection was not retired";
}

FakeFaults Drops(uint32_t per_million) {
  FakeFaults faults;
  faults.drop_per_million = per_million;
  return faults;
}
FakeFaults Everything() {
  FakeFaults faults;
  faults.drop_per_million = 30'000;
  faults.duplicate_per_million = 30'000;
  faults.delay_polls = 20;
  faults.queue_capacity = 5;
  faults.kill_every_puts = 997;
  return faults;
}
FakeFaults Kills(uint32_t every) {
  FakeFaults faults;
  faults.kill_every_puts = every;
  return faults;
}
// Paths end while others have much to deliver, out of memory that they read late.
FakeFaults LateReads() {
  FakeFaults faults;
  faults.kill_every_puts = 61;
  faults.delay_polls = 20;
  faults.reads_late = true;
  return faults;
}
FakeFaults EverythingLate() {
  FakeFaults faults = Everything();
  faults.kill_every_puts = 101;
  faults.reads_late = true;
  return faults;
}
// What is missing never goes again in one go.
FakeFaults DropsOfASmallQueue() {
  FakeFaults faults = Drops(30'000);
  faults.queue_capacity = 3;
  return faults;
}
// An answer comes several resend times after its query.
FakeFaults DropsFarAway() {
  FakeFaults faults = Drops(30'000);
  faults.delay_polls = 400;
  return faults;
}
FakeFaults SmallQueue() {
  FakeFaults faults;
  faults.queue_capacity = 1;
  faults.delay_polls = 3;
  return faults;
}

// Numbers whose low halves begin anew on the way.
constexpr uint64_t kNearRound = (uint64_t{1} << 32) - 2'001;

INSTANTIATE_TEST_SUITE_P(
    All, ChunkLinkStream,
    ::testing::Values(
        Case{"Mapped", true, 8, {}, false}, Case{"MappedHeld", true, 8, {}, true}, Case{"OneSlot", true, 1, {}, false},
        Case{"ThreeSlots", true, 3, {}, true}, Case{"Put", false, 8, {}, false}, Case{"PutOneSlot", false, 1, {}, true},
        Case{"SmallQueue", false, 8, SmallQueue(), false}, Case{"FewDrops", false, 8, Drops(1'000), false},
        Case{"ManyDrops", false, 5, Drops(200'000), true}, Case{"MappedKills", true, 8, Kills(501), false},
        Case{"MappedKillsHeld", true, 4, Kills(97), true}, Case{"PutKills", false, 8, Kills(301), true},
        Case{"TwoPaths", false, 8, {}, false, 2}, Case{"ManyPathsOneSlot", false, 1, {}, true, 16},
        Case{"PathsSmallQueue", false, 8, SmallQueue(), false, 3}, Case{"PathsDrop", false, 8, Drops(50'000), true, 3},
        Case{"PathsKills", false, 8, Kills(301), true, 4}, Case{"PathsEverything", false, 8, Everything(), true, 3},
        Case{"PathsReadLate", false, 8, LateReads(), false, 4},
        Case{"PathsReadLateHeld", false, 3, LateReads(), true, 3},
        Case{"PathsEverythingLate", false, 5, EverythingLate(), false, 4},
        Case{"DropsSmallQueue", false, 8, DropsOfASmallQueue(), false},
        Case{"PathsDropsSmallQueue", false, 8, DropsOfASmallQueue(), false, 3},
        Case{"DropsFarAway", false, 8, DropsFarAway(), false}, Case{"MappedIsAlone", true, 8, Kills(997), true, 4},
        Case{"MappedPast32Bits", true, 3, Kills(97), true, 1, kNearRound},
        Case{"DropsPast32Bits", false, 5, Drops(200'000), true, 1, kNearRound},
        Case{"PathsPast32Bits", false, 8, EverythingLate(), true, 4, kNearRound},
        Case{"Everything", false, 8, Everything(), false}, Case{"EverythingHeld", false, 3, Everything(), true}),
    [](const auto& test) { return std::string(test.param.name); });

// All paths but one end, one after the other; each comes back, and nobody waits for the timer that looks after losses.
TEST(ChunkLink, GoesOnOverThePathsThatAreLeft) {
  ConfigureLog(SL_LOG_ERROR, "");
  FakeNet net(2, false);
  LinkTableConfig config = Config(&net, 0, 2, 8);
  config.connections = 3;
  config.resend_ns = 3'600'000'000'000;
  LinkTable a(std::move(config));
  config = Config(&net, 1, 2, 8);
  config.resend_ns = 3'600'000'000'000;
  LinkTable b(std::move(config));
  Half left(&a, 0, 1, 0, 3000);
  Half right(&b, 1, 0, 0, 3000);
  auto* link = static_cast<ChunkLink*>(a.Get(1, 0));
  uint64_t turns = 0;
  uint32_t killed = 0;
  while (!(left.done() && right.done()) && !HasFatalFailure()) {
    left.Step(true);
    right.Step(true);
    g_now_ns += 100'000;
    if (++turns % 300 == 0 && killed < 6) net.KillOne(killed++);
    ASSERT_TRUE(link->up());
    ASSERT_LT(turns, 1'000'000u);
  }
  EXPECT_EQ(killed, 6u);
  EXPECT_GT(a.resends() + b.resends(), 0u);
  for (uint32_t path = 0; path < 3; ++path) {
    EXPECT_TRUE(link->IsUp(path)) << path;
    EXPECT_GT(link->EpochOf(path), 1u) << path;
  }
}

// A query asks about what went before it. What goes after it, while the answer is on its way, is on its way as well:
// put a second time, it would still be read from its slot when the first copy's acknowledgement frees that slot.
TEST(ChunkLink, PutsNothingAgainThatWentAfterTheQuery) {
  constexpr uint64_t kTickNs = 10'000'000;  // longer than resend_ns
  FakeNet net(2, false);
  net.UseDescriptors();  // each call of Progress() looks at the clock
  LinkTableConfig config = Config(&net, 0, 2, 8);
  config.connections = 2;
  LinkTable a(std::move(config));
  LinkTable b(Config(&net, 1, 2, 8));
  auto* from = static_cast<ChunkLink*>(a.Get(1, 0));
  auto* to = static_cast<ChunkLink*>(b.Get(0, 0));
  const auto is_up = [&] { return from->IsUp(0) && from->IsUp(1) && to->IsUp(0) && to->IsUp(1); };
  for (uint32_t turn = 0; turn < 100 && !is_up(); ++turn, g_now_ns += kTickNs) {
    ASSERT_EQ(a.Progress(), SL_OK);
    ASSERT_EQ(b.Progress(), SL_OK);
  }
  ASSERT_TRUE(is_up());
  const auto post = [from](uint64_t first, uint64_t last) {
    for (uint64_t k = first; k <= last; ++k) {
      void* payload = nullptr;
      ASSERT_EQ(from->Reserve(&payload), SL_OK);
      ASSERT_EQ(from->Post(kChunkBytes, {k, 0, 0}), SL_OK);
    }
  };
  post(1, 4);
  const uint64_t before_query = net.puts();
  for (int i = 0; i < 2 && net.puts() == before_query; ++i, g_now_ns += kTickNs) ASSERT_EQ(a.Progress(), SL_OK);
  ASSERT_EQ(net.puts(), before_query + 2);  // each path asks
  ASSERT_EQ(b.Progress(), SL_OK);
  ASSERT_EQ(net.puts(), before_query + 4);  // and is answered
  post(5, 8);
  ASSERT_EQ(a.Progress(), SL_OK);
  EXPECT_EQ(a.resends(), 0u);
  for (uint64_t k = 1; k <= 8; ++k) {
    ASSERT_EQ(b.Progress(), SL_OK);
    Chunk chunk;
    ASSERT_EQ(to->Peek(&chunk), SL_OK);
    EXPECT_EQ(chunk.header->sequence, k);
    ASSERT_EQ(to->Release(), SL_OK);
  }
}

// The lines of the log that say that a path is down, when the peer ends two paths one way or the other.
int WarningsWhenPathsEnd(bool killed) {
  std::string path = testing::TempDir() + "chunk_link_XXXXXX";
  close(mkstemp(path.data()));
  FakeNet net(2, false);
  LinkTableConfig config = Config(&net, 0, 2, 8);
  config.connections = 2;
  LinkTable a(std::move(config));
  auto b = std::make_unique<LinkTable>(Config(&net, 1, 2, 8));
  auto* link = static_cast<ChunkLink*>(a.Get(1, 0));
  const auto* other = static_cast<const ChunkLink*>(b->Get(0, 0));
  const auto is_up = [&] { return link->IsUp(0) && link->IsUp(1) && other->IsUp(0) && other->IsUp(1); };
  for (uint32_t turn = 0; turn < 100 && !is_up(); ++turn, g_now_ns += 100'000) {
    EXPECT_EQ(a.Progress(), SL_OK);
    EXPECT_EQ(b->Progress(), SL_OK);
  }
  EXPECT_TRUE(is_up());
  ConfigureLog(SL_LOG_WARN, path);
  net.StopListening(1);
  if (killed) net.KillAll();
  b.reset();
  for (uint32_t turn = 0; turn < 100 && link->up(); ++turn, g_now_ns += 100'000) {
    net.Ops()->progress(net.Transport(0));
    link->Service(g_now_ns);
  }
  ConfigureLog(SL_LOG_ERROR, "");
  EXPECT_FALSE(link->IsUp(0) || link->IsUp(1));
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.find(" down: epoch 1 ended") != std::string::npos;
  unlink(path.c_str());
  return lines;
}

TEST(ChunkLink, WarnsOfPathsThatBreakAndNotOfPathsThatThePeerCloses) {
  EXPECT_EQ(WarningsWhenPathsEnd(true), 2);
  EXPECT_EQ(WarningsWhenPathsEnd(false), 0);
}

// One path takes three times as long as the other: the link carries what both carry together. Counted in turns, not in
// time: the net delivers one chunk of the fast path a turn, and one of the slow path every third.
TEST(ChunkLink, SharesTheWorkByWhatEachPathDelivers) {
  constexpr uint64_t kChunks = 4000;
  FakeNet net(2, false);
  net.SetPace({1, 3});
  LinkTableConfig config = Config(&net, 0, 2, 8);
  config.connections = 2;
  config.resend_ns = 3'600'000'000'000;
  LinkTable a(std::move(config));
  config = Config(&net, 1, 2, 8);
  config.resend_ns = 3'600'000'000'000;
  LinkTable b(std::move(config));
  Link* from = a.Get(1, 0);
  Link* to = b.Get(0, 0);
  uint64_t received = 0;
  uint64_t turns = 0;
  for (; received < kChunks && turns < 100 * kChunks; ++turns, g_now_ns += 100'000) {
    void* payload = nullptr;
    while (from->Reserve(&payload) == SL_OK) ASSERT_EQ(from->Post(kChunkBytes, {1, 1, 0}), SL_OK);
    ASSERT_EQ(a.Progress(), SL_OK);
    ASSERT_EQ(b.Progress(), SL_OK);
    Chunk chunk;
    while (to->Peek(&chunk) == SL_OK) {
      ASSERT_EQ(to->Release(), SL_OK);
      ++received;
    }
  }
  ASSERT_GE(received, kChunks);
  // Both together deliver 4 chunks in 3 turns.
  EXPECT_LT(turns, kChunks * 3 / 4 * 10 / 9);
}

// The data path of an established link: no allocation.
TEST(ChunkLink, AllocatesNothingOnTheDataPath) {
  FakeNet net(2, true);
  LinkTable a(Config(&net, 0, 2, 4));
  LinkTable b(Config(&net, 1, 2, 4));
  Half left(&a, 0, 1, 0, 2000);
  Half right(&b, 1, 0, 0, 2000);
  for (int i = 0; i < 20; ++i) {
    left.Step(false);
    right.Step(false);
  }
  const uint64_t before = t_allocations;
  while (!(left.done() && right.done()) && !HasFatalFailure()) {
    left.Step(false);
    right.Step(false);
  }
  EXPECT_EQ(t_allocations, before);
}

// Two threads, each driving its own rank; ThreadSanitizer checks the order of payload and signals.
class ChunkLinkThreads : public ::testing::TestWithParam<bool> {};

TEST_P(ChunkLinkThreads, StreamBothWays) {
  constexpr uint64_t kChunks = 5'000;
  FakeNet net(2, GetParam());
  std::vector<std::unique_ptr<LinkTable>> tables;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    LinkTableConfig config = Config(&net, rank, 2, 4);
    config.now_ns = nullptr;
    tables.push_back(std::make_unique<LinkTable>(std::move(config)));
  }
  std::atomic<int> finished{0};
  const auto drive = [&](uint32_t rank) {
    Half half(tables[rank].get(), rank, 1 - rank, 0, kChunks);
    // A rank keeps its links moving until both are through, as a communicator does before it ends.
    bool counted = false;
    for (uint64_t turns = 0; finished.load() < 2 && turns < 200'000'000; ++turns) {
      half.Step(turns % 2 == 0);
      if (half.done() && !std::exchange(counted, true)) ++finished;
      if (turns % 16 == 0) std::this_thread::yield();
    }
    EXPECT_TRUE(half.done());
  };
  std::thread other(drive, 1);
  drive(0);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(All, ChunkLinkThreads, ::testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "Mapped" : "Put"); });

}  // namespace
}  // namespace sl::kernel
