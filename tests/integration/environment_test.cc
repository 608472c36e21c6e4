// SPDX-License-Identifier: Apache-2.0
//
// The environment belongs to the program, whose threads may change it at any time: it is read when the library is first
// used, and never again. NCCL's files of settings stand behind it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/integration/team.h"

namespace {

std::atomic<uint64_t> g_reads{0};

template <typename Function>
char* Read(const char* function, const char* name) {
  ++g_reads;
  static const auto real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, function));
  return real(name);
}

}  // namespace

// This program's own, which every library of it calls.
extern "C" char* secure_getenv(const char* name) noexcept { return Read<decltype(getenv)>("secure_getenv", name); }
extern "C" char* getenv(const char* name) noexcept { return Read<decltype(getenv)>("getenv", name); }

namespace sl::integration {
namespace {

void Live(Team& team) {
  const ncclComm_t comm = team.MakeComm();
  float value = 1;
  NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_EQ(value, static_cast<float>(team.size()));
  ncclComm_t half = nullptr;
  NCCL_OK(ncclCommSplit(comm, 0, team.rank(), &half, nullptr));
  NCCL_OK(ncclCommDestroy(half));
  NCCL_OK(ncclCommDestroy(comm));
}

TEST(TheEnvironment, IsReadForTheFirstCommunicatorOnly) {
  RunThreads(2, [](Team& team) {
    Live(team);
    team.Barrier();
    const uint64_t before = g_reads.load();
    EXPECT_GT(before, 0u) << "it is read at all, and by what is counted";
    team.Barrier();
    for (int round = 0; round < 3; ++round) Live(team);
    team.Barrier();
    EXPECT_EQ(g_reads.load(), before);
  });
}

TEST(TheEnvironment, MayBeChangedByAThreadWhileCommunicatorsAreMade) {
  RunThreads(2, [](Team& team) {
    Live(team);
    std::atomic<bool> is_over{false};
    std::thread changing;
    if (team.rank() == 0) {
      changing = std::thread([&is_over] {
        for (uint32_t i = 0; !is_over.load(); ++i) {
          setenv(("SOMETHING_" + std::to_string(i % 4096)).c_str(), "a value long enough to be moved about", 1);
        }
      });
    }
    for (int round = 0; round < 50; ++round) Live(team);
    is_over.store(true);
    if (changing.joinable()) changing.join();
  });
}

TEST(SettingsOfAFile, AreHonouredAsNcclDoes) {
  const std::string home = testing::TempDir() + "home-" + std::to_string(getpid());
  std::filesystem::create_directories(home);
  std::ofstream(home + "/.nccl.conf") << "# of this site\nNCCL_COMM_BLOCKING=0\n";
  const Environment folder("HOME", home.c_str());
  RunProcesses(1, [](Team& team) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = team.MakeId();
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInProgress) << "NCCL_COMM_BLOCKING of the file counts";
    ncclResult_t state = ncclInProgress;
    EXPECT_TRUE(
        WaitUntil(20, [&] { return ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess; }));
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  {
    const Environment blocking("NCCL_COMM_BLOCKING", "1");
    RunProcesses(1, [](Team& team) {
      ncclComm_t comm = nullptr;
      NCCL_OK(ncclCommInitRank(&comm, 1, team.MakeId(), 0));
      NCCL_OK(ncclCommDestroy(comm));
    });
  }
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace sl::integration
