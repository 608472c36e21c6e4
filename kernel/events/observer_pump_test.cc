// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/observer_pump.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <stdexcept>

namespace sl::kernel {
namespace {

constexpr uint64_t kPeriodNs = 1000000;

// An observer of the test; the instance is the object itself.
struct Fake {
  uint64_t mask = 1u << SL_EVENT_STEP;
  sl_status_t create_status = SL_OK;
  sl_status_t consume_status = SL_OK;
  bool throws = false;
  bool signals_blocked = false;
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> last_value{0};
  std::atomic<bool> holds{false};  // consume() does not return
  std::atomic<bool> destroyed{false};

  sl_instance_t* instance() { return reinterpret_cast<sl_instance_t*>(this); }
  static Fake* Of(sl_observer_t* observer) { return reinterpret_cast<Fake*>(observer); }

  static sl_status_t Create(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_mask) {
    Fake* fake = reinterpret_cast<Fake*>(instance);
    *out_observer = reinterpret_cast<sl_observer_t*>(fake);
    *out_mask = fake->mask;
    return fake->create_status;
  }
  static void Destroy(sl_observer_t* observer) { Of(observer)->destroyed = true; }
  static sl_status_t Consume(sl_observer_t* observer, const sl_batch_t* batch) {
    Fake* fake = Of(observer);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    fake->signals_blocked = sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGUSR1) == 1;
    fake->records += batch->count;
    fake->last_value = batch->records[batch->count - 1].value;
    ++fake->calls;
    while (fake->holds) std::this_thread::yield();
    if (fake->throws) throw std::runtime_error("observer's own trouble");
    return fake->consume_status;
  }
};

constexpr sl_observer_ops_t kOps = {sizeof(sl_observer_ops_t), 0, &Fake::Create, &Fake::Destroy, &Fake::Consume};

void EmitStep(uint64_t value, uint32_t kind = SL_EVENT_STEP) {
  sl_record_t record{};
  record.kind = kind;
  record.value = value;
  Emit(record);
}

// Waits until `condition` holds, at most 10 s.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(ObserverPump, DeliversWantedRecordsWithSignalsBlocked) {
  Fake steps;
  Fake faults;
  faults.mask = 1u << SL_EVENT_FAULT;
  ObserverPump pump(kPeriodNs);
  ASSERT_TRUE(pump.Start({{"steps", &kOps, steps.instance()}, {"faults", &kOps, faults.instance()}}).ok());
  EXPECT_TRUE(EventWanted(SL_EVENT_STEP));
  EXPECT_TRUE(EventWanted(SL_EVENT_FAULT));
  EXPECT_FALSE(EventWanted(SL_EVENT_OP_BEGIN));
  for (uint64_t i = 1; i <= 10; ++i) EmitStep(i);
  EmitStep(77, SL_EVENT_FAULT);
  EXPECT_TRUE(Eventually([&] { return steps.records == 10 && faults.records == 1; }));
  EXPECT_EQ(10u, steps.last_value);
  EXPECT_EQ(77u, faults.last_value);
  EXPECT_TRUE(steps.signals_blocked);
  pump.Stop();
  EXPECT_TRUE(steps.destroyed);
  EXPECT_FALSE(EventWanted(SL_EVENT_STEP));
}

TEST(ObserverPump, StopDeliversWhatTheRingsStillHold) {
  Fake fake;
  ObserverPump pump(3600ull * 1000000000u);
  ASSERT_TRUE(pump.Start({{"late", &kOps, fake.instance()}}).ok());
  EmitStep(1);
  pump.Stop();
  EXPECT_EQ(1u, fake.records);
}

TEST(ObserverPump, SixteenFailuresInARowSwitchAnObserverOffAndNoOther) {
  Fake bad;
  bad.consume_status = SL_ERR_INTERNAL;
  Fake good;
  ObserverPump pump(kPeriodNs);
  ASSERT_TRUE(pump.Start({{"bad", &kOps, bad.instance()}, {"good", &kOps, good.instance()}}).ok());
  for (uint64_t i = 1; bad.calls < ObserverPump::kFailuresInARow; ++i) {
    const uint64_t before = good.calls;
    EmitStep(i);
    ASSERT_TRUE(Eventually([&] { return good.calls > before; }));
  }
  const uint64_t before = good.calls;
  EmitStep(1000);
  EXPECT_TRUE(Eventually([&] { return good.calls > before; }));
  pump.Stop();
  EXPECT_EQ(ObserverPump::kFailuresInARow, bad.calls);
  EXPECT_TRUE(bad.destroyed);
}

TEST(ObserverPump, AnObserverThatThrowsIsAFailureOnly) {
  Fake fake;
  fake.throws = true;
  ObserverPump pump(kPeriodNs);
  ASSERT_TRUE(pump.Start({{"throws", &kOps, fake.instance()}}).ok());
  for (uint64_t i = 1; fake.calls < ObserverPump::kFailuresInARow; ++i) {
    const uint64_t before = fake.calls;
    EmitStep(i);
    ASSERT_TRUE(Eventually([&] { return fake.calls > before; }));
  }
  EXPECT_TRUE(Eventually([] { return !EventWanted(SL_EVENT_STEP); }));
  pump.Stop();
}

TEST(ObserverPump, NoThreadWhenNobodyWantsAnything) {
  Fake fake;
  fake.mask = 0;
  Fake failing;
  failing.create_status = SL_ERR_NOT_FOUND;
  ObserverPump pump(kPeriodNs);
  ASSERT_TRUE(pump.Start({{"idle", &kOps, fake.instance()}, {"failing", &kOps, failing.instance()}}).ok());
  EXPECT_FALSE(pump.running());
  pump.Stop();
  EXPECT_TRUE(fake.destroyed);
  EXPECT_FALSE(failing.destroyed);
}

// Nothing of it is touched any more: the pump outlives the process, or as here the observer's return.
TEST(ObserverPump, StopsWithoutAnObserverThatDoesNotReturn) {
  Fake fake;
  fake.holds = true;
  ObserverPump pump(kPeriodNs);
  ASSERT_TRUE(pump.Start({{"slow", &kOps, fake.instance()}}).ok());
  EmitStep(1);
  ASSERT_TRUE(Eventually([&] { return fake.calls == 1; }));
  EXPECT_FALSE(pump.Stop(1000));
  EXPECT_FALSE(fake.destroyed);
  fake.holds = false;
  EXPECT_TRUE(pump.Stop());
  EXPECT_TRUE(fake.destroyed);
}

}  // namespace
}  // namespace sl::kernel
