// SPDX-License-Identifier: Apache-2.0
//
// A guest in somebody else's process: no effect before the first call, nothing left after the last, and whatever the
// program does with forks, exits, signals and descriptors stays safe.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

std::set<std::string> Entries(const char* folder) {
  std::set<std::string> names;
  DIR* dir = opendir(folder);
  while (dirent* entry = dir != nullptr ? readdir(dir) : nullptr) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  if (dir != nullptr) {
    names.erase(std::to_string(dirfd(dir)));
    closedir(dir);
  }
  return names;
}

int CountThreads() { return static_cast<int>(Entries("/proc/self/task").size()); }
int CountDescriptors() { return static_cast<int>(Entries("/proc/self/fd").size()); }

int CountMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

struct Outcome {
  int code = -1;
  std::string output;  // standard output and error
};

Outcome Shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(("timeout 20 sh -c '" + command + "' 2>&1").c_str(), "r");
  char text[4096];
  while (pipe != nullptr && std::fgets(text, sizeof(text), pipe) != nullptr) outcome.output += text;
  if (pipe != nullptr) outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

std::string LibraryFolder() {
  const char* build = std::getenv("SL_TEST_BUILD_DIR");
  return std::string(build != nullptr ? build : SL_BUILD_DIR) + "/lib";
}

bool HasPython() { return Shell("python3 -c \"import ctypes\"").code == 0; }

// All ranks of a communicator in this thread, used once.
std::vector<ncclComm_t> UseComms(int size) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(size));
  EXPECT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<float> values(comms.size(), 1);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < comms.size(); ++i) {
    EXPECT_EQ(ncclAllReduce(&values[i], &values[i], 1, ncclFloat32, ncclSum, comms[i], nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(values[0], static_cast<float>(size));
  return comms;
}

// This program is linked with the library and has called nothing of it so far.
TEST(Loading, HasNoEffect) {
  EXPECT_EQ(CountThreads(), 1);
  RunProcesses(1, [](Team&) {
    const int descriptors = CountDescriptors();
    int version = 0;
    NCCL_OK(ncclGetVersion(&version));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclGroupEnd());
    EXPECT_NE(std::string(ncclGetErrorString(ncclSystemError)), "");
    EXPECT_EQ(CountThreads(), 1);
    EXPECT_EQ(CountDescriptors(), descriptors);
  });
}

TEST(Loading, IntoEveryChildHasNoEffect) {
  const std::string preload = "LD_PRELOAD=" + LibraryFolder() + "/libnccl.so.2 ";
  for (const char* debug : {"", "NCCL_DEBUG=INFO "}) {
    const Outcome outcome = Shell(debug + preload + "/bin/true");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.output, "");
  }
  if (!HasPython()) GTEST_SKIP() << "python3 is not installed";
  const std::string script =
      "python3 -c \"import os; print(len(os.listdir(\\\"/proc/self/task\\\")), "
      "len(os.listdir(\\\"/proc/self/fd\\\")))\"";
  const Outcome without = Shell(script);
  const Outcome with = Shell(preload + script);
  EXPECT_EQ(without.code, 0);
  EXPECT_EQ(with.code, 0);
  EXPECT_EQ(with.output, without.output);
}

TEST(Loading, WithoutItsSiblingsSaysWhatIsMissing) {
  if (!HasPython()) GTEST_SKIP() << "python3 is not installed";
  char folder[] = "/tmp/starling_copy_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string copy = folder;
  const std::string load =
      "env -u STARLING_MODULE_PATH -u STARLING_LAYERS -u LD_LIBRARY_PATH python3 -c \"import ctypes; l = "
      "ctypes.CDLL(\\\"" +
      copy + "/libnccl.so.2\\\"); l.ncclGetLastError.restype = ctypes.c_char_p; " +
      "c = (ctypes.c_void_p * 1)(); print(l.ncclCommInitAll(c, 1, None), l.ncclGetLastError(None))\"";
  EXPECT_EQ(Shell("cp " + LibraryFolder() + "/libnccl.so.2 " + copy).code, 0);
  const Outcome alone = Shell(load);
  EXPECT_NE(alone.code, 0);
  EXPECT_NE(alone.output.find("libstarling.so"), std::string::npos) << alone.output;
  EXPECT_EQ(Shell("cp " + LibraryFolder() + "/libstarling.so " + copy).code, 0);
  const Outcome moduleless = Shell(load);
  EXPECT_NE(moduleless.output.find(copy + "/starling"), std::string::npos) << moduleless.output;
  EXPECT_NE(moduleless.output.find("device-host"), std::string::npos) << moduleless.output;
  Shell("rm -r " + copy);
}

