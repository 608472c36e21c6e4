// SPDX-License-Identifier: Apache-2.0
//
// The operating system refuses what the library asks for: each system call, with each error that sandboxes and limits
// give, while ranks meet and while they work. Then every call still returns, the caller's signals and limits are as
// they were, nothing is left behind, and the words fit the error.
#include <dirent.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr double kBoundSeconds = 20;

struct SystemCall {
  const char* name;
  long number;
  std::vector<int> errors = {EPERM, ENOSYS};
};

// Not those that libc itself does not survive (futex, rt_sigprocmask) nor those by which a process ends.
const SystemCall kSystemCalls[] = {
    {"socket", SYS_socket, {EPERM, EACCES, EMFILE, ENOBUFS}},
    {"bind", SYS_bind},
    {"listen", SYS_listen},
    {"connect", SYS_connect},
    {"accept4", SYS_accept4, {EPERM, ENOSYS, EMFILE}},
    {"getsockopt", SYS_getsockopt},
    {"setsockopt", SYS_setsockopt},
    {"getsockname", SYS_getsockname},
    {"sendmsg", SYS_sendmsg},
    {"recvmsg", SYS_recvmsg},
    {"sendto", SYS_sendto},
    {"recvfrom", SYS_recvfrom},
    {"epoll_create1", SYS_epoll_create1, {EPERM, ENOSYS, EMFILE, ENOMEM}},
    {"epoll_ctl", SYS_epoll_ctl, {EPERM, ENOSPC}},
    {"eventfd2", SYS_eventfd2, {EPERM, ENOSYS, EMFILE, ENFILE}},
#ifdef SYS_poll
    {"poll", SYS_poll},
#else  // architectures that have the newer call alone
    {"ppoll", SYS_ppoll},
#endif
    {"memfd_create", SYS_memfd_create, {EPERM, ENOSYS, EMFILE, ENOMEM}},
    {"ftruncate", SYS_ftruncate, {EPERM, EFBIG, ENOSPC}},
    {"fcntl", SYS_fcntl},
    {"madvise", SYS_madvise},
    {"mbind", SYS_mbind},
    {"clone3", SYS_clone3, {EPERM, EAGAIN, ENOMEM}},
    {"getrandom", SYS_getrandom},
    {"prctl", SYS_prctl},
    {"pidfd_open", SYS_pidfd_open},
    {"kcmp", SYS_kcmp},
    {"process_vm_readv", SYS_process_vm_readv},
    {"futex_waitv", 449},
    {"membarrier", SYS_membarrier},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_yield", SYS_sched_yield},
    {"getdents64", SYS_getdents64},
    {"readlink", SYS_readlink},
    {"ioctl", SYS_ioctl},
    {"uname", SYS_uname},
    {"clock_nanosleep", SYS_clock_nanosleep},
};

// From now on `call` fails with `error`, in every thread of this process.
void Refuse(long call, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof code / sizeof code[0], code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program), 0);
}

// What belongs to the program.
struct Belongings {
  sigset_t mask;
  std::vector<rlim_t> limits;

  Belongings() {
    sigset_t* out = &mask;
    pthread_sigmask(SIG_SETMASK, nullptr, out);
    for (const auto resource : {RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_STACK, RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_CORE}) {
      rlimit limit{};
      getrlimit(resource, &limit);
      limits.push_back(limit.rlim_cur);
    }
  }
  bool operator==(const Belongings& other) const {
    for (int signal = 1; signal < NSIG; ++signal) {
      if (sigismember(&mask, signal) != sigismember(&other.mask, signal)) return false;
    }
    return limits == other.limits;
  }
};

// Looks at one call's outcome. False: it has failed.
bool Judge(ncclResult_t result, int error) {
  if (result == ncclSuccess) return true;
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(result, ncclInternalError) << text;
  EXPECT_FALSE(text.empty());
  // Some calls are told of by the rank that was refused, others by one that it has left alone.
  const bool is_descriptors = error == EMFILE;
  if (!is_descriptors) {
    EXPECT_EQ(text.find("ulimit -n"), std::string::npos) << text;
  }
  return false;
}

// Everything once: true when it went well.
bool Work(ncclComm_t comm, int error) {
  std::vector<float> values(1 << 12, 1);
  HostStream stream;
  bool good =
      Judge(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, nullptr), error);
  if (good) {
    EXPECT_EQ(values.back(), 2);
  }
  good = good &&
         Judge(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, stream.get()),
               error);
  EXPECT_TRUE(stream.Synchronize());
  void* memory = nullptr;
  if (Judge(ncclMemAlloc(&memory, 1 << 20), error)) {
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  }
  ncclComm_t child = nullptr;
  if (good && Judge(ncclCommSplit(comm, 0, 0, &child, nullptr), error)) {
    EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  }
  return good;
}

