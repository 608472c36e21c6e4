// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/control_tree.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "kernel/control/meet.h"
#include "kernel/control/rendezvous.h"
#include "kernel/control/tree_shape.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Bytes ToBytes(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// A process's control plane, with all ranks as threads of this one.
class ControlTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<ControlThread>> control = ControlThread::Start();
    ASSERT_TRUE(control.ok()) << control.status().message();
    control_ = control.Take();
    descriptors_ = OpenDescriptors();
    switchboard_ = std::make_unique<Switchboard>(control_.get(), NetChoice{});
    rendezvous_ = std::make_unique<Rendezvous>(control_.get(), switchboard_.get(), 10'000);
  }
  void TearDown() override {
    // Nodes that have left relay until their neighbours are gone too; the control thread must outlive them, those
    // without a name here among them, whose connections tell of them.
    for (auto& tree : trees_) {
      if (tree != nullptr) tree->Depart(Fate::kDeparted);
    }
    trees_.clear();
    const uint64_t deadline = NowNs() + 10 * kSecond;
    for (const auto& tree : made_) {
      while (!tree.expired() && NowNs() < deadline) std::this_thread::yield();
      EXPECT_TRUE(tree.expired());
    }
    rendezvous_.reset();
    switchboard_.reset();
    while (OpenDescriptors() > descriptors_ && NowNs() < deadline) std::this_thread::yield();
    EXPECT_EQ(OpenDescriptors(), descriptors_);
    control_->Settle();  // the task that closed the last one
    control_.reset();
  }

  Patience Brief() const { return {NowNs() + 10 * kSecond}; }

  Result<std::shared_ptr<ControlTree>> JoinAs(const RendezvousId& id, uint32_t rank, uint32_t size,
                                              ControlTree::FateHandler on_fate = nullptr,
                                              ControlTree::ReportHandler on_report = nullptr,
                                              const std::atomic<uint64_t>* cancel = nullptr) {
    SL_ASSIGN(const std::unique_ptr<Extension> extension, Extension::Open(switchboard_.get(), id.secret));
    SL_ASSIGN(const TreeNeighbours where, Meet({{&id, 1}, rank, size, extension.get(), 10 * kSecond, kSecond, cancel}));
    return ControlTree::Build(control_.get(), {rank, size, id.nonce(), id.secret}, extension.get(), where, kSecond,
                              std::move(on_fate), std::move(on_report), Brief());
  }

  void JoinAll(uint32_t size, const std::function<ControlTree::FateHandler(uint32_t)>& handler = {},
               const std::function<ControlTree::ReportHandler(uint32_t)>& report_handler = {}) {
    const RendezvousId id = rendezvous_->NewId().Take();
    trees_.resize(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto tree =
            JoinAs(id, rank, size, handler ? handler(rank) : nullptr, report_handler ? report_handler(rank) : nullptr);
        ASSERT_TRUE(tree.ok()) << tree.status().message();
        trees_[rank] = tree.Take();
      });
    }
    for (std::thread& thread : threads) thread.join();
    made_.insert(made_.end(), trees_.begin(), trees_.end());
  }

  std::unique_ptr<ControlThread> control_;
  size_t descriptors_ = 0;
  std::unique_ptr<Switchboard> switchboard_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<std::shared_ptr<ControlTree>> trees_;
  std::vector<std::weak_ptr<ControlTree>> made_;
};

