// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/stream.h"

#include <algorithm>
#include <chrono>

#include "modules/device-host/copy.h"

namespace sl::device_host {
namespace {

sl_status_t RunWaitMark(const void* args, void*, sl_wait_t* wait) {
  // The stream's item keeps the mark alive.
  Signal* mark = static_cast<const WaitMarkArgs*>(args)->mark;
  if (IsReached(*mark)) return SL_OK;
  wait->doorbell = &mark->bell;
  wait->what = "event";
  return SL_ERR_AGAIN;
}

sl_status_t RunWaitValue(const void* args, void*, sl_wait_t* wait) {
  const auto* wanted = static_cast<const WaitValueArgs*>(args);
  const uint64_t seen = __atomic_load_n(wanted->word, __ATOMIC_ACQUIRE);
  if (seen >= wanted->value) return SL_OK;
  wait->what = "value";
  wait->seen = seen;
  wait->wanted = wanted->value;
  return SL_ERR_AGAIN;
}

}  // namespace

const sl_host_kernel_t kWaitMarkKernel = {"wait_event", RunWaitMark, 0, 0};
const sl_host_kernel_t kWaitValueKernel = {"wait_value", RunWaitValue, 0, 0};

Mark MakeMark() { return std::make_shared<Signal>(); }

void Reach(Signal* mark) {
  mark->done.store(1, std::memory_order_release);
  Ring(&mark->bell);
}

void Item::RunPlain() {
  switch (kind) {
    case Kind::kTasks:
      break;
    case Kind::kCopy:
      Copy(dst, srcs[0], count);
      break;
    case Kind::kReduce:
      reduce(dst, nullptr, srcs.data(), static_cast<uint32_t>(srcs.size()), count, has_scale ? &scale : nullptr);
      break;
    case Kind::kWrite:
      __atomic_store_n(static_cast<uint64_t*>(dst), count, __ATOMIC_RELEASE);
      break;
    case Kind::kCallback:
      callback(callback_ctx);
      break;
    case Kind::kMark:
      Reach(mark.get());
      break;
  }
}

}  // namespace sl::device_host

using sl::Status;
using sl::device_host::Count;
using sl::device_host::Group;
using sl::device_host::kMaxFrameBytes;
using sl::device_host::Task;

sl_stream_t::~sl_stream_t() {
  Cancel();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.Join();
  while (free_ != nullptr) {
    Item* item = free_;
    free_ = item->next;
    delete item;
  }
}

void sl_stream_t::Cancel() { __atomic_store_n(&cancel_word_, SL_ERR_ABORTED, __ATOMIC_RELAXED); }

sl_status_t sl_stream_t::WaitIdle(uint64_t deadline_ns) {
  if (IsIdle()) return SL_OK;
  if (deadline_ns == 0) return SL_ERR_AGAIN;
  std::unique_lock lock(mutex_);
  // Dekker with WakeIdleWaiters(): either it sees this waiter, or the predicate sees the stream idle.
  idle_waiters_.fetch_add(1, std::memory_order_seq_cst);
  const auto idle = [this] { return state_.load(std::memory_order_seq_cst) == 0; };
  bool reached = true;
  if (deadline_ns == SL_NO_DEADLINE) {
    idle_.wait(lock, idle);
  } else {
    // The clock's ns are signed; a deadline beyond them is as good as none.
    const auto ns = std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX)));
    reached = idle_.wait_until(lock, std::chrono::steady_clock::time_point(ns), idle);
  }
  idle_waiters_.fetch_sub(1, std::memory_order_relaxed);
  return reached ? SL_OK : SL_ERR_TIMEOUT;
}

