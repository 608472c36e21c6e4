// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "modules/device-host/tests/fixture.h"

namespace sl::device_host {
namespace {

TEST(Stream, KeepsTheOrderOfItsWork) {
  HostDevice host;
  sl_stream_t* stream = host.NewStream();
  // The gate keeps the stream busy, so that everything behind it is queued.
  alignas(8) uint64_t gate = 0;
  std::vector<uint64_t> a(1000);
  std::vector<uint64_t> b(1000);
  std::vector<uint64_t> c(1000);
  std::iota(a.begin(), a.end(), 1);
  alignas(8) uint64_t written = 0;
  ASSERT_EQ(host.ops->stream_wait_value(host.device, stream, &gate, 5), SL_OK);
  const void* srcs[] = {a.data(), b.data()};
  ASSERT_EQ(host.ops->copy(host.device, stream, b.data(), a.data(), 8000), SL_OK);
  ASSERT_EQ(host.ops->reduce(host.device, stream, c.data(), srcs, 2, 1000, SL_UINT64, SL_SUM, nullptr), SL_OK);
  srcs[0] = srcs[1] = nullptr;
  ASSERT_EQ(host.ops->copy(host.device, stream, a.data(), c.data(), 8000), SL_OK);
  ASSERT_EQ(host.ops->stream_write_value(host.device, stream, &written, 9), SL_OK);
  EXPECT_EQ(host.ops->stream_wait_idle(host.device, stream, 0), SL_ERR_AGAIN);
  EXPECT_EQ(host.ops->stream_wait_idle(host.device, stream, NowNs()), SL_ERR_TIMEOUT);
  EXPECT_EQ(__atomic_load_n(&written, __ATOMIC_ACQUIRE), 0u);
  ASSERT_EQ(host.ops->stream_write_value(host.device, nullptr, &gate, 5), SL_OK);
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(written, 9u);
  for (uint64_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], 2 * (i + 1));
  EXPECT_EQ(host.ops->stream_destroy(host.device, stream), SL_OK);
}

TEST(Stream, StartsNoThreadForWorkTheCallerCanDo) {
  HostDevice host;
  sl_stream_t* stream = host.NewStream();
  sl_event_t* event = nullptr;
  ASSERT_EQ(host.ops->event_create(host.device, &event), SL_OK);
  char from[64] = "small";
  char to[64] = "";
  ASSERT_EQ(host.ops->copy(host.device, stream, to, from, sizeof(from)), SL_OK);
  ASSERT_EQ(host.ops->event_record(host.device, event, stream), SL_OK);
  EXPECT_STREQ(to, "small");
  EXPECT_EQ(host.ops->event_query(host.device, event), SL_OK);
  EXPECT_EQ(host.ops->stream_wait_idle(host.device, stream, 0), SL_OK);
  EXPECT_EQ(host.counters().threads.load(), 0u);
  host.ops->event_destroy(host.device, event);
  EXPECT_EQ(host.ops->stream_destroy(host.device, stream), SL_OK);
}

struct ThreadFacts {
  char name[16] = "";
  bool blocks_all = true;
};
void NoteThread(void* ctx) {
  auto* facts = static_cast<ThreadFacts*>(ctx);
  pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name));
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
    facts->blocks_all = facts->blocks_all && sigismember(&mask, number) == 1;
  }
}

// A thread that has been joined may be seen for a moment still.
bool HasStreamThread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    if (std::ifstream(task.path() / "comm") >> name && name == "sl-stream") return true;
  }
  return false;
}

TEST(Stream, RunsCallbacksOnANamedThreadThatTakesNoSignals) {
  ASSERT_TRUE(Eventually([] { return !HasStreamThread(); })) << "of a test before this one";
  const uint32_t threads = ThreadCount();
  {
    HostDevice host;
    sl_stream_t* stream = host.NewStream();
    ThreadFacts facts;
    ASSERT_EQ(host.ops->stream_callback(host.device, stream, NoteThread, &facts), SL_OK);
    ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, SL_NO_DEADLINE), SL_OK);
    EXPECT_STREQ(facts.name, "sl-stream");
    EXPECT_TRUE(facts.blocks_all);
    EXPECT_EQ(ThreadCount(), threads + 1);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 0) << "the caller's own mask must come back";
    // Left open on purpose: closing ends it.
  }
  EXPECT_TRUE(Eventually([&] { return ThreadCount() == threads; }));
}

