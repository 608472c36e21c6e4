// SPDX-License-Identifier: Apache-2.0
//
// A thread of ours in somebody else's process: every signal but faults of its own code is blocked, as signals belong to
// the program; it has a name, and a stack of a stated size, so that a limit on memory is not used up by what no thread
// needs.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "sdk/status.h"

namespace sl {

// Beside what the program's thread-local variables take of every stack.
constexpr uint64_t kStackBytes = 1 << 20;

// As std::thread: one that was started is joined before it is destroyed. Movable, for whoever takes it over to join it.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept { *this = std::move(other); }
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  // Starts `body`, which lets no exception out. `name`: at most 15 characters, of a literal; `purpose`: for the
  // message, "no thread to …". Whatever comes of it, the signals of the caller are as they were. May throw
  // std::bad_alloc, and then nothing was started.
  // returns: SL_OK | SL_ERR_LIMIT or SL_ERR_MEMORY with the limit that was met | SL_ERR_SYSTEM
  Status Start(const char* name, const char* purpose, std::function<void()> body);
  bool joinable() const { return is_started_; }
  // Whether this thread is the one that asks; false before it is started.   [any]
  bool IsCurrent() const { return pthread_equal(pthread_self(), thread_) != 0; }
  void Join();
  // In a child after fork(), which has no such thread.
  void Abandon() { is_started_ = false; }

 private:
  pthread_t thread_{};
  bool is_started_ = false;
};

}  // namespace sl
