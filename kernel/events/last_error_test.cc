// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/last_error.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sl::kernel