TEST(Stream, WaitsForEventsOfAnother) {
  HostDevice host(SleepAtOnceForLong());
  sl_stream_t* first = host.NewStream();
  sl_stream_t* second = host.NewStream();
  sl_event_t* event = nullptr;
  ASSERT_EQ(host.ops->event_create(host.device, &event), SL_OK);
  EXPECT_EQ(host.ops->event_query(host.device, event), SL_OK) << "never recorded counts as reached";
  alignas(8) uint64_t gate = 0;
  alignas(8) uint64_t order = 0;
  ASSERT_EQ(host.ops->stream_wait_value(host.device, first, &gate, 1), SL_OK);
  ASSERT_EQ(host.ops->stream_write_value(host.device, first, &order, 1), SL_OK);
  ASSERT_EQ(host.ops->event_record(host.device, event, first), SL_OK);
  ASSERT_EQ(host.ops->stream_wait_event(host.device, second, event), SL_OK);
  uint64_t seen = 0;
  ASSERT_EQ(host.ops->copy(host.device, second, &seen, &order, sizeof(order)), SL_OK);
  EXPECT_EQ(host.ops->event_query(host.device, event), SL_ERR_AGAIN);
  // Recording again, or destroying, does not disturb those who wait for the old place.
  ASSERT_EQ(host.ops->event_record(host.device, event, nullptr), SL_OK);
  EXPECT_EQ(host.ops->event_query(host.device, event), SL_OK);
  EXPECT_EQ(host.ops->event_destroy(host.device, event), SL_OK);
  EXPECT_EQ(host.ops->stream_wait_idle(host.device, second, 0), SL_ERR_AGAIN);
  ASSERT_EQ(host.ops->stream_write_value(host.device, nullptr, &gate, 1), SL_OK);
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, second, After(20)), SL_OK);
  EXPECT_EQ(seen, 1u);
  host.ops->stream_destroy(host.device, first);
  host.ops->stream_destroy(host.device, second);
}

