// SPDX-License-Identifier: Apache-2.0
//
// Streams: ordered queues of work, each with one thread, which starts when the first item is handed to it. Events mark
// places in them.
#ifndef STARLING_MODULES_DEVICE_HOST_STREAM_H_
#define STARLING_MODULES_DEVICE_HOST_STREAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "modules/device-host/launch.h"
#include "modules/device-host/task_set.h"
#include "sdk/status.h"
#include "sdk/thread.h"
#include "sl_device.h"

namespace sl::device_host {

// One recorded place. Shared between the event, the stream that will reach it and the streams that wait for it,
// because an event may be recorded again or destroyed while they still need the old place.
using Mark = std::shared_ptr<Signal>;
Mark MakeMark();
void Reach(Signal* mark);
inline bool IsReached(const Signal& mark) { return mark.done.load(std::memory_order_acquire) != 0; }

// One element of a queue. Items are recycled by their stream, and keep the memory of their task set.
struct Item {
  enum class Kind : uint8_t { kTasks, kCopy, kReduce, kWrite, kCallback, kMark };
  Kind kind = Kind::kTasks;
  Item* next = nullptr;
  TaskSet tasks;                      // kTasks
  Mark mark;                          // kMark: to reach; kTasks: what a wait waits for
  void* dst = nullptr;                // kCopy, kReduce, kWrite: the word
  std::vector<const void*> srcs;      // kCopy: one; kReduce
  uint64_t count = 0;                 // kCopy: bytes; kReduce: elements; kWrite: the value
  sl_reduce_fn reduce = nullptr;      // kReduce
  sl_reduce_scale_t scale{};          // kReduce
  bool has_scale = false;             // kReduce
  void (*callback)(void*) = nullptr;  // kCallback
  void* callback_ctx = nullptr;

  // Does the work of everything but kTasks, on the calling thread.
  void RunPlain();
};

// Waits, as kernels that the driver runs like any other.
extern const sl_host_kernel_t kWaitMarkKernel;   // args: WaitMarkArgs
extern const sl_host_kernel_t kWaitValueKernel;  // args: WaitValueArgs
struct WaitMarkArgs {
  Signal* mark;
};
struct WaitValueArgs {
  const uint64_t* word;
  uint64_t value;
};

}  // namespace sl::device_host

// Any thread; calls may overlap, each is then ordered as one whole.
struct sl_stream_t {
 public:
  sl_stream_t(const sl::device_host::Tuning* tuning, sl::device_host::Counters* counters)
      : tuning_(tuning), counters_(counters) {}
  // Cancels what is still pending, then joins the thread. Drain first for a stream that did nothing wrong.
  ~sl_stream_t();
  sl_stream_t(const sl_stream_t&) = delete;
  sl_stream_t& operator=(const sl_stream_t&) = delete;

  // SL_OK once everything issued so far is done; SL_ERR_TIMEOUT at the deadline, SL_ERR_AGAIN at once if it is 0.
  sl_status_t WaitIdle(uint64_t deadline_ns);
  bool IsIdle() const { return state_.load(std::memory_order_acquire) == 0; }
  // From now on kernels end with SL_ERR_ABORTED, waits end, and copies, reductions and writes are dropped. Callbacks
  // still run and events are still reached, so that nobody waits for this stream for ever.
  void Cancel();

  // Begins on the caller when the stream is idle, and hands over after a bounded spin; else queues.
  sl::Status Launch(const sl_launch_t& launch, const sl_host_kernel_t& kernel);

  using ItemPtr = std::unique_ptr<sl::device_host::Item>;
  // An empty item of the wanted kind, to be filled and given to Submit().
  ItemPtr NewItem(sl::device_host::Item::Kind kind);
  // Queues an item, in order. Fails only when the thread cannot be started.
  sl::Status Submit(ItemPtr item);
  // Starts the thread, after which Submit() cannot fail.
  sl::Status Prepare();
  // If the stream is idle, reserves it for work on the caller, until EndInline().
  bool BeginInline();
  void EndInline();

 private:
  using Item = sl::device_host::Item;
  static constexpr uint64_t kInline = 1;   // of state_
  static constexpr uint64_t kOneItem = 2;  // of state_
  static constexpr uint32_t kMaxFree = 16;
  static constexpr size_t kMaxFreeBytes = 16384;

  sl::Status HandOver(const sl::device_host::Task& task, uint32_t args_bytes, uint32_t frame_bytes);
  sl::Status PrepareLocked();
  void Work();
  void RunItem(Item* item);
  void RecycleLocked(ItemPtr item);
  void WakeIdleWaiters();

  const sl::device_host::Tuning* const tuning_;
  sl::device_host::Counters* const counters_;
  // kOneItem for each piece of work issued and not done, plus kInline while a caller runs one of them. The thread
  // takes no item while kInline is set; a caller sets it only in a stream with no work.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint32_t> idle_waiters_{0};
  int32_t cancel_word_ = 0;  // atomic by __atomic; read as an abort word by the driver

  std::mutex mutex_;  // guards everything below
  std::condition_variable work_;
  std::condition_variable idle_;
  Item* head_ = nullptr;
  Item* tail_ = nullptr;
  Item* free_ = nullptr;
  uint32_t free_count_ = 0;
  bool stopping_ = false;
  sl::Thread thread_;
};

// Threads: calls on one event do not overlap, but queries may.
struct sl_event_t {
  sl::device_host::Mark mark;  // null: never recorded, which counts as reached
};

#endif  // STARLING_MODULES_DEVICE_HOST_STREAM_H_
