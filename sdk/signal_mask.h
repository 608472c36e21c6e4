// SPDX-License-Identifier: Apache-2.0
//
// What threads that are not the program's own block.
#pragma once

#include <csignal>

namespace sl {

// Every signal, so that no handler of the program runs on a thread it does not know, except faults of the thread's own
// code: one that is blocked ends the process without the program's crash reporter.
inline sigset_t SignalsOfThreadsOfOurs() noexcept {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
  return blocked;
}

}  // namespace sl
