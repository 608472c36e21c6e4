// SPDX-License-Identifier: Apache-2.0
#include "sdk/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sl {
namespace {

class Settings : public testing::Test {
 protected:
  Settings() {
    std::filesystem::create_directories(home_);
    setenv("HOME", home_.c_str(), 1);
    for (const char* name : {"NCCL_CONF_FILE", "NCCL_A", "NCCL_B"}) unsetenv(name);
    ForgetSettingFiles();
  }
  ~Settings() override { std::filesystem::remove_all(home_); }
  static std::string Text(const char* name) {
    const char* text = SettingText(name);
    return text != nullptr ? text : "(none)";
  }

  const std::string home_ = testing::TempDir() + "settings-" + std::to_string(getpid());
};

TEST_F(Settings, AreLinesOfNameAndValue) {
  const std::vector<Setting> all = ParseSettings("# NCCL_A=1\nNCCL_A=eth0,eth1\r\n\nnothing\n=x\nNCCL_B=a=b\nNCCL_C=");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name + "|" + all[0].value, "NCCL_A|eth0,eth1");
  EXPECT_EQ(all[1].name + "|" + all[1].value, "NCCL_B|a=b");
  EXPECT_EQ(all[2].name + "|" + all[2].value, "NCCL_C|");
}

TEST_F(Settings, OfTheUsersFileStandBehindTheEnvironment) {
  std::ofstream(home_ + "/.nccl.conf") << "NCCL_A=file\nNCCL_B=file\n";
  setenv("NCCL_B", "environment", 1);
  EXPECT_EQ(Text("NCCL_A"), "file");
  EXPECT_EQ(Text("NCCL_B"), "environment");
  EXPECT_EQ(Text("NCCL_D"), "(none)");
  ASSERT_FALSE(SettingFiles().empty());
  EXPECT_EQ(SettingFiles()[0], home_ + "/.nccl.conf (NCCL_A, NCCL_B)");
  unsetenv("NCCL_B");
}

TEST_F(Settings, AreOfTheFileThatIsNamedInsteadOfTheUsers) {
  std::ofstream(home_ + "/.nccl.conf") << "NCCL_A=users\n";
  std::ofstream(home_ + "/named") << "NCCL_A=named\n";
  setenv("NCCL_CONF_FILE", (home_ + "/named").c_str(), 1);
  EXPECT_EQ(Text("NCCL_A"), "named");
  unsetenv("NCCL_CONF_FILE");
}

TEST_F(Settings, AreReadOnce) {
  std::ofstream(home_ + "/.nccl.conf") << "NCCL_A=first\n";
  EXPECT_EQ(Text("NCCL_A"), "first");
  std::ofstream(home_ + "/.nccl.conf") << "NCCL_A=second\n";
  EXPECT_EQ(Text("NCCL_A"), "first");
}

TEST_F(Settings, AreNotWaitedForInAPipe) {
  ASSERT_EQ(mkfifo((home_ + "/.nccl.conf").c_str(), 0600), 0);
  EXPECT_EQ(Text("NCCL_A"), "(none)");
}

}  // namespace
}  // namespace sl
