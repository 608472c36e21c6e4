// SPDX-License-Identifier: Apache-2.0
//
// Counts what the calling thread does: allocations, locks, system calls; and lets one of its allocations fail. A
// program that links this stands before the C library's functions; system calls are caught by the kernel's user
// dispatch.
#pragma once

#include <cstdint>
#include <string>

namespace sl::integration {

struct Counts {
  int allocations = 0;
  int locks = 0;
  int calls = 0;          // measured sections with at least one system call that is no wait
  int waits = 0;          // measured sections whose first system call yields, sleeps or waits
  int first_number = -1;  // of the last section with a call

  void Add(const Counts& more);
  int Total() const { return allocations + locks + calls + waits; }
};

// False, and then system calls are not counted, where the kernel lacks user dispatch. Once per thread.
bool CatchSystemCalls();

// From Begin() to End() everything counts; system calls up to the first one of the section.
void Begin();
void End(Counts* counts);

// The `number`-th allocation of this thread from now on fails, counted from 1, and no other.
void FailAllocation(int number);
// Whether it has failed; from now on none does.
bool EndShortage();

}  // namespace sl::integration
