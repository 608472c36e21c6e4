// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-shm/transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sdk/answer.h"
#include "sdk/doorbell.h"
#include "sdk/system.h"

namespace sl::transport_shm {
namespace {

constexpr size_t kMaxVisitors = 256;
constexpr int kAcceptBurst = 64;
constexpr uint64_t kShortageNs = 100'000'000;
// One way of a cached chunk on a current server core, copy included; selection compares it with other transports.
constexpr uint64_t kBytesPerSecond = 8'000'000'000;
constexpr uint64_t kLatencyNs = 200;

}  // namespace

Result<std::unique_ptr<Transport>> Transport::Open(const sl_host_t* host, const Settings& settings,
                                                   const sl_transport_env_t& env) {
  SL_ASSIGN(Fd fd, MakeSegment("starling-port", kPortBytes));
  SL_ASSIGN(std::unique_ptr<Mapping> port, Mapping::Map(fd.get(), kPortBytes, false));
  return std::unique_ptr<Transport>(new Transport(host, settings, env, std::move(fd), std::move(port)));
}

Transport::Transport(const sl_host_t* host, const Settings& settings, const sl_transport_env_t& env, Fd port_fd,
                     std::unique_ptr<Mapping> port)
    : host_(host),
      settings_(settings),
      env_(env),
      port_fd_(std::move(port_fd)),
      port_mapping_(std::move(port)),
      port_(reinterpret_cast<Port*>(port_mapping_->data())) {}

Transport::~Transport() {
  // Forked children may hold copies of the listener; connects must be refused all the same.
  if (listener_.valid()) shutdown(listener_.get(), SHUT_RDWR);
  for (Entry& entry : connections_) entry.connection->Leave();
}

void Transport::Log(sl_log_level_t level, const std::string& text) const {
  if (host_->log_enabled(host_->ctx, level) == 0) return;
  host_->log(host_->ctx, level, ("rank " + std::to_string(env_.rank) + " " + text).c_str());
}

void Transport::PortInfo(sl_port_t* out_port) const {
  sl_port_t port = {};
  port.state = SL_PORT_UP;
  std::strcpy(port.name, "shm");
  port.bytes_per_second = kBytesPerSecond;
  port.latency_ns = kLatencyNs;
  port.numa_node = -1;
  std::memcpy(port.fabric, env_.host_id, sizeof port.fabric);
  port.max_inline_bytes = UINT32_MAX;  // put() copies before it returns
  Answer(out_port, port);
}

Status Transport::Listen(sl_address_t* out_address) {
  const std::lock_guard lock(mutex_);
  if (!listener_.valid()) {
    SL_ASSIGN(listener_, MakeListener(name_));
  }
  Address address = {kWireMagic, kWireVersion, 0, {}, {}};
  std::memcpy(address.host_id, env_.host_id, sizeof address.host_id);
  std::memcpy(address.name, name_, sizeof address.name);
  *out_address = {};
  out_address->bytes = sizeof address;
  std::memcpy(out_address->data, &address, sizeof address);
  return Status();
}

Result<Connection*> Transport::Connect(const sl_address_t& bytes, const sl_connect_args_t& args) {
  Address address;
  std::memcpy(&address, bytes.data, sizeof address);
  if (bytes.bytes != sizeof address || address.magic != kWireMagic || address.version != kWireVersion) {
    return Status(SL_ERR_INVALID, "connect: not an address of this transport and version");
  }
  if (std::memcmp(address.host_id, env_.host_id, sizeof address.host_id) != 0) {
    return Status(SL_ERR_INVALID, "connect: rank " + std::to_string(args.peer) + " is on another host");
  }
  const Layout layout{args.window_bytes, args.signal_count};
  if (!layout.Valid()) {
    return Status(SL_ERR_INVALID, "connect: window of " + std::to_string(args.window_bytes) + " bytes with " +
                                      std::to_string(args.signal_count) + " signals; at most " +
                                      std::to_string(kMaxWindowBytes) + " and " + std::to_string(kMaxSignals));
  }
  SL_ASSIGN(Fd fd, MakeSegment("starling-link", layout.Total()));
  SL_ASSIGN(std::unique_ptr<Mapping> segment, Mapping::Map(fd.get(), layout.Total(), settings_.huge_pages));
  const Hello hello = {kWireMagic, kWireVersion,      sizeof(Hello), env_.rank,         args.peer,
                       args.lane,  args.signal_count, args.tag,      args.window_bytes, {}};
  auto connection = std::make_unique<Connection>(this, 0, hello, std::move(segment));
  connection->set_segment_fd(std::move(fd));

  const std::lock_guard lock(mutex_);
  if (Status started = connection->Start(address.name, env_.job_secret, port_fd_.get()); !started.ok()) {
    return Status(started.code(), "connect to rank " + std::to_string(args.peer) + ": " + started.message());
  }
  Connection* raw = connection.get();
  Entry& entry = connections_.emplace_back(Entry{std::move(connection), {}});
  std::memcpy(entry.name, address.name, sizeof entry.name);
  return raw;
}

Result<Connection*> Transport::Accept() {
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) AttendToVisitors();
  if (ready_.empty()) return shortage_.ok() ? Status(SL_ERR_AGAIN) : shortage_;
  Connection* connection = ready_.front();
  ready_.pop_front();
  return connection;
}

