// SPDX-License-Identifier: Apache-2.0
//
// The driver of host kernels: calls resumable kernels until they end, and decides between the calls whether to spin,
// to yield or to sleep.
//
// One Task is one launch. A Group is what one thread drives together: a single launch, or the launches of a batch that
// run on one stream. The same code drives both.
//
// Waiting, while no task of the group moves:
//   spin    up to Tuning::spin_polls polls (crowded_polls when a launch says that ranks outnumber processors)
//   yield   up to Tuning::yield_count times; a few times only where ranks outnumber processors and a sleep on
//           descriptors, which ends as soon as there is news, is at hand
//   sleep   on the descriptors that the kernels name, where all do, else on the doorbells; in slices, so that an abort
//           word is seen; without a doorbell in short naps
// Whatever moves starts this over: a task that ends, or a kernel that waits for something else than before. The clock,
// the abort word and the check callback are looked at every kPollsPerLook polls, and between sleeps. The check is told
// how long the kernel has waited for the very same thing: the time begins anew with every other wait, and while a task
// has still to begin, behind another one, it is 0.
#ifndef STARLING_MODULES_DEVICE_HOST_LAUNCH_H_
#define STARLING_MODULES_DEVICE_HOST_LAUNCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sdk/clock.h"
#include "sdk/doorbell.h"
#include "sl_device.h"

namespace sl::device_host {

inline constexpr uint32_t kMaxFrameBytes = 1024;
inline constexpr uint32_t kMaxArgumentBytes = 4096;
inline constexpr uint32_t kPollsPerLook = 64;
inline constexpr uint64_t kDefaultCheckNs = 50'000'000;

// The module's options, see module.cc for defaults and words.
struct Tuning {
  uint32_t spin_polls = 1000;
  uint32_t crowded_polls = 4;
  uint32_t yield_count = 200;
  uint64_t sleep_slice_ns = 10'000'000;
  uint32_t handover_polls = 500;
  uint64_t drain_timeout_ns = 10'000'000'000;
  uint64_t wait_timeout_ns = 1'800'000'000'000;
};

// How often something slow happened; relaxed, counted off the fast path only. For tests and for people.
struct Counters {
  std::atomic<uint64_t> waits{0};      // launches that did not end at their first call
  std::atomic<uint64_t> yields{0};     // sched_yield
  std::atomic<uint64_t> sleeps{0};     // on doorbells
  std::atomic<uint64_t> polls{0};      // sleeps on descriptors
  std::atomic<uint64_t> naps{0};       // sleeps without a doorbell
  std::atomic<uint64_t> handovers{0};  // launches begun on the caller and finished by their stream's thread
  std::atomic<uint64_t> threads{0};    // stream threads ever started
};
inline void Count(std::atomic<uint64_t>* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

// What a task of one group waits for in another group of its batch. Outlives both groups: whoever builds the batch
// gives each group a share in it.
struct Signal {
  std::atomic<uint32_t> done{0};
  sl_doorbell_t bell{};
};

// One launch being driven. Plain data; args and frame belong to whoever made it.
struct Task {
  sl_host_kernel_fn run = nullptr;
  const void* args = nullptr;
  void* frame = nullptr;
  sl_wait_t wait{};

  const int32_t* abort_word = nullptr;
  sl_status_t (*check)(void*, const sl_wait_t*, uint64_t) = nullptr;
  void* check_ctx = nullptr;
  uint64_t check_interval_ns = 0;
  void (*done)(void*, sl_status_t) = nullptr;
  void* done_ctx = nullptr;

  uint64_t waiting_since_ns = 0;  // first look at the clock since it waits for what it waits for; 0: not yet
  uint64_t next_check_ns = 0;     // 0: nobody has looked yet
  uint32_t crowded = 0;
  int32_t next = -1;        // task of the same group to start when this one ends
  Signal* after = nullptr;  // task of another group that must end first
  Signal* ends = nullptr;   // set when this one ends, for another group
  sl_status_t status = SL_ERR_AGAIN;

  // What it waited for at the last poll, to see whether it moves.
  uint64_t last_seen = 0;
  uint64_t last_wanted = 0;
  uint32_t last_step = 0;
  int32_t last_peer = -1;
  const sl_doorbell_t* last_doorbell = nullptr;
};

// A fresh `wait`, as a kernel gets it at its first call.
inline sl_wait_t FreshWait() {
  sl_wait_t wait{};
  wait.struct_size = sizeof(sl_wait_t);
  wait.peer = -1;
  wait.what = "";
  return wait;
}

// A task for `launch`, whose kernel is `run`.
Task MakeTask(const sl_launch_t& launch, sl_host_kernel_fn run, const void* args, void* frame);

// Tasks that one thread drives together. `active` holds the indices of those that may run from the start, and must
// have room for them; it is reordered. Used by one thread at a time; may be continued by another one.
class Group {
 public:
  // `cancel_word` is read like every task's own abort word; may be null. Nothing is owned.
  Group(Task* tasks, uint32_t* active, uint32_t active_count, const int32_t* cancel_word, const Tuning* tuning,
        Counters* counters)
      : tasks_(tasks),
        active_(active),
        active_count_(active_count),
        cancel_word_(cancel_word),
        tuning_(tuning),
        counters_(counters) {}

  // Drives until all have ended: SL_OK, or until `max_polls` polls went by without sleeping or yielding:
  // SL_ERR_AGAIN. With 0, drives until the end, however long that takes.
  sl_status_t Drive(uint32_t max_polls);

 private:
  enum class Turn : uint8_t { kSpin, kYield, kSleep };
  enum class Ended : uint8_t { kFinish, kRecord };  // what becomes of a task that ended

  bool Round(Ended ended);
  void FinishRecorded();
  void Look();
  void Finish(uint32_t slot, sl_status_t status);
  Turn NextTurn(bool moved);
  void Sleep();
  bool HasDescriptors() const;
  void SleepOnDescriptors();
  void Nap(uint64_t limit_ns);
  uint64_t SleepNs() const;

  Task* tasks_;
  uint32_t* active_;
  uint32_t active_count_;
  const int32_t* cancel_word_;
  const Tuning* tuning_;
  Counters* counters_;
  uint32_t idle_polls_ = 0;  // since something moved
  uint32_t idle_yields_ = 0;
  uint32_t idle_naps_ = 0;
  uint32_t polls_to_look_ = kPollsPerLook;
  uint64_t look_again_ns_ = 0;  // when the next check is due, of all tasks
};

// Goes on with a launch that said SL_ERR_AGAIN at its first call, to the end. Off the fast path.
sl_status_t DriveToEnd(const sl_launch_t& launch, sl_host_kernel_fn run, void* frame, const sl_wait_t& wait,
                       const Tuning& tuning, Counters* counters);

// The default stream: runs on the caller. No allocation, lock or system call unless the kernel has to wait for long.
inline sl_status_t LaunchInline(const sl_launch_t& launch, const sl_host_kernel_t& kernel, const Tuning& tuning,
                                Counters* counters) {
  alignas(16) unsigned char frame[kMaxFrameBytes];
  std::memset(frame, 0, kernel.frame_bytes);
  sl_wait_t wait = FreshWait();
  sl_status_t status = kernel.run(launch.args, frame, &wait);
  if (status == SL_ERR_AGAIN) return DriveToEnd(launch, kernel.run, frame, wait, tuning, counters);
  if (launch.done != nullptr) launch.done(launch.done_ctx, status);
  return status;
}

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_LAUNCH_H_
