// SPDX-License-Identifier: Apache-2.0
//
// The handle behind ncclComm_t. Handles lie in one array that is never given back, so that any pointer a program passes
// can be judged without a lock and without touching foreign memory: inside the array, on a boundary, and in use. A slot
// rests for kQuarantine other slots before it is used again, so that a handle used after its end is found out.
//
// A program may end a communicator on one thread while others are inside calls on it. What such a call needs (kernel,
// cold) is freed once nobody is inside:
// I1. Whoever ends a handle puts it in phase kDestroying first (ClaimForEnding) and then waits for its pins.
// I2. Whoever uses its parts pins it first and looks at its phase then: anything but kFree and kDestroying means that
//     they stay until the pin goes. Both sides are sequentially consistent: one of them sees the other.
// I3. Who holds a pin waits for nothing that the cancellation of this very communicator does not end; but for a group
//     of several communicators, for which the kernel keeps the memory of each (in_call) until it is over.
// I4. An operation outside a group takes no pin but marks the handle (OpMark), which costs one locked instruction: the
//     kernel finds its call marked. Whoever ends a handle waits for the mark as for the pins.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "modules/frontend-nccl/config.h"
#include "modules/frontend-nccl/red_op.h"
#include "nccl.h"
#include "sl_runtime.h"

namespace sl::frontend_nccl {

enum Phase : uint32_t {
  kFree = 0,    // no communicator
  kQueued,      // made inside a group, whose end will start it
  kConnecting,  // the kernel waits for the other ranks
  kReady,
  kFinalizing,  // the kernel completes what is outstanding
  kFinalized,   // this rank is done; the kernel may still wait for others (CommCold::finalizing)
  kFailed,      // could not be made or finalized; the reason is kept
  kDestroying,  // handed to ncclCommDestroy, which waits for the other ranks of this process or for the group's end
};

// What no operation needs. Lives from Allocate to Release.
struct CommCold {
  explicit CommCold(uint32_t salt) : red_ops(salt) {}

  RedOpTable red_ops;
  CommSettings settings;
  std::atomic<bool> finalizing{false};        // the kernel was asked to finalize and has not said that it is done
  std::atomic<uint64_t> meeting_since_ns{0};  // it was first seen to wait for the other ranks alone; 0: not yet
  std::atomic<bool> revoked{false};           // by ncclCommRevoke
  std::mutex mutex;                           // guards the three below, and changes of phase by polling
  ncclResult_t failure = ncclSuccess;
  std::string failure_text;
  std::vector<ncclWindow_t> windows;  // not yet deregistered
};

}  // namespace sl::frontend_nccl

// One rank of a communicator; named by nccl.h, hence global. The first cache line is all that an operation reads; what
// threads beside it write has the second.
struct alignas(64) ncclComm {
  std::atomic<uint32_t> phase{sl::frontend_nccl::kFree};
  int32_t rank = 0;
  int32_t size = 0;
  int32_t device = 0;
  sl_comm_t* kernel = nullptr;
  sl::frontend_nccl::CommCold* cold = nullptr;
  std::atomic<uint64_t> comm_id{0};  // equal on all ranks; 0 until ready
  uint32_t in_call = 0;              // 1: a call that issues operations is inside; the kernel's call_mark
  bool blocking = false;             // as its settings say; set by Allocate, so that the array is all zeros

  alignas(64) std::atomic<uint32_t> pins{0};  // calls that are inside (Pin)
  bool parked = false;                        // destroyed by its program, left to its last sibling; see destroy.cc
  ncclComm* next_to_end = nullptr;            // the next one that is freed with it, or late as it is; see destroy.cc
  std::atomic<bool> aborted{false};           // its end waits for nobody
  std::atomic<bool> was_refused{false};       // since its end began, and the log says so
};

namespace sl::frontend_nccl {

constexpr uint32_t kMaxComms = 32768;
constexpr uint32_t kQuarantine = 1024;
extern constinit ncclComm g_comms[kMaxComms];

// The communicator behind a handle; NULL when there is none.   thread: [any], no lock
inline ncclComm* Live(const ncclComm* handle) noexcept {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_comms);
  if (offset >= sizeof(g_comms) || offset % sizeof(ncclComm) != 0) return nullptr;
  ncclComm* comm = const_cast<ncclComm*>(handle);
  return comm->phase.load(std::memory_order_acquire) != kFree ? comm : nullptr;
}

inline bool IsEnding(const ncclComm* comm) noexcept {
  const uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
  return phase == kFree || phase == kDestroying;
}

