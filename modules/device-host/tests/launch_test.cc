// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "modules/device-host/tests/fixture.h"
#include "sdk/fd.h"

#ifndef SL_SANITIZED
// Counts what the data path must not do; a sanitizer needs these functions for itself.
namespace {
std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> locks{0};
}  // namespace
extern "C" void* __libc_malloc(size_t bytes);
extern "C" SL_EXPORT void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
extern "C" SL_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  locks.fetch_add(1, std::memory_order_relaxed);
  return real(mutex);
}
#endif

namespace sl::device_host {
namespace {

sl_status_t RunNothing(const void*, void*, sl_wait_t*) { return SL_OK; }
const sl_host_kernel_t kNothing = {"nothing", RunNothing, 64, 0};

// A frame that is checked for zeroes and alignment, and a result.
sl_status_t RunLookAtFrame(const void*, void* frame, sl_wait_t* wait) {
  if (reinterpret_cast<uintptr_t>(frame) % 16 != 0) return SL_ERR_INTERNAL;
  auto* bytes = static_cast<unsigned char*>(frame);
  for (int i = 0; i < 1024; ++i) {
    if (bytes[i] != 0) return SL_ERR_INTERNAL;
  }
  memset(frame, 0xee, 1024);
  return wait->struct_size == sizeof(sl_wait_t) && wait->peer == -1 ? SL_OK : SL_ERR_INTERNAL;
}

TEST(Launch, GivesAFreshAlignedFrame) {
  HostDevice host;
  sl_image_t* image = host.Load({{"look", RunLookAtFrame, 1024, 0}});
  const sl_launch_t launch = LaunchOf(image, nullptr, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
  sl_stream_t* stream = host.NewStream();
  EXPECT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, RefusesWhatIsMalformed) {
  HostDevice host;
  sl_image_t* image = host.Load({kNothing});
  sl_launch_t launch = LaunchOf(image, nullptr, 0);
  launch.kernel = 1;
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_INVALID);
  launch.kernel = 0;
  launch.args_bytes = 4097;
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_INVALID);
  launch.args_bytes = 0;
  launch.image = nullptr;
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_INVALID);
  launch.struct_size = 8;
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_INVALID);
  sl_image_desc_t desc{};
  desc.struct_size = sizeof(desc);
  EXPECT_EQ(host.ops->image_load(host.device, &desc, &image), SL_ERR_UNSUPPORTED);
  const sl_host_kernel_t greedy = {"greedy", RunNothing, 1025, 0};
  desc.kernel_count = 1;
  desc.host_kernels = &greedy;
  EXPECT_EQ(host.ops->image_load(host.device, &desc, &image), SL_ERR_INVALID);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, ReportsTheOutcomeInlineToo) {
  HostDevice host;
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  flag.value = 1;
  WaitArgs args{&flag, 1, nullptr, true, SL_ERR_MISMATCH};
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  Outcome outcome;
  outcome.Attach(&launch);
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_MISMATCH);
  EXPECT_EQ(outcome.status.load(), SL_ERR_MISMATCH);
  EXPECT_EQ(outcome.count.load(), 1u);
  EXPECT_EQ(host.counters().waits.load(), 0u);
  host.ops->image_unload(host.device, image);
}

// A kernel that waits for a descriptor, and reads it.
struct DescriptorArgs {
  int32_t fd;
  sl_doorbell_t* bell;
};
sl_status_t RunReadDescriptor(const void* args, void*, sl_wait_t* wait) {
  const auto* its = static_cast<const DescriptorArgs*>(args);
  uint64_t count = 0;
  if (read(its->fd, &count, sizeof count) > 0) return SL_OK;
  wait->what = "descriptor";
  wait->doorbell = its->bell;
  wait->fds = &its->fd;
  wait->fd_count = 1;
  return SL_ERR_AGAIN;
}

// Looks at a descriptor for ever.
sl_status_t RunStare(const void* args, void*, sl_wait_t* wait) {
  const auto* its = static_cast<const DescriptorArgs*>(args);
  wait->doorbell = its->bell;
  wait->fds = &its->fd;
  wait->fd_count = 1;
  return SL_ERR_AGAIN;
}
const sl_host_kernel_t kStare = {"stare", RunStare, 0, 0};

