// SPDX-License-Identifier: Apache-2.0
//
// What the end of a communicator does, and the making of one, when there is no memory for a moment.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "kernel/runtime/late_free.h"
#include "kernel/runtime/launch_roll.h"
#include "sdk/clock.h"

namespace {
thread_local int t_until_short = 0;  // the allocation of this thread that fails, from 1; 0: none
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  const bool fails = t_until_short != 0 && --t_until_short == 0;
  void* memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {
namespace {

uint64_t After(uint64_t ms) { return NowNs() + ms * 1'000'000; }
constexpr uint64_t kLongMs = 60'000;

bool Always() { return true; }

// True, but the first time there is no memory to find out.
class Short {
 public:
  bool Ask() {
    if (!std::exchange(was_short_, true)) throw std::bad_alloc();
    return true;
  }

 private:
  bool was_short_ = false;
};

TEST(Shortage, PutsOffFreeing) {
  Short quiet;
  Short may_begin;
  int freed = 0;
  {
    LateFree late_free([&] { return quiet.Ask(); });
    late_free.Add({[&] { return may_begin.Ask(); }, [&] { ++freed; }}, After(kLongMs));
  }
  EXPECT_EQ(freed, 1);
}

TEST(Shortage, OfOneJobKeepsNoOther) {
  LateFree late_free(Always);
  late_free.Add({Always, [] { throw std::bad_alloc(); }}, After(kLongMs));
  bool is_freed = false;
  EXPECT_TRUE(late_free.Add({Always, [&] { is_freed = true; }}, After(kLongMs)));
  EXPECT_TRUE(is_freed);
}

sigset_t SignalMask() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

// Whichever allocation fails, of those for the thread among others.
TEST(Shortage, LosesNothingThatHasItsPlace) {
  bool has_failed = true;
  for (int number = 1; has_failed; ++number) {
    ASSERT_LT(number, 100);
    int freed = 0;
    {
      LateFree late_free(Always);
      LateFree::Place place = LateFree::MakePlace();
      t_until_short = number;
      EXPECT_NO_THROW(late_free.Add({Always, [&freed] { ++freed; }}, After(kLongMs), &place));
      has_failed = std::exchange(t_until_short, 0) == 0;
      const sigset_t mask = SignalMask();
      EXPECT_FALSE(sigismember(&mask, SIGUSR1)) << "allocation " << number << ": the caller's signals stay blocked";
    }
    EXPECT_EQ(freed, 1) << "allocation " << number;
  }
}

TEST(Shortage, KeepsWhatIsPutUntilThereIsAThread) {
  std::thread::id freed_on;
  {
    LateFree late_free(Always);
    LateFree::Place place = LateFree::MakePlace();
    t_until_short = 1;  // that of the thread
    EXPECT_FALSE(late_free.Put({Always, [&] { freed_on = std::this_thread::get_id(); }}, &place));
    EXPECT_EQ(t_until_short, 0);
    EXPECT_EQ(freed_on, std::thread::id());
    EXPECT_TRUE(late_free.Retry());
  }
  EXPECT_NE(freed_on, std::thread::id());
  EXPECT_NE(freed_on, std::this_thread::get_id());
}

// A communicator that could not be made is asked nothing: its memory is gone.
TEST(Shortage, LeavesNobodyInTheRollWhoCouldNotEnter) {
  LaunchRoll roll;
  int asked = 0;
  const auto member = [&] {
    return LaunchRoll::Member{
        .comm_id = 1,
        .may_run =
            [&] {
              ++asked;
              return false;
            },
        .may_replay = [] { return false; },
        .give_up = [](const Status& why) { EXPECT_EQ(std::string(why.message()).size(), 100u); },
    };
  };
  const auto first = roll.Enter(member());
  roll.GiveUpOthers(*first, {SL_ERR_PEER_LOST, std::string(100, 'x')});
  roll.Leave(first);
  int failed = 0;
  for (int number = 1;; ++number) {
    ASSERT_LT(number, 100);
    LaunchRoll::Member one = member();
    std::shared_ptr<LaunchRoll::Place> place;
    t_until_short = number;
    try {
      place = roll.Enter(std::move(one));
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    t_until_short = 0;
    asked = 0;
    EXPECT_TRUE(roll.IsQuiet());
    EXPECT_EQ(asked, place != nullptr ? 1 : 0) << "allocation " << number;
    if (place == nullptr) continue;
    roll.Leave(place);
    break;
  }
  EXPECT_GE(failed, 2);
}

}  // namespace
}  // namespace sl::kernel
