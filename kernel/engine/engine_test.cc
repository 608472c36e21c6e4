// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/engine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "kernel/engine/plan_world_test_util.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
namespace {

constexpr sl_operand_t kSend{SL_BUFFER_SEND, 0, 0, -1};

// Two ranks exchange 100 int32 in several rounds, through progress threads.
class Progress : public testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<Plan> plan;
    std::vector<int32_t> send = std::vector<int32_t>(100, 1);
    std::vector<int32_t> recv = std::vector<int32_t>(100, 0);
    kernel::Run* run = nullptr;
    alignas(64) uint64_t start = 0;
    alignas(64) uint64_t end = 0;
    std::atomic<int> done{0};
    std::atomic<sl_status_t> status{1};
    std::atomic<bool> signals_blocked{false};
    RunPool* pool = nullptr;
  };

  void Prepare(PlanWorld* world) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ranks_[rank].plan = MakePlan(rank);
      ranks_[rank].pool = &world->pool(rank);
    }
  }

  static sl_op_t Op() {
    sl_op_t op{};
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_INT32;
    op.root = op.peer = -1;
    op.count = 100;
    op.seq = 1;
    return op;
  }

  static std::unique_ptr<Plan> MakePlan(uint32_t rank) {
    PlanBuilder builder({rank, 2, 1, 4096, 8, Op()});
    sl_plan_desc_t desc{};
    desc.struct_size = sizeof(desc);
    desc.block_modulus = 1;
    desc.chunk = 16;
    desc.rounds = 7;
    desc.send = desc.recv = {100, 100, 100};
    const auto peer = static_cast<int32_t>(1 - rank);
    sl_step_t put = MakeStep(SL_STEP_PUT, peer, kSend);
    put.a = kSend;
    sl_step_t reduce = MakeStep(SL_STEP_REDUCE, -1, kSend);
    reduce.a = kSend;
    reduce.b = {SL_BUFFER_INBOX, 0, 0, peer};
    reduce.dst = {SL_BUFFER_RECV, 0, 0, -1};
    bool ok = builder.Describe(desc).ok() && builder.BeginLane().ok();
    for (const sl_step_t& step :
         {put, MakeStep(SL_STEP_WAIT, peer, kSend), reduce, MakeStep(SL_STEP_RELEASE, peer, kSend)}) {
      ok = ok && builder.AddStep(step).ok();
    }
    EXPECT_TRUE(ok);
    return builder.Finish().Take();
  }

  // A job of a fresh run of `rank`.
  ProgressJob Job(uint32_t index) {
    Rank& rank = ranks_[index];
    sl_op_t op = Op();
    op.send = rank.send.data();
    op.recv = rank.recv.data();
    EXPECT_TRUE(rank.pool->Start(*rank.plan, op, &rank.run).ok());
    ProgressJob job;
    job.work = rank.run;
    job.end_word = &rank.end;
    job.end_value = 1;
    job.done = Done;
    job.done_ctx = &rank;
    return job;
  }

  static void Done(void* ctx, sl_status_t status) {
    auto* rank = static_cast<Rank*>(ctx);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    rank->signals_blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
    rank->pool->Finish(rank->run, status);
    rank->status = status;
    ++rank->done;
  }

  static uint64_t Load(uint64_t& word) { return std::atomic_ref<uint64_t>(word).load(std::memory_order_acquire); }
  static void Store(uint64_t* word, uint64_t value) {
    std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
  }

  template <typename Condition>
  static bool Eventually(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      sched_yield();
    }
    return true;
  }

  Rank ranks_[2];
};

TEST_F(Progress, CompletesRunsAndStoresTheEndWords) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  ASSERT_TRUE(thread.Submit(Job(1)).ok());
  for (Rank& rank : ranks_) {
    ASSERT_TRUE(Eventually([&] { return Load(rank.end) == 1; }));
    EXPECT_EQ(rank.done, 1);
    EXPECT_EQ(rank.status, SL_OK);
    EXPECT_TRUE(rank.signals_blocked);
    EXPECT_EQ(rank.recv, std::vector<int32_t>(100, 2));
  }
  EXPECT_EQ(thread.pending(), 0u);
}

TEST_F(Progress, WaitsForTheStartWord) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  for (uint32_t i = 0; i < 2; ++i) {
    ProgressJob job = Job(i);
    job.start_word = &ranks_[i].start;
    job.start_value = 5;
    ASSERT_TRUE(thread.Submit(job).ok());
  }
  Store(&ranks_[0].start, 4);
  const uint64_t naps = thread.wakeups();
  ASSERT_TRUE(Eventually([&] { return thread.wakeups() > naps + 3; }));
  EXPECT_EQ(world.net().posted(), 0u);
  for (Rank& rank : ranks_) Store(&rank.start, 5);
  for (Rank& rank : ranks_) EXPECT_TRUE(Eventually([&] { return Load(rank.end) == 1; }));
}

