// SPDX-License-Identifier: Apache-2.0
//
// What the operating system refuses, in words that fit the reason, and what is asked of it in more than one place. The
// program keeps what it had: its limits on file sizes raise no signal here, and a refused call leaves nothing behind.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>

#include "sdk/fd.h"
#include "sdk/status.h"

namespace sl {

// What helps when `call` has failed with `error`: "raise the limit on descriptors (ulimit -n)"; "" where nothing is
// known to help. The same number means different things to different calls.
std::string RemedyOf(const char* call, int error);
// "text; remedy", or the text alone.
std::string WithRemedy(const std::string& text, const char* call, int error);
// `what`: what failed, or "". "creating a segment: memfd_create: Operation not permitted; a sandbox forbids …"
// returns: SL_ERR_LIMIT a limit is used up | SL_ERR_MEMORY | SL_ERR_SYSTEM
Status SystemError(const std::string& what, const char* call, int error);

// Raises the soft limit on descriptors to the hard one, for a process that has met it; false when there is nothing to
// raise. `out_before` may be NULL.
bool RaiseDescriptorLimit(uint64_t* out_before = nullptr);

// What `make` returns, as system calls do (-1 and errno), asked once more where the limit on descriptors was met and
// could be raised.
template <typename Make>
Fd MakeFd(Make make) {
  Fd fd(make());
  if (!fd.valid() && errno == EMFILE) {
    if (RaiseDescriptorLimit()) return Fd(make());
    errno = EMFILE;
  }
  return fd;
}

// Random bytes from the system, or from /dev/urandom where a sandbox forbids getrandom.
Status FillRandom(std::span<uint8_t> bytes);

// Memory that other processes can map by its descriptor, zeroed, with these seals (F_SEAL_…).   `what` for messages
Result<Fd> MakeSharedMemory(const std::string& what, const char* name, uint64_t bytes, int seals);

}  // namespace sl