void sl_stream_t::WakeIdleWaiters() {
  if (idle_waiters_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard lock(mutex_);
  idle_.notify_all();
}

bool sl_stream_t::BeginInline() {
  uint64_t none = 0;
  return state_.compare_exchange_strong(none, kOneItem | kInline, std::memory_order_seq_cst);
}

void sl_stream_t::EndInline() {
  if (state_.fetch_sub(kOneItem | kInline, std::memory_order_seq_cst) == (kOneItem | kInline)) {
    return WakeIdleWaiters();
  }
  // Others queued meanwhile. The lock orders this with the thread's look at state_ before it sleeps.
  std::lock_guard lock(mutex_);
  work_.notify_one();
}

Status sl_stream_t::Launch(const sl_launch_t& launch, const sl_host_kernel_t& kernel) {
  if (!BeginInline()) {
    ItemPtr item = NewItem(Item::Kind::kTasks);
    item->tasks.Reserve(1, item->tasks.Rounded(launch.args_bytes) + item->tasks.Rounded(kernel.frame_bytes));
    item->tasks.Add(launch, kernel, true);
    item->tasks.ActivateLast();
    return Submit(std::move(item));
  }
  alignas(16) unsigned char frame[kMaxFrameBytes];
  std::memset(frame, 0, kernel.frame_bytes);
  Task task = sl::device_host::MakeTask(launch, kernel.run, launch.args, frame);
  uint32_t active = 0;
  Group group(&task, &active, 1, &cancel_word_, tuning_, counters_);
  if (group.Drive(std::max(tuning_->handover_polls, 1u)) == SL_OK) {
    EndInline();
    return {};
  }
  Status handed = HandOver(task, launch.args_bytes, kernel.frame_bytes);
  if (handed.ok()) return {};
  // Without a thread the work still gets done, only not beside the caller.
  group.Drive(0);
  EndInline();
  return {};
}

// Turns the caller's inline work into the first item of the queue.
Status sl_stream_t::HandOver(const Task& task, uint32_t args_bytes, uint32_t frame_bytes) {
  ItemPtr item;
  try {
    item = NewItem(Item::Kind::kTasks);
    item->tasks.Reserve(1, item->tasks.Rounded(args_bytes) + item->tasks.Rounded(frame_bytes));
    item->tasks.Adopt(task, args_bytes, frame_bytes);
    item->tasks.ActivateLast();
  } catch (const std::bad_alloc&) {
    return Status(SL_ERR_MEMORY);
  }
  std::lock_guard lock(mutex_);
  SL_TRY(PrepareLocked());
  item->next = head_;
  head_ = item.release();
  if (tail_ == nullptr) tail_ = head_;
  Count(&counters_->handovers);
  state_.fetch_sub(kInline, std::memory_order_seq_cst);
  work_.notify_one();
  return {};
}

sl_stream_t::ItemPtr sl_stream_t::NewItem(Item::Kind kind) {
  ItemPtr item;
  {
    std::lock_guard lock(mutex_);
    if (free_ != nullptr) {
      item.reset(free_);
      free_ = item->next;
      --free_count_;
    }
  }
  if (item == nullptr) item = std::make_unique<Item>();
  item->kind = kind;
  item->next = nullptr;
  return item;
}

void sl_stream_t::RecycleLocked(ItemPtr item) {
  if (free_count_ == kMaxFree || item->tasks.MemoryBytes() > kMaxFreeBytes) return;
  item->tasks.Clear();
  item->mark.reset();
  item->srcs.clear();
  item->next = free_;
  free_ = item.release();
  ++free_count_;
}

Status sl_stream_t::Prepare() {
  std::lock_guard lock(mutex_);
  return PrepareLocked();
}

Status sl_stream_t::PrepareLocked() {
  if (thread_.joinable()) return {};
  SL_TRY(thread_.Start("sl-stream", "for a stream of device-host", [this] { Work(); }));
  Count(&counters_->threads);
  return {};
}

Status sl_stream_t::Submit(ItemPtr item) {
  std::lock_guard lock(mutex_);
  SL_TRY(PrepareLocked());
  state_.fetch_add(kOneItem, std::memory_order_seq_cst);
  Item** end = tail_ != nullptr ? &tail_->next : &head_;
  *end = tail_ = item.release();
  work_.notify_one();
  return {};
}

void sl_stream_t::RunItem(Item* item) {
  using Kind = Item::Kind;
  const bool cancelled = __atomic_load_n(&cancel_word_, __ATOMIC_RELAXED) != 0;
  if (item->kind == Kind::kTasks) {
    item->tasks.Drive(&cancel_word_, *tuning_, counters_);
  } else if (!cancelled || item->kind == Kind::kCallback || item->kind == Kind::kMark) {
    item->RunPlain();
  }
}

void sl_stream_t::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] {
      if (head_ == nullptr) return stopping_;
      return (state_.load(std::memory_order_seq_cst) & kInline) == 0;
    });
    if (head_ == nullptr) return;
    ItemPtr item(head_);
    head_ = item->next;
    if (head_ == nullptr) tail_ = nullptr;
    lock.unlock();
    RunItem(item.get());
    lock.lock();
    RecycleLocked(std::move(item));
    if (state_.fetch_sub(kOneItem, std::memory_order_seq_cst) == kOneItem) idle_.notify_all();
  }
}
