// SPDX-License-Identifier: Apache-2.0
// A machine without a driver, which CMakeLists.txt makes of any.
#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

TEST(Module, SaysThatThereIsNoDriverAndLoadsNothing) {
  const CudaModule module;
  EXPECT_EQ(module.status, SL_ERR_NOT_FOUND);
  EXPECT_EQ(module.instance, nullptr);
  EXPECT_EQ(last_error.find("no CUDA driver: "), 0u) << last_error;
  EXPECT_NE(last_error.find("libcuda.so.1"), std::string::npos) << last_error;
  EXPECT_TRUE(module.host.lines.empty()) << module.host.lines[0].second;
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace sl::device_cuda