TEST(Launch, SleepsOnDescriptorsWhereAllKernelsNameThem) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({{"read", RunReadDescriptor, 0, 0}});
  constexpr uint64_t kRounds = 300;
  const sl::Fd news(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sl_doorbell_t bell{};
  std::atomic<uint64_t> taken{0};
  std::thread publisher([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      // Half of the rounds meet a sleeper, half race with one that is falling asleep.
      EXPECT_TRUE(Eventually([&] { return round % 2 != 0 || host.counters().polls.load() >= round / 2; }));
      const uint64_t one = 1;
      EXPECT_EQ(write(news.get(), &one, sizeof one), ssize_t{sizeof one});
      EXPECT_TRUE(Eventually([&] { return taken.load() >= round; }));
    }
  });
  DescriptorArgs args{news.get(), &bell};
  const sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  for (uint64_t round = 1; round <= kRounds; ++round) {
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
    taken = round;
  }
  publisher.join();
  // Missed news would show as a second sleep, a whole slice later.
  EXPECT_LE(host.counters().polls.load(), kRounds);
  EXPECT_EQ(host.counters().sleeps.load() + host.counters().naps.load(), 0u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, StopsPollingADescriptorOfWhichNothingComes) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({kStare});
  const sl::Fd readable(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  int32_t abort_word = 0;
  sl_doorbell_t bell{};
  DescriptorArgs args{readable.get(), &bell};
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  launch.abort_word = &abort_word;
  std::thread aborter([&] {
    EXPECT_TRUE(Eventually([&] { return __atomic_load_n(&bell.sleepers, __ATOMIC_SEQ_CST) != 0; }));
    __atomic_store_n(&abort_word, SL_ERR_ABORTED, __ATOMIC_RELAXED);
    Ring(&bell);
  });
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_ABORTED);
  aborter.join();
  EXPECT_LE(host.counters().polls.load(), 1001u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, SleepsOnTheDoorbellAndLosesNoRing) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({kWait});
  constexpr uint64_t kRounds = 300;
  Flag flag;
  Flag reply;
  std::thread publisher([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      // Half of the rounds meet a sleeper, half race with one that is falling asleep.
      const bool meets_sleeper = round % 2 == 0;
      EXPECT_TRUE(Eventually([&] { return !meets_sleeper || flag.HasSleeper(); }));
      flag.Publish(round);
      EXPECT_TRUE(Eventually([&] { return reply.value.load() >= round; }));
    }
  });
  std::atomic<uint64_t> calls{0};
  for (uint64_t round = 1; round <= kRounds; ++round) {
    WaitArgs args{&flag, round, &calls, true, SL_OK};
    const sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
    EXPECT_GE(calls.load(), 1u);
    reply.value = round;
  }
  publisher.join();
  // A lost ring would show as a second sleep, a whole slice later.
  EXPECT_LE(host.counters().sleeps.load(), kRounds);
  EXPECT_EQ(host.counters().naps.load(), 0u);
  EXPECT_EQ(std::atomic_ref<uint32_t>(flag.bell.sleepers).load(), 0u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, NapsWithoutADoorbell) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  WaitArgs args{&flag, 1, nullptr, false, SL_OK};
  const sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  std::thread publisher([&] {
    EXPECT_TRUE(Eventually([&] { return host.counters().naps.load() >= 3; }));
    flag.Publish(1);
  });
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
  publisher.join();
  EXPECT_EQ(host.counters().sleeps.load(), 0u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, YieldsEarlyWhenOversubscribed) {
  HostDevice host({{"spin_polls", 1000000000}, {"oversubscribed_spin_polls", 1}, {"yield_count", 3}});
  sl_image_t* image = host.Load({kWait});
  Flag flag;
  WaitArgs args{&flag, 1, nullptr, true, SL_OK};
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  launch.flags = SL_LAUNCH_OVERSUBSCRIBED;
  std::thread publisher([&] {
    EXPECT_TRUE(Eventually([&] { return host.counters().sleeps.load() != 0; }));
    flag.Publish(1);
  });
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
  publisher.join();
  EXPECT_EQ(host.counters().yields.load(), 3u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, YieldsEightTimesBeforeASleepOnDescriptorsWhenOversubscribed) {
  HostDevice host({{"spin_polls", 1000000000}, {"oversubscribed_spin_polls", 1}, {"yield_count", 100}});
  sl_image_t* image = host.Load({{"read", RunReadDescriptor, 0, 0}});
  const sl::Fd news(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sl_doorbell_t bell{};
  DescriptorArgs args{news.get(), &bell};
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  launch.flags = SL_LAUNCH_OVERSUBSCRIBED;
  std::thread publisher([&] {
    EXPECT_TRUE(Eventually([&] { return host.counters().polls.load() != 0; }));
    const uint64_t one = 1;
    EXPECT_EQ(write(news.get(), &one, sizeof one), ssize_t{sizeof one});
  });
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
  publisher.join();
  EXPECT_EQ(host.counters().yields.load(), 8u);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, EndsASleepingKernelByItsAbortWord) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kWait});
  for (const bool has_bell : {true, false}) {
    Flag flag;
    WaitArgs args{&flag, 1, nullptr, has_bell, SL_OK};
    sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
    int32_t abort_word = 0;
    launch.abort_word = &abort_word;
    const uint64_t sleeps = host.counters().sleeps + host.counters().naps;
    std::thread aborter([&] {
      EXPECT_TRUE(Eventually([&] { return host.counters().sleeps + host.counters().naps > sleeps; }));
      __atomic_store_n(&abort_word, SL_ERR_ABORTED, __ATOMIC_RELAXED);
    });
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_ABORTED);
    aborter.join();
  }
  host.ops->image_unload(host.device, image);
}

