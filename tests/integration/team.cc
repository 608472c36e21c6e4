// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/team.h"
#include "sdk/clock.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace sl::integration {
namespace {

constexpr double kBarrierSeconds = 30;

void Nap() {
  const timespec pause{0, 200'000};
  nanosleep(&pause, nullptr);
}

// What was recorded of the running test so far; a forked rank starts with its parent's failures.
int CountFailures() {
  const testing::TestResult* result = testing::UnitTest::GetInstance()->current_test_info()->result();
  int failures = 0;
  for (int i = 0; i < result->total_part_count(); ++i) failures += result->GetTestPartResult(i).failed();
  return failures;
}

// Runs in the child; does not return.
[[noreturn]] void BeRank(const Body& body, Board* board, int rank, int size, pid_t parent, const TeamOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the line above
  const int failures = CountFailures();
  Team team(board, rank, size);
  body(team);
  const int code = CountFailures() != failures ? 1 : 0;
  std::fflush(nullptr);
  if (options.end != nullptr) options.end(code);
  _exit(code);
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

double Seconds() { return static_cast<double>(NowNs()) * 1e-9; }

bool WaitUntil(double seconds, const std::function<bool()>& condition) {
  const double deadline = Seconds() + seconds;
  while (!condition()) {
    if (Seconds() > deadline) return false;
    Nap();
  }
  return true;
}

void Team::Barrier() {
  const uint32_t phase = board_->phase.load();
  if (board_->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
    board_->arrived.store(0);
    board_->phase.store(phase + 1);
    return;
  }
  if (WaitUntil(kBarrierSeconds, [&] { return board_->phase.load() != phase; })) return;
  std::fprintf(stderr, "rank %d: the others did not come to a barrier of the test\n", rank_);
  std::abort();
}

ncclUniqueId Team::MakeId() {
  const uint32_t index = ids_taken_++;
  ncclUniqueId& id = board_->ids[index % 64];
  Barrier();
  if (rank_ == 0) {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  }
  Barrier();
  return id;
}

std::vector<ncclUniqueId> Team::MakeIds(int count) {
  const uint32_t first = ids_taken_;
  ids_taken_ += static_cast<uint32_t>(count);
  const auto id = [&](int maker) -> ncclUniqueId& { return board_->ids[(first + static_cast<uint32_t>(maker)) % 64]; };
  Barrier();
  if (rank_ < count) {
    EXPECT_EQ(ncclGetUniqueId(&id(rank_)), ncclSuccess) << ncclGetLastError(nullptr);
  }
  Barrier();
  std::vector<ncclUniqueId> ids(static_cast<size_t>(count));
  for (int maker = 0; maker < count; ++maker) ids[static_cast<size_t>(maker)] = id(maker);
  return ids;
}

ncclComm_t Team::MakeComm() {
  const ncclUniqueId id = MakeId();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, size_, id, rank_), ncclSuccess) << ncclGetLastError(nullptr);
  Barrier();  // a test may break it right away, before slower ranks have it
  return comm;
}

TeamOptions Exiting() {
  TeamOptions options;
  options.end = [](int code) { std::exit(code); };
  return options;
}

void RunProcesses(int size, const Body& body, const TeamOptions& options) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* board = static_cast<Board*>(memory);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  std::vector<pid_t> ranks(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) BeRank(body, board, rank, size, parent, options);
    ranks[static_cast<size_t>(rank)] = child;
  }
  const double deadline = Seconds() + options.seconds;
  bool late = false;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ranks[static_cast<size_t>(rank)];
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      if (Seconds() > deadline && !late) {
        late = true;
        for (int other = rank; other < size; ++other) kill(ranks[static_cast<size_t>(other)], SIGKILL);
      }
      Nap();
    }
    const bool may_die = (options.may_die >> rank & 1) != 0;
    if (may_die && !late && WIFSIGNALED(status)) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << " of " << size << (late ? " was still running: " : " ") << HowItEnded(status);
  }
  munmap(memory, sizeof(Board));
}

void RunThreads(int size, const Body& body, const TeamOptions& options) {
  RunProcesses(
      1,
      [&](Team& process) {
        auto board = std::make_unique<Board>();
        std::vector<std::thread> threads;
        threads.reserve(static_cast<size_t>(size));
        for (int rank = 0; rank < size; ++rank) {
          threads.emplace_back([&, rank] {
            Team team(board.get(), rank, size);
            body(team);
          });
        }
        for (std::thread& thread : threads) thread.join();
      },
      options);
}

const sl_runtime_ops_t* Runtime() {
  const sl_runtime_ops_t* ops = nullptr;
  if (sl_runtime_query(SL_RUNTIME_REVISION, &ops) != SL_OK) std::abort();
  return ops;
}

HostStream::HostStream() { EXPECT_EQ(Runtime()->stream_create(&stream_), SL_OK) << Runtime()->last_error(); }

HostStream::~HostStream() { EXPECT_EQ(Runtime()->stream_destroy(stream_), SL_OK) << Runtime()->last_error(); }

bool HostStream::Synchronize(double seconds) {
  const auto deadline_ns = static_cast<uint64_t>((Seconds() + seconds) * 1e9);
  return Runtime()->stream_wait_idle(stream_, deadline_ns) == SL_OK;
}

testing::AssertionResult LastErrorHas(const std::string& part) {
  const std::string text = ncclGetLastError(nullptr);
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not say \"" << part << "\"";
}

}  // namespace sl::integration
