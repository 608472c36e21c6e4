// SPDX-License-Identifier: Apache-2.0
//
// A scalar in device memory, and an algorithm of a time when there was none: its launch takes the number itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

uint64_t g_launched_bits;
int g_launches;

sl_status_t Launch(sl_algorithm_t*, const sl_op_t* op, void*, uint32_t, sl_launch_t*) {
  ++g_launches;
  g_launched_bits = op->scalar_bits;
  return SL_OK;
}

class ScalarRead : public testing::Test {
 protected:
  // An algorithm of revision 1, on a device with these capabilities.
  Status Fill(uint64_t capabilities) {
    g_launches = 0;
    g_launched_bits = 0;
    Device device;
    device.info.capabilities = capabilities;
    sl_device_ops_t device_ops{};
    device.ops = &device_ops;
    CommConfig config;
    config.device = &device;
    sl_comm_t handle(nullptr, config, nullptr);
    Pending pending;
    pending.handle = &handle;
    pending.op = {};
    pending.op.datatype = SL_FLOAT32;
    pending.op.scalar = &scalar_;
    sl_algorithm_ops_t ops{};
    ops.launch = Launch;
    Choice choice;
    choice.name = "vendor";
    choice.ops = &ops;
    choice.revision = 1;
    choice.run = SL_RUN_LAUNCH;
    sl_launch_t launch;
    return FillLaunch(&pending, choice, &launch);
  }

  float scalar_ = 3;
};

TEST_F(ScalarRead, IsDoneByTheKernelWhereTheCpuReachesIt) {
  EXPECT_TRUE(Fill(SL_DEVICE_MEMORY_IS_HOST).ok());
  EXPECT_EQ(g_launches, 1);
  float launched = 0;
  std::memcpy(&launched, &g_launched_bits, sizeof(launched));
  EXPECT_EQ(launched, scalar_);
}

TEST_F(ScalarRead, IsRefusedWhereTheCpuDoesNotReachIt) {
  const Status status = Fill(0);
  EXPECT_EQ(status.code(), SL_ERR_UNSUPPORTED);
  EXPECT_NE(status.message().find("vendor: reads no scalar in device memory"), std::string::npos) << status.message();
  EXPECT_EQ(g_launches, 0);
}

}  // namespace
}  // namespace sl::kernel
