// SPDX-License-Identifier: Apache-2.0
//
// libnccl.so.2 as it ships: its names, and that loading it does nothing.
#include <dirent.h>
#include <dlfcn.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace {

std::string Read(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The functions a header declares.
std::set<std::string> Declared(const char* header) {
  const std::string text = Read(header);
  const std::regex declaration(R"((?:^|\n)(?:ncclResult_t|const char\*|void|int|ncclTeam_t) (p?nccl\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

int CountEntries(const char* folder) {
  int count = 0;
  DIR* dir = opendir(folder);
  while (dir != nullptr && readdir(dir) != nullptr) ++count;
  if (dir != nullptr) closedir(dir);
  return count;
}

TEST(Library, LoadsWithoutEffectAndExportsEveryDeclaredFunctionTwice) {
  const int threads = CountEntries("/proc/self/task");
  const int descriptors = CountEntries("/proc/self/fd");
  testing::internal::CaptureStderr();
  void* library = dlopen(SL_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  EXPECT_EQ(CountEntries("/proc/self/fd"), descriptors);

  // 73 host functions and 23 of the device API, each with and without p.
  std::set<std::string> host = Declared(SL_NCCL_HEADER);
  std::set<std::string> device = Declared(SL_NCCL_DEVICE_HEADER);
  EXPECT_EQ(host.size(), 2 * 73u);
  EXPECT_EQ(device.size(), 2 * 23u);
  host.merge(device);
  for (const std::string& name : host) {
    void* address = dlsym(library, name.c_str());
    EXPECT_NE(address, nullptr) << name;
    if (name[0] == 'n') {
      EXPECT_EQ(address, dlsym(library, ("p" + name).c_str())) << name;
    }
  }
  for (const char* undeclared : {"ncclResetDebugInitInternal", "pncclResetDebugInitInternal"}) {
    EXPECT_NE(dlsym(library, undeclared), nullptr) << undeclared;
  }
  dlclose(library);
}

TEST(Library, AnswersWithoutAKernelWhatNeedsNone) {
  void* library = dlopen(SL_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const int threads = CountEntries("/proc/self/task");
  auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  auto group_start = reinterpret_cast<int (*)()>(dlsym(library, "ncclGroupStart"));
  auto group_end = reinterpret_cast<int (*)()>(dlsym(library, "ncclGroupEnd"));
  int version = 0;
  EXPECT_EQ(get_version(&version), 0);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(group_start(), 0);
  EXPECT_EQ(group_end(), 0);
  EXPECT_EQ(group_end(), 5);
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  dlclose(library);
}

}  // namespace
