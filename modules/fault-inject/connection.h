// SPDX-License-Identifier: Apache-2.0
//
// A connection that loses, holds back and breaks off what passes through it. Same seed, same puts, same faults.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "sl_transport.h"

namespace sl::fault_inject {

// Effective options.
struct Settings {
  uint64_t seed = 1;
  uint32_t drop_per_million = 0;
  uint64_t delay_ns = 0;
  uint64_t kill_after_puts = 0;  // 0: never
  uint64_t kill_limit = 1;       // connections killed by one transport
};

class Transport;

class Connection {
 public:
  Connection(Transport* transport, sl_connection_t* inner, const sl_connect_args_t& args);

  sl_status_t Put(const sl_put_t& put);
  uint32_t State();
  sl_status_t Window(sl_window_t* out_window);
  void Notify();
  // Hands on what was held back long enough, or everything. True when something was.
  bool Release(uint64_t now_ns, bool all);

  sl_connection_t* inner() const { return inner_; }
  Transport* transport() const { return transport_; }

 private:
  // A put held back. Its bytes are copied unless they stand in registered memory, which the caller leaves alone until
  // the completion.
  struct Held {
    sl_put_t put;
    std::vector<uint8_t> bytes;
    uint64_t due_ns;
  };

  sl_status_t Hold(const sl_put_t& put, uint64_t now_ns);
  sl_status_t Swallow(const sl_put_t& put);
  void Kill();
  bool Chance(uint32_t per_million) { return per_million != 0 && random_() % 1'000'000 < per_million; }

  Transport* const transport_;
  sl_connection_t* const inner_;
  const uint32_t signal_count_;  // the user's; one more, behind them, is ours: nonzero means "reset"
  uint64_t* local_reset_ = nullptr;
  std::mt19937_64 random_;
  std::deque<Held> held_;
  uint64_t puts_ = 0;
  bool killed_ = false;
};

}  // namespace sl::fault_inject
