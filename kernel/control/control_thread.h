// SPDX-License-Identifier: Apache-2.0
//
// The one thread of a process that watches control sockets: rendezvous, neighbours in control trees, deadlines. It
// sleeps in epoll_wait; its handlers never block. All signals are blocked in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sdk/fd.h"
#include "sdk/status.h"
#include "sdk/thread.h"

namespace sl::kernel {

class ControlThread {
 public:
  // What is watched. Handlers run on the control thread, one at a time; after Forget() returned, none runs any more.
  class Watched {
   public:
    virtual ~Watched() = default;
    // `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
    virtual void OnReady(int fd, uint32_t events) = 0;
    // OnReady threw, as it does when there is no memory left; `fd` is forgotten then, unless this watches it again, for
    // which no memory is needed. Else this ends what it stood for, so that nobody waits for news of it.
    virtual void OnFailed(int fd, const Status& why) = 0;
  };

  // Starts the thread.
  static Result<std::unique_ptr<ControlThread>> Start();
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // Watches `fd` for `events`; `watched` stays alive until Forget. Any thread.
  Status Watch(int fd, uint32_t events, Watched* watched);
  Status Change(int fd, uint32_t events);
  // Any thread; on others than the control thread it waits for a running handler to end.
  void Forget(int fd);

  // Runs `task` on the control thread at `when_ns` (monotonic), once. The id cancels it. A task that throws, as it does
  // when there is no memory, runs again a little later, unless it is cancelled meanwhile: it must stand that.
  uint64_t At(uint64_t when_ns, std::function<void()> task);
  // As At, and again when the task has asked for it: it returns when, or 0. The id stays, and nothing is allocated.
  uint64_t Repeat(uint64_t when_ns, std::function<uint64_t()> task);
  // Allocates nothing. A task that runs ends first; it may cancel itself.
  void Cancel(uint64_t id);

  // Waits for the handler or task that runs now, if any. Returns at once on the control thread itself.
  void Settle();
  // Waits likewise; while the lock is held, no handler and no task runs.
  std::unique_lock<std::recursive_mutex> Hold() { return std::unique_lock(running_); }

  // Around fork(): what is watched stays as it is meanwhile; the child closes its copies of the descriptors.
  void BeforeFork() { mutex_.lock(); }
  void AfterForkInParent() { mutex_.unlock(); }
  void AfterForkInChild();

  bool IsCurrent() const { return thread_.IsCurrent(); }

 private:
  struct Timer {
    uint64_t id;
    std::function<uint64_t()> task;
    bool has_failed = false;
  };
  using Timers = std::multimap<uint64_t, Timer>;

  ControlThread(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  void Run();
  int RunTimers();  // returns milliseconds until the next one, -1 without
  uint64_t RunTask(Timer* timer);
  void Dispatch(int fd, uint32_t events);
  void Fail(int fd, Watched* watched, const char* what);
  void Wake();

  Fd epoll_;
  Fd wake_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::map<int, Watched*> watched_;  // guarded by mutex_
  Timers timers_;                    // guarded by mutex_
  uint64_t next_timer_ = 1;          // guarded by mutex_
  uint64_t running_timer_ = 0;       // the one whose task runs, unless it was cancelled; guarded by mutex_
  std::recursive_mutex running_;     // held while a handler or a task runs
  Thread thread_;
};

}  // namespace sl::kernel
