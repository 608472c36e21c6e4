// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a wait: whether it still makes sense, and whether people hear of it. One judge for all that wait:
// kernels of the host, whose driver asks (wait_check.h), launches that nobody watches, and streams that wait for
// signals or at gates of copies, which the control thread looks at (launch_watch.h). Slow path: every few milliseconds
// of waiting.
#pragma once

#include <functional>
#include <string>

#include "kernel/profile/settings.h"
#include "sdk/status.h"

struct sl_comm_t;

namespace sl::kernel {

class Communicator;

// What a witness knows of a wait.
struct WaitFacts {
  uint64_t length_ns = 0;    // wait_length.h
  bool is_reported = false;  // people have heard of it
  int32_t peer = -1;         // the rank that is waited for; -1: it is not known
  // In words, asked for only when they are needed: what waits for what, and who has not called yet as far as this rank
  // can see (empty: `what` says it, too).
  std::function<std::string()> what;
  std::function<std::string()> who = {};
};

struct Verdict {
  Status end;                // not SL_OK: the wait ends with it
  bool is_reported = false;  // people hear of it now, and need not again
};

// `limits`: the profile's.
Verdict Judge(sl_comm_t* handle, const Settings::Comm& limits, const WaitFacts& facts);

// SL_ERR_MISMATCH with both sides' arguments when a rank of this host called something else, by the log of the last
// calls. Not every mismatch makes somebody wait: a small broadcast whose roots differ only leaves wrong results. Asked
// again, it looks at what was called since.
Status FindMismatch(sl_comm_t* handle);

// `found`, with the rank that was lost or has failed. A link may notice an end before the control plane does, and it
// only knows its neighbour, who may have left because of another one; so the control plane gets a moment to tell.
Status NameTheLost(const Communicator& comm, const Status& found);

}  // namespace sl::kernel
