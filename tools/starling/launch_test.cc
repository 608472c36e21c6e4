// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tools/starling/bench_error.h"
#include "tools/starling/launch_coordinator.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

// Every process runs the same shell script and knows its number as $1 of STARLING_TOOL_LAUNCH.
LaunchSpec Script(const std::string& script, int processes) {
  LaunchSpec spec;
  spec.command = {"/bin/sh", "-c", "set -- $STARLING_TOOL_LAUNCH; " + script};
  spec.processes = spec.workers = processes;
  spec.timeout_s = 30;
  return spec;
}

TEST(LaunchLocal, IsGoodWhenAllAre) { EXPECT_EQ(LaunchLocal(Script("test $2 = 3", 3)).exit_code, kExitGood); }

TEST(LaunchLocal, PassesTheEnvironmentOn) {
  LaunchSpec spec = Script("test \"$PART\" = seven", 1);
  spec.environment = {{"PART", "seven"}};
  EXPECT_EQ(LaunchLocal(spec).exit_code, kExitGood);
}

TEST(LaunchLocal, TellsUsageFromFailure) {
  EXPECT_EQ(LaunchLocal(Script("exit 2", 2)).exit_code, kExitUsage);
  const LaunchResult failed = LaunchLocal(Script("exit 1", 2));
  EXPECT_EQ(failed.exit_code, kExitFailure);
  EXPECT_TRUE(failed.explained);
}

TEST(LaunchLocal, LetsSetsThatTakeTurnsShareProcessors) {
  // Processes 0 and 2 are the first of a set of two each, 1 and 3 the second.
  const std::string folder = std::filesystem::temp_directory_path() / ("turns-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  LaunchSpec spec = Script("grep Cpus_allowed_list /proc/self/status > " + folder + "/$1", 4);
  spec.turns = 2;
  EXPECT_EQ(LaunchLocal(spec).exit_code, kExitGood);
  const auto same = [&](const char* a, const char* b) {
    return std::system(("cmp -s " + folder + "/" + a + " " + folder + "/" + b).c_str()) == 0;
  };
  EXPECT_TRUE(same("0", "2"));
  EXPECT_TRUE(same("1", "3"));
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_EQ(same("0", "1"), CPU_COUNT(&allowed) < 2);
  std::filesystem::remove_all(folder);
}

TEST(LaunchLocal, NamesTheProcessThatWasKilledAndEndsTheOthers) {
  LaunchSpec spec = Script("test $1 = 1 && kill -9 $$; trap '' TERM; while :; do sleep 0.1; done", 3);
  spec.timeout_s = 60;
  const LaunchResult result = LaunchLocal(spec);
  EXPECT_EQ(result.exit_code, kExitFailure);
  EXPECT_FALSE(result.explained);
  EXPECT_NE(result.failure.find("process 1 "), std::string::npos) << result.failure;
  EXPECT_NE(result.failure.find("signal 9"), std::string::npos) << result.failure;
}

TEST(LaunchLocal, GivesUpOnProcessesThatDoNotGetOn) {
  LaunchSpec spec = Script("exec sleep 600", 2);
  spec.timeout_s = 1;
  const LaunchResult result = LaunchLocal(spec);
  EXPECT_EQ(result.exit_code, kExitFailure);
  EXPECT_NE(result.failure.find("no progress for 1 s"), std::string::npos) << result.failure;
}

TEST(LaunchLocal, SaysThatAProgramCannotBeExecuted) {
  LaunchSpec spec = Script("", 1);
  spec.command = {"/no/such/program"};
  EXPECT_NE(LaunchLocal(spec).failure.find("could not be executed"), std::string::npos);
}

TEST(LaunchLocal, TakesItsChildrenAlongWhenItDies) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    close(ends[0]);
    LaunchSpec spec = Script("echo started; exec sleep 600", 2);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    LaunchLocal(spec);
    _exit(0);
  }
  close(ends[1]);
  char text[64];
  size_t seen = 0;
  while (seen < 16) {  // "started" twice
    const ssize_t got = read(ends[0], text, sizeof text);
    ASSERT_GT(got, 0);
    seen += static_cast<size_t>(got);
  }
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  // The pipe ends when the last holder of its writing end is gone: the children.
  EXPECT_EQ(read(ends[0], text, sizeof text), 0);
  close(ends[0]);
}

TEST(Segment, GathersFromAllWorkersAgainAndAgain) {
  constexpr int kWorkers = 3;
  SharedSegment segment = SharedSegment::Create(kWorkers);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      auto coordinator = MakeSegmentCoordinator(segment.get(), worker, 30);
      for (int round = 0; round < 500; ++round) {
        const std::vector<int> all = coordinator->GatherValues(round * 10 + worker);
        for (int other = 0; other < kWorkers; ++other) wrong += all[static_cast<size_t>(other)] != round * 10 + other;
        if (round % 50 == 0) coordinator->Barrier(true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Segment, FreesWaitersWhenAWorkerGivesUp) {
  SharedSegment segment = SharedSegment::Create(2);
  auto first = MakeSegmentCoordinator(segment.get(), 0, 30);
  std::thread other([&] { MakeSegmentCoordinator(segment.get(), 1, 30)->Fail(); });
  try {
    first->Barrier(false);
    ADD_FAILURE() << "the barrier held";
  } catch (const CommandError& error) {
    EXPECT_STREQ(error.what(), "worker 1 gave up");
  }
  other.join();
}

std::string WhyNoBarrier(SharedSegment& segment, int worker, int timeout_s) {
  try {
    MakeSegmentCoordinator(segment.get(), worker, timeout_s)->Barrier(false);
  } catch (const CommandError& error) {
    return error.what();
  }
  return "the barrier held";
}

TEST(Segment, BoundsTheWaitForAWorkerThatNeverComesAndTellsTheOthers) {
  SharedSegment segment = SharedSegment::Create(3);
  EXPECT_EQ(WhyNoBarrier(segment, 1, 1), "not all workers came to the barrier within 1 s");
  EXPECT_EQ(WhyNoBarrier(segment, 0, 30), "worker 1 gave up: not all workers came to the barrier within 1 s");
}

TEST(Segment, IsFoundByItsKey) {
  const std::string key = "test-" + std::to_string(getpid());
  SharedSegment made = SharedSegment::CreateNamed(key, 2);
  SharedSegment found = SharedSegment::OpenNamed(key, 2, 5);
  SetDoing(made.slot(1), "something");
  EXPECT_EQ(GetDoing(found.slot(1)), "something");
  made.Unlink();
  EXPECT_THROW(SharedSegment::OpenNamed(key, 2, 1), CommandError);
}

TEST(Segment, LeftByAJobThatWasKilledGoesWithTheNextOne) {
  const std::string key = "test-" + std::to_string(getpid());
  const std::string folder = "/dev/shm/starling-bench-" + std::to_string(getuid()) + "-";
  const SharedSegment running = SharedSegment::CreateNamed(key + "-running", 2);
  const pid_t killed = fork();
  if (killed == 0) {
    const SharedSegment left = SharedSegment::CreateNamed(key + "-killed", 2);
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  ASSERT_TRUE(std::filesystem::exists(folder + key + "-killed"));
  const SharedSegment next = SharedSegment::CreateNamed(key + "-next", 2);
  EXPECT_FALSE(std::filesystem::exists(folder + key + "-killed"));
  EXPECT_TRUE(std::filesystem::exists(folder + key + "-running"));
}

TEST(Identity, IsTakenFromStarlingOnce) {
  setenv(kLaunchVariable, "2 4 7", 1);
  const Identity self = DetectIdentity();
  EXPECT_TRUE(self.from_starling());
  EXPECT_EQ(self.process, 2);
  EXPECT_EQ(self.processes, 4);
  EXPECT_EQ(self.segment_fd, 7);
  EXPECT_EQ(std::getenv(kLaunchVariable), nullptr);
}

TEST(Identity, IsBadUsageWhenALauncherLeftNonsense) {
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_RANK", "two", 1);
  try {
    DetectIdentity();
    ADD_FAILURE();
  } catch (const CommandError& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
    EXPECT_NE(std::string(error.what()).find("OMPI_COMM_WORLD_RANK is 'two'"), std::string::npos);
  }
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace sl::tools