class Refused : public testing::TestWithParam<SystemCall> {
  const Environment bootstrap_{"STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "1000"};
  const Environment operation_{"STARLING_COMM_OPERATION_TIMEOUT_MS", "5000"};
  const Environment log_{"STARLING_LOG", "error"};
};
std::string CallName(const testing::TestParamInfo<SystemCall>& call) { return call.param.name; }
INSTANTIATE_TEST_SUITE_P(Each, Refused, testing::ValuesIn(kSystemCalls), CallName);

// Rank 0's id, which may not come: then the call has been judged.
bool ShareId(Team* team, int error, ncclUniqueId* id) {
  constexpr int kWords = sizeof(ncclUniqueId) / sizeof(uint64_t);
  constexpr uint64_t kNone = 1;
  constexpr uint64_t kMade = 2;
  uint64_t words[kWords] = {};
  std::atomic<uint64_t>& state = team->word(kWords);
  if (team->rank() == 0) {
    const bool has_id = Judge(ncclGetUniqueId(id), error);
    std::memcpy(words, id, sizeof words);
    for (int i = 0; i < kWords; ++i) team->word(i).store(words[i]);
    state.store(has_id ? kMade : kNone);
    return has_id;
  }
  if (!WaitUntil(kBoundSeconds, [&state] { return state.load() != 0; })) return false;  // rank 0 says why
  for (int i = 0; i < kWords; ++i) words[i] = team->word(i).load();
  std::memcpy(id, words, sizeof words);
  return state.load() == kMade;
}

TEST_P(Refused, WhileRanksMeetEndsEveryCall) {
  for (const int error : GetParam().errors) {
    SCOPED_TRACE(std::strerror(error));
    RunProcesses(2, [error](Team& team) {
      const Belongings before;
      const double begin = Seconds();
      Refuse(GetParam().number, error);
      ncclUniqueId id{};
      ncclComm_t comm = nullptr;
      if (!ShareId(&team, error, &id)) return;
      if (Judge(ncclCommInitRank(&comm, 2, id, team.rank()), error)) Work(comm, error);
      if (comm != nullptr) {
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      }
      EXPECT_LT(Seconds() - begin, kBoundSeconds);
      EXPECT_TRUE(Belongings() == before);
    });
  }
}

TEST_P(Refused, WhileRanksWorkEndsEveryCall) {
  for (const int error : GetParam().errors) {
    SCOPED_TRACE(std::strerror(error));
    RunProcesses(2, [error](Team& team) {
      const ncclComm_t comm = team.MakeComm();
      ASSERT_NE(comm, nullptr);
      const Belongings before;
      Refuse(GetParam().number, error);
      const double begin = Seconds();
      Work(comm, error);
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      EXPECT_LT(Seconds() - begin, kBoundSeconds);
      EXPECT_TRUE(Belongings() == before);
    });
  }
}

// The whole life of a communicator under a limit that is set before the first call. True: all went well.
bool LiveUnder(Team* team, int error, const std::function<void()>& limit) {
  const Belongings before;
  limit();
  const double begin = Seconds();
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  bool good = ShareId(team, error, &id);
  good = good && Judge(ncclCommInitRank(&comm, 2, id, team->rank()), error);
  std::vector<float> values(1 << 12, 1);
  good = good &&
         Judge(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, nullptr), error);
  if (comm != nullptr) {
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }
  EXPECT_LT(Seconds() - begin, kBoundSeconds);
  return good;
}

class FewDescriptors : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OverTcp, FewDescriptors, testing::Bool());

// Whoever meets it first: the control plane, a device, a transport.
TEST_P(FewDescriptors, SoftLimitIsRaised) {
  const Environment bootstrap("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "5000");
  if (GetParam()) setenv("STARLING_PROFILE", SL_TCP_PROFILE, 1);
  for (rlim_t soft = 5; soft < 45; ++soft) {
    SCOPED_TRACE(soft);
    RunProcesses(2, [soft](Team& team) {
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = soft;
      EXPECT_TRUE(LiveUnder(&team, EMFILE, [&limit] { setrlimit(RLIMIT_NOFILE, &limit); }))
          << ncclGetLastError(nullptr);
    });
  }
  if (GetParam()) unsetenv("STARLING_PROFILE");
}

// Threads take a stack of a stated size, so that there is room for them where there is room for the rest.
// Without layers: every module has thread-local data, and glibc ends a process that has no memory left for them.
TEST(LittleMemory, IsEnoughOrIsNamed) {
  const Environment bare("STARLING_LAYERS", "");
  const Environment bootstrap("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "1000");
  for (rlim_t mib = 1; mib < 64; mib += mib < 16 ? 2 : 8) {
    SCOPED_TRACE(mib);
    RunProcesses(2, [mib](Team& team) {
      uint64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (mib << 20);
      const rlimit limit = {bytes, RLIM_INFINITY};
      const bool good = LiveUnder(&team, ENOMEM, [&limit] { setrlimit(RLIMIT_AS, &limit); });
      if (mib >= 32) {
        EXPECT_TRUE(good) << ncclGetLastError(nullptr);
      }
    });
  }
}

}  // namespace
}  // namespace sl::integration
