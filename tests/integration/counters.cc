// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/counters.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <cstddef>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

#define SL_STAND_BEFORE extern "C" __attribute__((visibility("default")))

namespace sl::integration {
namespace {

constinit thread_local bool t_counting = false;
constinit thread_local int t_allocations = 0;
constinit thread_local int t_until_short = 0;  // allocations, with the one that fails; 0: none does
constinit thread_local int t_locks = 0;
constinit thread_local volatile int t_call = -1;
constinit thread_local volatile char t_selector = 0;  // 1: the kernel raises SIGSYS instead of a system call

// False: this one fails.
bool CountAllocation() {
  t_allocations += t_counting;
  if (t_until_short == 0 || --t_until_short != 0) return true;
  errno = ENOMEM;
  return false;
}
void CountLock() { t_locks += t_counting; }

#ifdef __x86_64__
// Remembers the number and does the call after all; the rest of the section goes uncaught.
void OnCall(int, siginfo_t* info, void* context) {
  t_selector = 0;
  t_call = info->si_syscall;
  constexpr int kInstructionBytes = 2;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] -= kInstructionBytes;
}
#endif

bool IsWait(int number) {
  constexpr int kFutexWaitV = 449;
  return number == SYS_futex || number == kFutexWaitV || number == SYS_sched_yield || number == SYS_nanosleep ||
         number == SYS_clock_nanosleep;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

bool CatchSystemCalls() {
#ifdef __x86_64__
  struct sigaction action {};
  action.sa_sigaction = OnCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &t_selector) == 0;
#else
  return false;
#endif
}

void Counts::Add(const Counts& more) {
  allocations += more.allocations;
  locks += more.locks;
  calls += more.calls;
  waits += more.waits;
  if (more.first_number >= 0) first_number = more.first_number;
}

void Begin() {
  t_allocations = 0;
  t_locks = 0;
  t_call = -1;
  t_counting = true;
  t_selector = 1;
}

void End(Counts* counts) {
  t_selector = 0;
  t_counting = false;
  counts->allocations += t_allocations;
  counts->locks += t_locks;
  if (t_call < 0) return;
  counts->first_number = t_call;
  ++(IsWait(t_call) ? counts->waits : counts->calls);
}

void FailAllocation(int number) { t_until_short = number; }
bool EndShortage() {
  const bool has_failed = t_until_short == 0;
  t_until_short = 0;
  return has_failed;
}

}  // namespace sl::integration

using sl::integration::CountAllocation;
using sl::integration::CountLock;
using sl::integration::Next;

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

SL_STAND_BEFORE void* malloc(size_t bytes) { return CountAllocation() ? __libc_malloc(bytes) : nullptr; }

SL_STAND_BEFORE void* calloc(size_t count, size_t bytes) {
  return CountAllocation() ? __libc_calloc(count, bytes) : nullptr;
}

SL_STAND_BEFORE void* realloc(void* memory, size_t bytes) {
  return CountAllocation() ? __libc_realloc(memory, bytes) : nullptr;
}

SL_STAND_BEFORE void* aligned_alloc(size_t alignment, size_t bytes) {
  CountAllocation();
  return __libc_memalign(alignment, bytes);
}

SL_STAND_BEFORE int posix_memalign(void** out_memory, size_t alignment, size_t bytes) {
  CountAllocation();
  *out_memory = __libc_memalign(alignment, bytes);
  return *out_memory != nullptr ? 0 : ENOMEM;
}

SL_STAND_BEFORE int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const next = Next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  CountLock();
  return next(mutex);
}

SL_STAND_BEFORE int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static auto* const next = Next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  CountLock();
  return next(mutex);
}

SL_STAND_BEFORE int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static auto* const next = Next<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  CountLock();
  return next(lock);
}

SL_STAND_BEFORE int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static auto* const next = Next<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  CountLock();
  return next(lock);
}
