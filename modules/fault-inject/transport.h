// SPDX-License-Identifier: Apache-2.0
//
// One rank's transport with faults: keeps the wrapped connections and the rank's counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "modules/fault-inject/connection.h"
#include "sdk/status.h"
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
  Transport(const sl_host_t* host, const sl_transport_ops_t* ops, sl_transport_t* inner, const Settings& settings,
            uint32_t rank)
      : host_(host), ops_(ops), inner_(inner), settings_(settings), rank_(rank) {}
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  Result<Connection*> Connect(const sl_address_t& address, const sl_connect_args_t& args);
  Result<Connection*> Accept(sl_connect_args_t* out_args);
  void Retire(Connection* connection);
  sl_status_t Progress();
  sl_status_t Poll(sl_completion_t* completions, uint32_t capacity, uint32_t* out_count);

  const sl_host_t* host() const { return host_; }
  const sl_transport_ops_t* ops() const { return ops_; }
  sl_transport_t* inner() const { return inner_; }
  const Settings& settings() const { return settings_; }
  uint32_t rank() const { return rank_; }
  uint64_t now() const { return host_->now_ns(host_->ctx); }
  void Log(sl_log_level_t level, const std::string& text) const;
  void CountDrop() { ++drops_; }
  bool TakeKill() { return kills_ < settings_.kill_limit && ++kills_ != 0; }

 private:
  const sl_host_t* const host_;
  const sl_transport_ops_t* const ops_;  // of the wrapped transport
  sl_transport_t* const inner_;          // owned
  const Settings settings_;
  const uint32_t rank_;
  std::vector<std::unique_ptr<Connection>> connections_;
  uint64_t drops_ = 0;
  uint64_t kills_ = 0;
};

}  // namespace sl::fault_inject