void Transport::Retire(Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto entry = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const Entry& e) { return e.connection.get() == connection; });
  if (entry == connections_.end()) return;
  connection->Leave();
  completions_.Forget(reinterpret_cast<sl_connection_t*>(connection));
  std::erase(ready_, connection);
  connections_.erase(entry);
}

void Transport::FinishReply(Connection* connection) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    connection->FinishReply(env_.job_secret);
  } catch (...) {
    // Out of memory: the reply's port stays unknown, and the connection is found dead by the next look.
    connection->MarkLost();
  }
}

void Transport::Look() {
  const std::lock_guard lock(mutex_);
  seen_attention_.store(std::atomic_ref<uint32_t>(port_->attention).load(std::memory_order_acquire),
                        std::memory_order_relaxed);
  const uint64_t time = now();
  if (time >= next_look_ns_.load(std::memory_order_relaxed)) {
    next_look_ns_.store(time + settings_.liveness_interval_ns, std::memory_order_relaxed);
    AttendToVisitors();
    StartConnections();
    WatchPeers();
  }
  for (Entry& entry : connections_) {
    if (!entry.connection->starting()) entry.connection->ExchangeProbes();
  }
}

void Transport::AttendToVisitors() {
  if (now() < closed_until_ns_) return;
  // Who has spoken needs its place no longer: nobody is crowded out for those who come now but the silent. And it goes
  // first where descriptors are short.
  static_assert(kAcceptBurst <= kMaxVisitors);
  if (!HearVisitors()) return;
  const bool empty = AdmitVisitors();
  if (HearVisitors() && empty) shortage_ = Status();
}

void Transport::RunShort(Status why) {
  if (shortage_.ok()) Log(SL_LOG_WARN, why.message());
  shortage_ = std::move(why);
  closed_until_ns_ = now() + kShortageNs;
}