TEST(Unloading, DoesNotHappen) {
  if (!HasPython()) GTEST_SKIP() << "python3 is not installed";
  const std::string use =
      "python3 -c \"import ctypes, _ctypes, os; l = ctypes.CDLL(\\\"" + LibraryFolder() +
      "/libnccl.so.2\\\"); c = (ctypes.c_void_p * 2)(); assert l.ncclCommInitAll(c, 2, None) == 0; " +
      "_ctypes.dlclose(l._handle); assert \\\"libnccl.so.2\\\" in open(\\\"/proc/self/maps\\\").read(); "
      "print(\\\"good\\\")\"";
  const Outcome outcome = Shell(use);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output, "good\n");
}

TEST(Communicators, LeaveNothingBehind) {
  RunProcesses(1, [](Team&) {
    const auto use = [] {
      for (ncclComm_t comm : UseComms(2)) NCCL_OK(ncclCommDestroy(comm));
    };
    for (int i = 0; i < 20; ++i) use();
    const int threads = CountThreads();
    const int descriptors = CountDescriptors();
    const int mappings = CountMappings();
    for (int i = 0; i < 200; ++i) use();
    // What serves the control plane ends a little later than the call returns. Mappings of the allocator may come and
    // go; one of ours in each communicator would make hundreds.
    EXPECT_TRUE(WaitUntil(10, [&] { return CountDescriptors() <= descriptors; })) << CountDescriptors() - descriptors;
    EXPECT_TRUE(WaitUntil(10, [&] { return CountThreads() <= threads; })) << CountThreads() - threads;
    EXPECT_LE(CountMappings(), mappings + 20);
  });
}

TEST(Communicators, OfProcessesLeaveNothingBehind) {
  RunProcesses(2, [](Team& team) {
    int threads = 0;
    int descriptors = 0;
    for (int i = 0; i < 220; ++i) {
      if (i == 20) {
        threads = CountThreads();
        descriptors = CountDescriptors();
      }
      const ncclComm_t comm = team.MakeComm();
      float value = 1;
      NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
      ASSERT_EQ(value, 2);
      if (i % 3 == 0) team.Barrier();
      NCCL_OK(i % 3 == 0 ? ncclCommAbort(comm) : ncclCommDestroy(comm));
    }
    EXPECT_TRUE(WaitUntil(10, [&] { return CountDescriptors() <= descriptors + 8; }))
        << CountDescriptors() - descriptors;
    EXPECT_TRUE(WaitUntil(10, [&] { return CountThreads() <= threads; })) << CountThreads() - threads;
  });
}

TEST(Fork, LeavesTheChildWithClearErrorsAndTheParentUnharmed) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    float value = 1;
    NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
    const pid_t child = fork();
    if (child == 0) {
      ncclUniqueId id;
      ncclComm_t other = nullptr;
      bool good = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidUsage;
      good = good && LastErrorHas("fork");
      good = good && ncclGetUniqueId(&id) == ncclInvalidUsage && LastErrorHas("fork");
      good = good && ncclCommInitAll(&other, 1, nullptr) == ncclInvalidUsage;
      good = good && ncclCommDestroy(comm) != ncclSuccess;
      exit(good ? 0 : 1);  // with its handlers and destructors
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    team.Barrier();
    NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(value, 4);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

bool WorksAsRank(ncclUniqueId id, int rank, int size) {
  ncclComm_t comm = nullptr;
  ncclComm_t child = nullptr;
  float value = 1;
  bool good = ncclCommInitRank(&comm, size, id, rank) == ncclSuccess;
  good = good && ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess;
  good = good && ncclCommSplit(comm, 0, rank, &child, nullptr) == ncclSuccess;
  good = good && ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, child, nullptr) == ncclSuccess;
  good = good && value == static_cast<float>(size * size);
  good = good && ncclCommDestroy(child) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess;
  if (!good) ADD_FAILURE() << "rank " << rank << ": " << ncclGetLastError(nullptr);
  return good;
}

