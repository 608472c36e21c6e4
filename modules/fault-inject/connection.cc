// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/connection.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "modules/fault-inject/transport.h"

namespace sl::fault_inject {
namespace {

constexpr size_t kMaxHeld = 4096;

}  // namespace

// The seed of a connection does not depend on the order in which connections are made.
Connection::Connection(Transport* transport, sl_connection_t* inner, const sl_connect_args_t& args)
    : transport_(transport), inner_(inner), signal_count_(args.signal_count) {
  const Settings& settings = transport->settings();
  std::seed_seq seed{static_cast<uint32_t>(settings.seed),
                     static_cast<uint32_t>(settings.seed >> 32),
                     transport->rank(),
                     args.peer,
                     args.lane,
                     static_cast<uint32_t>(args.tag)};
  random_.seed(seed);
}

sl_status_t Connection::Put(const sl_put_t& put) {
  const uint32_t state = State();
  if (state != SL_CONNECTION_UP) return state == SL_CONNECTION_CONNECTING ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  if (put.signal != SL_NO_SIGNAL && put.signal >= signal_count_) return SL_ERR_INVALID;
  const Settings& settings = transport_->settings();
  if (held_.size() >= kMaxHeld) return SL_ERR_AGAIN;
  if (settings.kill_after_puts != 0 && ++puts_ >= settings.kill_after_puts && transport_->TakeKill()) {
    Kill();
    return SL_OK;  // lost on its way, as its sender will find out
  }
  if (Chance(settings.drop_per_million)) {
    transport_->CountDrop();
    return Swallow(put);
  }
  if (settings.delay_ns == 0 && held_.empty()) return transport_->ops()->put(inner_, &put);
  return Hold(put, transport_->now());
}

// The bytes are lost, the completion is not: a network tells its sender nothing.
sl_status_t Connection::Swallow(const sl_put_t& put) {
  if (put.cookie == 0) return SL_OK;
  sl_put_t nothing = {};
  nothing.struct_size = sizeof nothing;
  nothing.signal = SL_NO_SIGNAL;
  nothing.cookie = put.cookie;
  return held_.empty() ? transport_->ops()->put(inner_, &nothing) : Hold(nothing, transport_->now());
}

sl_status_t Connection::Hold(const sl_put_t& put, uint64_t now_ns) {
  Held& held = held_.emplace_back(Held{put, {}, now_ns + transport_->settings().delay_ns});
  if (put.source != nullptr && put.region == nullptr) {
    const auto* bytes = static_cast<const uint8_t*>(put.source);
    held.bytes.assign(bytes, bytes + put.bytes);
  }
  return SL_OK;
}

bool Connection::Release(uint64_t now_ns, bool all) {
  bool released = false;
  for (; !held_.empty() && (all || held_.front().due_ns <= now_ns); held_.pop_front()) {
    Held& held = held_.front();
    if (!held.bytes.empty()) held.put.source = held.bytes.data();
    // Any other failure shows in the state of the connection.
    if (transport_->ops()->put(inner_, &held.put) == SL_ERR_AGAIN) break;
    released = true;
  }
  return released;
}

void Connection::Kill() {
  transport_->Log(SL_LOG_INFO, "fault-inject: reset a connection after " + std::to_string(puts_) + " puts");
  sl_put_t reset = {};
  reset.struct_size = sizeof reset;
  reset.signal = signal_count_;
  reset.signal_value = 1;
  transport_->ops()->put(inner_, &reset);
  transport_->ops()->notify(inner_);
  killed_ = true;
  held_.clear();
}

uint32_t Connection::State() {
  if (killed_) return SL_CONNECTION_DOWN;
  const uint32_t state = transport_->ops()->connection_state(inner_);
  if (state == SL_CONNECTION_CONNECTING) return state;
  if (local_reset_ == nullptr) {
    sl_window_t window = {};
    window.struct_size = sizeof window;
    if (transport_->ops()->window(inner_, &window) != SL_OK) return state;
    local_reset_ = window.local_signals + size_t{signal_count_} * 8;
  }
  if (std::atomic_ref<uint64_t>(*local_reset_).load(std::memory_order_acquire) == 0) return state;
  killed_ = true;
  held_.clear();
  return SL_CONNECTION_DOWN;
}

sl_status_t Connection::Window(sl_window_t* out_window) {
  sl_window_t window = {};
  window.struct_size = sizeof window;
  if (const sl_status_t status = transport_->ops()->window(inner_, &window); status != SL_OK) return status;
  window.struct_size = out_window->struct_size;
  window.signal_count = signal_count_;
  window.peer = nullptr;  // stores past put() could not be lost
  std::memcpy(out_window, &window, std::min<size_t>(window.struct_size, sizeof window));
  return SL_OK;
}

void Connection::Notify() {
  // What is held back rings when it goes.
  if (!killed_) transport_->ops()->notify(inner_);
}

}  // namespace sl::fault_inject