TEST(Stream, GoesOnAfterALaunchThatFails) {
  HostDevice host;
  sl_stream_t* stream = host.NewStream();
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  WaitArgs failing{&flag, 1, nullptr, true, SL_ERR_MISMATCH};
  WaitArgs good{&flag, 1, nullptr, true, SL_OK};
  Outcome outcomes[2];
  sl_launch_t first = LaunchOf(image, &failing, sizeof(failing));
  sl_launch_t second = LaunchOf(image, &good, sizeof(good));
  outcomes[0].Attach(&first);
  outcomes[1].Attach(&second);
  EXPECT_EQ(host.ops->launch(host.device, stream, &first), SL_OK);
  EXPECT_EQ(host.ops->launch(host.device, stream, &second), SL_OK);
  flag.Publish(1);
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(outcomes[0].status.load(), SL_ERR_MISMATCH);
  EXPECT_EQ(outcomes[1].status.load(), SL_OK);
  EXPECT_EQ(outcomes[0].count.load(), 1u);
  EXPECT_EQ(outcomes[1].count.load(), 1u);
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

TEST(Stream, CancelsWhatIsPendingWhenDestroyed) {
  auto options = kSleepAtOnce;
  options["drain_timeout_ms"] = 0;
  HostDevice host(options);
  sl_image_t* image = host.Load({kWait});
  sl_stream_t* stream = host.NewStream();
  alignas(8) uint64_t never = 0;
  alignas(8) uint64_t word = 0;
  Flag flag;
  WaitArgs args{&flag, 1, nullptr, true, SL_OK};
  Outcome outcome;
  sl_event_t* event = nullptr;
  host.ops->event_create(host.device, &event);
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  outcome.Attach(&launch);
  ThreadFacts facts;
  ASSERT_EQ(host.ops->stream_wait_value(host.device, stream, &never, 1), SL_OK);
  ASSERT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
  ASSERT_EQ(host.ops->stream_write_value(host.device, stream, &word, 1), SL_OK);
  ASSERT_EQ(host.ops->stream_callback(host.device, stream, NoteThread, &facts), SL_OK);
  ASSERT_EQ(host.ops->event_record(host.device, event, stream), SL_OK);
  EXPECT_EQ(host.ops->stream_destroy(host.device, stream), SL_OK);
  EXPECT_EQ(outcome.status.load(), SL_ERR_ABORTED);
  EXPECT_EQ(outcome.count.load(), 1u);
  EXPECT_EQ(word, 0u) << "dropped, since what it waited for never came";
  EXPECT_STREQ(facts.name, "sl-stream") << "callbacks run, so that their owners can let go";
  EXPECT_EQ(host.ops->event_query(host.device, event), SL_OK) << "nobody waits for a dead stream";
  EXPECT_EQ(host.ops->stream_destroy(host.device, stream), SL_ERR_INVALID);
  host.ops->event_destroy(host.device, event);
  host.ops->image_unload(host.device, image);
}

TEST(DefaultStream, IsCompleteOnReturn) {
  HostDevice host;
  float a[3] = {1, 2, 3};
  float b[3] = {10, 20, 30};
  float sum[3] = {};
  const void* srcs[] = {a, b};
  ASSERT_EQ(host.ops->reduce(host.device, nullptr, sum, srcs, 2, 3, SL_FLOAT32, SL_SUM, nullptr), SL_OK);
  EXPECT_EQ(sum[2], 33.0f);
  ASSERT_EQ(host.ops->copy(host.device, nullptr, a, sum, sizeof(a)), SL_OK);
  EXPECT_EQ(a[0], 11.0f);
  EXPECT_EQ(host.ops->reduce(host.device, nullptr, sum, srcs, 2, 3, 99, SL_SUM, nullptr), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->reduce(host.device, nullptr, sum, srcs, 0, 3, SL_FLOAT32, SL_SUM, nullptr), SL_ERR_INVALID);
  EXPECT_NE(host.ops->reduce_function(host.device, SL_FLOAT16, SL_AVG), nullptr);
  EXPECT_EQ(host.ops->reduce_function(host.device, SL_FLOAT16, 99), nullptr);
  uint32_t state = 9;
  uint64_t id = 9;
  EXPECT_EQ(host.ops->capture_state(host.device, nullptr, &state, &id), SL_OK);
  EXPECT_EQ(state, 0u);
  EXPECT_EQ(host.ops->stream_wait_idle(host.device, nullptr, 0), SL_OK);
  EXPECT_EQ(host.counters().threads.load(), 0u);
}

TEST(DefaultStream, GivesUpAWaitAfterItsBound) {
  HostDevice host({{"wait_timeout_ms", 1}});
  alignas(8) uint64_t never = 0;
  EXPECT_EQ(host.ops->stream_wait_value(host.device, nullptr, &never, 1), SL_ERR_TIMEOUT);
  EXPECT_NE(last_error.find("wait_timeout_ms"), std::string::npos);
  EXPECT_EQ(host.ops->stream_wait_value(host.device, nullptr, &never + 0, 0), SL_OK);
  EXPECT_EQ(host.ops->stream_wait_value(host.device, nullptr,
                                        reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(&never) + 4), 1),
            SL_ERR_INVALID);
}

TEST(Stream, TakesWorkFromManyThreads) {
  HostDevice host;
  sl_stream_t* stream = host.NewStream();
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  uint64_t total = 0;  // touched in stream order only, by whichever thread runs the stream
  sl_image_t* image = host.Load({{"add",
                                  [](const void* args, void*, sl_wait_t*) -> sl_status_t {
                                    ++**static_cast<uint64_t* const*>(args);
                                    return SL_OK;
                                  },
                                  0, 0}});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      uint64_t* counter = &total;
      const sl_launch_t launch = LaunchOf(image, &counter, sizeof(counter));
      for (int i = 0; i < kEach; ++i) EXPECT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(total, uint64_t{kThreads} * kEach);
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

TEST(Stream, IsKnownFromItsMakingToItsEnd) {
  HostDevice host;
  sl_stream_t* stream = host.NewStream();
  uint32_t state = 1;
  uint64_t id = 1;
  EXPECT_EQ(host.ops->capture_state(host.device, stream, &state, &id), SL_OK);
  EXPECT_EQ(state, 0u);
  EXPECT_EQ(host.ops->capture_state(host.device, nullptr, &state, &id), SL_OK);
  EXPECT_EQ(host.ops->capture_state(host.device, reinterpret_cast<sl_stream_t*>(1), &state, &id), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->stream_destroy(host.device, stream), SL_OK);
  EXPECT_EQ(host.ops->capture_state(host.device, stream, &state, &id), SL_ERR_INVALID);
}

}  // namespace
}  // namespace sl::device_host
