// SPDX-License-Identifier: Apache-2.0
//
// Work of one transport whose completion has not come yet. The module below gets a token in place of the caller's
// cookie, so that every completion says which work it belongs to, and whether that has completed before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "modules/checker/object.h"

namespace sl::checker {

// thread: any; no allocation, no lock.
class Outstanding {
 public:
  static constexpr uint32_t kEntries = 4096;

  enum class Fate : uint8_t { kOutstanding, kCompleted, kRetired, kNever };

  struct Work {
    uint64_t cookie = 0;
    Object* connection = nullptr;
    Object* region = nullptr;
    uint32_t kind = 0;  // SL_COMPLETION_…
  };

  // 0: all entries are taken.
  uint64_t Begin(const Work& work);
  // It was not accepted after all.
  void Cancel(uint64_t token) { Finish(token, Fate::kNever); }
  // kOutstanding: *out_work is what has completed now; else what has become of the token before.
  Fate Complete(uint64_t token, Work* out_work);
  // A connection is gone, and with it what it had to complete.
  void Retire(const Object* connection);

 private:
  // A token is the entry's index in its low bits and a turn above them, which is never 0.
  static constexpr uint64_t kIndexMask = 0xffff;
  static constexpr uint64_t kFree = 1ull << 63;  // of `state`: not outstanding; the rest is the last token

  struct Entry {
    std::atomic<uint64_t> state{kFree};
    std::atomic<Fate> fate{Fate::kNever};
    Work work;  // written by who made it outstanding, before it is
  };

  bool Finish(uint64_t token, Fate fate);

  const std::unique_ptr<Entry[]> entries_ = std::make_unique<Entry[]>(kEntries);
  std::atomic<uint32_t> next_{0};
};

}  // namespace sl::checker
