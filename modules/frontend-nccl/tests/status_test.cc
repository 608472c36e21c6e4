// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/status.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

struct Mapping {
  sl_status_t status;
  ncclResult_t result;
};

constexpr Mapping kMappings[] = {
    {SL_OK, ncclSuccess},
    {SL_IN_PROGRESS, ncclInProgress},
    {SL_ERR_AGAIN, ncclInternalError},
    {SL_ERR_INVALID, ncclInvalidArgument},
    {SL_ERR_STATE, ncclInvalidUsage},
    {SL_ERR_UNSUPPORTED, ncclInvalidUsage},
    {SL_ERR_MISMATCH, ncclInvalidUsage},
    {SL_ERR_CONFIG, ncclInvalidUsage},
    {SL_ERR_MEMORY, ncclSystemError},
    {SL_ERR_LIMIT, ncclSystemError},
    {SL_ERR_NOT_FOUND, ncclSystemError},
    {SL_ERR_DENIED, ncclSystemError},
    {SL_ERR_SYSTEM, ncclSystemError},
    {SL_ERR_LINK_DOWN, ncclRemoteError},
    {SL_ERR_LINK_TIMEOUT, ncclRemoteError},
    {SL_ERR_LINK_CORRUPT, ncclRemoteError},
    {SL_ERR_PEER_LOST, ncclRemoteError},
    {SL_ERR_PEER_FAILED, ncclRemoteError},
    {SL_ERR_TIMEOUT, ncclRemoteError},
    {SL_ERR_ABORTED, ncclInvalidUsage},
    {SL_ERR_DEVICE, ncclUnhandledCudaError},
    {SL_ERR_DEVICE_MEMORY, ncclUnhandledCudaError},
    {SL_ERR_INTERNAL, ncclInternalError},
    {SL_ERR_EXCEPTION, ncclInternalError},
};

TEST(Status, MapsEveryKernelCode) {
  for (const Mapping& mapping : kMappings) {
    EXPECT_EQ(ResultOf(mapping.status, 22809), mapping.result) << mapping.status;
  }
}

TEST(Status, MapsCodesAddedLaterByTheirRange) {
  EXPECT_EQ(ResultOf(-199, 22809), ncclInvalidUsage);
  EXPECT_EQ(ResultOf(-299, 22809), ncclSystemError);
  EXPECT_EQ(ResultOf(-399, 22809), ncclRemoteError);
  EXPECT_EQ(ResultOf(-499, 22809), ncclRemoteError);
  EXPECT_EQ(ResultOf(-599, 22809), ncclUnhandledCudaError);
}

TEST(Status, HidesTimeoutFromProgramsThatReadEightOtherwise) {
  EXPECT_EQ(ResultOf(SL_ERR_TIMEOUT, 23002), ncclRemoteError);
  EXPECT_EQ(ResultOf(SL_ERR_TIMEOUT, 23003), ncclTimeout);
}

TEST(Status, ReadsVersionsAsCodesAndAsReleases) {
  EXPECT_EQ(ParseVersion("22809"), 22809);
  EXPECT_EQ(ParseVersion("2.28.9"), 22809);
  EXPECT_EQ(ParseVersion("2.30.3"), 23003);
  EXPECT_EQ(ParseVersion("2.8.4"), 2804);
  for (const char* bad :
       {"", "2.28", "2.28.", "2.28.9.1", "two", "12", "2.28.9rc", "2.100.1", "99999999999999999999"}) {
    EXPECT_EQ(ParseVersion(bad), 0) << bad;
  }
}

TEST(Status, NamesEveryResult) {
  for (int result = 0; result < ncclNumResults; ++result) {
    EXPECT_STRNE(ncclGetErrorString(static_cast<ncclResult_t>(result)), "unknown result code") << result;
  }
  EXPECT_STREQ(ncclGetErrorString(static_cast<ncclResult_t>(77)), "unknown result code");
}

TEST(Status, TellsTheDefaultVersionWhenNobodySaysAnother) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
}

TEST(LastError, BelongsToItsThread) {
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "ncclGetVersion: argument version is NULL");
  std::string other = "unset";
  std::thread([&other] { other = ncclGetLastError(nullptr); }).join();
  EXPECT_EQ(other, "");
}

TEST(LastError, CutsTextsThatAreTooLong) {
  const std::string name(5000, 'x');
  EXPECT_EQ(Fail(ncclInternalError, "%s", name.c_str()), ncclInternalError);
  EXPECT_EQ(std::string(LastError()).size(), 2047u);
}

TEST(Guarded, TurnsExceptionsIntoResults) {
  EXPECT_EQ(Guarded("f", []() -> ncclResult_t { throw std::bad_alloc(); }), ncclSystemError);
  EXPECT_EQ(Guarded("f", []() -> ncclResult_t { throw 1; }), ncclInternalError);
  EXPECT_EQ(Guarded("f", [] { return ncclSuccess; }), ncclSuccess);
}

}  // namespace
}  // namespace sl::frontend_nccl
