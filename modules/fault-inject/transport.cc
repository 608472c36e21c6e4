// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/transport.h"

#include <algorithm>

namespace sl::fault_inject {

Transport::~Transport() {
  Log(SL_LOG_INFO,
      "fault-inject: dropped " + std::to_string(drops_) + " puts, reset " + std::to_string(kills_) + " connections");
  for (const auto& connection : connections_) {
    connection->Release(0, true);
    ops_->retire(connection->inner());
  }
  ops_->close(inner_);
}

Result<Connection*> Transport::Connect(const sl_address_t& address, const sl_connect_args_t& args) {
  if (args.signal_count > 63) {
    return Status(SL_ERR_LIMIT, "fault-inject: " + std::to_string(args.signal_count) +
                                    " signals asked for, at most 63: the layer needs one");
  }
  sl_connect_args_t with_ours = args;
  with_ours.signal_count = args.signal_count + 1;
  sl_connection_t* inner = nullptr;
  // The wrapped transport has set its error text.
  if (const sl_status_t status = ops_->connect(inner_, &address, &with_ours, &inner); status != SL_OK) {
    return Status(status);
  }
  return connections_.emplace_back(std::make_unique<Connection>(this, inner, args)).get();
}

Result<Connection*> Transport::Accept(sl_connect_args_t* out_args) {
  for (;;) {
    sl_connection_t* inner = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    if (const sl_status_t status = ops_->accept(inner_, &inner, &args); status != SL_OK) return Status(status);
    if (args.signal_count == 0) {
      Log(SL_LOG_WARN, "fault-inject: rank " + std::to_string(args.peer) +
                           " connects without this layer: its profile has other layers");
      ops_->retire(inner);
      continue;
    }
    --args.signal_count;
    *out_args = args;
    return connections_.emplace_back(std::make_unique<Connection>(this, inner, args)).get();
  }
}

void Transport::Retire(Connection* connection) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& owned) { return owned.get() == connection; });
  if (found == connections_.end()) return;
  // An orderly end loses nothing that is on its way.
  connection->Release(0, true);
  ops_->retire(connection->inner());
  connections_.erase(found);
}

sl_status_t Transport::Progress() {
  if (settings_.delay_ns != 0) {
    const uint64_t time = now();
    for (const auto& connection : connections_) {
      if (connection->Release(time, false)) connection->Notify();
    }
  }
  return ops_->progress(inner_);
}

sl_status_t Transport::Poll(sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  const sl_status_t status = ops_->poll(inner_, completions, capacity, out_count);
  if (status != SL_OK) return status;
  for (uint32_t i = 0; i < *out_count; ++i) {
    for (const auto& connection : connections_) {
      if (connection->inner() != completions[i].connection) continue;
      completions[i].connection = reinterpret_cast<sl_connection_t*>(connection.get());
      break;
    }
  }
  return status;
}

void Transport::Log(sl_log_level_t level, const std::string& text) const {
  if (host_->log_enabled(host_->ctx, level) == 0) return;
  host_->log(host_->ctx, level, ("rank " + std::to_string(rank_) + " " + text).c_str());
}

}  // namespace sl::fault_inject