bool Transport::AdmitVisitors() {
  if (!listener_.valid()) return true;
  for (int i = 0; i < kAcceptBurst; ++i) {
    Fd socket = MakeFd([this] { return accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
    if (!socket.valid()) {
      if (errno == EAGAIN) return true;
      Status why = SocketError("accept");
      // The system looks for a descriptor before it looks whether anybody waits.
      pollfd backlog = {listener_.get(), POLLIN, 0};
      if (why.code() == SL_ERR_LIMIT && poll(&backlog, 1, 0) == 1) RunShort(std::move(why));
      return false;
    }
    int32_t pid = 0;
    if (!SameUser(socket.get(), &pid)) {
      shutdown(socket.get(), SHUT_RDWR);
      DropStranger("of another user");
      continue;
    }
    // An honest peer speaks at once; of too many silent ones the oldest has had the most time.
    if (visitors_.size() == kMaxVisitors) {
      visitors_.pop_front();
      DropStranger("crowded out");
    }
    visitors_.emplace_back(std::move(socket), now() + settings_.handshake_timeout_ns);
  }
  return false;
}

bool Transport::HearVisitors() {
  const uint64_t time = visitors_.empty() ? 0 : now();
  bool enough = true;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    const Transfer heard = Hear(&*visitor);
    bool gone = heard == Transfer::kDone;
    if (heard == Transfer::kShort) {
      enough = false;
      RunShort(SocketError("accept"));
    } else if (!gone && time >= visitor->deadline_ns) {
      DropStranger("silent");
      gone = true;
    }
    visitor = gone ? visitors_.erase(visitor) : visitor + 1;
  }
  return enough;
}

Transfer Transport::Hear(Visitor* visitor) {
  Hello hello;
  Fd fds[2];
  const Transfer transfer = ReceivePacket(visitor->socket.get(), &hello, sizeof hello, fds, 2);
  if (transfer == Transfer::kAgain || transfer == Transfer::kShort) return transfer;
  if (transfer == Transfer::kBroken) {
    DropStranger("that sent no hello");
    return Transfer::kDone;
  }
  if (const Status checked = CheckHello(hello); !checked.ok()) {
    DropStranger(checked.message());
    return Transfer::kDone;
  }
  const Layout layout{hello.window_bytes, hello.signal_count};
  Result<std::unique_ptr<Mapping>> segment = Mapping::Map(fds[0].get(), layout.Total(), settings_.huge_pages);
  Result<std::unique_ptr<Mapping>> port = Mapping::Map(fds[1].get(), kPortBytes, false);
  if (!segment.ok() || !port.ok()) {
    // It knows the secret, so this is our limit or a defect, not a stranger.
    Log(SL_LOG_ERROR, "accept from rank " + std::to_string(hello.from) + ": " +
                          (segment.ok() ? port.status() : segment.status()).message());
    return Transfer::kDone;
  }
  auto connection = std::make_unique<Connection>(this, 1, hello, segment.Take());
  connection->Adopt(std::move(visitor->socket), port.Take());
  connections_.push_back(Entry{std::move(connection), {}});
  Connection* kept = connections_.back().connection.get();
  try {
    ready_.push_back(kept);
  } catch (...) {
    connections_.pop_back();  // the peer finds its socket closed
    throw;
  }
  kept->SendReply(env_.job_secret, port_fd_.get());
  return Transfer::kDone;
}

Status Transport::CheckHello(const Hello& hello) const {
  if (hello.magic != kWireMagic) return Status(SL_ERR_DENIED, "that spoke another protocol");
  if (hello.version != kWireVersion || hello.bytes != sizeof hello) {
    return Status(SL_ERR_DENIED, "with wire version " + std::to_string(hello.version) + ", wanted " +
                                     std::to_string(kWireVersion) + ": use one version of Starling on all ranks");
  }
  if (!SameProof(hello.proof, ProveHello(env_.job_secret, hello, name_))) {
    return Status(SL_ERR_DENIED, "with a wrong secret");
  }
  const Layout layout{hello.window_bytes, hello.signal_count};
  if (hello.to != env_.rank || hello.from >= env_.size || !layout.Valid()) {
    return Status(SL_ERR_DENIED,
                  "that said it was rank " + std::to_string(hello.from) + " for rank " + std::to_string(hello.to));
  }
  return Status();
}

void Transport::DropStranger(const std::string& why) {
  const uint64_t count = strangers_.fetch_add(1, std::memory_order_relaxed) + 1;
  Log(count == 1 ? SL_LOG_WARN : SL_LOG_DEBUG, "dropped a connection " + why);
}

void Transport::StartConnections() {
  for (Entry& entry : connections_) {
    if (entry.connection->starting()) {
      const Status started = entry.connection->Start(entry.name, env_.job_secret, port_fd_.get());
      if (started.ok()) continue;
      Log(started.code() == SL_ERR_LIMIT ? SL_LOG_WARN : SL_LOG_DEBUG, "connect: " + started.message());
    } else {
      entry.connection->FinishReply(env_.job_secret);
      if (entry.connection->reply_due()) entry.connection->SendReply(env_.job_secret, port_fd_.get());
    }
  }
}

void Transport::WatchPeers() {
  polled_.clear();
  polled_connections_.clear();
  for (Entry& entry : connections_) {
    Connection* connection = entry.connection.get();
    if (connection->State() != SL_CONNECTION_UP) continue;
    // The end of a socket is always reported; the end of a process makes its pidfd readable.
    polled_.push_back({connection->socket(), 0, 0});
    polled_connections_.push_back(connection);
    if (connection->process() < 0) continue;
    polled_.push_back({connection->process(), POLLIN, 0});
    polled_connections_.push_back(connection);
  }
  if (polled_.empty() || poll(polled_.data(), polled_.size(), 0) <= 0) return;
  for (size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) polled_connections_[i]->MarkLost();
  }
}

}  // namespace sl::transport_shm
