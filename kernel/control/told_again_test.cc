// SPDX-License-Identifier: Apache-2.0
//
// What a control tree does when a handler of its news throws, as handlers do when there is no memory for a moment.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "kernel/control/control_tree.h"
#include "kernel/control/meet.h"
#include "kernel/control/rendezvous.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kSize = 3;  // a root and its two children

// A handler's calls: the first `throws` of them throw.
struct Calls {
  void Take() {
    const int number = calls++;
    if (number >= throws) return;
    if (is_shortage) throw std::bad_alloc();
    throw std::runtime_error("thrown by the test");
  }
  int throws = 0;
  bool is_shortage = true;
  std::atomic<int> calls{0};
};

class ToldAgain : public testing::Test {
 protected:
  void JoinAll() {
    const RendezvousId id = rendezvous_.NewId().Take();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([this, &id, rank] {
        Result<std::shared_ptr<ControlTree>> tree = Join(id, rank);
        ASSERT_TRUE(tree.ok()) << tree.status().message();
        trees_[rank] = tree.Take();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Only the root's handlers throw.
  Result<std::shared_ptr<ControlTree>> Join(const RendezvousId& id, uint32_t rank) {
    SL_ASSIGN(const std::unique_ptr<Extension> extension, Extension::Open(&switchboard_, id.secret));
    SL_ASSIGN(const TreeNeighbours where,
              Meet({{&id, 1}, rank, kSize, extension.get(), 10 * kSecond, kSecond, nullptr}));
    const auto on_fate = [this, rank](uint32_t, Fate) {
      if (rank == 0) fates_.Take();
    };
    const auto on_report = [this, rank](uint32_t, const Status&) {
      if (rank == 0) reports_.Take();
    };
    return ControlTree::Build(control_.get(), {rank, kSize, id.nonce(), id.secret}, extension.get(), where, kSecond,
                              on_fate, on_report, {NowNs() + 10 * kSecond});
  }
  void TearDown() override {
    for (auto& tree : trees_) {
      if (tree != nullptr) tree->Depart(Fate::kDeparted);
    }
    std::vector<std::weak_ptr<ControlTree>> watched(std::begin(trees_), std::end(trees_));
    for (auto& tree : trees_) tree.reset();
    for (const auto& tree : watched) EXPECT_TRUE(Await([&tree] { return tree.expired(); }));
  }

  template <typename Condition>
  static bool Await(const Condition& holds) {
    const uint64_t deadline_ns = NowNs() + 5 * kSecond;
    while (!holds() && NowNs() < deadline_ns) std::this_thread::yield();
    return holds();
  }
  bool RootHears(const Calls& calls) {
    return Await([&calls] { return calls.calls > calls.throws; });
  }
  // Waits for those of it that are due, and for others as long as a call might be repeated.
  int CountAfterAWhile(const Calls& calls) {
    const uint64_t deadline_ns = NowNs() + 100'000'000;
    while (NowNs() < deadline_ns) std::this_thread::yield();
    return calls.calls;
  }

  std::unique_ptr<ControlThread> control_ = ControlThread::Start().Take();
  Switchboard switchboard_{control_.get(), NetChoice{}};
  Rendezvous rendezvous_{control_.get(), &switchboard_, 10'000};
  std::shared_ptr<ControlTree> trees_[kSize];
  Calls fates_;
  Calls reports_;
};

TEST_F(ToldAgain, OfANeighbourThatWasLost) {
  fates_.throws = 1;
  JoinAll();
  trees_[2].reset();  // its streams end, and no frame says that it leaves
  EXPECT_TRUE(RootHears(fates_)) << "the handler was called " << fates_.calls << " times";
  Fate fate = Fate::kDeparted;
  EXPECT_TRUE(trees_[0]->FateOf(2, &fate));
  EXPECT_EQ(fate, Fate::kLost);
  EXPECT_EQ(CountAfterAWhile(fates_), 2) << "once it has returned it hears no more of that rank";
}

TEST_F(ToldAgain, UntilTheHandlerHasReturned) {
  fates_.throws = 4;
  fates_.is_shortage = false;
  JoinAll();
  trees_[2].reset();
  EXPECT_TRUE(RootHears(fates_)) << "the handler was called " << fates_.calls << " times";
}

// The rank that brought the news is as good as before.
TEST_F(ToldAgain, OfARankThatAborted) {
  fates_.throws = 1;
  JoinAll();
  trees_[2]->Depart(Fate::kAborted);
  EXPECT_TRUE(RootHears(fates_)) << "the handler was called " << fates_.calls << " times";
  Fate fate = Fate::kLost;
  EXPECT_TRUE(trees_[0]->FateOf(2, &fate));
  EXPECT_EQ(fate, Fate::kAborted);
  EXPECT_TRUE(trees_[0]->Loss().ok()) << trees_[0]->Loss().message();
}

TEST_F(ToldAgain, OfAFailureThatARankReported) {
  reports_.throws = 2;
  JoinAll();
  trees_[1]->Report({SL_ERR_MISMATCH, "count 3"});
  EXPECT_TRUE(RootHears(reports_)) << "the handler was called " << reports_.calls << " times";
  EXPECT_EQ(CountAfterAWhile(reports_), 3);
  Fate fate = Fate::kDeparted;
  EXPECT_FALSE(trees_[0]->FateOf(1, &fate)) << "the rank that reported has not gone";
}

}  // namespace
}  // namespace sl::kernel
