// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/symmetric_windows.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "kernel/runtime/handle.h"

namespace sl::kernel {
namespace {

std::unique_ptr<sl_comm_window_t> WindowOn(uint8_t* memory, uint64_t bytes) {
  auto window = std::make_unique<sl_comm_window_t>();
  window->memory = memory;
  window->bytes = bytes;
  return window;
}

TEST(SymmetricWindows, FindsTheFirstThatHoldsAllOfABuffer) {
  uint8_t memory[100];
  uint32_t mark = 0;
  const std::atomic<uint32_t*> place(&mark);
  SymmetricWindows windows(place);
  EXPECT_TRUE(windows.empty());
  EXPECT_EQ(windows.Find(memory, 1), nullptr);
  const auto half = WindowOn(memory, 50);
  const auto whole = WindowOn(memory, 100);
  windows.Add(half.get());
  windows.Add(whole.get());
  EXPECT_FALSE(windows.empty());
  EXPECT_EQ(windows.Find(memory, 50), half.get());
  EXPECT_EQ(windows.Find(memory + 49, 1), half.get());
  EXPECT_EQ(windows.Find(memory, 51), whole.get());
  EXPECT_EQ(windows.Find(memory + 99, 1), whole.get());
  EXPECT_EQ(windows.Find(memory + 99, 2), nullptr);
  EXPECT_EQ(windows.Find(memory + 1, UINT64_MAX), nullptr);
  EXPECT_EQ(windows.Find(nullptr, 0), nullptr);
  windows.TakeOut(half.get());
  windows.TakeOut(half.get());
  EXPECT_EQ(windows.Find(memory, 50), whole.get());
  windows.TakeOut(whole.get());
  EXPECT_TRUE(windows.empty());
}

// What a call has found is there until the call ends, whoever takes it out meanwhile.
TEST(SymmetricWindows, KeepsWhatACallHasFound) {
  uint8_t memory[100];
  uint32_t mark = 0;
  const std::atomic_ref<uint32_t> in_call(mark);
  std::atomic<bool> is_over = false;
  uint64_t found = 0;
  const std::atomic<uint32_t*> place(&mark);
  SymmetricWindows windows(place);
  std::thread caller([&] {
    while (!is_over.load()) {
      in_call.exchange(1, std::memory_order_seq_cst);  // as InCall
      if (const sl_comm_window_t* window = windows.Find(memory, 100); window != nullptr) found += window->bytes;
      in_call.store(0, std::memory_order_release);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    auto window = WindowOn(memory, 100);
    windows.Add(window.get());
    windows.TakeOut(window.get());
    window->bytes = 0;  // nobody looks any more
  }
  is_over.store(true);
  caller.join();
  EXPECT_EQ(found % 100, 0u);
  EXPECT_TRUE(windows.empty());
}

}  // namespace
}  // namespace sl::kernel
