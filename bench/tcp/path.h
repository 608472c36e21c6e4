// SPDX-License-Identifier: Apache-2.0
//
// One way to move messages between two processes; the benchmark runs the same loops over each. Paths spin: both ends
// have a processor each. A failure ends the process with a line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace sl::bench_tcp {

constexpr uint64_t kChunk = 131072;  // largest message

class Path {
 public:
  virtual ~Path() = default;
  virtual const char* name() const = 0;
  // Sends one message; returns when the bytes may change.
  virtual void Put(const uint8_t* bytes, uint64_t size) = 0;
  // Takes the oldest message, which has `size` bytes.
  virtual void Take(uint64_t size) = 0;
  // System calls of this end so far, and bytes that it copied, beyond what the system copies.
  virtual uint64_t calls() const = 0;
  virtual uint64_t copied() const { return 0; }
};

// How the two processes find each other. Both call everything in the same order.
struct Meeting {
  bool left = true;  // listens; the right one connects
  int in = -1;       // pipes between the two, for addresses
  int out = -1;
  std::string address;          // of the left one, IPv4
  std::string interfaces = "";  // option of transport-tcp

  void Tell(const void* bytes, uint64_t size) const;
  void Hear(void* bytes, uint64_t size) const;
};

[[noreturn]] void Die(const char* what);

std::unique_ptr<Path> MakeSpin(const Meeting& meeting);   // send and recv, again until they have something
std::unique_ptr<Path> MakeEpoll(const Meeting& meeting);  // recv when epoll says so
std::unique_ptr<Path> MakeUring(const Meeting& meeting);  // io_uring; NULL where the system has none
std::unique_ptr<Path> MakeTransport(const Meeting& meeting);

}  // namespace sl::bench_tcp
