// SPDX-License-Identifier: Apache-2.0
//
// One rank's transport with faults: the wrapped connections, the state of its ports, the control file.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "modules/fault-inject/connection.h"
#include "modules/fault-inject/control.h"
#include "sdk/status.h"
#include "sdk/thread.h"
#include "sl_host.h"

namespace sl::fault_inject {

// Memory and keys of the wrapped transport, with the way back to it.
struct Region {
  const sl_transport_ops_t* ops;
  sl_region_t* inner;
};
struct RemoteRegion {
  const sl_transport_ops_t* ops;
  sl_remote_region_t* inner;
};

class Transport {
 public:
  // Owns `inner`.
  Transport(const sl_host_t* host, const sl_transport_ops_t* ops, sl_transport_t* inner, const Settings& base,
            const std::string& control, uint32_t rank);
  // Starts the thread that is the network's clock: what was put arrives though nobody calls.
  Status StartThread();
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  Result<Connection*> Connect(const sl_address_t& address, const sl_connect_args_t& args);
  Result<Connection*> Accept(sl_connect_args_t* out_args);
  void Retire(Connection* connection);
  sl_status_t PortInfo(uint32_t port, sl_port_t* out_port);
  sl_status_t Progress();
  sl_status_t Poll(sl_completion_t* completions, uint32_t capacity, uint32_t* out_count);
  // Without the thread, whoever waits must keep calling Progress().
  bool NeedsProgress() const { return MayHold() && !thread_.joinable(); }
  bool MayHold() const { return control_.used() || base_.MayHold(); }

  // Calls on different connections may overlap, and the thread is there, too: each slot of the table takes it.
  std::mutex& mutex() { return mutex_; }

  const sl_host_t* host() const { return host_; }
  const sl_transport_ops_t* ops() const { return ops_; }
  sl_transport_t* inner() const { return inner_; }
  const Settings& base() const { return base_; }
  uint32_t rank() const { return rank_; }
  uint64_t now() const { return host_->now_ns(host_->ctx); }
  void Log(sl_log_level_t level, const std::string& text) const;

  // For connections: what holds for one, and what happened on it.
  uint64_t InlineBytes(uint32_t port) const;  // sources up to this size are free when the put below returns
  void Tell(Connection* connection, uint64_t cookie, sl_status_t status);
  Settings SettingsOf(uint32_t peer, uint32_t lane) const;
  Counts& counts() { return counts_; }
  bool has_kill() const { return kills_ < base_.kill_limit; }
  void TakeKill() { ++kills_; }
  void CountPut() noexcept;
  void WakeThread() { work_.notify_one(); }

 private:
  void Run();
  // Takes a connection of the transport below over; retires it when that fails.
  Connection* Keep(sl_connection_t* inner, const sl_connect_args_t& args);
  Status LogCounts() const;
  // Does what is due: control file, ports, lines.
  void Tend(uint64_t now_ns);
  uint64_t NextDue(uint64_t now_ns);
  void LookAtControl(uint64_t now_ns);
  void ApplyControl();
  void SetPortsDown(bool down);
  void TakePortsDown();
  // Takes what the transport below has completed.
  sl_status_t Collect();
  void Sort(const sl_completion_t& completion);

  const sl_host_t* const host_;
  const sl_transport_ops_t* const ops_;  // of the wrapped transport
  sl_transport_t* const inner_;
  const Settings base_;  // the profile's
  const uint32_t rank_;
  std::mutex mutex_;  // guards everything below and the connections
  ControlFile control_;
  Settings settings_;  // of the transport as a whole, the control file's lines included
  std::vector<std::unique_ptr<Connection>> connections_;
  Counts counts_;
  uint64_t kills_ = 0;
  uint64_t puts_ = 0;
  bool is_control_due_ = false;          // the file has news that are not all done
  bool control_has_ports_down_ = false;  // as it said when that was done last
  bool ports_down_ = false;
  bool is_port_down_due_ = false;            // so many puts have been taken
  uint64_t ports_up_at_ns_ = 0;              // 0: when the control file says so, or never
  std::deque<sl_completion_t> completions_;  // for the user
  // Of the transport below, those from taken_next_ on not looked at yet.
  std::array<sl_completion_t, 64> taken_;
  uint32_t taken_count_ = 0;
  uint32_t taken_next_ = 0;
  bool is_closing_ = false;
  std::condition_variable work_;
  Thread thread_;
};

}  // namespace sl::fault_inject
