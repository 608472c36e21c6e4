// SPDX-License-Identifier: Apache-2.0
//
// How long a wait has lasted, and whether that is too long: one definition for all devices.
//
// The length of a wait is the time for which one waiter has waited for the very same thing. It begins anew with every
// movement: another step, another peer, another number seen or wanted. Operations, lanes, blocks and threads wait each
// for themselves, so none takes over the age of another's wait. An operation that works, or has its turn behind another
// one of its rank, waits for no peer: its time begins anew as long as anything of the rank moves.
//
// Where no waiter says when it began, the length is counted from when the wait was first seen, so it may be told too
// short, by the time between two looks, and never too long. Who tells of waits:
//   host kernels                      their driver (sl_launch_t::check), and WaitLength below
//   launches that nobody watches      launch_waits.h
//   streams that wait for signals     signal_waits.h
#pragma once

#include <cstdint>

#include "kernel/profile/settings.h"
#include "sl_device.h"

namespace sl::kernel {

// What a wait of that length is due for; a report only once.
enum class Due : uint8_t { kNothing, kReport, kTimeout };
inline Due DueOf(const Settings::Comm& limits, uint64_t length_ns, bool is_reported) {
  constexpr uint64_t kNsPerMs = 1'000'000;
  if (limits.operation_timeout_ms != 0 && length_ns / kNsPerMs >= limits.operation_timeout_ms) return Due::kTimeout;
  const bool is_long = limits.report_wait_ms != 0 && length_ns / kNsPerMs >= limits.report_wait_ms;
  return is_long && !is_reported ? Due::kReport : Due::kNothing;
}

// The wait that an operation on the host is in, as its checks tell.
class WaitLength {
 public:
  // Measures another operation from now on.
  void Begin() {
    since_ns_ = 0;
    is_reported_ = false;
  }

  // A check: what the operation waits for, and for how long its driver has seen no movement. That is not enough: a
  // driver may not know what the operation is behind (`moves`: of its rank's runs, where it waits for no peer itself;
  // else 0), and one of an older device module counts from the start of the launch.
  // returns: the length
  uint64_t See(const sl_wait_t& wait, uint64_t moves, uint64_t waited_ns, uint64_t now_ns);

  const sl_wait_t& wait() const { return wait_; }
  bool is_reported() const { return is_reported_; }
  void SetReported() { is_reported_ = true; }

 private:
  sl_wait_t wait_{};  // this and `moves_` at the last check
  uint64_t moves_ = 0;
  uint64_t since_ns_ = 0;  // first seen so; 0: not yet
  bool is_reported_ = false;
};

}  // namespace sl::kernel
