// SPDX-License-Identifier: Apache-2.0
// The skeletons one copies are modules like any other: each built one is loaded by name, opened and closed.
#include <filesystem>

#include "kernel/loader/catalog.h"
#include "tests/loader/fixture.h"

namespace sl::kernel {
namespace {

class SkeletonTest : public LoaderTest {
 protected:
  static std::vector<std::string> Built() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
      const std::string name = ModuleNameOfFile(entry.path().filename().string());
      if (name.rfind("null-", 0) == 0) names.push_back(name);
    }
    return names;
  }
  static std::string Folder() { return std::string(getenv("SL_TEST_BUILD_DIR")) + "/lib/starling"; }
};

TEST_F(SkeletonTest, EachOneLoadsWhenTheProfileNamesIt) {
  const std::vector<std::string> names = Built();
  if (names.empty()) GTEST_SKIP() << "no skeleton is built here";
  setenv("STARLING_MODULE_PATH", Folder().c_str(), 1);
  for (const std::string& name : names) {
    Result<std::unique_ptr<Loader>> loader =
        Open("enable = [\"" + name + "\"]\n[modules." + name + ".options]\nverbose = false\n");
    ASSERT_TRUE(loader.ok()) << loader.status().message();
    EXPECT_NE(loader.value()->Describe().find("\"state\": \"active\""), std::string::npos) << name;
    EXPECT_TRUE(loader.value()->Quiesce(SL_NO_DEADLINE).ok()) << name;
  }
}

TEST_F(SkeletonTest, NoneServesAProfileThatDoesNotNameIt) {
  for (const std::string& name : Built()) {
    std::filesystem::copy_file(Folder() + "/" + name + ".so", folder_ + "/" + name + ".so");
  }
  Result<std::unique_ptr<Loader>> loader = Open("");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_EQ(loader.value()->Describe().find("\"name\": \"null-"), std::string::npos);
}

}  // namespace
}  // namespace sl::kernel
