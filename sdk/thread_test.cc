// SPDX-License-Identifier: Apache-2.0
#include "sdk/thread.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace {

int g_refusal = 0;              // what pthread_create says, once attributes are given
bool g_refuses_default = true;  // and without any
size_t g_stack = 0;             // of the last thread that was asked for

}  // namespace

// This program's own, which the code under test calls.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* ctx) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  g_stack = 0;
  if (attributes != nullptr) pthread_attr_getstacksize(attributes, &g_stack);
  if (g_refusal != 0 && (attributes != nullptr || g_refuses_default)) return g_refusal;
  return real(thread, attributes, body, ctx);
}

namespace sl {
namespace {

class ThreadTest : public testing::Test {
 protected:
  ~ThreadTest() override { g_refusal = 0; }

  static bool IsBlocked(int signal) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, signal) != 0;
  }
  static Status StartRefused(int error) {
    g_refusal = error;
    g_refuses_default = true;
    Thread thread;
    const Status status = thread.Start("sl-test", "for a test", [] {});
    EXPECT_FALSE(thread.joinable());
    return status;
  }
};

TEST_F(ThreadTest, RunsWithEverySignalBlockedANameAndAStackOfItsOwnSize) {
  std::string name;
  bool is_blocked = false;
  Thread thread;
  ASSERT_TRUE(thread
                  .Start("sl-test", "for a test",
                         [&] {
                           char text[16];
                           pthread_getname_np(pthread_self(), text, sizeof text);
                           name = text;
                           is_blocked = IsBlocked(SIGTERM) && IsBlocked(SIGINT) && IsBlocked(SIGUSR1);
                         })
                  .ok());
  thread.Join();
  EXPECT_EQ(name, "sl-test");
  EXPECT_TRUE(is_blocked);
  EXPECT_GE(g_stack, kStackBytes);
  EXPECT_LT(g_stack, 4 * kStackBytes);
  EXPECT_FALSE(IsBlocked(SIGTERM));
}

TEST_F(ThreadTest, LeavesTheCallersSignalsAsTheyWereWhenNoneCanBeStarted) {
  sigset_t some;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &some, nullptr);
  for (const int error : {EAGAIN, EPERM, ENOSYS, ENOMEM, EINVAL}) {
    EXPECT_FALSE(StartRefused(error).ok());
    EXPECT_FALSE(IsBlocked(SIGTERM)) << error;
    EXPECT_FALSE(IsBlocked(SIGINT)) << error;
    EXPECT_TRUE(IsBlocked(SIGUSR2)) << error;
  }
}

TEST_F(ThreadTest, SaysWhichLimitWasMet) {
  const Status limit = StartRefused(EAGAIN);
  EXPECT_EQ(limit.code(), SL_ERR_LIMIT);
  EXPECT_EQ(limit.message(),
            "no thread for a test: pthread_create: Resource temporarily unavailable; raise the limit on threads "
            "(ulimit -u, pids.max of the control group)");
  EXPECT_EQ(StartRefused(ENOMEM).code(), SL_ERR_MEMORY);
  const Status denied = StartRefused(EPERM);
  EXPECT_EQ(denied.code(), SL_ERR_SYSTEM);
  EXPECT_NE(denied.message().find("forbids clone3"), std::string::npos) << denied.message();
}

TEST_F(ThreadTest, TakesTheDefaultStackWhereThreadLocalVariablesNeedMore) {
  g_refusal = EINVAL;
  g_refuses_default = false;
  std::atomic<bool> has_run{false};
  Thread thread;
  ASSERT_TRUE(thread.Start("sl-test", "for a test", [&] { has_run.store(true); }).ok());
  thread.Join();
  EXPECT_TRUE(has_run.load());
}

}  // namespace
}  // namespace sl
