// SPDX-License-Identifier: Apache-2.0
//
// A copy of a struct that ends where readable memory ends: whoever reads behind the size it states crashes. This is how
// a caller of an older release looks to a module that forgets to ask for struct_size.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace sl::conform {

template <typename T>
class AtTheEdge {
 public:
  // The first `bytes` of `value`, with struct_size set to them.
  AtTheEdge(const T& value, uint32_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    auto* edge = static_cast<char*>(memory_) + page_;
    mprotect(edge, page_, PROT_NONE);
    place_ = edge - bytes;
    std::memcpy(place_, &value, bytes);
    std::memcpy(place_, &bytes, sizeof(bytes));
  }
  ~AtTheEdge() { munmap(memory_, 2 * page_); }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  T* get() const { return reinterpret_cast<T*>(place_); }

 private:
  const size_t page_;
  void* memory_ = nullptr;
  char* place_ = nullptr;
};

}  // namespace sl::conform
