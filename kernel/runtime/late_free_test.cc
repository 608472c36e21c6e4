// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/late_free.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "sdk/clock.h"

namespace sl::kernel {
namespace {

uint64_t After(uint64_t ms) { return NowNs() + ms * 1'000'000; }
constexpr uint64_t kLongMs = 60'000;

bool Always() { return true; }

TEST(LateFree, FreesOnAThreadOfItsOwnAndIsWaitedFor) {
  LateFree late_free(Always);
  for (int round = 0; round < 3; ++round) {  // it ends when nothing is left, and begins again
    std::thread::id thread;
    EXPECT_TRUE(late_free.Add({Always, [&] { thread = std::this_thread::get_id(); }}, After(kLongMs)));
    EXPECT_NE(thread, std::thread::id());
    EXPECT_NE(thread, std::this_thread::get_id());
  }
}

// A driver that waits for a kernel that does not end.
TEST(LateFree, KeepsNobodyBeyondTheDeadline) {
  std::binary_semaphore has_begun{0};
  std::binary_semaphore may_end{0};
  std::atomic<int> freed{0};
  {
    LateFree late_free(Always);
    EXPECT_FALSE(late_free.Add({Always,
                                [&] {
                                  has_begun.release();
                                  may_end.acquire();
                                  ++freed;
                                }},
                               After(1)));
    has_begun.acquire();
    // Nor does a job that is stuck keep those who come later until theirs: the test would take minutes.
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(late_free.Add({Always, [&] { ++freed; }}, After(kLongMs)));
    EXPECT_EQ(freed, 0);
    may_end.release();
  }
  EXPECT_EQ(freed, 4) << "all is freed in the end";
}

TEST(LateFree, PutsOffWhatWouldWaitForKernels) {
  std::atomic<bool> is_quiet{false};
  std::atomic<int> freed{0};
  {
    LateFree late_free([&] { return is_quiet.load(); });
    // It does not wait for the deadline: the test would take a minute for each.
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(late_free.Add({Always, [&] { ++freed; }}, After(kLongMs)));
    EXPECT_EQ(freed, 0);
    is_quiet = true;
  }
  EXPECT_EQ(freed, 3);
}

TEST(LateFree, DoesNotLetOneThatIsStillInUseHoldTheOthers) {
  std::atomic<bool> is_of_use{true};
  std::atomic<int> freed{0};
  {
    LateFree late_free(Always);
    EXPECT_FALSE(late_free.Add({[&] { return !is_of_use.load(); }, [&] { freed += 10; }}, After(kLongMs)));
    EXPECT_TRUE(late_free.Add({Always, [&] { ++freed; }}, After(kLongMs)));
    EXPECT_EQ(freed, 1);
    is_of_use = false;
  }
  EXPECT_EQ(freed, 11);
}

TEST(LateFree, BeginsNothingOnceStopped) {
  std::binary_semaphore has_begun{0};
  std::binary_semaphore may_end{0};
  std::atomic<int> freed{0};
  {
    LateFree late_free(Always);
    EXPECT_FALSE(late_free.Add({Always,
                                [&] {
                                  has_begun.release();
                                  may_end.acquire();
                                  ++freed;
                                }},
                               After(1)));
    has_begun.acquire();
    EXPECT_FALSE(late_free.Add({Always, [&] { ++freed; }}, After(1)));
    late_free.Stop(After(1));  // what has begun does not end
    EXPECT_FALSE(late_free.Add({Always, [&] { ++freed; }}, After(kLongMs)));
    may_end.release();
    late_free.Stop(After(kLongMs));
    EXPECT_EQ(freed, 1);
  }
  EXPECT_EQ(freed, 1);
}

// The driver is gone behind exit(): who asks it then is waited for, too.
TEST(LateFree, AsksNothingOnceStopped) {
  for (const bool asks_about_job : {true, false}) {
    std::binary_semaphore is_asked{0};
    std::binary_semaphore may_answer{0};
    std::atomic<bool> has_answered{false};
    const auto answer = [&] {
      is_asked.release();
      may_answer.acquire();
      has_answered = true;
      return true;
    };
    LateFree late_free([&] { return asks_about_job || answer(); });
    bool is_freed = false;
    std::jthread adds([&] {
      EXPECT_FALSE(
          late_free.Add({[&] { return !asks_about_job || answer(); }, [&] { is_freed = true; }}, After(kLongMs)));
    });
    is_asked.acquire();
    std::jthread answers([&] {
      adds.join();  // it is stopped
      may_answer.release();
    });
    late_free.Stop(After(kLongMs));
    EXPECT_TRUE(has_answered) << "the question goes on behind the end of the driver";
    answers.join();
    EXPECT_FALSE(is_freed);
  }
}

}  // namespace
}  // namespace sl::kernel
