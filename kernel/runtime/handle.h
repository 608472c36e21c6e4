// SPDX-License-Identifier: Apache-2.0
//
// What an sl_comm_t is: a communicator, the work in flight on it, and the thread that runs its non-blocking calls.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernel/comm/comm.h"
#include "kernel/memory/registration_cache.h"
#include "kernel/runtime/late_free.h"
#include "kernel/runtime/launch_roll.h"
#include "kernel/runtime/launch_watch.h"
#include "kernel/runtime/pending.h"
#include "kernel/runtime/relay.h"
#include "kernel/runtime/stream_order.h"
#include "kernel/runtime/symmetric_windows.h"
#include "sdk/thread.h"

namespace sl::kernel {

// What a program holds of a communicator. A handle it passes back is one only while it stands here, and what it keeps
// ends with the communicator.   thread: [any]
template <typename T>
class HandleSet {
 public:
  T* Add(std::unique_ptr<T> object) {
    T* handle = object.get();
    const std::lock_guard lock(mutex_);
    held_.emplace(handle, std::move(object));
    return handle;
  }
  // Empty when the handle was never given out here, or has been taken back.
  std::unique_ptr<T> Take(T* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(handle);
    if (found == held_.end()) return nullptr;
    auto object = std::move(found->second);
    held_.erase(found);
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<T*, std::unique_ptr<T>> held_;  // guarded by mutex_
};

}  // namespace sl::kernel

struct sl_registration_t {
  sl::kernel::RegistrationCache::Entry* entry;
};

struct sl_comm_window_t {
  void* memory;
  uint64_t bytes;
  uint32_t flags;
  sl::kernel::RegistrationCache::Entry* entry;
  sl::kernel::Reach::Pin pin;
  std::vector<uint64_t> seen;  // where this rank's device sees each rank's memory; 0: nowhere
  bool is_symmetric;           // registered so, and every rank sees every rank's memory
};

// Opaque in the ABI.
struct sl_comm_t {
  // `call_mark`: of the caller (sl_comm_config_t), or NULL.
  sl_comm_t(sl::kernel::Process* process, sl::kernel::CommConfig config, uint32_t* call_mark)
      : comm(process, std::move(config)),
        is_marked_by_caller(call_mark != nullptr),
        mark(call_mark != nullptr ? call_mark : &own_mark),
        registrations(comm.device().ops, comm.device().handle) {}

  // Not 0 while a call is inside.   [any]
  std::atomic_ref<uint32_t> in_call() const { return std::atomic_ref<uint32_t>(*mark.load(std::memory_order_acquire)); }
  // The program's part is over: the word is the caller's again, who may use it for another communicator, once the last
  // call has left.   [any]
  void GiveMarkBack() {
    if (in_call().load(std::memory_order_seq_cst) == 0) mark.store(&own_mark);
  }
  // By the thread that issues, and so without a locked instruction.   [data]
  void CountOperations(uint32_t count) {
    operations.store(operations.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  // The same of a call, which has set in_call().   [data]
  void CountCall() { calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  // Captures its operations are part of that are not gone yet.   [any]
  uint32_t graphs() const { return holds.load() - (is_dropped.load() ? 0 : 1); }

  sl::kernel::Communicator comm;
  bool nonblocking = false;
  std::atomic<bool> revoked{false};  // by comm_revoke, whose operations have ended

  // Hot: touched by every operation, by one thread at a time.
  uint32_t own_mark = 0;
  const bool is_marked_by_caller;                   // of `enqueue`, which leaves it alone
  std::atomic<uint32_t*> mark;                      // own_mark, or the caller's word
  std::atomic<uint64_t> calls{0};                   // that have set it, by CountCall
  uint64_t collectives = 0;                         // issued
  std::atomic<uint64_t> operations{0};              // issued; any thread may ask
  const sl::kernel::Choice* last_choice = nullptr;  // of the newest operation; the selector keeps it till the next
  sl::kernel::IssueOrder eager;
  sl::kernel::IssueOrder captured[4];  // the newest captures, by number; several may be under way
  bool oversubscribed = false;
  uint64_t captures = 0;  // that its operations were part of
  // Place in the group that is being issued, of the thread that is in the call; UINT32_MAX: in none.
  std::atomic<uint32_t> group_member{UINT32_MAX};
  std::vector<uint64_t> signals_raised;   // eager ones so far, at each rank
  std::vector<uint64_t> signals_awaited;  // from each rank
  sl_image_t* engine_image = nullptr;
  sl_event_t* order_event = nullptr;  // of the eager order; where nobody watches launches, behind the newest
  std::atomic<bool> unmarked{false};  // what was launched may run on unknown to it: it could not be recorded
  sl_event_t* join_event = nullptr;   // between streams of a group or of a capture, used at once
  sl::kernel::PendingPool pending;
  std::unique_ptr<sl::kernel::Relay> relay;  // where ranks' devices do not all reach each other's memory
  sl::kernel::RegistrationCache registrations;
  sl::kernel::HandleSet<sl_registration_t> registered;
  sl::kernel::HandleSet<sl_comm_window_t> windows;
  sl::kernel::SymmetricWindows symmetric_windows{mark};
  // Of eager operations, and of captures by number: copies that stay at home beside others (copies.h). NULL: none.
  std::array<sl_stream_t*, 1 + std::size(decltype(captured){})> side_streams{};
  sl::kernel::LaunchWatch watch{this};                        // of launches that no thread watches
  std::shared_ptr<sl::kernel::LaunchRoll::Place> place = {};  // of this, where nobody watches launches

  // Who still needs its memory: the program until it destroys or aborts it, and every captured graph until it is gone.
  // The last one to let go deletes it (graph_hold.h).
  std::atomic<uint32_t> holds{1};
  std::atomic<bool> is_dropped{false};                                         // by the program
  sl::kernel::LateFree::Place last_place = sl::kernel::LateFree::MakePlace();  // for that

  // Calls that may be inside while the program ends it: of its own, and of those that come out of it (Visit).
  std::atomic<uint32_t> visits{0};

  // One non-blocking call at a time.
  std::mutex work_mutex;
  sl::Thread worker;                                    // guarded by work_mutex
  bool working = false;                                 // guarded by work_mutex
  sl::Status work_outcome;                              // guarded by work_mutex; of the last call
  std::deque<std::function<sl::Status()>> work_queued;  // guarded by work_mutex; for the worker, behind what it does
  bool work_told = false;                               // guarded by work_mutex; the caller knows the outcome
  std::condition_variable work_done;
};
