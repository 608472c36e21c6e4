// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/symmetric_windows.h"

#include <sched.h>

#include <algorithm>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

const sl_comm_window_t* SymmetricWindows::Find(const void* memory, uint64_t bytes) const {
  const List* list = newest_.load(std::memory_order_seq_cst);
  if (list == nullptr || memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  for (const sl_comm_window_t* window : *list) {
    const auto base = reinterpret_cast<uintptr_t>(window->memory);
    if (address >= base && bytes <= window->bytes && address - base <= window->bytes - bytes) return window;
  }
  return nullptr;
}

void SymmetricWindows::Add(const sl_comm_window_t* window) {
  const std::lock_guard lock(mutex_);
  const List* now = newest_.load();
  auto list = now == nullptr ? std::make_unique<List>() : std::make_unique<List>(*now);
  list->push_back(window);
  Replace(std::move(list));
}

void SymmetricWindows::TakeOut(const sl_comm_window_t* window) {
  const std::lock_guard lock(mutex_);
  const List* now = newest_.load();
  if (now == nullptr || std::find(now->begin(), now->end(), window) == now->end()) return;
  auto list = std::make_unique<List>(*now);
  std::erase(*list, window);
  Replace(list->empty() ? nullptr : std::move(list));
}

// The list is replaced before the mark is read, and a call sets that before it reads the list: a call that is not seen
// here looks at the new one.
void SymmetricWindows::Replace(std::unique_ptr<const List> list) {
  const std::unique_ptr<const List> before(newest_.exchange(list.release(), std::memory_order_seq_cst));
  const std::atomic_ref<uint32_t> in_call(*mark_.load());
  while (in_call.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace sl::kernel
