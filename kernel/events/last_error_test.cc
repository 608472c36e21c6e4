// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/last_error.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <thread>

namespace sl::kernel {
namespace {

TEST(LastError, BelongsToTheThread) {
  EXPECT_EQ(SL_ERR_INVALID, SetLastError(SL_ERR_INVALID, "count is negative"));
  std::thread other([] {
    EXPECT_STREQ("", LastError());
    SetLastError(SL_ERR_MEMORY, "other");
    EXPECT_STREQ("other", LastError());
  });
  other.join();
  EXPECT_STREQ("count is negative", LastError());
  ClearLastError();
  EXPECT_STREQ("", LastError());
}

TEST(LastError, LongTextIsCutVisibly) {
  SetLastError(SL_ERR_INVALID, std::string(10000, 'x'));
  const size_t length = std::strlen(LastError());
  EXPECT_LT(length, 10000u);
  EXPECT_STREQ("x...", LastError() + length - 4);
}

TEST(LastError, FlowControlAndSuccessLeaveTheTextAlone) {
  SetLastError(SL_ERR_INVALID, "kept");
  EXPECT_EQ(SL_ERR_AGAIN, SetLastError(Status(SL_ERR_AGAIN)));
  EXPECT_EQ(SL_OK, SetLastError(Status()));
  EXPECT_STREQ("kept", LastError());
  SetLastError(Status(SL_ERR_TIMEOUT));
  EXPECT_STREQ("timeout", LastError());
}

TEST(LastError, ModulesFailInTheirWordsOrInThoseOfTheStatus) {
  SetLastError(SL_ERR_DEVICE, "the firmware is too old");
  EXPECT_EQ("the firmware is too old", ModuleFailure(SL_ERR_DEVICE).message());
  ClearLastError();
  EXPECT_EQ(SL_ERR_DEVICE, ModuleFailure(SL_ERR_DEVICE).code());
  EXPECT_EQ("status -77, unknown status", ModuleFailure(-77).message());
  for (sl_status_t none : {SL_ERR_AGAIN, SL_IN_PROGRESS, sl_status_t{9}}) {
    EXPECT_EQ(SL_ERR_INTERNAL, ModuleFailure(none).code()) << none;
  }
}

TEST(LastError, NamesTheFunctionThatThrew) {
  const auto returns = [](int value) { return static_cast<sl_status_t>(value); };
  const auto fails = [] { throw std::runtime_error("no manners"); };
  const auto throws = [](int value) { throw value; };
  SetLastError(SL_ERR_INVALID, "kept");
  EXPECT_EQ(SL_ERR_DEVICE, CallModule("plan", returns, SL_ERR_DEVICE));
  EXPECT_STREQ("kept", LastError());
  EXPECT_EQ(SL_ERR_EXCEPTION, CallModule("destroy", fails));
  EXPECT_STREQ("it threw in destroy: no manners", LastError());
  EXPECT_EQ(SL_ERR_EXCEPTION, CallModule("create", throws, 5));
  EXPECT_STREQ("it threw in create", LastError());
}

TEST(LastError, StatusOfACallHasTheTextThatItLeft) {
  SetLastError(SL_ERR_DEVICE, "the device is gone");
  EXPECT_EQ(StatusOf(SL_ERR_DEVICE).code(), SL_ERR_DEVICE);
  EXPECT_EQ(StatusOf(SL_ERR_DEVICE).message(), "the device is gone");
  EXPECT_TRUE(StatusOf(SL_OK).ok());
  EXPECT_FALSE(StatusOf(SL_OK).has_message()) << "an older text is not that of a call that went well";
}

// As the thread rounds. Both accesses keep the division where it stands.
double Third() {
  const volatile double three = 3;
  const volatile double third = 1 / three;
  return third;
}

// Two ranks whose threads round differently estimate alike, and so choose the same algorithm.
TEST(LastError, ModulesComputeInTheDefaultFloatMode) {
  const double nearest = Third();
  fesetround(FE_UPWARD);
  const double up = Third();
  double inside = 0;
  const auto estimate = [&inside] {
    inside = Third();
    return SL_OK;
  };
  const sl_status_t status = CallModule("estimate", estimate);
  const double after = Third();
  fesetround(FE_TONEAREST);
  EXPECT_EQ(SL_OK, status);
  EXPECT_NE(nearest, up) << "the test does not work here";
  EXPECT_EQ(nearest, inside);
  EXPECT_EQ(up, after) << "the thread's mode was not put back";
}

}  // namespace
}  // namespace sl::kernel
