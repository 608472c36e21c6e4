// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/tests/short_memory.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace {

thread_local uint64_t t_left = 0;  // allocations, with the one that fails; 0: none does

void* Allocate(size_t bytes) {
  if (t_left != 0 && --t_left == 0) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  if (void* memory = Allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::fault_inject {

void FailAllocation(uint64_t number) { t_left = number; }
bool EndShortage() { return std::exchange(t_left, 0) == 0; }

Plenty::Plenty() : left_(std::exchange(t_left, 0)) {}
Plenty::~Plenty() { t_left = left_; }

}  // namespace sl::fault_inject
