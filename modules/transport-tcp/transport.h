// SPDX-License-Identifier: Apache-2.0
//
// One rank's use of TCP: its ports, its door, its connections, and one epoll descriptor under which all of them lie.
//
// thread: as sl_transport.h says; calls on the transport do not overlap, those on connections may run beside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "modules/transport-tcp/connection.h"
#include "modules/transport-tcp/door.h"
#include "modules/transport-tcp/port_watch.h"
#include "modules/transport-tcp/shared.h"

namespace sl::transport_tcp {

class Transport {
 public:
  // NOT_FOUND: no interface passes the filter.
  static Result<std::unique_ptr<Transport>> Open(const sl_host_t* host, const Settings& settings,
                                                 const sl_transport_env_t& env);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  uint32_t port_count() const { return static_cast<uint32_t>(ports_.size()); }
  void PortInfo(uint32_t port, sl_port_t* out_port) const;  // thread: any, overlapping allowed

  Status Listen(uint32_t port, sl_address_t* out_address);
  Result<Connection*> Connect(const sl_address_t& address, const sl_connect_args_t& args);
  // AGAIN when nobody waits; LIMIT, with the remedy, when somebody does who cannot be let in.
  Result<Connection*> Accept();
  void Retire(Connection* connection);

  // True when something moved.
  bool Progress();
  uint32_t Poll(sl_completion_t* completions, uint32_t capacity) {
    return shared_.completions.Take(completions, capacity);
  }
  // From now on the descriptor is kept readable while Progress() has work.
  int WaitDescriptor();

  const sl_host_t* host() const { return shared_.host; }
  const Counters& counters() const { return shared_.counters; }

 private:
  struct Port {
    Interface interface;
    std::atomic<bool> up;
    explicit Port(const Interface& from) : interface(from), up(from.up) {}
  };

  Transport(const sl_host_t* host, const Settings& settings, const sl_transport_env_t& env, Fd epoll,
            const std::vector<Interface>& interfaces);
  void Keep(std::unique_ptr<Connection> connection);
  bool TakeEvents();  // these are true when something moved
  bool TakeGuests();
  bool ReadPorts();
  bool Tick(uint64_t now_ns);
  bool TellPort(uint32_t port, bool up);
  Status WhyUnreachable(const Address& address, const sl_connect_args_t& args) const;

  Shared shared_;
  std::deque<Port> ports_;
  Door door_;
  PortWatch watch_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by Connection::slot
  std::deque<Connection*> ready_;                         // accepted, not yet taken; owned by connections_
  uint32_t calls_ = 0;
  uint64_t next_tick_ns_ = 0;
  uint64_t next_idle_sweep_ns_ = 0;
};

}  // namespace sl::transport_tcp