TEST_F(Progress, DoesNotWakeWhileIdle) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  ASSERT_TRUE(thread.Submit(Job(1)).ok());
  for (Rank& rank : ranks_) ASSERT_TRUE(Eventually([&] { return Load(rank.end) == 1; }));
  // Going to sleep may still be under way; a thread that wakes without a reason does so in every stretch of time.
  EXPECT_TRUE(Eventually([&] {
    const uint64_t before = thread.wakeups();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return thread.wakeups() == before;
  }));
}

// The run's peer is driven by another thread, so both sleep on doorbells and are woken by rings.
TEST_F(Progress, HearsTheDoorbellsOfWhatItWaitsFor) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread threads[2] = {ProgressThread({.spin_ns = 0}), ProgressThread({.spin_ns = 0})};
  for (int round = 1; round <= 200; ++round) {
    for (uint32_t i = 0; i < 2; ++i) {
      ProgressJob job = Job(i);
      job.end_value = static_cast<uint64_t>(round);
      ASSERT_TRUE(threads[(i + static_cast<uint32_t>(round)) % 2].Submit(job).ok());
    }
    for (Rank& rank : ranks_) {
      ASSERT_TRUE(Eventually([&] { return Load(rank.end) == static_cast<uint64_t>(round); }));
      ASSERT_EQ(rank.status, SL_OK);
    }
  }
}

TEST_F(Progress, WorksWithoutDoorbells) {
  PlanWorld world(2, {.doorbells = false});
  Prepare(&world);
  ProgressThread a({.spin_ns = 0});
  ProgressThread b({.spin_ns = 0});
  ASSERT_TRUE(a.Submit(Job(0)).ok());
  ASSERT_TRUE(Eventually([&] { return a.wakeups() > 3; }));
  ASSERT_TRUE(b.Submit(Job(1)).ok());
  for (Rank& rank : ranks_) EXPECT_TRUE(Eventually([&] { return Load(rank.end) == 1; }));
}

TEST_F(Progress, EndsAbortedJobs) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  int32_t abort_word = 0;
  ProgressJob job = Job(0);
  job.abort_word = &abort_word;
  ASSERT_TRUE(thread.Submit(job).ok());
  std::atomic_ref<int32_t>(abort_word).store(SL_ERR_ABORTED);
  ASSERT_TRUE(Eventually([&] { return Load(ranks_[0].end) == 1; }));
  EXPECT_EQ(ranks_[0].status, SL_ERR_ABORTED);
  EXPECT_EQ(world.pool(0).failure().code(), SL_ERR_ABORTED);
}

TEST_F(Progress, LetsTheCheckEndAJob) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  ProgressJob job = Job(0);
  std::atomic<int> checks{0};
  job.check_ctx = &checks;
  job.check_interval_ns = 1'000'000;
  job.check = [](void* ctx, const sl_wait_t* wait, uint64_t waited_ns) -> sl_status_t {
    const int before = static_cast<std::atomic<int>*>(ctx)->fetch_add(1);
    return wait->peer == 1 && waited_ns >= 1'000'000 && before == 2 ? SL_ERR_TIMEOUT : SL_OK;
  };
  ASSERT_TRUE(thread.Submit(job).ok());
  ASSERT_TRUE(Eventually([&] { return Load(ranks_[0].end) == 1; }));
  EXPECT_EQ(ranks_[0].status, SL_ERR_TIMEOUT);
  EXPECT_EQ(checks, 3);
}

TEST_F(Progress, LeavesItsCapacityToJobsThatDoNotStand) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({.queue_capacity = 1});
  const uint64_t never = 0;
  for (int i = 0; i < 5; ++i) {
    ProgressJob job;
    job.start_word = &never;
    job.start_value = 1;
    job.is_standing = true;
    ASSERT_TRUE(thread.Submit(job).ok());
  }
  EXPECT_EQ(thread.pending(), 0u);
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  EXPECT_EQ(thread.Submit(Job(1)).code(), SL_ERR_LIMIT);
  thread.Stop();
}

