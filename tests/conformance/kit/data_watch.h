// SPDX-License-Identifier: Apache-2.0
//
// What happens inside [data] slots of the module under test: blocking, allocating, logging.
//
//   Imports imports(trial, subject.module(), false);   // without it allocations are not seen
//   DataWatch watch;
//   …calls through the traced table…
//   watch.ExpectNothing(trial);
#pragma once

#include "tests/conformance/kit/calls.h"

namespace sl::conform {

class DataWatch {
 public:
  // From now on, on every thread; one at a time.
  DataWatch();
  ~DataWatch();
  DataWatch(const DataWatch&) = delete;
  DataWatch& operator=(const DataWatch&) = delete;

  // Notes as failures what no [data] slot may do. A slot blocks when most of its calls gave up the processor by
  // themselves, as the system counts it: a page fault that waits is no offence.
  void ExpectNothing(Trial& trial) const;

  // Told by what sees it, on the thread that does it; nothing outside a [data] slot or without a watch.
  static void Allocated() noexcept;
  static void Logged() noexcept;
};

}  // namespace sl::conform