TEST_F(ControlTreeTest, GathersEveryContributionInRankOrder) {
  for (uint32_t size : {1u, 2u, 3u, 8u, 21u}) {
    JoinAll(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        for (uint8_t turn = 0; turn < 3; ++turn) {
          const Bytes mine(rank % 5, static_cast<uint8_t>(rank + turn));
          auto all = trees_[rank]->AllGather(trees_[rank]->TakeNumber(), mine, Brief());
          ASSERT_TRUE(all.ok()) << all.status().message();
          for (uint32_t r = 0; r < size; ++r) {
            EXPECT_EQ(ToBytes(all.value()[r]), Bytes(r % 5, static_cast<uint8_t>(r + turn)));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // One frame up, at most two down, for each all-gather: nobody talks to more than three.
    for (uint32_t rank = 0; rank < size; ++rank) EXPECT_LE(trees_[rank]->frames_sent(), 3u * 3u);
    for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
    trees_.clear();
  }
}

TEST_F(ControlTreeTest, AgreesOnlyWhereAllDo) {
  constexpr uint32_t kSize = 4;
  JoinAll(kSize);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      for (const uint32_t against : {kSize, 0u, 3u}) {
        const Result<bool> agreed = trees_[rank]->AllAgree(rank != against, Brief());
        ASSERT_TRUE(agreed.ok()) << agreed.status().message();
        EXPECT_EQ(agreed.value(), against == kSize);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of the root, an inner node and a leaf: before the others take part, or in the middle of it.
TEST_F(ControlTreeTest, AContributionWithoutAWaitReachesTheOthers) {
  constexpr uint32_t kSize = 8;
  JoinAll(kSize);
  for (const uint32_t quick : {0u, 1u, 7u}) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kSize; ++rank) {
      const uint64_t number = trees_[rank]->TakeNumber();
      if (rank == quick) {
        trees_[rank]->Contribute(number, Bytes(1, 100));
        continue;
      }
      threads.emplace_back([&, rank, number] {
        const Bytes mine(1, static_cast<uint8_t>(rank));
        auto all = trees_[rank]->AllGather(number, mine, Brief());
        ASSERT_TRUE(all.ok()) << all.status().message();
        for (uint32_t r = 0; r < kSize; ++r) EXPECT_EQ(all.value()[r][0], r == quick ? 100 : r);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
}

TEST_F(ControlTreeTest, TellsEverybodyWhoHasLeftAndHow) {
  constexpr uint32_t kSize = 8;
  std::atomic<uint32_t> heard{0};
  JoinAll(kSize, [&](uint32_t) {
    return [&heard](uint32_t rank, Fate fate) {
      if (rank == 1 && fate == Fate::kAborted) ++heard;
    };
  });
  trees_[1]->Depart(Fate::kAborted);  // an inner node: it goes on relaying
  const uint64_t deadline = NowNs() + 10 * kSecond;
  while (heard != kSize - 1 && NowNs() < deadline) std::this_thread::yield();
  EXPECT_EQ(heard, kSize - 1);
  Fate fate = Fate::kLost;
  EXPECT_TRUE(trees_[7]->FateOf(1, &fate));
  EXPECT_EQ(fate, Fate::kAborted);
  EXPECT_FALSE(trees_[7]->FateOf(2, &fate));
  // Waiting for a rank that has left ends at once.
  EXPECT_EQ(trees_[0]->AllGather(trees_[0]->TakeNumber(), {}, Brief()).status().code(), SL_ERR_PEER_LOST);
  for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
}

TEST_F(ControlTreeTest, TellsEverybodyTheFirstFailureAndNoOther) {
  constexpr uint32_t kSize = 8;
  std::atomic<uint32_t> heard{0};
  std::atomic<uint32_t> others{0};
  JoinAll(kSize, {}, [&](uint32_t) {
    return [&](uint32_t rank, const Status& failure) {
      ++(rank == 6 && failure.code() == SL_ERR_MISMATCH && failure.message() == "count 3" ? heard : others);
    };
  });
  trees_[6]->Report(Status(SL_ERR_MISMATCH, "count 3"));
  const uint64_t deadline = NowNs() + 10 * kSecond;
  while (heard != kSize - 1 && NowNs() < deadline) std::this_thread::yield();
  EXPECT_EQ(heard, kSize - 1);
  trees_[2]->Report(Status(SL_ERR_TIMEOUT, "too late"));
  EXPECT_EQ(trees_[0]->AllGather(trees_[0]->TakeNumber(), {}, Brief()).status().code(), SL_ERR_PEER_FAILED);
  // A rank that has failed may still leave.
  Fate fate = Fate::kLost;
  trees_[6]->Depart(Fate::kAborted);
  while (!trees_[0]->FateOf(6, &fate) && NowNs() < deadline) std::this_thread::yield();
  EXPECT_EQ(fate, Fate::kAborted);
  EXPECT_EQ(others, 0u);
  for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
}

// Whoever has the result leaves at once; the others must still get it, however far they are from the root.
TEST_F(ControlTreeTest, ResultsOvertakeTheNewsOfThoseWhoLeaveAfterwards) {
  constexpr uint32_t kSize = 15;
  for (int turn = 0; turn < 20; ++turn) {
    JoinAll(kSize);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([&, rank] {
        auto all = trees_[rank]->AllGather(trees_[rank]->TakeNumber(), {}, Brief());
        EXPECT_TRUE(all.ok()) << "rank " << rank << ": " << all.status().message();
        trees_[rank]->Depart(Fate::kDeparted);
      });
    }
    for (std::thread& thread : threads) thread.join();
    trees_.clear();
  }
}

TEST_F(ControlTreeTest, NodesEndWhenAllNeighboursHaveLeft) {
  JoinAll(7);
  std::vector<std::weak_ptr<ControlTree>> watched(trees_.begin(), trees_.end());
  for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
  trees_.clear();
  const uint64_t deadline = NowNs() + 10 * kSecond;
  for (const auto& tree : watched) {
    while (!tree.expired() && NowNs() < deadline) std::this_thread::yield();
    EXPECT_TRUE(tree.expired());
  }
}

TEST_F(ControlTreeTest, AnAllGatherEndsWhenItIsCancelled) {
  JoinAll(2);
  std::atomic<uint64_t> cancel{SL_NO_DEADLINE};
  std::thread waiter([&] {
    auto all = trees_[0]->AllGather(trees_[0]->TakeNumber(), {}, {SL_NO_DEADLINE, &cancel});
    EXPECT_EQ(all.status().code(), SL_ERR_ABORTED);
  });
  cancel = 0;
  waiter.join();
  for (auto& tree : trees_) tree->Depart(Fate::kDeparted);
}

TEST_F(ControlTreeTest, NamesTheRanksThatNeverArrive) {
  rendezvous_ = std::make_unique<Rendezvous>(control_.get(), switchboard_.get(), 2000);
  const RendezvousId id = rendezvous_->NewId().Take();
  std::vector<std::thread> threads;
  for (uint32_t rank : {0u, 2u}) {
    threads.emplace_back([&, rank] {
      auto tree = JoinAs(id, rank, 4);
      EXPECT_EQ(tree.status().code(), SL_ERR_TIMEOUT);
      EXPECT_NE(tree.status().message().find("rank 1, 3 did not arrive"), std::string::npos) << tree.status().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ControlTreeTest, ARankThatLeavesBeforeAllHaveComeEndsTheMeeting) {
  const RendezvousId id = rendezvous_->NewId().Take();
  std::atomic<uint64_t> cancel{SL_NO_DEADLINE};
  Status waits;
  std::thread stays([&] { waits = JoinAs(id, 0, 3).status(); });
  std::thread leaves([&] { EXPECT_EQ(JoinAs(id, 1, 3, nullptr, nullptr, &cancel).status().code(), SL_ERR_ABORTED); });
  while (rendezvous_->admitted() < 2) std::this_thread::yield();
  cancel = 0;
  leaves.join();
  stays.join();
  const Status late = JoinAs(id, 2, 3).status();
  for (const Status& told : {waits, late}) {
    EXPECT_EQ(told.code(), SL_ERR_PEER_LOST);
    EXPECT_NE(told.message().find("left while the ranks met"), std::string::npos) << told.message();
  }
}

// As ranks of a communicator that grows do.
TEST_F(ControlTreeTest, ARankThatKnowsOfALossEndsTheMeeting) {
  const RendezvousId id = rendezvous_->NewId().Take();
  const std::unique_ptr<Extension> extension = Extension::Open(switchboard_.get(), id.secret).Take();
  std::atomic<bool> is_lost{false};
  const auto look = [&] { return is_lost ? Status(SL_ERR_PEER_LOST, "rank 7 was lost") : Status(); };
  Status knows, waits;
  std::thread knowing([&] {
    knows = Meet({{&id, 1}, 0, 3, extension.get(), 10 * kSecond, kSecond, nullptr, look}).status();
  });
  std::thread waiting([&] { waits = JoinAs(id, 1, 3).status(); });
  while (rendezvous_->admitted() < 2) std::this_thread::yield();
  is_lost = true;
  knowing.join();
  waiting.join();
  const Status late = JoinAs(id, 2, 3).status();
  for (const Status& told : {knows, waits, late}) {
    EXPECT_EQ(told.code(), SL_ERR_PEER_LOST);
    EXPECT_NE(told.message().find("rank 7 was lost"), std::string::npos) << told.message();
  }
}

// Nothing else tells its parent, to whom it has never spoken.
TEST_F(ControlTreeTest, NamesAChildThatGoesBeforeItConnects) {
  for (const bool process_ends : {false, true}) {
    const RendezvousId id = rendezvous_->NewId().Take();
    std::thread goes([&] {
      Switchboard other(control_.get(), NetChoice{});
      Switchboard* own = process_ends ? &other : switchboard_.get();
      const std::unique_ptr<Extension> extension = Extension::Open(own, id.secret).Take();
      EXPECT_TRUE(Meet({{&id, 1}, 2, 3, extension.get(), 10 * kSecond, kSecond, nullptr}).ok());
    });
    std::thread child([&] {
      auto tree = JoinAs(id, 1, 3);
      ASSERT_TRUE(tree.ok()) << tree.status().message();
      const auto all = tree.value()->AllGather(tree.value()->TakeNumber(), {}, Brief());
      EXPECT_EQ(all.status().code(), SL_ERR_PEER_FAILED);
      EXPECT_NE(all.status().message().find("rank 0 has failed: rank 2 "), std::string::npos) << all.status().message();
      tree.value()->Depart(Fate::kAborted);
    });
    const Status parent = JoinAs(id, 0, 3).status();
    EXPECT_EQ(parent.code(), SL_ERR_PEER_LOST);
    const char* what = process_ends ? " was lost before it connected to rank 0" : " has given up before it connected";
    EXPECT_NE(parent.message().find(what), std::string::npos) << parent.message();
    goes.join();
    child.join();
  }
}

// Two that cannot both be right: there will be no communicator, and whoever has come, or comes later, hears why.
TEST_F(ControlTreeTest, RefusesWrongNumbers) {
  struct Claim {
    uint32_t rank, size;
  };
  const std::pair<Claim, Claim> pairs[] = {{{0, 3}, {0, 3}}, {{0, 3}, {1, 5}}, {{1, 5}, {0, 3}}};
  const char* const words[] = {"joined as rank 0", "says the communicator has 5 ranks, others said 3",
                               "says the communicator has 3 ranks, others said 5"};
  for (int i = 0; i < 3; ++i) {
    const RendezvousId id = rendezvous_->NewId().Take();
    Status one;
    const uint64_t before = rendezvous_->admitted();
    std::thread thread([&] { one = JoinAs(id, pairs[i].first.rank, pairs[i].first.size).status(); });
    while (rendezvous_->admitted() == before) std::this_thread::yield();
    const Status other = JoinAs(id, pairs[i].second.rank, pairs[i].second.size).status();
    thread.join();
    const Status late = JoinAs(id, 2, 3).status();
    for (const Status& told : {one, other, late}) {
      EXPECT_EQ(told.code(), SL_ERR_MISMATCH);
      EXPECT_NE(told.message().find(words[i]), std::string::npos) << told.message();
    }
  }
}

// A process on a host of its own, or shared with others; it is reached over TCP from other hosts, and can be stopped.
struct FakeProcess {
  explicit FakeProcess(uint8_t host)
      : control(ControlThread::Start().Take()),
        switchboard(std::make_unique<Switchboard>(control.get(), NetChoice{"lo"}, SpaceOf(host))) {}
  static HostId SpaceOf(uint8_t host) {
    HostId space{};
    space[0] = host;
    return space;
  }
  std::unique_ptr<ControlThread> control;
  std::unique_ptr<Switchboard> switchboard;
};

class SeveralHostsTest : public testing::Test {
 protected:
  // A process for each of `hosts`, which are numbers; they take ranks in turn, and the first one serves the id.
  void JoinAll(uint32_t size, const std::vector<uint8_t>& hosts, uint64_t silence_ns = 5 * kSecond) {
    for (const uint8_t host : hosts) processes_.push_back(std::make_unique<FakeProcess>(host));
    rendezvous_ = std::make_unique<Rendezvous>(processes_[0]->control.get(), processes_[0]->switchboard.get(), 10'000);
    const Result<RendezvousId> id = rendezvous_->NewId();
    ASSERT_TRUE(id.ok()) << id.status().message();
    trees_.resize(size);
    heard_ = std::vector<std::atomic<int64_t>>(size);
    for (auto& heard : heard_) heard = -1;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto tree = JoinAs(id.value(), rank, size, silence_ns);
        ASSERT_TRUE(tree.ok()) << "rank " << rank << ": " << tree.status().message();
        trees_[rank] = tree.Take();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Result<std::shared_ptr<ControlTree>> JoinAs(const RendezvousId& id, uint32_t rank, uint32_t size,
                                              uint64_t silence_ns) {
    FakeProcess* process = processes_[rank % processes_.size()].get();
    const Patience patience{NowNs() + 20 * kSecond};
    SL_ASSIGN(const std::unique_ptr<Extension> extension, Extension::Open(process->switchboard.get(), id.secret));
    SL_ASSIGN(const TreeNeighbours where,
              Meet({{&id, 1}, rank, size, extension.get(), 15 * kSecond, kSecond, nullptr}));
    auto on_fate = [this, rank](uint32_t lost, Fate fate) {
      if (IsLost(fate)) heard_[rank] = static_cast<int64_t>(fate) << 32 | lost;
    };
    return ControlTree::Build(process->control.get(), {rank, size, id.nonce(), id.secret}, extension.get(), where,
                              silence_ns, on_fate, nullptr, patience);
  }
  void GatherAll() {
    const auto size = static_cast<uint32_t>(trees_.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        const Bytes mine(rank, static_cast<uint8_t>(rank));
        auto all = trees_[rank]->AllGather(trees_[rank]->TakeNumber(), mine, {NowNs() + 10 * kSecond});
        ASSERT_TRUE(all.ok()) << all.status().message();
        for (uint32_t r = 0; r < size; ++r) EXPECT_EQ(ToBytes(all.value()[r]), Bytes(r, static_cast<uint8_t>(r)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  bool IsReachable(size_t process) {
    return Extension::Open(processes_[process]->switchboard.get(), Secret{1}).Take()->endpoint().net.valid();
  }
  void TearDown() override {
    for (auto& tree : trees_) {
      if (tree != nullptr) tree->Depart(Fate::kDeparted);
    }
    std::vector<std::weak_ptr<ControlTree>> watched(trees_.begin(), trees_.end());
    trees_.clear();
    const uint64_t deadline = NowNs() + 10 * kSecond;
    for (const auto& tree : watched) {
      while (!tree.expired() && NowNs() < deadline) std::this_thread::yield();
      EXPECT_TRUE(tree.expired());
    }
    rendezvous_.reset();
    for (auto& process : processes_) process->switchboard.reset();
  }

  std::vector<std::unique_ptr<FakeProcess>> processes_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::vector<std::shared_ptr<ControlTree>> trees_;
  std::vector<std::atomic<int64_t>> heard_;  // fate and rank of the last one lost; -1: none
};

TEST_F(SeveralHostsTest, GatherLikeRanksOfOne) {
  JoinAll(13, {1, 2, 3, 4});
  GatherAll();
}

// Hosts that vanish take namespaces: tests/net/bootstrap_test.cc.
TEST_F(SeveralHostsTest, KeepASilentProcessWhoseHostAnswers) {
  constexpr uint64_t kSilence = kSecond;
  JoinAll(6, {1, 2, 3}, kSilence);
  GatherAll();  // everybody has been heard of
  {
    const auto held = processes_[2]->control->Hold();
    std::this_thread::sleep_for(std::chrono::nanoseconds(5 * kSilence / 2));
  }
  GatherAll();
  for (uint32_t rank = 0; rank < 6; ++rank) EXPECT_LT(heard_[rank], 0) << "rank " << rank;
  for (const auto& process : processes_)
    EXPECT_EQ(process->switchboard->strangers(), 0u) << "a question is no stranger";
}

TEST_F(SeveralHostsTest, OpenNoPortWhileThereIsOne) {
  JoinAll(5, {1, 1});
  EXPECT_FALSE(IsReachable(1)) << "the other process made the id, and could not know";
}

TEST_F(SeveralHostsTest, OpenAPortInEveryProcessWhenThereAreSeveral) {
  JoinAll(6, {1, 1, 2});
  for (size_t process = 0; process < 3; ++process) EXPECT_TRUE(IsReachable(process)) << process;
}

TEST(TreeShape, IsAsDeepAsTheLogarithmOfTheSize) {
  for (const uint32_t size : {2u, 64u, 1024u, 65535u}) {
    uint32_t depth = 0;
    for (uint32_t rank = size - 1; rank != 0; rank = ParentOf(rank)) ++depth;
    EXPECT_LE(1u << depth, size);
  }
}

TEST(TreeShape, ConnectsEveryRankToItsParent) {
  for (uint32_t size = 1; size < 70; ++size) {
    uint32_t edges = 0;
    for (uint32_t rank = 0; rank < size; ++rank) {
      for (uint32_t child : ChildrenOf(rank, size)) {
        EXPECT_EQ(ParentOf(child), rank);
        ++edges;
      }
    }
    EXPECT_EQ(edges, size - 1);
  }
}

}  // namespace
}  // namespace sl::kernel