// While it lives, the communicator keeps its parts, unless its end had begun before: see I2. Once that has begun it
// counts no more, so that the end need not wait for ever for threads that go on asking.
class Pin {
 public:
  explicit Pin(ncclComm* comm) noexcept : comm_(comm), counted_(comm != nullptr && !IsEnding(comm) ? comm : nullptr) {
    if (counted_ != nullptr) counted_->pins.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Pin() {
    if (counted_ != nullptr) counted_->pins.fetch_sub(1, std::memory_order_seq_cst);
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  operator ncclComm*() const& noexcept { return comm_; }
  operator ncclComm*() const&& = delete;
  ncclComm* operator->() const noexcept { return comm_; }

 private:
  ncclComm* const comm_;
  ncclComm* const counted_;
};

// An operation outside a group on its way to the kernel. The mark lies in the slot, which is never freed, and is set
// before the phase is looked at once more; whoever ends the handle changes the phase before it looks for marks
// (AwaitPins). Both are sequentially consistent: one of them sees the other, so where MayIssue() the kernel's
// communicator stays until the mark goes.
class OpMark {
 public:
  explicit OpMark(ncclComm* comm) noexcept : comm_(comm), is_alone_(Set(comm)) {}
  ~OpMark() {
    if (is_alone_) Clear(comm_);
  }
  OpMark(const OpMark&) = delete;
  OpMark& operator=(const OpMark&) = delete;

  // The same without an object, for the hot path. False: another thread is in a call that issues operations; the mark
  // is its own, and the kernel must not be called as if this one were.
  static bool Set(ncclComm* comm) noexcept { return Word(comm).exchange(1, std::memory_order_seq_cst) == 0; }
  static void Clear(ncclComm* comm) noexcept { Word(comm).store(0, std::memory_order_release); }
  // Of one that is set.
  static bool MayIssue(const ncclComm* comm) noexcept { return comm->phase.load(std::memory_order_seq_cst) == kReady; }

  bool is_alone() const noexcept { return is_alone_; }

 private:
  static std::atomic_ref<uint32_t> Word(ncclComm* comm) noexcept { return std::atomic_ref<uint32_t>(comm->in_call); }

  ncclComm* const comm_;
  const bool is_alone_;
};

// As Live, and says what is wrong with the handle: then the caller returns ncclInvalidArgument.
ncclComm* Judge(const char* function, const ncclComm* handle) noexcept;
// What every call on a communicator begins with, but for those that end it: judged, and pinned for the call.
inline Pin CheckComm(const char* function, const ncclComm* handle) noexcept { return Pin(Judge(function, handle)); }

// Both look at a communicator that the caller has pinned; NULL passes for one that Judge has refused.
// Refuses a communicator that cannot take operations, in NCCL's manner. A non-blocking one is asked how far it is.
// returns: ncclSuccess | ncclInvalidArgument still connecting | ncclInvalidUsage ended | its error
ncclResult_t RequireReady(const char* function, ncclComm* comm) noexcept;
// Refuses one whose parts may be gone.   returns: ncclSuccess | ncclInvalidUsage it is being ended
ncclResult_t RequireParts(const char* function, ncclComm* comm) noexcept;

// Asks the kernel how the communicator is, and keeps up the phase. The caller has pinned it.
// returns: ncclSuccess | ncclInProgress | its error, whose text becomes the last error text
ncclResult_t Poll(const char* function, ncclComm* comm) noexcept;

// A free slot in phase kQueued, with its cold part; NULL when kMaxComms are in use. May throw std::bad_alloc.
ncclComm* Allocate();
// Ends the handle, claimed and without pins, and all that was not deregistered. The kernel's communicator is gone.
void Release(ncclComm* comm) noexcept;

// After the kernel said it is connected: learns rank, size and device, becomes ready.
ncclResult_t BecomeReady(const char* function, ncclComm* comm) noexcept;
// Keeps why it failed (`text`, or the thread's last kernel error when that is empty) for every later call, and makes it
// the last error text.
ncclResult_t BecomeFailed(const char* function, ncclComm* comm, sl_status_t status, const char* text = "") noexcept;

// Changes the phase unless the handle is being ended, by any thread at any time.
void ChangePhase(ncclComm* comm, Phase phase) noexcept;

// Waits in the kernel, under a Pin, for what was started; abort from another thread ends the wait. `phase` is the one
// the caller put the handle in. `is_vain` is asked now and then, and ends the wait, too.
// returns: the kernel's status | SL_ERR_ABORTED the handle is being ended | SL_IN_PROGRESS the wait is in vain
sl_status_t AwaitKernel(ncclComm* comm, Phase phase, const std::function<bool()>& is_vain = {}) noexcept;
// Takes the handle for ending it: everybody else is refused from now on. False when somebody else ends it.
bool ClaimForEnding(ncclComm* comm) noexcept;
// After claiming, before anything is freed: waits until nobody is inside, by a pin or a mark. Once it is aborted the
// kernel cancels what those inside wait for: some milliseconds, or two seconds beside a group of several communicators.
void AwaitPins(ncclComm* comm) noexcept;

// Whether any live communicator of this process with this id, `except` left out, is the one that `is_it` looks for. For
// ranks that share a process. Takes no memory.
bool AnyRankHere(uint64_t comm_id, const ncclComm* except, const std::function<bool(ncclComm*)>& is_it) noexcept;
// Whether a rank of this process has still to be finalized or destroyed, so that waiting for it may be for ever.
bool HasSiblingToCome(const ncclComm* comm);
// Of one that is being finalized: it has completed its own work and waits for the other ranks alone.
bool IsMeeting(const ncclComm* comm);
// It has done so for long enough, or a sibling has still to come: see destroy.cc.
bool OthersAreLate(const ncclComm* comm);

}  // namespace sl::frontend_nccl
