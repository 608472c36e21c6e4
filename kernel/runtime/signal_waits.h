// SPDX-License-Identifier: Apache-2.0
//
// The waits for signals that streams of a rank have begun, and since when each stands still. Streams say what they
// wait for on the signal board; who looks at it now and then needs no call of the device and costs the streams nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/memory/signal_board.h"

namespace sl::kernel {

// thread: one at a time, none but the streams meanwhile.
class SignalWaits {
 public:
  enum class Kind : uint32_t { kCounted, kCaptured, kRoom, kGate, kCapturedGate };
  struct Wait {
    Kind kind;
    int32_t peer;     // that is waited for
    uint64_t seen;    // kCounted: signals of the peer so far
    uint64_t wanted;  // kCounted: so many must there be; kCaptured: so many are still to come; kGate: which, from 1
    uint64_t since_ns;
    bool is_reported;
  };

  // Finds what streams of rank `own` wait for now. What they waited for at the last look, and have waited for ever
  // since, keeps its time; the rest begins at `now_ns`.
  void Look(const SignalBoard& board, uint32_t own, uint32_t ranks, uint64_t now_ns);
  std::vector<Wait>& under_way() { return waits_; }

 private:
  void Note(const Wait& wait, bool goes_on);
  void LookAtGates(const SignalBoard& board, uint32_t own, uint32_t ranks, SignalBoard::Space space, uint64_t now_ns);

  std::vector<Wait> waits_;   // by the last look
  std::vector<Wait> before_;  // by the look before
};

}  // namespace sl::kernel
