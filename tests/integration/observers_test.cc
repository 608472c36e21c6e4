// SPDX-License-Identifier: Apache-2.0
//
// Observers that block, throw, fail and lie: operations go on, results are right, and the job ends as it would without.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

const std::string& Modules() {
  static const std::string modules = std::getenv("STARLING_MODULE_PATH");  // unset after the first test
  return modules;
}

class HostileObserver : public ::testing::TestWithParam<const char*> {};

void Reduce(const Team& team, ncclComm_t comm, int times) {
  for (int i = 0; i < times; ++i) {
    const size_t count = i % 10 == 0 ? 100'000 : 8;
    std::vector<float> values(count, static_cast<float>(team.rank() + i));
    NCCL_OK(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, nullptr));
    ASSERT_EQ(values.front(), static_cast<float>(2 * i + 1));
    ASSERT_EQ(values.back(), static_cast<float>(2 * i + 1));
  }
}

TEST_P(HostileObserver, HarmsNoOperation) {
  const std::string kind = GetParam();
  const std::string mark = ::testing::TempDir() + "hostile-" + kind + "-" + std::to_string(getpid());
  unlink(mark.c_str());
  const std::string folders = Modules() + ":" + SL_HOSTILE_DIR + "/" + kind;
  const Environment path("STARLING_MODULE_PATH", folders.c_str());
  const Environment told("SL_TEST_MARK", mark.c_str());
  const Environment alone("STARLING_LAYERS", "");  // the checker would end who lies
  const Environment often("STARLING_EVENTS_DRAIN_MS", "1");
  const Environment small("STARLING_EVENTS_RING_RECORDS", "16");
  RunProcesses(2, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    Reduce(team, comm, 20);
    EXPECT_TRUE(WaitUntil(10, [&] { return access(mark.c_str(), F_OK) == 0; })) << "the observer was never called";
    Reduce(team, comm, 200);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
  });
  unlink(mark.c_str());
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostileObserver,
                         ::testing::Values("blocks", "throws", "throws_at_once", "fails", "lies"),
                         [](const auto& kind) { return std::string(kind.param); });

// A program of one rank that ends as programs do, by exit(); the observer is told everything before.
class EndOfTheProcess : public ::testing::TestWithParam<bool> {};

std::string WhatItSaw(const std::string& kind, bool destroys, int times, int* out_status) {
  const std::string mark = ::testing::TempDir() + "ending-" + kind + "-" + std::to_string(getpid());
  unlink(mark.c_str());
  const std::string folders = Modules() + ":" + SL_HOSTILE_DIR + "/" + kind;
  const Environment path("STARLING_MODULE_PATH", folders.c_str());
  const Environment told("SL_TEST_MARK", mark.c_str());
  const Environment alone("STARLING_LAYERS", "");
  const Environment seldom("STARLING_EVENTS_DRAIN_MS", "60000");  // only the end delivers
  const Environment large("STARLING_EVENTS_RING_RECORDS", "65536");
  const pid_t child = fork();
  if (child == 0) {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    bool good = ncclGetUniqueId(&id) == ncclSuccess && ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess;
    float value = 1;
    for (int i = 0; good && i < times; ++i) {
      good = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess;
    }
    if (good && destroys) good = ncclCommDestroy(comm) == ncclSuccess;
    std::exit(good ? 0 : 1);
  }
  waitpid(child, out_status, 0);
  std::stringstream text;
  text << std::ifstream(mark).rdbuf();
  unlink(mark.c_str());
  return text.str();
}

TEST_P(EndOfTheProcess, BringsTheLastRecordsAndEndsTheObserver) {
  int status = -1;
  EXPECT_EQ("destroyed after 1000 begun, 1000 ended\nclosed\n", WhatItSaw("counts", GetParam(), 1000, &status));
  EXPECT_EQ(0, status);
}

TEST_P(EndOfTheProcess, IsNotHeldUpByAnObserverThatBlocks) {
  int status = -1;
  EXPECT_EQ("", WhatItSaw("blocks", GetParam(), 1, &status));
  EXPECT_EQ(0, status);
}

#if !defined(SL_SANITIZED)  // there a crash is the sanitizer's to explain
TEST(CrashingObserver, IsNamedInPlaceOfTheOperation) {
  const std::string folders = Modules() + ":" + SL_HOSTILE_DIR + "/crashes";
  const Environment path("STARLING_MODULE_PATH", folders.c_str());
  const Environment alone("STARLING_LAYERS", "");
  const Environment often("STARLING_EVENTS_DRAIN_MS", "1");
  const std::string command = std::getenv("SL_TEST_BUILD_DIR") +
                              std::string("/bin/starling bench all_reduce --ranks 2 -b 64 -e 64 -n 100000 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char chunk[4096];
  while (const size_t got = fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, got);
  EXPECT_EQ(1, WEXITSTATUS(pclose(pipe))) << text;
  const std::string who = "consume() of sl.observer/1 observer-crashes, module observer-crashes 0.1.0";
  EXPECT_NE(text.find("starling: signal 11 in " + who), std::string::npos) << text;
  EXPECT_NE(text.find("killed by signal 11 (Segmentation fault) in " + who), std::string::npos) << text;
}
#endif

INSTANTIATE_TEST_SUITE_P(Destroys, EndOfTheProcess, ::testing::Bool());

}  // namespace
}  // namespace sl::integration