struct Checker {
  uint32_t calls = 0;
  uint64_t last_waited_ns = 0;
  sl_wait_t wait{};
  static sl_status_t Check(void* ctx, const sl_wait_t* wait, uint64_t waited_ns) {
    auto* self = static_cast<Checker*>(ctx);
    EXPECT_GT(waited_ns, self->last_waited_ns);
    self->last_waited_ns = waited_ns;
    self->wait = *wait;
    return ++self->calls < 3 ? SL_OK : SL_ERR_TIMEOUT;
  }
};

TEST(Launch, AsksTheCheckWhileSpinningYieldingAndSleeping) {
  const std::map<std::string, int64_t> kTunings[] = {
      {{"spin_polls", 1000000000}}, {{"spin_polls", 1}, {"yield_count", 1000000000}}, SleepAtOnceForLong()};
  for (const auto& options : kTunings) {
    HostDevice host(options);
    sl_image_t* image = host.Load({kWait});
    Flag flag;
    WaitArgs args{&flag, 1, nullptr, true, SL_OK};
    sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
    Checker checker;
    launch.check = Checker::Check;
    launch.check_ctx = &checker;
    launch.check_interval_ns = 1'000'000;
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_ERR_TIMEOUT);
    EXPECT_EQ(checker.calls, 3u);
    EXPECT_EQ(checker.wait.peer, 7);
    EXPECT_STREQ(checker.wait.what, "flag");
    EXPECT_EQ(checker.wait.wanted, 1u);
    EXPECT_LE(host.counters().sleeps.load(), 10u);
    host.ops->image_unload(host.device, image);
  }
}

