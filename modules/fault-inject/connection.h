// SPDX-License-Identifier: Apache-2.0
//
// A connection that loses, spoils, holds back and breaks off what passes through it. Same seed, same puts, same faults.
#pragma once

#include <cstdint>

#include "modules/fault-inject/dice.h"
#include "modules/fault-inject/line.h"
#include "modules/fault-inject/settings.h"
#include "sl_transport.h"

namespace sl::fault_inject {

class Transport;

// What was done, for the log.
struct Counts {
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t truncated = 0;
  uint64_t corrupted = 0;
  uint64_t reset = 0;
};

class Connection {
 public:
  Connection(Transport* transport, sl_connection_t* inner, const sl_connect_args_t& args);

  sl_status_t Put(const sl_put_t& put);
  uint32_t State();
  sl_status_t Window(sl_window_t* out_window);
  void Notify();
  // Settings are others from now on; numbers of puts go on.
  void Configure(const Settings& settings);
  // Hands on what has arrived, or everything. True when something was.
  bool Release(uint64_t now_ns, bool all);
  // When Release() has something to do next; UINT64_MAX: not before another call.
  uint64_t NextDue(uint64_t now_ns);
  // Breaks it off: both ends see DOWN, what is under way is lost.
  void Reset(const char* why);

  sl_connection_t* inner() const { return inner_; }
  Transport* transport() const { return transport_; }
  uint32_t peer() const { return peer_; }
  uint32_t lane() const { return lane_; }

 private:
  // What becomes of one put.
  struct Fate {
    uint64_t bytes;
    int64_t flip_bit = -1;
    bool duplicate = false;
    bool yields = false;
  };

  Fate Decide(const sl_put_t& put, uint64_t number) const;
  sl_status_t Forward(const sl_put_t& put, const Fate& fate);
  sl_status_t Swallow(const sl_put_t& put);
  // Puts what has arrived until the transport below has no room; with `yielding` also what waits to be overtaken.
  bool Drain(uint64_t now_ns, bool all, bool yielding);
  bool IsStalled(uint64_t now_ns) const { return settings_.stalled != 0 || now_ns < stalled_until_ns_; }

  Transport* const transport_;
  sl_connection_t* const inner_;
  const uint32_t peer_;
  const uint32_t lane_;
  const uint32_t signal_count_;  // the user's; one more, behind them, is ours: nonzero means "reset"
  const Dice dice_;
  Settings settings_;
  uint64_t* local_reset_ = nullptr;
  Line line_;
  uint64_t puts_ = 0;
  uint64_t stalled_until_ns_ = 0;
  uint64_t resets_seen_;
  bool is_down_ = false;
};

}  // namespace sl::fault_inject
