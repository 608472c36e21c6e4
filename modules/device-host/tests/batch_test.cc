// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <thread>

#include "modules/device-host/tests/fixture.h"

namespace sl::device_host {
namespace {

// A rank of a barrier driven by one thread: announces itself, then waits for all.
struct MeetArgs {
  std::atomic<uint64_t>* arrived;
  uint64_t wanted;
  sl_doorbell_t* bell;
};
sl_status_t RunMeet(const void* raw, void* frame, sl_wait_t* wait) {
  const auto& args = *static_cast<const MeetArgs*>(raw);
  auto* announced = static_cast<uint32_t*>(frame);
  if (*announced == 0) args.arrived->fetch_add(1);
  *announced = 1;
  const uint64_t seen = args.arrived->load();
  if (seen >= args.wanted) return SL_OK;
  wait->doorbell = args.bell;
  wait->what = "barrier";
  wait->seen = seen;
  wait->wanted = args.wanted;
  return SL_ERR_AGAIN;
}
const sl_host_kernel_t kMeet = {"meet", RunMeet, 4, 0};

// Appends its number to a list; stands for the operations of a chain. Needs a few calls, to let others in between.
struct AppendArgs {
  std::vector<uint32_t>* list;
  uint32_t number;
  uint32_t calls;
};
sl_status_t RunAppend(const void* raw, void* frame, sl_wait_t* wait) {
  const auto& args = *static_cast<const AppendArgs*>(raw);
  auto* calls = static_cast<uint32_t*>(frame);
  if (++*calls < args.calls) {
    wait->seen = *calls;
    return SL_ERR_AGAIN;
  }
  args.list->push_back(args.number);
  return SL_OK;
}
const sl_host_kernel_t kAppend = {"append", RunAppend, 4, 0};

struct Batch {
  std::vector<sl_launch_t> launches;
  std::vector<sl_stream_t*> streams;

  void Add(sl_stream_t* stream, const sl_launch_t& launch) {
    launches.push_back(launch);
    streams.push_back(stream);
  }
  sl_status_t Launch(HostDevice& host) {
    std::vector<const sl_launch_t*> pointers;
    for (const sl_launch_t& launch : launches) pointers.push_back(&launch);
    return host.ops->launch_batch(host.device, static_cast<uint32_t>(pointers.size()), streams.data(), pointers.data());
  }
};

TEST(Batch, DrivesRanksOfOneThreadTogether) {
  HostDevice host;
  sl_image_t* image = host.Load({kMeet});
  constexpr uint32_t kRanks = 128;
  std::atomic<uint64_t> arrived{0};
  const MeetArgs args{&arrived, kRanks, nullptr};
  Batch batch;
  for (uint32_t r = 0; r < kRanks; ++r) batch.Add(nullptr, LaunchOf(image, &args, sizeof(args)));
  EXPECT_EQ(batch.Launch(host), SL_OK);
  EXPECT_EQ(arrived.load(), kRanks);
  EXPECT_EQ(host.counters().threads.load(), 0u);
  EXPECT_EQ(host.ops->launch_batch(host.device, 0, nullptr, nullptr), SL_OK);
  host.ops->image_unload(host.device, image);
}

TEST(Batch, RunsThousandsOfLaunchesWithChainsInOrder) {
  HostDevice host;
  sl_image_t* image = host.Load({kAppend});
  constexpr uint32_t kRanks = 128;
  constexpr uint32_t kOps = 40;
  std::vector<std::vector<uint32_t>> lists(kRanks);
  std::vector<AppendArgs> args;
  args.reserve(kRanks * kOps);
  Batch batch;
  Outcome outcome;
  for (uint32_t op = 0; op < kOps; ++op) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      // Early ones take longer, so that without the chain the order would come out reversed.
      args.push_back({&lists[r], op, kOps - op});
      sl_launch_t launch = LaunchOf(image, &args.back(), sizeof(AppendArgs));
      launch.chain = &lists[r];
      outcome.Attach(&launch);
      batch.Add(nullptr, launch);
    }
  }
  EXPECT_EQ(batch.Launch(host), SL_OK);
  EXPECT_EQ(outcome.count.load(), kRanks * kOps);
  for (const auto& list : lists) {
    ASSERT_EQ(list.size(), kOps);
    for (uint32_t op = 0; op < kOps; ++op) ASSERT_EQ(list[op], op);
  }
  host.ops->image_unload(host.device, image);
}

TEST(Batch, BecomesOneItemOfAStream) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kMeet, kAppend});
  sl_stream_t* streams[2] = {host.NewStream(), host.NewStream()};
  constexpr uint32_t kEach = 3;
  std::atomic<uint64_t> arrived{0};
  sl_doorbell_t bell{};
  Batch batch;
  Outcome outcome;
  {
    // On both streams and on the default one: all have to progress at the same time. Arguments are copied.
    const MeetArgs args{&arrived, 3 * kEach, &bell};
    for (uint32_t i = 0; i < 3 * kEach; ++i) {
      sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
      outcome.Attach(&launch);
      launch.abort_word = nullptr;
      batch.Add(i % 3 == 2 ? nullptr : streams[i % 3], launch);
    }
    EXPECT_EQ(batch.Launch(host), SL_OK);
  }
  std::vector<uint32_t> list;
  const AppendArgs behind{&list, 1, 1};
  const sl_launch_t launch = LaunchOf(image, &behind, sizeof(behind));
  sl_launch_t after = launch;
  after.kernel = 1;
  EXPECT_EQ(host.ops->launch(host.device, streams[0], &after), SL_OK);
  for (sl_stream_t* stream : streams) ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(outcome.count.load(), 3 * kEach);
  EXPECT_EQ(list.size(), 1u);
  for (sl_stream_t* stream : streams) host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

