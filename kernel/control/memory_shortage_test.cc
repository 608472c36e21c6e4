// SPDX-License-Identifier: Apache-2.0
//
// What the control thread's handlers do when there is no memory for a moment.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "kernel/control/extension.h"

namespace {
thread_local bool t_fails_once = false;
}  // namespace

// Not inlined: the compiler would pair malloc with the operators it sees and complain.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = std::exchange(t_fails_once, false) ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {
namespace {

Patience Brief() { return {NowNs() + 10'000'000'000}; }

class MemoryShortage : public testing::Test {
 protected:
  MemoryShortage() : control_(ControlThread::Start().Take()), switchboard_(control_.get(), NetChoice{"lo"}) {}

  // The next allocation of the control thread fails.
  void Begin() {
    std::atomic<bool> begun{false};
    control_->At(0, [&begun] {
      t_fails_once = true;
      begun = true;
    });
    while (!begun) sched_yield();
    control_->Settle();
  }

  std::unique_ptr<ControlThread> control_;
  Switchboard switchboard_;
};

TEST_F(MemoryShortage, ClosesNoDoorForGood) {
  const Secret secret{1};
  const auto extension = Extension::Open(&switchboard_, secret).Take();
  Begin();
  const Stream unlucky(ConnectLocal(extension->endpoint().local, Brief()).Take());
  uint8_t byte;
  EXPECT_EQ(ReceiveAll(unlucky, {&byte, 1}, Brief()).code(), SL_ERR_PEER_LOST) << "it hears that it is not let in";
  EXPECT_TRUE(switchboard_.Call(extension->endpoint(), secret, FrameType::kChild, {}, Brief()).ok());
  EXPECT_TRUE(extension->Take(FrameType::kChild, Brief()).ok());
}

}  // namespace
}  // namespace sl::kernel
