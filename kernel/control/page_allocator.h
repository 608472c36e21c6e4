// SPDX-License-Identifier: Apache-2.0
//
// Memory for frames. What all ranks have said is long and passes once, a copy for every rank of the process; left to
// the program's heap, its room would stay there for good: the heap takes blocks that long from the system only until
// the first one is freed (mallopt(3), M_MMAP_THRESHOLD), and what lies between smaller blocks it never gives back.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace sl::kernel {

// An allocator that takes long blocks from the system and returns them to it.
template <typename T>
struct PageAllocator {
  using value_type = T;
  static constexpr size_t kLongBytes = 65536;

  PageAllocator() = default;
  template <typename U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as allocators are converted

  T* allocate(size_t count) {
    if (count < kLongBytes / sizeof(T)) return std::allocator<T>().allocate(count);
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    void* block = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t count) noexcept {
    if (count < kLongBytes / sizeof(T)) return std::allocator<T>().deallocate(block, count);
    munmap(block, count * sizeof(T));
  }
  template <typename U>
  bool operator==(const PageAllocator<U>&) const {
    return true;
  }
};

}  // namespace sl::kernel
