// SPDX-License-Identifier: Apache-2.0
//
// One operation between issue and outcome, and where such operations live: in the call that issues them, or, when they
// outlive it, in a pool of the communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kernel/runtime/wait_length.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

struct sl_comm_t;
struct sl_comm_window_t;

namespace sl::kernel {

class Run;

// What a stream and a progress thread tell each other by. The words only grow, and their memory is used again but never
// freed: a stream may look at its word after the communicator is gone, and must not take a newer value for an older
// one.
struct StreamWords {
  uint64_t start = 0;  // stored by the stream
  uint64_t end = 0;    // stored by the progress thread
  uint64_t turn = 0;   // of the newest use
};
StreamWords* TakeStreamWords();            // [any]
void GiveStreamWords(StreamWords* words);  // [any]; NULL is fine

// What an operation's waits may report lives here.
struct Pending {
  sl_comm_t* handle = nullptr;
  sl_op_t op{};
  Run* run = nullptr;  // NULL: a launch, or copies
  // The windows that its buffers lie in, by op.symmetric; NULL: none. While it is issued.
  const sl_comm_window_t* send_window = nullptr;
  const sl_comm_window_t* recv_window = nullptr;
  Status outcome;
  WaitLength wait;
  StreamWords* words = nullptr;  // between a stream and a progress thread; taken at first use
  Pending* next_free = nullptr;  // the pool's
  alignas(64) uint8_t args[4096];
};

// An operation that does not outlive the call. Not initialised as a whole: 4 KiB of arguments would cost more than the
// operation.
class LocalPending {
 public:
  LocalPending() : pending_(new (memory_) Pending) {}
  ~LocalPending() { pending_->~Pending(); }
  LocalPending(const LocalPending&) = delete;
  LocalPending& operator=(const LocalPending&) = delete;
  Pending* get() const { return pending_; }

 private:
  alignas(Pending) std::byte memory_[sizeof(Pending)];
  Pending* const pending_;
};

// Operations that outlive the call that issued them: on streams, or in groups. Reused; grows to the deepest queue, and
// takes no lock.
class PendingPool {
 public:
  PendingPool();
  ~PendingPool();
  Pending* Take();              // one thread at a time
  void Give(Pending* pending);  // any thread
  uint32_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  std::vector<std::unique_ptr<Pending>> all_;  // Take()'s
  std::atomic<Pending*> free_{nullptr};        // pushed by any thread, popped by one, hence no ABA
  std::atomic<uint32_t> outstanding_{0};
};

// Gives an operation back to the pool of its communicator, and ends its run first if it has one.
struct GivePending {
  void operator()(Pending* pending) const;
};
// An operation of the pool. Its holder gives it back, or releases it to somebody who does (op_life.h, LeaveAndGive).
using PooledPending = std::unique_ptr<Pending, GivePending>;
PooledPending TakePending(sl_comm_t* handle);  // one thread at a time

}  // namespace sl::kernel
