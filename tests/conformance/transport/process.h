// SPDX-License-Identifier: Apache-2.0
//
// A rank in a process of its own, so that the ends of a connection lie in different processes and one of them can be
// killed.
#pragma once

#include <sys/types.h>

#include <functional>

#include "tests/conformance/transport/ranks.h"

namespace sl::conform::transport {

// What two processes say to each other beside the transport. False: the other one is not there any more.
class Talk {
 public:
  explicit Talk(int fd = -1) : fd_(fd) {}

  template <typename T>
  bool Tell(const T& value) const {
    return TellBytes(&value, sizeof value);
  }
  template <typename T>
  bool Hear(T* out) const {
    return HearBytes(out, sizeof *out);
  }
  bool TellBytes(const void* bytes, size_t count) const;
  bool HearBytes(void* bytes, size_t count) const;

 private:
  int fd_;
};

class OtherProcess {
 public:
  // Runs in the other process: there, too, `ranks` are two, of which rank 1 is the one that counts. What it expects in
  // vain is a failure of the test.
  using Life = std::function<void(Ranks& ranks, const Talk& talk)>;

  // Forks: to be made before anything in this process may have threads.
  OtherProcess(Trial& trial, const Life& life);
  ~OtherProcess();  // kills it
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const Talk& talk() const { return talk_; }
  // What it says next, or the end of the test with what it has to say for itself.
  template <typename T>
  T Hear() {
    T value = {};
    if (!talk_.Hear(&value)) Explain();
    return value;
  }
  // SIGKILL, and gone when this returns.
  void Kill();
  // Waits until its life is over; its failures are the test's.
  void Join();

 private:
  [[noreturn]] void Live(const Life& life) const;
  [[noreturn]] void Explain();

  Trial& trial_;
  int sockets_[2] = {-1, -1};  // a pair: here, there
  Talk talk_;
  int failures_ = -1;  // a file without a place: what the other process expected in vain, a line each
  pid_t pid_ = -1;
};

}  // namespace sl::conform::transport
