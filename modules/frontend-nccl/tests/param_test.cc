// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "modules/frontend-nccl/tests/fixture.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

class Param : public Fixture {
 protected:
  void TearDown() override {
    unsetenv("NCCL_IB_TIMEOUT");
    ForgetVariables();
  }

  static ncclParamHandle_t Bind(const char* key) {
    ncclParamHandle_t handle = nullptr;
    EXPECT_EQ(ncclParamBind(&handle, key), ncclSuccess) << Text();
    return handle;
  }
};

TEST_F(Param, GivesTheDefaultThenTheEnvironment) {
  const ncclParamHandle_t handle = Bind("NCCL_IB_TIMEOUT");
  int32_t value = 0;
  EXPECT_EQ(ncclParamGetI32(handle, &value), ncclSuccess);
  EXPECT_EQ(value, 20);
  setenv("NCCL_IB_TIMEOUT", "22", 1);
  ForgetVariables();
  uint8_t small = 0;
  EXPECT_EQ(ncclParamGetU8(handle, &small), ncclSuccess);
  EXPECT_EQ(small, 22);
}

TEST_F(Param, RefusesWhatDoesNotFit) {
  const ncclParamHandle_t handle = Bind("NCCL_IB_TIMEOUT");
  setenv("NCCL_IB_TIMEOUT", "-1", 1);
  ForgetVariables();
  uint64_t wide = 0;
  EXPECT_EQ(ncclParamGetU64(handle, &wide), ncclInvalidArgument);
  int8_t narrow = 0;
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclSuccess);
  setenv("NCCL_IB_TIMEOUT", "300", 1);
  ForgetVariables();
  EXPECT_EQ(ncclParamGetI8(handle, &narrow), ncclInvalidArgument);
  setenv("NCCL_IB_TIMEOUT", "soon", 1);
  ForgetVariables();
  int64_t number = 0;
  EXPECT_EQ(ncclParamGetI64(handle, &number), ncclInvalidArgument);
  const char* text = nullptr;
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "soon");
}

TEST_F(Param, RefusesBadKeysHandlesAndPlaces) {
  ncclParamHandle_t handle = nullptr;
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_NOT_THERE"), ncclInvalidArgument);
  EXPECT_EQ(ncclParamBind(&handle, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclParamBind(nullptr, "NCCL_DEBUG"), ncclInvalidArgument);
  EXPECT_EQ(handle, nullptr);
  int32_t value = 0;
  EXPECT_EQ(ncclParamGetI32(nullptr, &value), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI32(reinterpret_cast<ncclParamHandle_t>(&value), &value), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI32(Bind("NCCL_DEBUG"), nullptr), ncclInvalidArgument);
}

TEST_F(Param, GivesRawBytesAndSaysHowManyItNeeds) {
  const ncclParamHandle_t handle = Bind("NCCL_IB_TIMEOUT");
  int64_t value = 0;
  int length = 0;
  EXPECT_EQ(ncclParamGet(handle, &value, sizeof(value), &length), ncclSuccess);
  EXPECT_EQ(value, 20);
  EXPECT_EQ(length, 8);
  EXPECT_EQ(ncclParamGet(handle, &value, 4, &length), ncclInvalidArgument);
  EXPECT_EQ(length, 8);
}

TEST_F(Param, IsFoundByKey) {
  const char* value = nullptr;
  int length = 0;
  EXPECT_EQ(ncclParamGetParameter("NCCL_IB_TIMEOUT", &value, &length), ncclSuccess);
  EXPECT_STREQ(value, "20");
  EXPECT_EQ(length, 2);
  EXPECT_EQ(ncclParamGetParameter("NCCL_NOT_THERE", &value, &length), ncclInvalidArgument);
}

TEST_F(Param, ListsAllKeysAndDumpsThemToTheLog) {
  const char** keys = nullptr;
  int count = 0;
  EXPECT_EQ(ncclParamGetAllParameterKeys(&keys, &count), ncclSuccess);
  ASSERT_GE(count, 110);
  for (int i = 0; i < count; ++i) Bind(keys[i]);
  ncclParamDumpAll();
  int dumped = 0;
  for (const std::string& line : Fake().logs) dumped += line.rfind("2 NCCL_", 0) == 0 ? 1 : 0;
  EXPECT_EQ(dumped, count);
}

}  // namespace
}  // namespace sl::frontend_nccl
