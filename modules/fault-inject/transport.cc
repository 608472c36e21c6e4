// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/transport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>

#include "sdk/answer.h"
#include "sdk/guard.h"

namespace sl::fault_inject {
namespace {

constexpr int64_t kNoConnection = -2;  // peer and lane of the transport as a whole
// Of a user who takes no completions, as many wait here; then the transport below fills up as it would without us.
constexpr size_t kMostCompletions = 1024;
constexpr uint64_t kShortNs = 1'000'000;  // before what there was no memory for is tried again

}  // namespace

Transport::Transport(const sl_host_t* host, const sl_transport_ops_t* ops, sl_transport_t* inner, const Settings& base,
                     const std::string& control, uint32_t rank)
    : host_(host), ops_(ops), inner_(inner), base_(base), rank_(rank), control_(control), settings_(base) {
  if (control_.used()) LookAtControl(now());
}

Status Transport::StartThread() {
  if (!MayHold()) return {};
  return thread_.Start("sl-faults", "to inject faults", [this] { Run(); });
}

void Transport::Run() {
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    const uint64_t time = now();
    // Where memory is short, what was due is looked at again in the next turn.
    static_cast<void>(Guard(host_, [&] {
      Tend(time);
      return Status();
    }));
    const uint64_t next = NextDue(time);
    if (next == UINT64_MAX) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, std::chrono::nanoseconds(next - time));
    }
  }
}

uint64_t Transport::NextDue(uint64_t now_ns) {
  uint64_t next = control_.used() ? now_ns + ControlFile::kPeriodNs : UINT64_MAX;
  if (ports_up_at_ns_ != 0) next = std::min(next, std::max(ports_up_at_ns_, now_ns));
  if (is_port_down_due_) next = std::min(next, now_ns + kShortNs);
  for (const auto& connection : connections_) next = std::min(next, connection->NextDue(now_ns));
  return next;
}

Transport::~Transport() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    work_.notify_one();
    thread_.Join();
  }
  static_cast<void>(Guard(host_, [this] { return LogCounts(); }));  // unsaid where memory is short
  for (const auto& connection : connections_) {
    connection->Leave();
    ops_->retire(connection->inner());
  }
  ops_->close(inner_);
}

Status Transport::LogCounts() const {
  Log(SL_LOG_INFO, "dropped " + std::to_string(counts_.dropped) + " puts, duplicated " +
                       std::to_string(counts_.duplicated) + ", reordered " + std::to_string(counts_.reordered) +
                       ", truncated " + std::to_string(counts_.truncated) + ", corrupted " +
                       std::to_string(counts_.corrupted) + "; reset " + std::to_string(counts_.reset) + " connections");
  return Status();
}

Connection* Transport::Keep(sl_connection_t* inner, const sl_connect_args_t& args) {
  try {
    return connections_.emplace_back(std::make_unique<Connection>(this, inner, args)).get();
  } catch (...) {
    ops_->retire(inner);
    throw;
  }
}

Result<Connection*> Transport::Connect(const sl_address_t& address, const sl_connect_args_t& args) {
  if (args.signal_count > 63) {
    return Status(SL_ERR_LIMIT,
                  std::to_string(args.signal_count) + " signals asked for, at most 63: the layer needs one");
  }
  if (ports_down_) return Status(SL_ERR_LINK_DOWN, "connect: the port is down, as was asked for");
  sl_connect_args_t with_ours = args;
  with_ours.signal_count = args.signal_count + 1;
  sl_connection_t* inner = nullptr;
  // The wrapped transport has set its error text.
  if (const sl_status_t status = ops_->connect(inner_, &address, &with_ours, &inner); status != SL_OK) {
    return Status(status);
  }
  return Keep(inner, args);
}

Result<Connection*> Transport::Accept(sl_connect_args_t* out_args) {
  // Who connects to a port that is down waits until it is up.
  while (!ports_down_) {
    sl_connection_t* inner = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    if (const sl_status_t status = ops_->accept(inner_, &inner, &args); status != SL_OK) return Status(status);
    if (args.signal_count == 0) {
      ops_->retire(inner);
      Log(SL_LOG_WARN,
          "rank " + std::to_string(args.peer) + " connects without this layer: its profile has other layers");
      continue;
    }
    --args.signal_count;
    Connection* connection = Keep(inner, args);
    Answer(out_args, args);
    return connection;
  }
  return Status(SL_ERR_AGAIN);
}

void Transport::Retire(Connection* connection) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& owned) { return owned.get() == connection; });
  if (found == connections_.end()) return;
  // An orderly end loses nothing that is on its way.
  connection->Leave();
  ops_->retire(connection->inner());
  const auto end = std::remove_if(taken_.begin() + taken_next_, taken_.begin() + taken_count_,
                                  [&](const auto& taken) { return taken.connection == connection->inner(); });
  taken_count_ = static_cast<uint32_t>(end - taken_.begin());
  std::erase_if(completions_, [&](const sl_completion_t& completion) {
    return completion.connection == reinterpret_cast<sl_connection_t*>(connection);
  });
  connections_.erase(found);
}

sl_status_t Transport::PortInfo(uint32_t port, sl_port_t* out_port) {
  const sl_status_t status = ops_->port_info(inner_, port, out_port);
  if (status == SL_OK && ports_down_) out_port->state &= ~SL_PORT_UP;
  return status;
}

sl_status_t Transport::Progress() {
  Tend(now());
  return ops_->progress(inner_);
}

