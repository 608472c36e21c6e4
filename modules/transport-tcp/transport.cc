// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/transport.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "modules/transport-tcp/socket.h"
#include "sdk/answer.h"
#include "sdk/system.h"

namespace sl::transport_tcp {
namespace {

// So few streams are tried one by one: a read that finds nothing costs what epoll costs, one that finds something
// saves it.
constexpr size_t kTriedDirectly = 2;
constexpr uint32_t kCallsPerSweep = 16;  // then epoll is asked all the same: for the door, for ports, for the clock
constexpr uint64_t kIdleSweepNs = 1'000'000;
constexpr int kEvents = 64;
constexpr uint64_t kTickNs = 50'000'000;
// Loopback and local stacks answer at once, whatever is assumed of the network.
constexpr uint64_t kLoopbackLatencyNs = 8'000;
constexpr uint64_t kLoopbackBytesPerSecond = 2'500'000'000;

// What the module's own options leave open, the job says.
InterfaceFilter FilterOf(const Settings& settings, const sl_transport_env_t& env) {
  InterfaceFilter filter = settings.filter;
  if (filter.names.empty() && env.interfaces != nullptr) filter.names = env.interfaces;
  if (filter.family == "auto" && env.address_family != 0) filter.family = env.address_family == 4 ? "ipv4" : "ipv6";
  return filter;
}

std::string RankText(uint32_t rank) { return "connect to rank " + std::to_string(rank) + ": "; }

}  // namespace

Result<std::unique_ptr<Transport>> Transport::Open(const sl_host_t* host, const Settings& settings,
                                                   const sl_transport_env_t& env) {
  SL_ASSIGN(const std::vector<Interface> all, ListInterfaces());
  SL_ASSIGN(const std::vector<Interface> interfaces, SelectInterfaces(all, FilterOf(settings, env)));
  Fd epoll = MakeFd([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!epoll.valid()) return SocketError("epoll_create1", errno);
  return std::unique_ptr<Transport>(new Transport(host, settings, env, std::move(epoll), interfaces));
}

Transport::Transport(const sl_host_t* host, const Settings& settings, const sl_transport_env_t& env, Fd epoll,
                     const std::vector<Interface>& interfaces)
    : door_(&shared_) {
  shared_.owner = this;
  shared_.host = host;
  shared_.settings = settings;
  shared_.env = env;
  shared_.env.interfaces = nullptr;  // borrowed, and no longer needed
  shared_.epoll = std::move(epoll);
  for (const Interface& interface : interfaces) ports_.emplace_back(interface);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (watch_.valid()) epoll_ctl(shared_.epoll.get(), EPOLL_CTL_ADD, watch_.fd(), &event);
}

Transport::~Transport() {
  for (const auto& connection : connections_) connection->Leave();
  const Counters& c = shared_.counters;
  shared_.LogIfPossible(SL_LOG_DEBUG, [&c] {
    return "sent " + std::to_string(c.sent_bytes) + " bytes in " + std::to_string(c.sends) + " calls, received " +
           std::to_string(c.received_bytes) + " in " + std::to_string(c.receives) + ", asked epoll " +
           std::to_string(c.waits) + " times, copied " + std::to_string(c.copied_out_bytes) + " out and " +
           std::to_string(c.copied_in_bytes) + " in; the system copied " + std::to_string(c.zerocopy_copied) + " of " +
           std::to_string(c.zerocopy_sends) + " zero-copy sends";
  });
}

void Transport::PortInfo(uint32_t index, sl_port_t* out_port) const {
  const Port& from = ports_[index];
  const Interface& interface = from.interface;
  sl_port_t port = {};
  port.state = from.up.load(std::memory_order_relaxed) ? SL_PORT_UP : 0;
  std::strncpy(port.name, interface.name.c_str(), sizeof port.name - 1);
  std::strncpy(port.pci_path, interface.pci_path.c_str(), sizeof port.pci_path - 1);
  port.bytes_per_second = interface.loopback ? kLoopbackBytesPerSecond : BytesPerSecond(interface);
  port.latency_ns = interface.loopback ? kLoopbackLatencyNs : shared_.settings.latency_ns;
  port.numa_node = interface.numa_node;
  port.rail = index;
  // Routed addresses of one family reach each other; loopback ends at its namespace.
  if (interface.loopback) std::copy(shared_.loopback_id.begin(), shared_.loopback_id.end(), port.fabric);
  if (!interface.loopback) port.fabric[0] = interface.family;
  port.max_inline_bytes = SendQueue::kInlineBytes;
  Answer(out_port, port);
}

Status Transport::Listen(uint32_t port, sl_address_t* out_address) {
  Address address = {};
  SL_TRY(door_.Open(port, ports_[port].interface, &address));
  EncodeAddress(address, out_address);
  return Status();
}

Status Transport::WhyUnreachable(const Address& address, const sl_connect_args_t& args) const {
  const Interface& from = ports_[args.port].interface;
  if (args.window_bytes > kMaxWindowBytes || args.signal_count > kMaxSignals) {
    return Status(SL_ERR_INVALID, RankText(args.peer) + "window of " + std::to_string(args.window_bytes) +
                                      " bytes with " + std::to_string(args.signal_count) + " signals; at most " +
                                      std::to_string(kMaxWindowBytes) + " and " + std::to_string(kMaxSignals));
  }
  if (address.family != from.family) {
    return Status(SL_ERR_INVALID, RankText(args.peer) + "it listens on IPv" + std::to_string(address.family) +
                                      ", port " + from.name + " is IPv" + std::to_string(from.family) +
                                      "; set the option family on all ranks");
  }
  const bool leads_there = std::equal(shared_.loopback_id.begin(), shared_.loopback_id.end(), address.loopback);
  if (!leads_there && (address.reach == Reach::kHost || from.loopback)) {
    return Status(SL_ERR_INVALID, RankText(args.peer) +
                                      "loopback does not reach another host; name an interface in the option "
                                      "interfaces, comm.interface or NCCL_SOCKET_IFNAME");
  }
  return Status();
}

Result<Connection*> Transport::Connect(const sl_address_t& bytes, const sl_connect_args_t& args) {
  Address address;
  if (!DecodeAddress(bytes, &address)) {
    return Status(SL_ERR_INVALID, RankText(args.peer) + "not an address of this transport and version");
  }
  SL_TRY(WhyUnreachable(address, args));
  const Interface& from = ports_[args.port].interface;
  SL_ASSIGN(std::unique_ptr<Window> window,
            Window::Make(args.window_bytes, args.signal_count, shared_.settings.huge_pages));
  SL_ASSIGN(const Nonce fresh, FreshNonce());
  Hello hello = {};
  hello.from = shared_.env.rank;
  hello.to = args.peer;
  hello.lane = args.lane;
  hello.signal_count = args.signal_count;
  hello.tag = args.tag;
  hello.window_bytes = args.window_bytes;
  Nonce listener;
  std::copy(std::begin(address.listener), std::end(address.listener), listener.begin());
  Destination destination = {address.family, {}, address.port, from.index};
  std::copy(std::begin(address.ip), std::end(address.ip), destination.ip.begin());
  Result<Fd> stream = StartConnect(from, shared_.settings, destination.ip, destination.port);
  if (!stream.ok()) return Status(stream.status().code(), RankText(args.peer) + stream.status().message());
  const Caller caller(shared_.env.job_secret, hello, listener, fresh);
  auto connection =
      std::make_unique<Connection>(&shared_, args.port, caller, destination, stream.Take(), std::move(window));
  Connection* raw = connection.get();
  Keep(std::move(connection));
  return raw;
}

void Transport::Keep(std::unique_ptr<Connection> connection) {
  connection->slot = static_cast<uint32_t>(connections_.size());
  connections_.push_back(std::move(connection));
  if (connections_.size() > kTriedDirectly) shared_.watch_full.store(true, std::memory_order_relaxed);
}

Result<Connection*> Transport::Accept() {
  if (ready_.empty()) TakeGuests();
  if (ready_.empty()) return door_.shortage().ok() ? Status(SL_ERR_AGAIN) : door_.shortage();
  Connection* connection = ready_.front();
  ready_.pop_front();
  return connection;
}

bool Transport::TakeGuests() {
  std::vector<Door::Guest> guests;
  const bool moved = door_.Look(&guests);
  for (Door::Guest& guest : guests) {
    const Hello& hello = guest.hello;
    Result<std::unique_ptr<Window>> window =
        Window::Make(hello.window_bytes, hello.signal_count, shared_.settings.huge_pages);
    if (!window.ok()) {
      // It knows the secret, so this is our limit, not a stranger.
      shared_.Log(SL_LOG_ERROR, "accept from rank " + std::to_string(hello.from) + ": " + window.status().message());
      continue;
    }
    Keep(std::make_unique<Connection>(&shared_, guest.port, hello, std::move(*guest.stream.fd()), window.Take()));
    ready_.push_back(connections_.back().get());
  }
  return moved;
}

void Transport::Retire(Connection* connection) {
  connection->Leave();
  std::erase(ready_, connection);
  const uint32_t slot = connection->slot;
  std::swap(connections_[slot], connections_.back());
  connections_[slot]->slot = slot;
  const auto* handle = reinterpret_cast<const sl_connection_t*>(connection);
  connections_.pop_back();
  shared_.completions.Forget(handle);
}

int Transport::WaitDescriptor() {
  shared_.watch_full.store(true, std::memory_order_relaxed);
  return shared_.epoll.get();
}

bool Transport::Progress() {
  bool moved = false;
  const bool direct = connections_.size() <= kTriedDirectly;
  if (direct) {
    for (const auto& connection : connections_) moved |= connection->Drive(EPOLLIN | EPOLLOUT);
  } else {
    moved = TakeEvents();
    for (const auto& connection : connections_) connection->FlushLeft();
  }
  if (++calls_ % kCallsPerSweep != 0) [[likely]]
    return moved;
  const uint64_t now_ns = shared_.now();
  // Without connections this is somebody who waits for another transport.
  if (direct && (!connections_.empty() || now_ns >= next_idle_sweep_ns_)) {
    next_idle_sweep_ns_ = now_ns + kIdleSweepNs;
    moved |= TakeEvents();
  }
  if (now_ns >= next_tick_ns_) moved |= Tick(now_ns);
  return moved;
}

bool Transport::TakeEvents() {
  epoll_event events[kEvents];
  const int count = epoll_wait(shared_.epoll.get(), events, kEvents, 0);
  Count(&shared_.counters.waits);
  bool moved = false;
  bool knocked = false;
  for (int i = 0; i < count; ++i) {
    auto* connection = static_cast<Connection*>(events[i].data.ptr);
    if (connection == nullptr) {
      knocked = true;
    } else {
      moved |= connection->Drive(events[i].events);
    }
  }
  if (!knocked) return moved;
  moved |= ReadPorts();
  moved |= TakeGuests();
  return moved;
}

bool Transport::Tick(uint64_t now_ns) {
  next_tick_ns_ = now_ns + kTickNs;
  for (const auto& connection : connections_) connection->CheckPeer(now_ns);
  return door_.Expire(now_ns) && TakeGuests();
}

bool Transport::ReadPorts() {
  bool moved = false;
  watch_.Read([this, &moved](uint32_t index, bool up) {
    for (uint32_t port = 0; port < ports_.size(); ++port) {
      const Interface& interface = ports_[port].interface;
      if (index == interface.index) moved |= TellPort(port, up);
      if (index == 0) moved |= TellPort(port, IsRunning(interface.name.c_str()));
    }
  });
  return moved;
}

bool Transport::TellPort(uint32_t port, bool up) {
  if (ports_[port].up.exchange(up, std::memory_order_relaxed) == up) return false;
  shared_.Log(up ? SL_LOG_INFO : SL_LOG_WARN, "port " + ports_[port].interface.name + (up ? " is up" : " went down"));
  // With a full ring the user learns it from port_info, which it asks when puts fail.
  if (shared_.completions.Reserve()) shared_.completions.Publish({port, nullptr, SL_OK, SL_COMPLETION_PORT});
  return true;
}

}  // namespace sl::transport_tcp
