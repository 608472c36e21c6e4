// SPDX-License-Identifier: Apache-2.0
//
// When the driver touches doorbells: not once the launch that named them has ended.
#include <thread>

#include "modules/device-host/tests/fixture.h"

namespace sl::device_host {
namespace {

// A kernel that waits for its bell, and ends at the poll that follows the arming of the bell: the second look.
struct ArmedArgs {
  sl_doorbell_t* bell;
};
sl_status_t RunUntilArmed(const void* args, void*, sl_wait_t* wait) {
  sl_doorbell_t* bell = static_cast<const ArmedArgs*>(args)->bell;
  if (std::atomic_ref<uint32_t>(bell->sleepers).load() != 0) return SL_OK;
  wait->doorbell = bell;
  wait->what = "armed bell";
  return SL_ERR_AGAIN;
}

// What `done` finds in the bell, which it might as well unmap.
struct BellAtEnd {
  sl_doorbell_t bell{};
  uint32_t sleepers = UINT32_MAX;  // when `done` ran
  static void Done(void* ctx, sl_status_t) {
    auto* self = static_cast<BellAtEnd*>(ctx);
    self->sleepers = std::atomic_ref<uint32_t>(self->bell.sleepers).load();
  }
};

sl_launch_t LaunchWith(sl_image_t* image, const ArmedArgs* args, BellAtEnd* end) {
  sl_launch_t launch = LaunchOf(image, args, sizeof(*args));
  launch.done = BellAtEnd::Done;
  launch.done_ctx = end;
  return launch;
}

TEST(Doorbell, IsDisarmedBeforeALaunchOnTheDefaultStreamIsDone) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({{"armed", RunUntilArmed, 0, 0}});
  BellAtEnd end;
  const ArmedArgs args{&end.bell};
  const sl_launch_t launch = LaunchWith(image, &args, &end);
  EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
  EXPECT_EQ(end.sleepers, 0u) << "the driver still uses the bell";
  EXPECT_EQ(host.counters().sleeps.load(), 0u) << "the launch was to end at the second look";
  host.ops->image_unload(host.device, image);
}

TEST(Doorbell, IsDisarmedBeforeALaunchOnAStreamIsDone) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({{"armed", RunUntilArmed, 0, 0}});
  sl_stream_t* stream = host.NewStream();
  BellAtEnd end;
  const ArmedArgs args{&end.bell};
  const sl_launch_t launch = LaunchWith(image, &args, &end);
  EXPECT_EQ(host.ops->launch(host.device, stream, &launch), SL_OK);
  ASSERT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
  EXPECT_EQ(end.sleepers, 0u) << "the driver still uses the bell";
  host.ops->stream_destroy(host.device, stream);
  host.ops->image_unload(host.device, image);
}

// Two end at one look, a third follows the first in its chain and a fourth goes on waiting.
TEST(Doorbell, IsDisarmedBeforeAnyLaunchOfABatchIsDone) {
  HostDevice host(SleepAtOnceForLong());
  sl_image_t* image = host.Load({{"armed", RunUntilArmed, 0, 0}, kWait});
  BellAtEnd ends[3];
  ArmedArgs args[3];
  sl_launch_t launches[4];
  const sl_launch_t* pointers[4];
  for (int i = 0; i < 3; ++i) {
    args[i].bell = &ends[i].bell;
    launches[i] = LaunchWith(image, &args[i], &ends[i]);
  }
  launches[0].chain = launches[2].chain = &launches[0];
  Flag flag;
  WaitArgs waits{&flag, 1, nullptr, true, SL_OK};
  launches[3] = LaunchOf(image, &waits, sizeof(waits));
  launches[3].kernel = 1;
  for (int i = 0; i < 4; ++i) pointers[i] = &launches[i];
  std::thread publisher([&] {
    EXPECT_TRUE(Eventually([&] { return host.counters().sleeps.load() != 0; }));
    flag.Publish(1);
  });
  sl_stream_t* const streams[4] = {};
  EXPECT_EQ(host.ops->launch_batch(host.device, 4, streams, pointers), SL_OK);
  publisher.join();
  for (const BellAtEnd& end : ends) EXPECT_EQ(end.sleepers, 0u) << "the driver still uses the bell";
  EXPECT_EQ(std::atomic_ref<uint32_t>(flag.bell.sleepers).load(), 0u);
  host.ops->image_unload(host.device, image);
}

}  // namespace
}  // namespace sl::device_host