void Transport::Tend(uint64_t now_ns) {
  Collect();
  LookAtControl(now_ns);
  if (is_port_down_due_) TakePortsDown();
  if (ports_up_at_ns_ != 0 && now_ns >= ports_up_at_ns_) SetPortsDown(false);
  for (const auto& connection : connections_) {
    if (connection->Release(now_ns, false)) connection->Notify();
  }
}

// A file that is wrong changes nothing, and is complained of once.
void Transport::LookAtControl(uint64_t now_ns) {
  const Result<bool> changed = control_.Look(now_ns);
  if (changed.ok()) is_control_due_ |= changed.value();
  if (!changed.ok()) Log(SL_LOG_WARN, changed.status().message());
  if (is_control_due_) ApplyControl();
}

// Ends where there is no memory, and is begun again by the next Tend().
void Transport::ApplyControl() {
  Log(SL_LOG_INFO, "the control file has " + std::to_string(control_.overrides().size()) + " lines for us to look at");
  settings_ = Apply(base_, control_.overrides(), rank_, kNoConnection, kNoConnection);
  const bool are_down = settings_.port_down != 0;
  // Only the file's own news: ports may be down, or up, for another reason.
  if (are_down != control_has_ports_down_) SetPortsDown(are_down);
  control_has_ports_down_ = are_down;
  for (const auto& connection : connections_) {
    connection->Configure(SettingsOf(connection->peer(), connection->lane()));
  }
  is_control_due_ = false;
}

Settings Transport::SettingsOf(uint32_t peer, uint32_t lane) const {
  return Apply(base_, control_.overrides(), rank_, peer, lane);
}

// The put is taken: what cannot be done now for want of memory is done by the next Tend().
void Transport::CountPut() noexcept {
  if (++puts_ != base_.port_down_after_puts) return;
  is_port_down_due_ = true;
  try {
    TakePortsDown();
  } catch (const std::bad_alloc&) {
  }
  WakeThread();
}

void Transport::TakePortsDown() {
  SetPortsDown(true);
  if (base_.port_down_ms != 0) ports_up_at_ns_ = now() + base_.port_down_ms * 1'000'000;
  is_port_down_due_ = false;
}

// What was connected through the ports is lost with them. Either all of it is done, or nothing for want of memory.
void Transport::SetPortsDown(bool down) {
  if (down == ports_down_) {
    ports_up_at_ns_ = 0;
    return;
  }
  Log(SL_LOG_INFO, std::string("all ports are ") + (down ? "down" : "up"));
  uint32_t ports = 0;
  if (ops_->port_count(inner_, &ports) != SL_OK) ports = 0;
  const size_t told = completions_.size();
  try {
    for (uint32_t port = 0; port < ports; ++port) completions_.push_back({port, nullptr, SL_OK, SL_COMPLETION_PORT});
  } catch (const std::bad_alloc&) {
    while (completions_.size() > told) completions_.pop_back();
    throw;
  }
  for (const auto& connection : connections_) {
    if (down && connection->State() == SL_CONNECTION_UP) connection->Reset("as its port went down");
  }
  ports_down_ = down;
  ports_up_at_ns_ = 0;
}

sl_status_t Transport::Poll(sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  const sl_status_t status = Collect();
  // What is here must be told, whatever the transport below says.
  if (status != SL_OK && completions_.empty()) return status;
  const auto count = static_cast<uint32_t>(std::min<size_t>(capacity, completions_.size()));
  const auto end = completions_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(completions_.begin(), end, completions);
  completions_.erase(completions_.begin(), end);
  *out_count = count;
  return SL_OK;
}

sl_status_t Transport::Collect() {
  sl_status_t status = SL_OK;
  for (bool more = true; more && completions_.size() < kMostCompletions;) {
    if (taken_next_ == taken_count_) {
      taken_next_ = taken_count_ = 0;
      status = ops_->poll(inner_, taken_.data(), taken_.size(), &taken_count_);
      if (status != SL_OK) break;
      more = taken_count_ == taken_.size();
    }
    for (; taken_next_ < taken_count_; ++taken_next_) Sort(taken_[taken_next_]);
  }
  for (const auto& connection : connections_) connection->Settle();
  return status;
}

void Transport::Sort(const sl_completion_t& completion) {
  if (completion.connection == nullptr) {
    completions_.push_back(completion);
    return;
  }
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& owned) { return owned->inner() == completion.connection; });
  if (found == connections_.end()) return;
  if (completion.kind == SL_COMPLETION_PUT) return (*found)->OnDone(completion.cookie, completion.status);
  sl_completion_t told = completion;
  told.connection = reinterpret_cast<sl_connection_t*>(found->get());
  if ((*found)->is_down()) told.status = SL_ERR_LINK_DOWN;
  completions_.push_back(told);
}

void Transport::Tell(Connection* connection, uint64_t cookie, sl_status_t status) {
  completions_.push_back({cookie, reinterpret_cast<sl_connection_t*>(connection), status, SL_COMPLETION_PUT});
}

uint64_t Transport::InlineBytes(uint32_t port) const {
  sl_port_t info = {};
  info.struct_size = sizeof info;
  return ops_->port_info(inner_, port, &info) == SL_OK ? info.max_inline_bytes : 0;
}

void Transport::Log(sl_log_level_t level, const std::string& text) const {
  if (host_->log_enabled(host_->ctx, level) == 0) return;
  host_->log(host_->ctx, level, ("rank " + std::to_string(rank_) + " " + text).c_str());
}

}  // namespace sl::fault_inject
