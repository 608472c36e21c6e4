// SPDX-License-Identifier: Apache-2.0
//
// How long a launch has waited, as its check is told: for the very same thing, since it last waited for another one.
// The bounds are times that the kernels read themselves, so they hold on a machine of any speed.
#include "modules/device-host/tests/fixture.h"

namespace sl::device_host {
namespace {

// Writes down what its checks are told.
struct Told {
  std::atomic<uint32_t> calls{0};
  std::atomic<uint64_t> newest_ns{0};
  std::atomic<uint64_t> since_ns{0};  // when the kernel began to wait for what it waits for; 0: has not begun
  std::atomic<uint32_t> too_long{0};  // calls that were told of a longer wait than that

  static sl_status_t Check(void* ctx, const sl_wait_t*, uint64_t waited_ns) {
    auto* told = static_cast<Told*>(ctx);
    const uint64_t since_ns = told->since_ns.load();
    if (waited_ns > (since_ns == 0 ? 0 : NowNs() - since_ns)) told->too_long.fetch_add(1);
    told->newest_ns.store(waited_ns);
    told->calls.fetch_add(1);
    return SL_OK;
  }
  void Attach(sl_launch_t* launch) {
    launch->check = Check;
    launch->check_ctx = this;
    launch->check_interval_ns = 1;  // at every look
  }
};

// Waits for something else at each call, `moves` times; then for the same until `stays` checks were made.
struct MoveArgs {
  Told* told;
  uint64_t moves;
  uint32_t stays;
};
struct MoveFrame {
  uint64_t moves;
  uint32_t checks;
};
sl_status_t RunMove(const void* raw, void* frame, sl_wait_t* wait) {
  const auto& args = *static_cast<const MoveArgs*>(raw);
  auto* place = static_cast<MoveFrame*>(frame);
  wait->peer = 1;
  wait->what = "piece";
  if (place->moves < args.moves) {
    wait->seen = ++place->moves;
    wait->wanted = place->moves + 1;
    args.told->since_ns.store(NowNs());
    place->checks = args.told->calls.load() + args.stays;
    return SL_ERR_AGAIN;
  }
  return args.told->calls.load() < place->checks ? SL_ERR_AGAIN : SL_OK;
}
const sl_host_kernel_t kMove = {"move", RunMove, sizeof(MoveFrame), 0};

const std::map<std::string, int64_t> kTunings[] = {
    {{"spin_polls", 1000000000}}, {{"spin_polls", 1}, {"yield_count", 1000000000}}, kSleepAtOnce};

TEST(Wait, BeginsAnewWithEveryMove) {
  for (const auto& options : kTunings) {
    HostDevice host(options);
    sl_image_t* image = host.Load({kMove});
    Told told;
    const MoveArgs args{&told, 2000, 0};
    sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
    told.Attach(&launch);
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
    EXPECT_GT(told.calls.load(), 10u) << "a launch that moves is checked all the same";
    EXPECT_EQ(told.too_long.load(), 0u);
    host.ops->image_unload(host.device, image);
  }
}

TEST(Wait, GrowsWhileNothingMoves) {
  for (const auto& options : kTunings) {
    HostDevice host(options);
    sl_image_t* image = host.Load({kMove});
    Told told;
    const MoveArgs args{&told, 1, 20};
    sl_launch_t launch = LaunchOf(image, &args, sizeof(args));
    told.Attach(&launch);
    EXPECT_EQ(host.ops->launch(host.device, nullptr, &launch), SL_OK);
    EXPECT_GE(told.calls.load(), 20u);
    EXPECT_GT(told.newest_ns.load(), 0u);
    EXPECT_EQ(told.too_long.load(), 0u);
    host.ops->image_unload(host.device, image);
  }
}

// The first of a chain waits until the second, on another stream, was checked; the second has not begun until then.
TEST(Wait, OfAChainedLaunchBeginsWithTheLaunch) {
  HostDevice host(kSleepAtOnce);
  sl_image_t* image = host.Load({kWait, kMove});
  sl_stream_t* streams[2] = {host.NewStream(), host.NewStream()};
  Flag flag;
  Told told;
  const WaitArgs first_args{&flag, 1, nullptr, true, SL_OK};
  const MoveArgs second_args{&told, 1, 20};
  sl_launch_t first = LaunchOf(image, &first_args, sizeof(first_args));
  sl_launch_t second = LaunchOf(image, &second_args, sizeof(second_args));
  second.kernel = 1;
  first.chain = second.chain = &flag;
  Outcome outcome;
  outcome.Attach(&second);
  told.Attach(&second);
  const sl_launch_t* launches[] = {&first, &second};
  ASSERT_EQ(host.ops->launch_batch(host.device, 2, streams, launches), SL_OK);
  EXPECT_TRUE(Eventually([&] { return told.calls.load() >= 20; }));
  EXPECT_EQ(told.newest_ns.load(), 0u) << "it waits for the first, and for no peer";
  flag.Publish(1);
  EXPECT_TRUE(Eventually([&] { return outcome.count.load() == 1; }));
  EXPECT_EQ(outcome.status.load(), SL_OK);
  EXPECT_GT(told.newest_ns.load(), 0u);
  EXPECT_EQ(told.too_long.load(), 0u);
  for (sl_stream_t* stream : streams) {
    EXPECT_EQ(host.ops->stream_wait_idle(host.device, stream, After(20)), SL_OK);
    host.ops->stream_destroy(host.device, stream);
  }
  host.ops->image_unload(host.device, image);
}

}  // namespace
}  // namespace sl::device_host
