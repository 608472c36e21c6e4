// SPDX-License-Identifier: Apache-2.0
//
// Lets an allocation of the calling thread fail. A test that uses it replaces the global operators.
#pragma once

#include <cstdint>

namespace sl::fault_inject {

// The `number`-th one from now on, counted from 1, and no other.
void FailAllocation(uint64_t number);
// Whether it has failed; from now on none does.
bool EndShortage();

// Within it allocations do not count, and do not fail: those of the test itself.
class Plenty {
 public:
  Plenty();
  ~Plenty();
  Plenty(const Plenty&) = delete;
  Plenty& operator=(const Plenty&) = delete;

 private:
  const uint64_t left_;
};

}  // namespace sl::fault_inject
