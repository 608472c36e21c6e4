// SPDX-License-Identifier: Apache-2.0
//
// A connection that loses, spoils, holds back and breaks off what passes through it. Same seed, same puts, same faults.
//
// The transport below borrows copies only, and each until it says that it has read it: so that a connection that is
// down leaves its user's memory alone, though the one below knows nothing of its end and goes on sending. Registered
// memory is not copied; its cookies wait for the transport below.
//
// Where memory is short a put is refused whole, or it is taken, and what follows from it is done later. Each function
// that throws std::bad_alloc can be called again and goes on from there.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

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
  void Reset(const char* why) noexcept;
  // What the transport below says of a put that was handed to it.
  void OnDone(uint64_t number, sl_status_t status);
  // Tells the user of the puts that have ended, in their order; when it is down, of all.
  void Settle();
  // It is retired next: hands on what is held, or the reset that the peer has to hear of; for a moment.
  void Leave() noexcept;

  sl_connection_t* inner() const { return inner_; }
  Transport* transport() const { return transport_; }
  bool is_down() const { return is_down_; }
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
  // A put that the transport below has and whose end somebody waits for: the user, or the buffer it reads.
  struct Lent {
    uint64_t number;                        // its cookie below
    uint64_t cookie;                        // the user's; 0: none, or told already
    bool registered;                        // it stands in the user's memory
    std::vector<uint8_t> bytes;             // else what it is read from, if that has to stay
    bool over = false;                      // nobody reads it any more
    sl_status_t status = SL_ERR_LINK_DOWN;  // when it is over
  };

  Fate Decide(const sl_put_t& put, uint64_t number) const;
  sl_status_t Forward(const sl_put_t& put, const Fate& fate);
  void AppendAgain(sl_put_t sent, uint64_t now_ns, const Fate& fate) noexcept;
  void DrainOrLater(uint64_t now_ns) noexcept;
  sl_status_t Swallow(const sl_put_t& put);
  // Gives a put to the transport below, whose source is `bytes` unless that is empty, and keeps these.
  sl_status_t Hand(const sl_put_t& put, std::vector<uint8_t>* bytes);
  // Says to the peer's layer that the connection was reset, unless the transport below has no room.
  bool SayReset();
  // Puts what has arrived until the transport below has no room; with `yielding` also what waits to be overtaken.
  bool Drain(uint64_t now_ns, bool all, bool yielding);
  bool IsStalled(uint64_t now_ns) const { return settings_.stalled != 0 || now_ns < stalled_until_ns_; }

  Transport* const transport_;
  sl_connection_t* const inner_;
  const uint32_t peer_;
  const uint32_t lane_;
  const uint32_t signal_count_;  // the user's; one more, behind them, is ours: nonzero means "reset"
  const uint64_t inline_bytes_;  // sources up to this size are not borrowed below
  const Dice dice_;
  Settings settings_;
  uint64_t* local_reset_ = nullptr;
  Line line_;
  std::deque<Lent> lent_;  // in order, with consecutive numbers
  uint64_t handed_ = 0;    // the newest number
  uint64_t puts_ = 0;
  uint64_t stalled_until_ns_ = 0;
  uint64_t stalled_by_put_ = 0;  // the put that began the stall, taken or not
  uint64_t resets_seen_;
  bool is_down_ = false;
  bool reset_due_ = false;  // the peer has not been told yet
};

}  // namespace sl::fault_inject
