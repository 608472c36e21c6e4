// SPDX-License-Identifier: Apache-2.0
//
// One way from rank 0 to the others; share.h says when which is taken.
#pragma once

#include "tools/launch/share.h"

namespace sl::launch {

using Clock = std::chrono::steady_clock;

class Share::Way {
 public:
  virtual ~Way() = default;
  virtual void FromFirst(std::span<std::byte> bytes, std::chrono::milliseconds timeout) = 0;
};

std::unique_ptr<Share::Way> MakeFileWay(const Place& place, const std::string& path);
std::unique_ptr<Share::Way> MakePmiWay(const Place& place);
// Over a socket: the host's own when all ranks are on it, else TCP.
std::unique_ptr<Share::Way> MakeSocketWay(const Place& place);

// Throws std::runtime_error with the system's words for errno.
[[noreturn]] void ThrowErrno(const std::string& what);

}  // namespace sl::launch