TEST_F(Progress, LooksAtWorkThatRestsNoMoreOftenThanItAsks) {
  struct Resting final : Work {
    sl_status_t Poll(sl_wait_t* wait) override {
      *wait = {};
      ++polls;
      return SL_ERR_AGAIN;
    }
    bool moved() const override { return false; }
    uint64_t rest_ns() const override { return 3'600'000'000'000; }
    std::atomic<int> polls{0};
  } resting;
  ProgressThread thread({.spin_ns = 0});
  ProgressJob job;
  job.work = &resting;
  job.is_standing = true;
  ASSERT_TRUE(thread.Submit(job).ok());
  ASSERT_TRUE(Eventually([&] { return resting.polls >= 2; }));  // the last look before it sleeps
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(thread.wakeups(), 1u);
  thread.Stop();
}

// The look after arming finds that the work waits for something else, whose bell is not among those that were armed.
TEST_F(Progress, SleepsOnNoBellButThoseThatAreWaitedFor) {
  struct Fickle final : Work {
    sl_status_t Poll(sl_wait_t* wait) override {
      *wait = {};
      wait->doorbell = ++polls == 1 ? &first : &others;
      return may_end ? SL_OK : SL_ERR_AGAIN;
    }
    bool moved() const override { return false; }
    sl_doorbell_t first{};
    sl_doorbell_t others{};
    std::atomic<int> polls{0};
    std::atomic<bool> may_end{false};
  } fickle;
  ProgressThread thread({.spin_ns = 0});
  ProgressJob job;
  job.work = &fickle;
  job.end_word = &ranks_[0].end;
  job.end_value = 1;
  ASSERT_TRUE(thread.Submit(job).ok());
  ASSERT_TRUE(Eventually([&] { return fickle.polls >= 2; }));  // the second look is the one before it sleeps
  fickle.may_end = true;
  Ring(&fickle.others);
  EXPECT_TRUE(Eventually([&] { return Load(ranks_[0].end) == 1; }));
  EXPECT_LE(thread.wakeups(), 2u) << "one nap, then the bell";
  thread.Stop();
}

TEST_F(Progress, ReportsAFailedRun) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  world.net().pipe(1, 0, 0)->Break(SL_ERR_PEER_LOST);
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  ASSERT_TRUE(Eventually([&] { return Load(ranks_[0].end) == 1; }));
  EXPECT_EQ(ranks_[0].status, SL_ERR_PEER_LOST);
}

TEST_F(Progress, AbortsWhatIsLeftWhenItStops) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  thread.Stop();
  EXPECT_EQ(ranks_[0].status, SL_ERR_ABORTED);
  EXPECT_EQ(Load(ranks_[0].end), 1u);
  thread.Stop();
  const ProgressJob none;
  EXPECT_EQ(thread.Submit(none).code(), SL_ERR_STATE);
}

TEST_F(Progress, BoundsItsQueue) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({.queue_capacity = 1});
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  ProgressJob second;
  EXPECT_EQ(thread.Submit(second).code(), SL_ERR_LIMIT);
}

TEST_F(Progress, StartsNoThreadBeforeAJob) {
  ProgressThread thread({});
  thread.Stop();
  EXPECT_EQ(thread.wakeups(), 0u);
}

TEST_F(Progress, RefusesWorkInAChildOfFork) {
  PlanWorld world(2, {});
  Prepare(&world);
  ProgressThread thread({});
  ASSERT_TRUE(thread.Submit(Job(0)).ok());
  ASSERT_TRUE(thread.Submit(Job(1)).ok());
  for (Rank& rank : ranks_) ASSERT_TRUE(Eventually([&] { return Load(rank.end) == 1; }));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = thread.Submit(ProgressJob{}).code() == SL_ERR_STATE;
    thread.Stop();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(BellSet, SleepsOnSeveralBellsAndMissesNoRing) {
  sl_doorbell_t bells[3] = {};
  for (sl_doorbell_t& bell : bells) {
    BellSet set;
    for (sl_doorbell_t& each : bells) EXPECT_TRUE(set.Add(&each));
    EXPECT_TRUE(set.Add(&bell));
    set.Arm();
    Ring(&bell);  // after Arm, before Sleep
    set.Sleep(60'000'000'000);
    set.Disarm();
  }
  for (const sl_doorbell_t& bell : bells) EXPECT_EQ(bell.sleepers, 0u);
}

TEST(BellSet, SaysWhenItIsFull) {
  std::vector<sl_doorbell_t> bells(BellSet::kCapacity + 1);
  BellSet set;
  for (size_t i = 0; i < BellSet::kCapacity; ++i) EXPECT_TRUE(set.Add(&bells[i]));
  EXPECT_FALSE(set.Add(&bells.back()));
}

}  // namespace
}  // namespace sl::kernel