// Forks ranks `first` to 2 of an id of its own, and is rank 0 if that is left for it.
void ForkRanks(int first) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::vector<pid_t> children;
  for (int rank = first; rank < 3; ++rank) {
    const pid_t child = fork();
    if (child == 0) exit(WorksAsRank(id, rank, 3) ? 0 : 1);
    children.push_back(child);
  }
  if (first > 0) WorksAsRank(id, 0, 3);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Fork, AfterAnIdWasMadeGivesRanks) {
  for (int first : {0, 1}) {
    RunProcesses(1, [first](Team&) {
      ForkRanks(first);
      if (first > 0) return;  // it has had a communicator
      const pid_t child = fork();
      if (child == 0) {
        ForkRanks(1);
        exit(testing::Test::HasFailure() ? 1 : 0);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    });
  }
}

TeamOptions EndsWith(void (*end)(int)) {
  TeamOptions options;
  options.end = end;
  return options;
}

TEST(Exit, WithoutDestroyIsSafeInAnyOrder) {
  for (int first : {0, 1, 2}) {
    RunProcesses(
        3,
        [first](Team& team) {
          const ncclComm_t comm = team.MakeComm();
          float value = 1;
          NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
          if (team.rank() != first) usleep(30'000);
        },
        EndsWith(exit));
  }
}

TEST(Exit, WhileAStreamWorksIsSafe) {
  RunProcesses(
      2,
      [](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        auto* stream = new HostStream;  // never destroyed, as in a program that just ends
        auto* data = new std::vector<float>(1 << 20, 1);
        const int calls = team.rank() == 0 ? 20 : 2;
        for (int i = 0; i < calls; ++i) {
          const ncclResult_t result =
              ncclAllReduce(data->data(), data->data(), data->size(), ncclFloat32, ncclSum, comm, stream->get());
          if (result != ncclSuccess) break;  // the other one has ended already
        }
      },
      EndsWith(exit));
}

TEST(Exit, FromAnotherThreadThanTheOneThatWaitsIsSafe) {
  RunProcesses(
      2,
      [](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        float value = 1;
        if (team.rank() == 0) {
          std::thread([] {
            usleep(50'000);
            exit(0);
          }).detach();
          ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          pause();
        }
        usleep(100'000);
      },
      EndsWith(exit));
}

// Makes the library keep all that it keeps for a thread: a group's calls and an error's text.
void Use(ncclComm_t comm) {
  std::vector<float> values(1, 1);
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    NCCL_OK(ncclAllReduce(values.data(), values.data(), 1, ncclFloat32, ncclSum, comm, nullptr));
  }
  NCCL_OK(ncclGroupEnd());
  EXPECT_NE(ncclAllReduce(values.data(), values.data(), 1, static_cast<ncclDataType_t>(99), ncclSum, comm, nullptr),
            ncclSuccess);
}

// The same once more and the end of `comm`, where memory that the library has freed belongs to somebody else.
void UseLate(ncclComm_t comm) {
  std::vector<std::string> others;
  for (size_t i = 0; i < 6000; ++i) others.emplace_back(1 + i % 3000, 'x');
  Use(comm);
  std::vector<float> values(1, 1);
  EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 1, ncclFloat32, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("comm"));
  NCCL_OK(ncclCommDestroy(comm));
  for (const std::string& other : others) EXPECT_EQ(other.find_first_not_of('x'), std::string::npos);
}

// What an object of the program that owns a communicator does at its end. The rank's result is out by then, so that
// only its death can tell.
struct Owner {
  ~Owner() {
    if (comm != nullptr) UseLate(comm);
    if (testing::Test::HasFailure()) std::abort();
  }
  ncclComm_t comm = nullptr;
};

ncclComm_t MakeUsed(Team& team) {
  const ncclComm_t comm = team.MakeComm();
  Use(comm);
  return comm;
}

TEST(Exit, LeavesCallsInDestructorsOfStaticObjectsSafe) {
  RunProcesses(
      1,
      [](Team& team) {
        static Owner owner;
        owner.comm = MakeUsed(team);
      },
      EndsWith(exit));
}

TEST(Exit, OfAThreadLeavesCallsInDestructorsOfThreadLocalObjectsSafe) {
  RunProcesses(1, [](Team& team) {
    std::thread([&team] {
      thread_local Owner owner;  // made before anything of the library, and so ended after it
      owner.comm = MakeUsed(team);
    }).join();
  });
}

TEST(Exit, OfAThreadLeavesCallsInDestructorsOfKeysSafe) {
  RunProcesses(1, [](Team& team) {
    std::thread([&team] {
      auto* owner = new Owner;
      owner->comm = MakeUsed(team);
      pthread_key_t key;  // made after the library's, and so ended after it
      ASSERT_EQ(pthread_key_create(&key, [](void* made) { delete static_cast<Owner*>(made); }), 0);
      ASSERT_EQ(pthread_setspecific(key, owner), 0);
      NCCL_OK(ncclGroupStart());  // ends with the thread
    }).join();
  });
}

volatile sig_atomic_t broken_pipes = 0;

TEST(Signals, NoPipeBreaksAudibly) {
  TeamOptions options;
  options.may_die = 1u << 1;
  RunProcesses(
      3,
      [](Team& team) {
        signal(SIGPIPE, [](int) { broken_pipes = broken_pipes + 1; });
        for (int i = 0; i < 2; ++i) {
          const ncclComm_t comm = team.MakeComm();
          team.Barrier();
          if (team.rank() == 1 && i == 1) kill(getpid(), SIGKILL);
          float value = 1;
          const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          EXPECT_EQ(result == ncclSuccess, i == 0);
          NCCL_OK(i == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
        }
        EXPECT_EQ(broken_pipes, 0);
      },
      options);
}

constexpr uint64_t BitsOf(std::initializer_list<int> signals) {
  uint64_t bits = 0;
  for (const int signal : signals) bits |= uint64_t{1} << (signal - 1);
  return bits;
}
// A crash reporter of the program must see the faults of every thread.
constexpr uint64_t kFaults = BitsOf({SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS});
// Signals 1 to 31 but SIGKILL and SIGSTOP, which nobody can block, and faults.
constexpr uint64_t kBlockable = 0x7fffffffu & ~BitsOf({SIGKILL, SIGSTOP}) & ~kFaults;

TEST(Signals, AreBlockedInEveryThreadOfTheLibrary) {
  RunProcesses(2, [](Team& team) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    HostStream stream;
    const ncclComm_t comm = team.MakeComm();
    std::vector<float> data(1000, 1);
    if (team.rank() == 0) {
      NCCL_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream.get()));
      ncclComm_t connecting = nullptr;  // its worker waits for a rank that never comes
      ncclUniqueId id;
      NCCL_OK(ncclGetUniqueId(&id));
      EXPECT_EQ(ncclCommInitRankConfig(&connecting, 2, id, 0, &config), ncclInProgress);
      const std::string self = std::to_string(getpid());
      const std::set<std::string> threads = Entries("/proc/self/task");
      EXPECT_GE(threads.size(), 4u);  // the program's, control, stream, worker
      for (const std::string& thread : threads) {
        if (thread == self) continue;
        const auto blocked = [&thread] {
          std::ifstream status("/proc/self/task/" + thread + "/status");
          uint64_t bits = 0;
          for (std::string line; std::getline(status, line);) {
            if (line.rfind("SigBlk:", 0) == 0) bits = std::strtoull(line.c_str() + 7, nullptr, 16);
          }
          return bits;
        };
        EXPECT_EQ(blocked() & kBlockable, kBlockable) << thread;
        // The C library blocks everything until a new thread has begun.
        EXPECT_TRUE(WaitUntil(10, [&] { return (blocked() & kFaults) == 0; })) << thread;
      }
      sigset_t mine;
      pthread_sigmask(SIG_SETMASK, nullptr, &mine);
      EXPECT_TRUE(sigisemptyset(&mine));
      NCCL_OK(ncclCommAbort(connecting));
    }
    team.Barrier();
    if (team.rank() == 1) {
      NCCL_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr));
    }
    EXPECT_TRUE(stream.Synchronize());
    NCCL_OK(ncclCommDestroy(comm));
  });
}

