// SPDX-License-Identifier: Apache-2.0
//
// One end's window and signal words: private memory, zeroed, taken from the system page by page as it is touched, and
// gone in forked children.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <string>

#include "modules/transport-tcp/frame_reader.h"
#include "sdk/status.h"

namespace sl::transport_tcp {

class Window {
 public:
  static Result<std::unique_ptr<Window>> Make(uint64_t bytes, uint32_t signal_count, bool huge_pages) {
    const uint64_t total = SignalBytes(signal_count) + (bytes + kPage - 1) / kPage * kPage;
    void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return Status(SL_ERR_MEMORY, "no memory for a window of " + std::to_string(bytes) + " bytes");
    }
    madvise(memory, total, MADV_DONTFORK);
    if (huge_pages) madvise(memory, total, MADV_HUGEPAGE);
    return std::unique_ptr<Window>(new Window(memory, total, bytes, signal_count));
  }
  ~Window() { munmap(memory_, total_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const FrameReader::Target& target() const { return target_; }

 private:
  static constexpr uint64_t kPage = 4096;
  static uint64_t SignalBytes(uint32_t signal_count) { return (signal_count * 64 / kPage + 1) * kPage; }

  Window(void* memory, uint64_t total, uint64_t bytes, uint32_t signal_count) : memory_(memory), total_(total) {
    auto* base = static_cast<uint8_t*>(memory);
    target_ = {base + SignalBytes(signal_count), bytes, reinterpret_cast<uint64_t*>(base), signal_count};
  }

  void* const memory_;
  const uint64_t total_;
  FrameReader::Target target_;
};

}  // namespace sl::transport_tcp