TEST(Launch, HandsOverWithArgumentsAndFrame) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kWait});
  sl_stream_t* stream = host.NewStream();
  Flag flag;
  std::atomic<uint64_t> calls{0};
  Outcome outcome;
  WaitArgs args{&flag, 1, &calls, true, SL_OK};
  sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
  outcome.Attach(&launch);
  ASSERT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
  memset(&args, 0xee, sizeof(args));
  memset(&launch, 0xee, sizeof(launch));
  EXPECT_EQ(host.counters().handovers.load(), 1u);
  EXPECT_EQ(outcome.count.load(), 0u);
  EXPECT_TRUE(Eventually([&] { return flag.HasSleeper(); }));
  flag.Publish(1);
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(outcome.status.load(), SL_OK);
  EXPECT_EQ(outcome.count.load(), 1u);
  EXPECT_GE(calls.load(), 3u) << "the frame began anew after the handover";
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, FinishesOnTheCallerOfAnIdleStreamWhenItCan) {
  HostDevice host;
  sl_image_t* image = host.Load({kNothing});
  sl_stream_t* stream = host.NewStream();
  sl_launch_t launch = LaunchOf(image, nullptr, 0);
  Outcome outcome;
  outcome.Attach(&launch);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
  EXPECT_EQ(outcome.count.load(), 10u);
  EXPECT_EQ(host.counters().threads.load(), 0u);
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

#ifndef SL_SANITIZED
TEST(Launch, AllocatesAndLocksNothingInline) {
  HostDevice host;
  sl_image_t* image = host.Load({kNothing});
  const sl_launch_t launch = LaunchOf(image, nullptr, 0);
  sl_pointer_info_t info{};
  info.struct_size = sizeof(info);
  void* memory = nullptr;
  ASSERT_EQ(host.ops->allocate(host.device, SL_MEMORY_PLAIN, 64, &memory), SL_OK);
  const uint64_t allocations_before = allocations.load();
  const uint64_t locks_before = locks.load();
  EXPECT_GT(allocations_before, 0u) << "the count does not work";
  EXPECT_GT(locks_before, 0u) << "the count does not work";
  for (int i = 0; i < 1000; ++i) {
    host.ops->launch(host.device, nullptr, &launch);
    host.ops->pointer_info(host.device, memory, &info);
  }
  EXPECT_EQ(allocations.load(), allocations_before);
  EXPECT_EQ(locks.load(), locks_before);
  host.ops->image_unload(host.device, image);
}

TEST(Launch, MakesNoSystemCallInline) {
  HostDevice host;
  sl_image_t* image = host.Load({kNothing});
  sl_stream_t* stream = host.NewStream();
  sl_launch_t launch = LaunchOf(image, nullptr, 0);
  const pid_t child = fork();
  if (child == 0) {
    // From here on the system kills the process for any call but read, write and exit.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) syscall(SYS_exit, 77);
    for (int i = 0; i < 1000; ++i) {
      host.ops->launch(host.device, nullptr, &launch);
      host.ops->launch(host.device, stream, &launch);
    }
    syscall(SYS_exit, 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system has no seccomp";
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  host.ops->image_unload(host.device, image);
}

uint64_t BestOfSeven(const std::function<void(int)>& body) {
  constexpr int kCalls = 1'000'000;
  uint64_t best_ns = UINT64_MAX;
  for (int round = 0; round < 7; ++round) {
    const uint64_t begin_ns = NowNs();
    body(kCalls);
    best_ns = std::min(best_ns, NowNs() - begin_ns);
  }
  return best_ns * 1000 / kCalls;
}

TEST(Launch, PrintsItsOverhead) {
  HostDevice host;
  sl_image_t* image = host.Load({kNothing});
  sl_stream_t* stream = host.NewStream();
  const sl_launch_t launch = LaunchOf(image, nullptr, 0);
  const volatile sl_host_kernel_fn direct = RunNothing;
  const uint64_t direct_ps = BestOfSeven([&](int calls) {
    alignas(16) unsigned char frame[64];
    sl_wait_t wait{};
    for (int i = 0; i < calls; ++i) direct(nullptr, frame, &wait);
  });
  const uint64_t launch_ps = BestOfSeven([&](int calls) {
    for (int i = 0; i < calls; ++i) host.ops->launch(host.device, nullptr, &launch);
  });
  const uint64_t stream_ps = BestOfSeven([&](int calls) {
    for (int i = 0; i < calls; ++i) host.ops->launch(host.device, stream, &launch);
  });
  printf("kernel called directly %.1f ns, launched on the default stream %.1f ns, on an idle stream %.1f ns\n",
         static_cast<double>(direct_ps) / 1000, static_cast<double>(launch_ps) / 1000,
         static_cast<double>(stream_ps) / 1000);
  RecordProperty("overhead_ps", static_cast<int>(launch_ps - direct_ps));
  host.ops->image_unload(host.device, image);
}
#endif

}  // namespace
}  // namespace sl::device_host
