// SPDX-License-Identifier: Apache-2.0
//
// Which kernels the module runs on, by what it says of itself.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "sl_algorithm.h"
#include "sl_module.h"

namespace {

// Its launches write all of sl_control_t, which was shorter in kernels of revision 7 and before.
TEST(Revisions, WithAShorterControlAreNotOffered) {
  const std::string path = std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/starling/algo-symmetric.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto query = reinterpret_cast<decltype(&sl_module_query)>(dlsym(library, "sl_module_query"));
  ASSERT_NE(query, nullptr);
  sl_hello_t hello{};
  hello.struct_size = sizeof(hello);
  hello.magic = SL_MODULE_MAGIC;
  hello.container_min = SL_CONTAINER_VERSION;
  hello.container_max = SL_CONTAINER_VERSION;
  const sl_module_t* module = nullptr;
  ASSERT_EQ(query(&hello, &module), SL_OK);
  ASSERT_NE(module->provide_count, 0u);
  for (uint32_t i = 0; i < module->provide_count; ++i) {
    const sl_provide_t& provide = *module->provides[i];
    EXPECT_STREQ(provide.id, SL_ALGORITHM_ID);
    EXPECT_GE(provide.revision_min, 8u) << provide.name;
    EXPECT_GE(provide.revision, provide.revision_min) << provide.name;
  }
}

}  // namespace
