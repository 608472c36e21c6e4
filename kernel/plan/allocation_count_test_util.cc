// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/allocation_count_test_util.h"

#include <cstdlib>
#include <new>

namespace {
thread_local uint64_t g_allocations = 0;
}

void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::kernel {

uint64_t AllocationCount() { return g_allocations; }

}  // namespace sl::kernel
