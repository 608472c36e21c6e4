// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/control_thread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "kernel/control/local_socket.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

// Without words where there is no memory for them.
Status WhyFailed(const char* what) {
  try {
    return {SL_ERR_INTERNAL, what};
  } catch (const std::bad_alloc&) {
    return Status(SL_ERR_INTERNAL);
  }
}

}  // namespace

Result<std::unique_ptr<ControlThread>> ControlThread::Start() {
  SL_ASSIGN(Fd epoll, MakeDescriptor("epoll_create1", [] { return epoll_create1(EPOLL_CLOEXEC); }));
  SL_ASSIGN(Fd wake, MakeDescriptor("eventfd", [] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake.get();
  epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event);
  std::unique_ptr<ControlThread> control(new ControlThread(std::move(epoll), std::move(wake)));
  SL_TRY(control->thread_.Start("sl-control", "to meet other ranks", [raw = control.get()] { raw->Run(); }));
  return control;
}

ControlThread::~ControlThread() {
  stop_.store(true);
  Wake();
  if (thread_.joinable()) thread_.Join();
}

void ControlThread::Wake() {
  const uint64_t one = 1;
  // A full counter is as good as a wake-up.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

Status ControlThread::Watch(int fd, uint32_t events, Watched* watched) {
  {
    std::lock_guard lock(mutex_);
    watched_[fd] = watched;
  }
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  // One that has failed and is not forgotten yet.
  if (errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return {SL_ERR_SYSTEM, std::string("epoll_ctl: ") + std::strerror(errno)};
}

Status ControlThread::Change(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return {SL_ERR_SYSTEM, std::string("epoll_ctl: ") + std::strerror(errno)};
}

void ControlThread::Forget(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  {
    std::lock_guard lock(mutex_);
    watched_.erase(fd);
  }
  Settle();
}

// Nothing here allocates: the child may have been forked while other threads held any lock.
void ControlThread::AfterForkInChild() {
  for (const auto& entry : watched_) close(entry.first);
  close(epoll_.get());
  close(wake_.get());
  mutex_.unlock();
}

void ControlThread::Settle() {
  if (!IsCurrent()) std::lock_guard wait_for_handler(running_);
}

uint64_t ControlThread::At(uint64_t when_ns, std::function<void()> task) {
  return Repeat(when_ns, [task = std::move(task)]() -> uint64_t {
    task();
    return 0;
  });
}

uint64_t ControlThread::Repeat(uint64_t when_ns, std::function<uint64_t()> task) {
  uint64_t id;
  {
    std::lock_guard lock(mutex_);
    id = next_timer_++;
    timers_.emplace(when_ns, Timer{id, std::move(task)});
  }
  Wake();
  return id;
}

void ControlThread::Cancel(uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    if (running_timer_ == id) running_timer_ = 0;
    std::erase_if(timers_, [id](const auto& entry) { return entry.second.id == id; });
  }
  Settle();
}

// Says when it is to run again; 0: no more.
uint64_t ControlThread::RunTask(Timer* timer) {
  constexpr uint64_t kRetryNs = 10'000'000;
  try {
    const uint64_t again_ns = timer->task();
    timer->has_failed = false;
    return again_ns;
  } catch (const std::exception& error) {
    // Said once: it may fail again and again.
    if (!std::exchange(timer->has_failed, true)) Logf(SL_LOG_ERROR, "control thread: {}", error.what());
    return NowNs() + kRetryNs;
  }
}

int ControlThread::RunTimers() {
  for (;;) {
    std::lock_guard running(running_);
    Timers::node_type timer;
    {
      std::lock_guard lock(mutex_);
      if (timers_.empty()) return -1;
      const uint64_t now = NowNs();
      const auto first = timers_.begin();
      if (first->first > now) return static_cast<int>(std::min<uint64_t>((first->first - now) / 1000000 + 1, 1u << 30));
      timer = timers_.extract(first);
      running_timer_ = timer.mapped().id;
    }
    timer.key() = RunTask(&timer.mapped());
    std::lock_guard lock(mutex_);
    // The same node: what failed without memory needs none to come again.
    if (timer.key() != 0 && running_timer_ != 0) timers_.insert(std::move(timer));
    running_timer_ = 0;
  }
}

void ControlThread::Dispatch(int fd, uint32_t events) {
  std::lock_guard running(running_);
  Watched* watched = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(fd);
    if (found == watched_.end()) return;
    watched = found->second;
  }
  try {
    watched->OnReady(fd, events);
  } catch (const std::exception& error) {
    Fail(fd, watched, error.what());
  }
}

// The entry stays until the handler has had its say, so that it can watch again without memory for another one.
void ControlThread::Fail(int fd, Watched* watched, const char* what) {
  Logf(SL_LOG_ERROR, "control thread: {}", what);
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(fd);
    // What was forgotten before the handler threw has ended, and its number may be another's by now.
    if (found == watched_.end() || found->second != watched) return;
    found->second = nullptr;
  }
  try {
    watched->OnFailed(fd, WhyFailed(what));
  } catch (const std::exception& error) {
    Logf(SL_LOG_ERROR, "control thread: {}", error.what());
  }
  {
    std::lock_guard lock(mutex_);
    const auto found = watched_.find(fd);
    if (found == watched_.end() || found->second != nullptr) return;
  }
  Forget(fd);
}

void ControlThread::Run() {
  epoll_event events[64];
  while (!stop_.load()) {
    const int timeout_ms = RunTimers();
    const int count = epoll_wait(epoll_.get(), events, 64, timeout_ms);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wake_.get()) {
        uint64_t drained;
        [[maybe_unused]] const ssize_t got = read(wake_.get(), &drained, sizeof(drained));
        continue;
      }
      Dispatch(events[i].data.fd, events[i].events);
    }
  }
}

}  // namespace sl::kernel
