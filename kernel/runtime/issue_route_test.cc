// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue_route.h"

#include <gtest/gtest.h>

#include "kernel/plan/select.h"
#include "kernel/runtime/handle.h"

namespace sl::kernel {
namespace {

int g_marks;
sl_status_t g_launch_status;

sl_status_t Launch(sl_device_t*, sl_stream_t*, const sl_launch_t*) { return g_launch_status; }
sl_status_t Record(sl_device_t*, sl_event_t*, sl_stream_t*) {
  ++g_marks;
  return SL_OK;
}

class IssueRouteTest : public testing::Test {
 protected:
  // On a device that is watched, as the host, or that is not, as a GPU.
  void Use(bool is_watched) {
    device_ops_.launch = Launch;
    device_ops_.event_record = Record;
    device_.info.capabilities = is_watched ? SL_DEVICE_RUNS_HOST_KERNELS : 0;
    device_.ops = &device_ops_;
    CommConfig config;
    config.device = &device_;
    handle_ = std::make_unique<sl_comm_t>(nullptr, config, nullptr);
    member_ = {.handle = handle_.get(), .order = &handle_->eager};
    g_marks = 0;
  }

  const IssueRoute* RouteOfLocal(uint32_t run) {
    const LocalPending pending;
    Item item(&member_, pending.get());
    choice_.run = run;
    item.choice = &choice_;
    return &RouteOf(item);
  }
  const IssueRoute* RouteOfPooled(uint32_t run) {
    Item item(&member_, TakePending(handle_.get()));
    choice_.run = run;
    item.choice = &choice_;
    return &RouteOf(item);
  }

  // A launch that comes to `status`, behind which the member's share is closed.
  Status IssueAndClose(sl_status_t status, bool continues) {
    g_launch_status = status;
    choice_.run = SL_RUN_LAUNCH;
    Item item(&member_, TakePending(handle_.get()));
    item.choice = &choice_;
    item.route = &kLaunchRoute;
    item.continues = continues;
    return Close(member_, IssueNext(&item));
  }

  sl_device_ops_t device_ops_{};
  Device device_;
  Choice choice_;
  std::unique_ptr<sl_comm_t> handle_;
  Member member_;
};

TEST_F(IssueRouteTest, HostRunsOnTheCallerWhatDoesNotOutliveTheCall) {
  Use(true);
  EXPECT_EQ(RouteOfLocal(SL_RUN_LAUNCH), &kLaunchRoute);
  EXPECT_EQ(RouteOfLocal(SL_RUN_PLAN), &kLaunchRoute);
  EXPECT_EQ(RouteOfPooled(SL_RUN_LAUNCH), &kStreamRoute);
  EXPECT_EQ(RouteOfPooled(SL_RUN_PLAN), &kStreamRoute);
}

TEST_F(IssueRouteTest, QueueOfADeviceTakesLaunchesAndCopies) {
  Use(false);
  EXPECT_EQ(RouteOfLocal(SL_RUN_LAUNCH), &kLaunchRoute);
  EXPECT_EQ(RouteOfPooled(SL_RUN_LAUNCH), &kLaunchRoute);
  EXPECT_EQ(RouteOfLocal(SL_RUN_COPIES), &kCopyRoute);
  EXPECT_EQ(RouteOfPooled(SL_RUN_COPIES), &kCopyRoute);
}

TEST_F(IssueRouteTest, RelayServesSeveralTogetherAndChoosesItself) {
  Use(false);
  PooledPending pending = TakePending(handle_.get());
  const Item item(&member_, std::span(&pending, 1));
  EXPECT_EQ(&RouteOf(item), &kRelayRoute);
}

TEST_F(IssueRouteTest, EndIsMarkedOnceTheDeviceHasSomething) {
  Use(false);
  handle_->watch.Stop();
  EXPECT_TRUE(IssueAndClose(SL_OK, false).ok());
  EXPECT_EQ(g_marks, 1);
  EXPECT_EQ(handle_->pending.outstanding(), 0u);
}

TEST_F(IssueRouteTest, LaunchThatFailsLeavesTheCommunicatorAsItIs) {
  Use(false);
  EXPECT_EQ(IssueAndClose(SL_ERR_DEVICE, false).code(), SL_ERR_DEVICE);
  EXPECT_EQ(g_marks, 0) << "the device has nothing";
  EXPECT_TRUE(member_.has_failed);
  EXPECT_TRUE(handle_->comm.healthy());
  EXPECT_EQ(handle_->pending.outstanding(), 0u);
}

TEST_F(IssueRouteTest, SequenceThatBreaksInTheMiddleFailsTheCommunicator) {
  Use(false);
  handle_->watch.Stop();
  EXPECT_TRUE(IssueAndClose(SL_OK, false).ok());
  EXPECT_EQ(IssueAndClose(SL_ERR_DEVICE, true).code(), SL_ERR_DEVICE);
  EXPECT_EQ(g_marks, 2) << "its first part is on the device";
  EXPECT_EQ(handle_->comm.OwnFailure().code(), SL_ERR_DEVICE);
}

}  // namespace
}  // namespace sl::kernel