TEST(Batch, KeepsChainsAcrossStreams) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kAppend});
  sl_stream_t* streams[3] = {host.NewStream(), host.NewStream(), nullptr};
  constexpr uint32_t kOps = 30;
  for (int repetition = 0; repetition < 20; ++repetition) {
    std::vector<uint32_t> list;  // only the chain makes its use safe
    std::vector<AppendArgs> args;
    args.reserve(kOps);
    Batch batch;
    for (uint32_t op = 0; op < kOps; ++op) {
      args.push_back({&list, op, op % 4});
      sl_launch_t launch = LaunchOf(image, &args.back(), sizeof(AppendArgs));
      launch.chain = &list;
      batch.Add(streams[op * 7 % 3], launch);
    }
    EXPECT_EQ(batch.Launch(host), SL_OK);
    for (sl_stream_t* stream : streams) ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
    ASSERT_EQ(list.size(), kOps);
    for (uint32_t op = 0; op < kOps; ++op) ASSERT_EQ(list[op], op);
  }
  host.ops->stream_destroy(host.device, streams[0]);
  host.ops->stream_destroy(host.device, streams[1]);
  host.ops->image_unload(host.device, image);
}

TEST(Batch, ReturnsTheFirstFailureAndEndsTheRest) {
  HostDevice host;
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  flag.value = 1;
  std::atomic<uint64_t> calls{0};
  const WaitArgs good{&flag, 1, &calls, true, SL_OK};
  const WaitArgs bad{&flag, 1, nullptr, true, SL_ERR_MISMATCH};
  const WaitArgs worse{&flag, 1, nullptr, true, SL_ERR_PEER_LOST};
  Batch batch;
  for (const WaitArgs* args : {&good, &bad, &worse, &good}) batch.Add(nullptr, LaunchOf(image, args, sizeof(*args)));
  EXPECT_EQ(batch.Launch(host), SL_ERR_MISMATCH);
  EXPECT_EQ(calls.load(), 1u);
  batch.launches[2].kernel = 1;
  calls = 0;
  EXPECT_EQ(batch.Launch(host), SL_ERR_INVALID);
  EXPECT_EQ(calls.load(), 0u) << "a batch with a malformed launch runs nothing";
  host.ops->image_unload(host.device, image);
}

// Waits of several launches on one bell, on several, and on more than one call can wait for.
void SleepOnBells(uint32_t waits, uint32_t bells, bool expects_naps) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({kWait});
  constexpr uint64_t kRounds = 20;
  auto flags = std::make_unique<Flag[]>(bells);
  std::atomic<uint64_t> finished{0};
  std::thread publisher([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (uint32_t i = 0; i < bells; ++i) {
        Flag& flag = flags[(i * 3 + round) % bells];
        const bool meets_sleeper = !expects_naps && i == 0;
        EXPECT_TRUE(Eventually([&] { return !meets_sleeper || flag.HasSleeper(); }));
        flag.Publish(round);
      }
      EXPECT_TRUE(Eventually([&] { return finished.load() >= round; }));
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<WaitArgs> args;
    args.reserve(waits);
    Batch batch;
    for (uint32_t i = 0; i < waits; ++i) {
      args.push_back({&flags[i % bells], round, nullptr, true, SL_OK});
      batch.Add(nullptr, LaunchOf(image, &args.back(), sizeof(WaitArgs)));
    }
    EXPECT_EQ(batch.Launch(host), SL_OK);
    finished = round;
  }
  publisher.join();
  if (!expects_naps) {
    // One sleep for each publication at most; a lost ring would add one.
    EXPECT_LE(host.counters().sleeps.load(), kRounds * bells);
    EXPECT_GT(host.counters().sleeps.load(), 0u);
  }
  for (uint32_t i = 0; i < bells; ++i) EXPECT_FALSE(flags[i].HasSleeper());
  host.ops->image_unload(host.device, image);
}

TEST(Batch, SleepsOnASharedDoorbell) { SleepOnBells(6, 1, false); }
TEST(Batch, SleepsOnSeveralDoorbells) { SleepOnBells(7, 7, false); }
TEST(Batch, NapsWithMoreDoorbellsThanOneCallTakes) { SleepOnBells(200, 200, true); }

TEST(Batch, EndsByAbortWordsAndChecksOfEachLaunch) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  const WaitArgs args{&flag, 1, nullptr, true, SL_OK};
  int32_t abort_word = 0;
  Outcome outcomes[2];
  sl_launch_t aborted = LaunchOf(image, &args, sizeof(args));
  aborted.abort_word = &abort_word;
  outcomes[0].Attach(&aborted);
  sl_launch_t checked = LaunchOf(image, &args, sizeof(args));
  checked.check = [](void*, const sl_wait_t*, uint64_t) -> sl_status_t { return SL_ERR_PEER_LOST; };
  checked.check_interval_ns = 1'000'000;
  outcomes[1].Attach(&checked);
  Batch batch;
  batch.Add(nullptr, aborted);
  batch.Add(nullptr, checked);
  std::thread aborter([&] {
    EXPECT_TRUE(Eventually([&] { return outcomes[1].count.load() == 1; }));
    EXPECT_EQ(outcomes[0].count.load(), 0u);
    __atomic_store_n(&abort_word, SL_ERR_ABORTED, __ATOMIC_RELAXED);
  });
  EXPECT_EQ(batch.Launch(host), SL_ERR_ABORTED);
  aborter.join();
  EXPECT_EQ(outcomes[0].status.load(), SL_ERR_ABORTED);
  EXPECT_EQ(outcomes[1].status.load(), SL_ERR_PEER_LOST);
  host.ops->image_unload(host.device, image);
}

}  // namespace
}  // namespace sl::device_host
