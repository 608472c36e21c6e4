// SPDX-License-Identifier: Apache-2.0
// transport-tcp as a link of the kernel uses it: slots of a window, a signal that counts messages, one that gives slots
// back, a notice after each burst.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/tcp/path.h"
#include "modules/transport-tcp/transport.h"
#include "sdk/clock.h"
#include "sl_transport.h"

namespace sl::bench_tcp {
namespace {

constexpr uint64_t kSlots = 8;
enum Word : uint32_t { kSent, kTaken };

// The least host that a module needs.
const sl_host_t* Host() {
  static sl_host_t host = [] {
    sl_host_t made = {};
    made.struct_size = sizeof made;
    made.log_enabled = [](void*, sl_log_level_t level) { return level <= SL_LOG_WARN ? 1 : 0; };
    made.log = [](void*, sl_log_level_t, const char* text) { std::fprintf(stderr, "%s\n", text); };
    made.set_error = [](void*, sl_status_t status, const char* text) {
      std::fprintf(stderr, "%s\n", text);
      return status;
    };
    made.now_ns = [](void*) { return NowNs(); };
    return made;
  }();
  return &host;
}

class ByTransport : public Path {
 public:
  explicit ByTransport(const Meeting& meeting) {
    transport_tcp::Settings settings;
    settings.filter.names = meeting.interfaces;
    sl_transport_env_t env = {};
    env.struct_size = sizeof env;
    env.rank = meeting.left ? 0 : 1;
    env.size = 2;
    auto opened = transport_tcp::Transport::Open(Host(), settings, env);
    if (!opened.ok()) Die(opened.status().message().c_str());
    transport_ = opened.Take();
    sl_address_t address = {};
    if (meeting.left) {
      if (!transport_->Listen(0, &address).ok()) Die("listen");
      meeting.Tell(&address, sizeof address);
      for (connection_ = nullptr; connection_ == nullptr; transport_->Progress()) {
        if (auto accepted = transport_->Accept(); accepted.ok()) connection_ = accepted.value();
      }
    } else {
      meeting.Hear(&address, sizeof address);
      sl_connect_args_t args = {};
      args.struct_size = sizeof args;
      args.window_bytes = kSlots * kChunk;
      args.signal_count = 2;
      auto connected = transport_->Connect(address, args);
      if (!connected.ok()) Die(connected.status().message().c_str());
      connection_ = connected.value();
    }
    while (connection_->State() == SL_CONNECTION_CONNECTING) transport_->Progress();
    window_.struct_size = sizeof window_;
    if (connection_->GetWindow(&window_) != SL_OK) Die("no window");
  }
  const char* name() const override { return "transport-tcp"; }
  uint64_t calls() const override {
    const transport_tcp::Counters& counters = transport_->counters();
    return counters.sends + counters.receives + counters.waits;
  }
  uint64_t copied() const override {
    return transport_->counters().copied_out_bytes + transport_->counters().copied_in_bytes;
  }
  void Put(const uint8_t* bytes, uint64_t size) override {
    ++sent_;
    while (sent_ > Signal(kTaken) + kSlots) transport_->Progress();
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = kSent;
    put.signal_value = sent_;
    put.source = bytes;
    put.bytes = size;
    put.offset = (sent_ - 1) % kSlots * kChunk;
    while (connection_->Put(put) == SL_ERR_AGAIN) transport_->Progress();
    connection_->Notify();
  }
  void Take(uint64_t) override {
    ++taken_;
    while (Signal(kSent) < taken_) {
      transport_->Progress();
      if (connection_->State() != SL_CONNECTION_UP && Signal(kSent) < taken_) Die("connection lost");
    }
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = kTaken;
    put.signal_value = taken_;
    while (connection_->Put(put) == SL_ERR_AGAIN) transport_->Progress();
    // Leaves with the next put, or the next look at what comes.
  }

 private:
  uint64_t Signal(uint32_t word) const {
    return std::atomic_ref<uint64_t>(window_.local_signals[word * 8]).load(std::memory_order_acquire);
  }
  std::unique_ptr<transport_tcp::Transport> transport_;
  transport_tcp::Connection* connection_ = nullptr;
  sl_window_t window_ = {};
  uint64_t sent_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Path> MakeTransport(const Meeting& meeting) { return std::make_unique<ByTransport>(meeting); }

}  // namespace sl::bench_tcp
