// SPDX-License-Identifier: Apache-2.0
//
// One rank's use of shared memory: its port segment (doorbell and attention word), its listener, its connections.
//
// thread: any; the slow paths take a mutex, the fast paths (progress without news, put, notify, state) do not.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "modules/transport-shm/connection.h"
#include "sl_transport.h"

namespace sl::transport_shm {

constexpr uint32_t kCallsPerClock = 16;

// Effective options of the module.
struct Settings {
  bool huge_pages = false;
  uint64_t handshake_timeout_ns = 2'000'000'000;
  uint64_t liveness_interval_ns = 20'000'000;
};

class Transport {
 public:
  static Result<std::unique_ptr<Transport>> Open(const sl_host_t* host, const Settings& settings,
                                                 const sl_transport_env_t& env);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  Status Listen(sl_address_t* out_address);
  Result<Connection*> Connect(const sl_address_t& address, const sl_connect_args_t& args);
  // AGAIN when nobody waits; LIMIT, with the remedy, when somebody does who cannot be let in.
  Result<Connection*> Accept();
  void Retire(Connection* connection);

  // One load and a counter when there is no news; NeedsLook() says that Look() has to be called.
  bool NeedsLook() noexcept {
    const uint32_t attention = std::atomic_ref<uint32_t>(port_->attention).load(std::memory_order_acquire);
    if (attention != seen_attention_.load(std::memory_order_relaxed)) [[unlikely]]
      return true;
    // Reading the clock costs 20 ns, hence only now and then; a caller that sleeps between calls sleeps for some
    // milliseconds. A count lost between two threads does no harm.
    const uint32_t calls = calls_.load(std::memory_order_relaxed) + 1;
    calls_.store(calls, std::memory_order_relaxed);
    if (calls % kCallsPerClock != 0) return false;
    return now() >= next_look_ns_.load(std::memory_order_relaxed);
  }
  // Accepts, finishes hand-shakes, answers probes, looks for dead peers. Makes a few system calls.
  void Look();
  void FinishReply(Connection* connection) noexcept;

  void PortInfo(sl_port_t* out_port) const;
  sl_doorbell_t* bell() const { return &port_->bell; }
  CompletionRing& completions() { return completions_; }
  // Connections dropped because they could not prove that they belong to the job.
  uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }
  // For connections, called under the mutex: something is short, so nobody is let in for a while. Said once, until
  // everybody is in.
  void RunShort(Status why);
  void Log(sl_log_level_t level, const std::string& text) const;
  const sl_host_t* host() const { return host_; }

 private:
  // Somebody who has connected and not yet said who it is.
  struct Visitor {
    Fd socket;
    uint64_t deadline_ns;

    Visitor(Fd from, uint64_t until_ns) : socket(std::move(from)), deadline_ns(until_ns) {}
    Visitor(Visitor&&) = default;
    Visitor& operator=(Visitor&&) = default;
    // Forked children may hold copies, so closing alone would not end it.
    ~Visitor() {
      if (socket.valid()) shutdown(socket.get(), SHUT_RDWR);
    }
  };

  Transport(const sl_host_t* host, const Settings& settings, const sl_transport_env_t& env, Fd port_fd,
            std::unique_ptr<Mapping> port);
  uint64_t now() const { return host_->now_ns(host_->ctx); }
  // All below: with mutex_ held.
  void AttendToVisitors();
  bool AdmitVisitors();             // true: nobody waits any more
  bool HearVisitors();              // true: nothing was short
  Transfer Hear(Visitor* visitor);  // kDone: it is through, or was dropped
  Status CheckHello(const Hello& hello) const;
  void DropStranger(const std::string& why);
  void StartConnections();
  void WatchPeers();

  const sl_host_t* const host_;
  const Settings settings_;
  const sl_transport_env_t env_;
  const Fd port_fd_;
  const std::unique_ptr<Mapping> port_mapping_;
  Port* const port_;
  CompletionRing completions_;
  std::atomic<uint32_t> seen_attention_{0};
  std::atomic<uint32_t> calls_{0};
  std::atomic<uint64_t> next_look_ns_{0};
  std::atomic<uint64_t> strangers_{0};

  struct Entry {
    std::unique_ptr<Connection> connection;
    char name[kNameBytes];  // of the listener it connects to; connecting end only
  };
  std::mutex mutex_;  // guards everything below
  Fd listener_;
  char name_[kNameBytes] = {};
  std::deque<Visitor> visitors_;
  Status shortage_;               // until everybody is in
  uint64_t closed_until_ns_ = 0;  // nobody is let in
  std::vector<Entry> connections_;
  std::deque<Connection*> ready_;  // accepted, not yet taken; owned by connections_
  std::vector<pollfd> polled_;
  std::vector<Connection*> polled_connections_;  // of the same index
};

}  // namespace sl::transport_shm