std::string TargetOf(int fd) {
  char target[256] = "";
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof(target) - 1);
  return {target, static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

// Log lines go there, and a connection of ours would be broken by them.
TEST(Descriptors, LeaveClosedStandardOnesToNobody) {
  for (const unsigned closed : {7u, 4u, 3u, 2u}) {
    RunProcesses(2, [closed](Team& team) {
      std::string open[3];
      const int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);  // for what gtest has to say
      for (int fd = 0; fd < 3; ++fd) {
        open[fd] = TargetOf(fd);
        if ((closed >> fd & 1) != 0) close(fd);
      }
      const ncclComm_t comm = team.MakeComm();
      float value = 1;
      const auto bad = static_cast<ncclDataType_t>(99);
      const ncclResult_t refused = ncclAllReduce(&value, &value, 1, bad, ncclSum, comm, nullptr);
      const ncclResult_t summed = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
      std::string now[3];
      bool passed_on[3];
      for (int fd = 0; fd < 3; ++fd) {
        now[fd] = TargetOf(fd);
        passed_on[fd] = (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
      }
      dup2(kept, STDOUT_FILENO);
      dup2(kept, STDERR_FILENO);
      EXPECT_EQ(refused, ncclInvalidArgument);
      EXPECT_EQ(summed, ncclSuccess) << ncclGetLastError(nullptr);
      for (int fd = 0; fd < 3; ++fd) {
        EXPECT_EQ(now[fd], (closed >> fd & 1) != 0 ? "/dev/null" : open[fd]) << fd;
        EXPECT_TRUE(passed_on[fd]) << fd;
      }
      NCCL_OK(ncclCommDestroy(comm));
    });
  }
}

TEST(Descriptors, CloseOnExecAndMappingsStayOutOfChildren) {
  RunProcesses(2, [](Team& team) {
    const std::set<std::string> before = Entries("/proc/self/fd");
    const ncclComm_t comm = team.MakeComm();
    std::vector<float> data(100000, 1);
    NCCL_OK(ncclGroupStart());  // messages, so that links are open too
    NCCL_OK(ncclSend(data.data(), 1, ncclFloat32, 1 - team.rank(), comm, nullptr));
    NCCL_OK(ncclRecv(data.data(), 1, ncclFloat32, 1 - team.rank(), comm, nullptr));
    NCCL_OK(ncclGroupEnd());
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 100000));
    int ours = 0;
    for (const std::string& name : Entries("/proc/self/fd")) {
      const int fd = std::atoi(name.c_str());
      if (before.count(name) != 0) continue;
      ++ours;
      EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << name;
    }
    EXPECT_GT(ours, 0);
    // "dc" in VmFlags: not copied by fork. Shared segments have a name of ours or of the kernel's for memfd.
    std::ifstream maps("/proc/self/smaps");
    int shared = 0;
    bool is_shared = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:") != std::string::npos) is_shared = true;
      if (line.rfind("VmFlags:", 0) != 0) continue;
      if (is_shared) {
        ++shared;
        EXPECT_NE(line.find(" dc"), std::string::npos) << line;
      }
      is_shared = false;
    }
    EXPECT_GT(shared, 0);
    NCCL_OK(ncclMemFree(memory));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration
