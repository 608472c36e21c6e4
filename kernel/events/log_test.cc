// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <sstream>

namespace {
thread_local bool t_fails = false;  // each allocation of this thread
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = t_fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {
namespace {

// Runs `body` in a child, where the log's environment has not been read yet; exit code 0 is good.
int InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int OpenDescriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/sl-log-XXXXXX";
    folder_ = mkdtemp(pattern);
    unsetenv("STARLING_LOG");
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_FILE");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(LogTest, OpensItsFileAtTheFirstLineOnly) {
  setenv("STARLING_LOG", ("info:" + folder_ + "/a.log").c_str(), 1);
  EXPECT_EQ(0, InChild([&] {
              const int before = OpenDescriptors();
              if (!LogEnabled(SL_LOG_INFO) || LogEnabled(SL_LOG_DEBUG)) return false;
              Log(SL_LOG_DEBUG, "not wanted");
              if (OpenDescriptors() != before || std::filesystem::exists(folder_ + "/a.log")) return false;
              Logf(SL_LOG_INFO, "{} is {}", "rank", 3);
              return OpenDescriptors() == before + 1;
            }));
  const std::string text = Read("a.log");
  EXPECT_NE(text.find(" info rank is 3\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("not wanted"), std::string::npos);
}

TEST_F(LogTest, LosesALineWhereTheFirstQuestionFindsNoMemory) {
  setenv("STARLING_LOG", ("info:" + folder_ + "/a-name-that-is-long-enough.log").c_str(), 1);
  EXPECT_EQ(0, InChild([&] {
              t_fails = true;
              Logf(SL_LOG_INFO, "rank {}", 3);
              t_fails = false;
              Logf(SL_LOG_INFO, "rank {}", 4);
              return LogEnabled(SL_LOG_INFO);
            }));
  const std::string text = Read("a-name-that-is-long-enough.log");
  EXPECT_EQ(text.find("rank 3"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 4"), std::string::npos) << text;
}

TEST_F(LogTest, DescriptorClosesOnExec) {
  setenv("STARLING_LOG", ("info," + folder_ + "/a.log").c_str(), 1);
  EXPECT_EQ(0, InChild([&] {
              const int next = dup(0);
              close(next);
              Log(SL_LOG_INFO, "line");
              return (fcntl(next, F_GETFD) & FD_CLOEXEC) != 0;
            }));
}

TEST_F(LogTest, NcclVariablesSetLevelAndFile) {
  setenv("NCCL_DEBUG", "info", 1);
  setenv("NCCL_DEBUG_FILE", (folder_ + "/n.%h.%p").c_str(), 1);
  EXPECT_EQ(0, InChild([&] {
              const std::string path = ExpandLogFile(folder_ + "/n.%h.%p");
              Log(SL_LOG_INFO, "line");
              return std::filesystem::exists(path) && path.find('%') == std::string::npos &&
                     path.ends_with(std::to_string(getpid()));
            }));
}

TEST_F(LogTest, StarlingVariableBeatsNccl) {
  setenv("NCCL_DEBUG", "TRACE", 1);
  setenv("STARLING_LOG", "error", 1);
  EXPECT_EQ(0, InChild([] { return LogEnabled(SL_LOG_ERROR) && !LogEnabled(SL_LOG_WARN); }));
}

TEST_F(LogTest, AFullDiskIsSaidOnceAndLosesNoLine) {
  setenv("STARLING_LOG", "info:/dev/full", 1);
  EXPECT_EQ(0, InChild([&] {
              const int errors = open((folder_ + "/errors").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
              dup2(errors, STDERR_FILENO);
              Log(SL_LOG_INFO, "first line");
              Log(SL_LOG_INFO, "second line");
              return errors >= 0;
            }));
  const std::string text = Read("errors");
  const std::string complaint = "cannot write to the log file: No space left on device; make room there";
  EXPECT_NE(text.find(complaint), std::string::npos) << text;
  EXPECT_EQ(text.find(complaint), text.rfind(complaint)) << text;
  EXPECT_NE(text.find("first line\n"), std::string::npos) << text;
  EXPECT_NE(text.find("second line\n"), std::string::npos) << text;
}

// The log is a pipe (a collector's, tee's): its reader comes, ends, never comes or does not read.
class LogIntoAPipe : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    path_ = folder_ + "/pipe";
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  }
  // In a child that ends when it blocks, with its standard error in a file.
  int InBoundedChild(const std::function<bool()>& body) {
    return InChild([&] {
      alarm(20);
      const int errors = open((folder_ + "/errors").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      dup2(errors, STDERR_FILENO);
      ConfigureLog(SL_LOG_INFO, path_);
      return body();
    });
  }
  bool IsSaid(const std::string& text) const { return Read("errors").find(text) != std::string::npos; }

  std::string path_;
};

TEST_F(LogIntoAPipe, GoesOnOnStandardErrorWhenItsReaderHasEnded) {
  EXPECT_EQ(0, InBoundedChild([&] {
              const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
              Log(SL_LOG_INFO, "first line");
              close(reader);
              Log(SL_LOG_INFO, "second line");
              sigset_t pending;
              sigpending(&pending);
              return sigismember(&pending, SIGPIPE) == 0;
            }));
  EXPECT_FALSE(IsSaid("first line"));
  EXPECT_TRUE(IsSaid("let somebody read the pipe"));
  EXPECT_TRUE(IsSaid("second line\n"));
}

TEST_F(LogIntoAPipe, IsNotWaitedForWhenNobodyReads) {
  EXPECT_EQ(0, InBoundedChild([] {
              Log(SL_LOG_INFO, "a line");
              return true;
            }));
  EXPECT_TRUE(IsSaid("cannot write the log file " + path_));
  EXPECT_TRUE(IsSaid("a line\n"));
}

TEST_F(LogIntoAPipe, LosesLinesWhenItsReaderDoesNotRead) {
  EXPECT_EQ(0, InBoundedChild([&] {
              const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
              for (int i = 0; i < 3000; ++i) Log(SL_LOG_INFO, "a line that takes some room in a pipe of 64 KiB");
              return reader >= 0;
            }));
  EXPECT_TRUE(IsSaid("lines are lost"));
}

// What the program itself has blocked and waits for stays its own.
TEST_F(LogIntoAPipe, LeavesASignalThatWaitsForTheProgram) {
  EXPECT_EQ(0, InBoundedChild([&] {
              sigset_t one;
              sigemptyset(&one);
              sigaddset(&one, SIGPIPE);
              pthread_sigmask(SIG_BLOCK, &one, nullptr);
              raise(SIGPIPE);
              Log(SL_LOG_INFO, "a line");
              sigset_t pending;
              sigset_t mask;
              sigpending(&pending);
              pthread_sigmask(SIG_SETMASK, nullptr, &mask);
              return sigismember(&pending, SIGPIPE) == 1 && sigismember(&mask, SIGPIPE) == 1;
            }));
}

TEST_F(LogIntoAPipe, NeitherDoesAFileThatMayNotGrowEndTheProgram) {
  path_ = folder_ + "/small";
  EXPECT_EQ(0, InBoundedChild([] {
              const rlimit small = {100, 100};
              setrlimit(RLIMIT_FSIZE, &small);
              for (int i = 0; i < 10; ++i) Log(SL_LOG_INFO, "a line");
              return true;
            }));
}

TEST_F(LogTest, UnknownLevelIsSaidWithTheRemedy) {
  setenv("STARLING_LOG", ("loud:" + folder_ + "/a.log").c_str(), 1);
  EXPECT_EQ(0, InChild([] { return LogEnabled(SL_LOG_WARN); }));
  EXPECT_NE(Read("a.log").find("unknown level 'loud' in 'loud:"), std::string::npos);
  EXPECT_NE(Read("a.log").find("; use error, warn, info, debug or trace"), std::string::npos);
}

TEST_F(LogTest, ValueWithoutALevelIsSaidOnStandardErrorAndMakesNoFile) {
  setenv("STARLING_LOG", ":::", 1);
  EXPECT_EQ(0, InChild([&] {
              const int errors = open((folder_ + "/errors").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
              dup2(errors, STDERR_FILENO);
              return chdir(folder_.c_str()) == 0 && LogEnabled(SL_LOG_WARN);
            }));
  EXPECT_NE(Read("errors").find("STARLING_LOG: unknown level '' in ':::'; use error, warn"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/::"));
}

TEST_F(LogTest, LinesCarryTheRankInsideAScope) {
  ConfigureLog(SL_LOG_INFO, folder_ + "/r.log");
  {
    LogRankScope outer(7);
    Log(SL_LOG_WARN, "link down");
  }
  Log(SL_LOG_WARN, "after");
  ConfigureLog(SL_LOG_WARN, "");
  const std::string text = Read("r.log");
  EXPECT_NE(text.find(" warn rank 7 link down\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" warn after\n"), std::string::npos) << text;
}

TEST_F(LogTest, UnwritableFileFallsBackToStandardError) {
  ConfigureLog(SL_LOG_INFO, folder_ + "/no/such/folder/x.log");
  testing::internal::CaptureStderr();
  Log(SL_LOG_INFO, "line");
  const std::string text = testing::internal::GetCapturedStderr();
  ConfigureLog(SL_LOG_WARN, "");
  EXPECT_NE(text.find("cannot write the log file"), std::string::npos);
  EXPECT_NE(text.find("line"), std::string::npos);
}

TEST(LogLevel, WordsInAnyCase) {
  EXPECT_EQ(static_cast<int32_t>(SL_LOG_TRACE), ParseLogLevel("Trace"));
  EXPECT_EQ(static_cast<int32_t>(SL_LOG_WARN), ParseLogLevel("WARN"));
  EXPECT_EQ(-1, ParseLogLevel("chatty"));
}

TEST(LogFile, PercentSignsAreKept) { EXPECT_EQ("a%b%", ExpandLogFile("a%b%%")); }

}  // namespace
}  // namespace sl::kernel
