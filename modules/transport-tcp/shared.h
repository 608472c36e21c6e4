// SPDX-License-Identifier: Apache-2.0
//
// What a transport and its connections have in common.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <string>

#include "modules/transport-tcp/completions.h"
#include "modules/transport-tcp/interface.h"
#include "modules/transport-tcp/settings.h"
#include "sdk/fd.h"
#include "sl_transport.h"

namespace sl::transport_tcp {

// What moved and what it cost; counts of one transport, relaxed. Payload bytes only, frames apart.
struct Counters {
  std::atomic<uint64_t> sent_bytes{0};      // frames and payload given to the system
  std::atomic<uint64_t> received_bytes{0};  // the same, taken
  std::atomic<uint64_t> sends{0};           // system calls
  std::atomic<uint64_t> receives{0};
  std::atomic<uint64_t> waits{0};             // epoll calls
  std::atomic<uint64_t> last_waits{0};        // poll calls of connections that end
  std::atomic<uint64_t> copied_out_bytes{0};  // payload copied into the queue: short puts
  std::atomic<uint64_t> copied_in_bytes{0};   // payload read together with a header
  std::atomic<uint64_t> zerocopy_sends{0};
  std::atomic<uint64_t> zerocopy_copied{0};  // of these, those that the system copied all the same
  std::atomic<uint64_t> strangers{0};        // dropped because they did not prove that they belong to the job
};

inline void Count(std::atomic<uint64_t>* counter, uint64_t by = 1) {
  counter->fetch_add(by, std::memory_order_relaxed);
}

// How long connections that end one after the other wait, all together: an abort ends all of them.
class Patience {
 public:
  // Until when the next one may.
  uint64_t EndNs(uint64_t now_ns) noexcept {
    if (end_ns_ == 0 || now_ns > end_ns_ + kApartNs) end_ns_ = now_ns + kNs;
    return end_ns_;
  }

 private:
  static constexpr uint64_t kNs = 20'000'000;
  static constexpr uint64_t kApartNs = 200'000'000;
  uint64_t end_ns_ = 0;
};

class Transport;

struct Shared {
  Transport* owner = nullptr;
  const sl_host_t* host = nullptr;
  Settings settings;
  sl_transport_env_t env = {};
  LoopbackId loopback_id = ReadLoopbackId();
  Fd epoll;
  // Somebody may sleep on `epoll`, or there are too many streams to try each: a full one must be watched.
  std::atomic<bool> watch_full{false};
  Completions completions;
  Counters counters;
  Patience to_send;  // of connections that end, for what they have put
  Patience to_free;  // and for what the system still reads

  uint64_t now() const { return host->now_ns(host->ctx); }
  void Log(sl_log_level_t level, const std::string& text) const {
    if (host->log_enabled(host->ctx, level) == 0) return;
    host->log(host->ctx, level, ("rank " + std::to_string(env.rank) + " " + text).c_str());
  }
  // For who must not fail: `make_text` makes the line, which stays unsaid where memory is short.
  template <typename MakeText>
  void LogIfPossible(sl_log_level_t level, MakeText&& make_text) const noexcept {
    try {
      Log(level, make_text());
    } catch (const std::bad_alloc&) {  // what happened shows in the connection's state all the same
    }
  }
};

}  // namespace sl::transport_tcp
