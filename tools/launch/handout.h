// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 gives a few bytes to each of the other ranks, once, over sockets. docs/network.md has the bytes.
//
// Over TCP the bytes go to whoever asks in this form and can reach the port in the moment of the start, as with the
// store of torch; a Unix socket gives them to processes of the same user only.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sdk/fd.h"

namespace sl::launch {

struct Request {
  uint32_t magic = 0x4f484c53;  // "SLHO"
  uint32_t version = 1;
  uint32_t rank = 0;  // of who asks
  uint32_t size = 0;  // of the job
  uint64_t job = 0;   // hash of the job's name
};
static_assert(sizeof(Request) == 24);

// Where rank 0 may listen.
struct Door {
  sockaddr_storage address;
  socklen_t bytes;
  bool any;  // rank 0 listens on all addresses: its own name leads to loopback only
};
using Doors = std::vector<Door>;

Doors LocalDoor(const std::string& name);
// All addresses of `host` with the first port, then with the next one. Empty, with the reason in `problem`, when the
// name is not known.
Doors NetworkDoors(const std::string& host, uint16_t port, uint16_t ports, std::string& problem);

// Listens at the first port that is free, on each of its addresses that is this host's. Empty, with the reason in
// `problem`, when none is.
std::vector<Fd> OpenDoors(const Doors& doors, std::string& problem);

// Serves until each rank from 1 to own.size - 1 has got `bytes`. Strangers are dropped without a word. Throws
// std::runtime_error at the deadline and names who is missing; `where` is for that message.
void HandOut(std::vector<Fd> listeners, const Request& own, std::span<const std::byte> bytes,
             std::chrono::steady_clock::time_point deadline, const std::string& where);

// Asks once. False, with the reason in `problem`, when nobody of this job answers there (yet). Throws
// std::runtime_error when rank 0 refuses.
bool FetchFrom(const Door& door, const Request& own, std::span<std::byte> bytes,
               std::chrono::steady_clock::time_point deadline, std::string& problem);

}  // namespace sl::launch
