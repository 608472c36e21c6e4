// SPDX-License-Identifier: Apache-2.0
#include "sdk/thread.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <string>

#include "sdk/system.h"

namespace sl {
namespace {

struct Begin {
  const char* name;
  std::function<void()> body;
};

// Every signal, so that no handler of the program runs on a thread it does not know, except faults of the thread's own
// code: one that is blocked ends the process without the program's crash reporter.
sigset_t Blocked() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
  return blocked;
}

void* Main(void* argument) noexcept {
  const std::unique_ptr<Begin> begin(static_cast<Begin*>(argument));
  pthread_setname_np(pthread_self(), begin->name);
  begin->body();
  return nullptr;
}

// glibc puts the thread-local variables of all libraries on the stack, and tells their size by a function of its own.
size_t StackBytes(const pthread_attr_t* attributes) {
  using MinStack = size_t (*)(const pthread_attr_t*);
  const auto least = reinterpret_cast<MinStack>(dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t taken = least != nullptr ? least(attributes) : static_cast<size_t>(PTHREAD_STACK_MIN);
  return (kStackBytes + taken + page - 1) / page * page;
}

int Create(pthread_t* out_thread, Begin* begin, size_t* out_stack) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  *out_stack = StackBytes(&attributes);
  pthread_attr_setstacksize(&attributes, *out_stack);
  int error = pthread_create(out_thread, &attributes, Main, begin);
  if (error == EINVAL) error = pthread_create(out_thread, nullptr, Main, begin);  // thread-local variables need more
  pthread_attr_destroy(&attributes);
  return error;
}

// glibc says EAGAIN for both: no thread is left, or no memory for its stack.
bool HasRoomFor(size_t stack) {
  void* memory = mmap(nullptr, stack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, stack);
  return true;
}

}  // namespace

Thread& Thread::operator=(Thread&& other) noexcept {
  if (is_started_) std::terminate();
  thread_ = other.thread_;
  is_started_ = std::exchange(other.is_started_, false);
  return *this;
}

Thread::~Thread() {
  if (is_started_) std::terminate();
}

Status Thread::Start(const char* name, const char* purpose, std::function<void()> body) {
  if (is_started_) std::terminate();
  auto begin = std::make_unique<Begin>(Begin{name, std::move(body)});
  const sigset_t blocked = Blocked();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  size_t stack = 0;
  const int error = Create(&thread_, begin.get(), &stack);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    const bool is_memory = error == EAGAIN && !HasRoomFor(stack);
    return SystemError(std::string("no thread ") + purpose, "pthread_create", is_memory ? ENOMEM : error);
  }
  static_cast<void>(begin.release());  // the thread's now
  is_started_ = true;
  return {};
}

void Thread::Join() {
  pthread_join(thread_, nullptr);
  is_started_ = false;
}

}  // namespace sl
