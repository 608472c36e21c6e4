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

  // kForgotten: completed or retired, and its entry was used again since; of the others two bits tell.
  enum class Fate : uint64_t { kOutstanding, kCompleted, kRetired, kNever, kForgotten };

  struct Work {
    uint64_t cookie = 0;
    Object* connection = nullptr;
    Object* region = nullptr;
    uint32_t kind = 0;  // SL_COMPLETION_…
  };

  // 0: all entries are taken.
  uint64_t Begin(const Work& work);
  // It was not accepted after all.
  void Cancel(uint64_t token) {
    Work work;
    Finish(token, Fate::kNever, &work);
  }
  // kOutstanding: *out_work is what has completed now; else what has become of the token before. Of several who
  // complete or retire a token at once one does it, and the others learn what that one did.
  Fate Complete(uint64_t token, Work* out_work);
  // A connection is gone, and with it what it had to complete.
  void Retire(const Object* connection);

 private:
  // A token is the entry's index in its low bits and a turn above them, which is never 0. Of an entry that is free the
  // state is the last token and what became of it, so that one store tells both; 0 while somebody fills or empties it.
  static constexpr uint64_t kIndexMask = 0xfff;
  static constexpr uint64_t kTurnShift = 16;
  static constexpr uint64_t kFateShift = 12;
  static constexpr uint64_t kFateMask = 3ull << kFateShift;
  static constexpr uint64_t kFree = 1ull << 63;
  static_assert(kEntries == kIndexMask + 1);

  struct Entry {
    std::atomic<uint64_t> state{kFree | static_cast<uint64_t>(Fate::kNever) << kFateShift};
    std::atomic<const Object*> connection{nullptr};  // of `work`, for who looks for the work of one
    Work work;                                       // of who made the state 0
  };

  static uint64_t TokenOf(uint64_t state) { return state & ~(kFree | kFateMask); }
  bool Finish(uint64_t token, Fate fate, Work* out_work);

  const std::unique_ptr<Entry[]> entries_ = std::make_unique<Entry[]>(kEntries);
  std::atomic<uint32_t> next_{0};
};

}  // namespace sl::checker
