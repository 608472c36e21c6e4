// SPDX-License-Identifier: Apache-2.0
//
// A communicator's failure and the word that stops its launches, whose order a program sees: a stopped launch ends its
// stream as a good one does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <thread>

#include "kernel/comm/comm.h"

namespace {
thread_local bool t_fails = false;
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = t_fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {

struct CommunicatorPeer {
  static void SetControl(Communicator* comm, sl_control_t* control) { comm->control_.store(control); }
  static std::mutex* LockOfFailure(Communicator* comm) { return &comm->mutex_; }
  static void StopLaunchesOfPeer(Communicator* comm) { comm->StopLaunchesOfPeer(kWhy); }
  static void OnFate(Communicator* comm, uint32_t rank, Fate fate) { comm->OnFate(rank, fate); }
  static void OnReport(Communicator* comm, uint32_t rank, const Status& failure) { comm->OnReport(rank, failure); }
  inline static const std::string kWhy = "rank 1 aborted the communicator";
};

namespace {

class CommHealth : public testing::Test {
 protected:
  CommHealth() { CommunicatorPeer::SetControl(&comm_, &control_); }
  ~CommHealth() override { CommunicatorPeer::SetControl(&comm_, nullptr); }

  bool IsStopped() { return std::atomic_ref<int32_t>(control_.abort).load() != 0; }

  // The lock under which the failure is kept holds `end` between the two steps. While it is held no failure can be
  // kept, so no launch may be stopped. Long enough for a thread that would stop them at once.
  void ExpectFailureBeforeTheStop(const std::function<void()>& end) {
    std::thread ending;
    {
      const std::lock_guard held(*CommunicatorPeer::LockOfFailure(&comm_));
      ending = std::thread(end);
      const uint64_t deadline_ns = NowNs() + 200'000'000;
      while (!IsStopped() && NowNs() < deadline_ns) std::this_thread::yield();
      EXPECT_FALSE(IsStopped()) << "launches are stopped, and no failure is kept yet";
    }
    ending.join();
    EXPECT_TRUE(IsStopped());
    EXPECT_FALSE(comm_.OwnFailure().ok());
    EXPECT_FALSE(comm_.Health().ok());
  }

  // Runs `call` where there is no memory to be had. True when that made it throw.
  static bool ThrowsInShortage(const std::function<void()>& call) {
    t_fails = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
      t_fails = false;
      return true;
    }
    t_fails = false;
    return false;
  }

  Communicator comm_{nullptr, {}};
  sl_control_t control_{};
};

TEST_F(CommHealth, KeepsTheFailureBeforeItStopsLaunchesThatWaitForAPeer) {
  ExpectFailureBeforeTheStop([this] { CommunicatorPeer::StopLaunchesOfPeer(&comm_); });
}

TEST_F(CommHealth, KeepsTheFailureBeforeARevokeStopsLaunches) {
  ExpectFailureBeforeTheStop([this] { comm_.Revoke(); });
}

TEST_F(CommHealth, KeepsTheFailureBeforeAShrinkStopsLaunches) {
  ExpectFailureBeforeTheStop([this] { comm_.RevokeForShrink(); });
}

TEST_F(CommHealth, KeepsTheFailureBeforeAFoundOneStopsLaunches) {
  ExpectFailureBeforeTheStop([this] { comm_.FailLaunches({SL_ERR_TIMEOUT, "timeout"}); });
}

// The reason stays the one that ended it: what follows from the end is no news.
TEST_F(CommHealth, KeepsTheFirstFailure) {
  comm_.FailLaunches({SL_ERR_MISMATCH, "calls differ"});
  CommunicatorPeer::StopLaunchesOfPeer(&comm_);
  comm_.Revoke();
  EXPECT_EQ(comm_.OwnFailure().code(), SL_ERR_MISMATCH);
  EXPECT_EQ(std::atomic_ref<int32_t>(control_.abort).load(), SL_ERR_MISMATCH);
}

// They would spin for ever: nobody else stops them.
TEST_F(CommHealth, StopsLaunchesThoughTheWordsOfAFailureFindNoMemory) {
  const auto stops = [this](sl_status_t why) {
    const int32_t abort = std::atomic_ref<int32_t>(control_.abort).exchange(0);
    EXPECT_EQ(abort, why) << "launches are not stopped";
  };
  const Status timeout(SL_ERR_TIMEOUT, "rank 3 has not come in time");
  static_cast<void>(ThrowsInShortage([&] { comm_.FailLaunches(timeout); }));
  stops(SL_ERR_TIMEOUT);
  EXPECT_EQ(comm_.Health().code(), SL_ERR_TIMEOUT) << "the failure is kept, too";
  static_cast<void>(ThrowsInShortage([this] { CommunicatorPeer::StopLaunchesOfPeer(&comm_); }));
  stops(SL_ERR_PEER_LOST);
  static_cast<void>(ThrowsInShortage([this] { comm_.Revoke(); }));
  stops(SL_ERR_ABORTED);
  static_cast<void>(ThrowsInShortage([this] { comm_.RevokeForShrink(); }));
  stops(SL_ERR_ABORTED);
}

TEST_F(CommHealth, StopsLaunchesThatWaitForAPeerThoughThereIsNoMemory) {
  EXPECT_TRUE(ThrowsInShortage([this] { CommunicatorPeer::StopLaunchesOfPeer(&comm_); }));
  EXPECT_TRUE(IsStopped());
  EXPECT_EQ(comm_.Health().code(), SL_ERR_PEER_LOST);
}

// Nobody waits for its launches, which are another matter.
class CommNews : public CommHealth {
 protected:
  CommNews() { CommunicatorPeer::SetControl(&comm_, nullptr); }
};

TEST_F(CommNews, OfALossCountsThoughItsWordsFindNoMemory) {
  EXPECT_TRUE(ThrowsInShortage([this] { CommunicatorPeer::OnFate(&comm_, 3, Fate::kLost); })) << "and so comes again";
  EXPECT_FALSE(comm_.healthy());
  EXPECT_FALSE(comm_.complete());
  EXPECT_EQ(comm_.lost_rank(), 3);
  EXPECT_EQ(comm_.Health().code(), SL_ERR_PEER_LOST);
  CommunicatorPeer::OnFate(&comm_, 3, Fate::kLost);
  EXPECT_EQ(comm_.Health().message(), "rank 3 was lost: its process ended");
}

TEST_F(CommNews, OfAFailureCountsThoughItsWordsFindNoMemory) {
  const Status failure(SL_ERR_MISMATCH, "operation #7: all_reduce of 3 elements");
  EXPECT_TRUE(ThrowsInShortage([&] { CommunicatorPeer::OnReport(&comm_, 3, failure); })) << "and so comes again";
  EXPECT_FALSE(comm_.healthy());
  EXPECT_FALSE(comm_.complete());
  EXPECT_EQ(comm_.Health().code(), SL_ERR_PEER_FAILED);
  CommunicatorPeer::OnReport(&comm_, 3, failure);
  EXPECT_EQ(comm_.Health().message(), "rank 3 has failed: " + failure.message());
}

}  // namespace
}  // namespace sl::kernel
