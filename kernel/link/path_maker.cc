// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/path_maker.h"

#include <algorithm>
#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "sdk/status.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kFirstBackoffNs = 1'000'000;
constexpr uint64_t kLongestBackoffNs = 100'000'000;
// The peer's host says at once that nobody listens; after so many in a row the process has gone, or has closed.
constexpr uint32_t kRefusalsToGiveUp = 3;
// What is missing on this side may be there again in a moment; who waits must hear what to do if it is not.
constexpr uint64_t kShortagePatienceNs = 2'000'000'000;
constexpr uint64_t kSayFailureAfterNs = 2'000'000'000;

// The connecting end says with its tag which communicator, path and attempt a connection is for.
constexpr uint64_t kCommMask = (1 << 24) - 1;
uint64_t TagOf(uint64_t comm_id, uint32_t path, uint32_t epoch) {
  return (comm_id & kCommMask) << 40 | uint64_t{path} << 32 | epoch;
}
uint32_t EpochOf(uint64_t tag) { return static_cast<uint32_t>(tag); }

uint64_t RateOf(const LinkTransport& transport, uint32_t index) {
  sl_port_t port = {};
  port.struct_size = sizeof port;
  static_cast<void>(transport.ops->port_info(transport.transport, index, &port));
  return port.bytes_per_second;
}

}  // namespace

PathMaker::PathMaker(const PathConfig& config, ChunkLink* link)
    : config_(config), link_(link), route_(FindRoute(config.transports, link->peer())) {
  if (!has_route() || !Connects()) return;
  wanted_ = std::min(static_cast<uint32_t>(route_.ports.size()), ChunkLink::kMaxPaths);
  window_bytes_ = WindowBytes();
  paths_.resize(wanted_);
}

// Several connections share what is under way, so that each has work while a chunk of another one is waited for. Within
// a host there is one, and its slots are to stay in the processor's cache.
uint64_t PathMaker::WindowBytes() const {
  const char* const* hosts = config_.hosts;
  const bool here = hosts == nullptr || std::strcmp(hosts[link_->peer()], hosts[config_.rank]) == 0;
  const auto ports = static_cast<uint32_t>(route_.ports.size());
  return config_.GeometryOf(here ? 1 : std::clamp(std::max(config_.connections, ports), 1u, kMostShares)).WindowBytes();
}

bool PathMaker::AllUp() const {
  for (uint32_t i = 0; i < wanted_; ++i) {
    if (!link_->IsUp(i)) return false;
  }
  return true;
}

bool PathMaker::IsOurs(const PathConfig& config, const sl_connect_args_t& args) {
  return args.tag >> 40 == (config.comm_id & kCommMask) && args.peer < config.rank &&
         IndexOf(args) < ChunkLink::kMaxPaths;
}

uint32_t PathMaker::IndexOf(const sl_connect_args_t& args) { return static_cast<uint32_t>(args.tag >> 32) & 0xff; }

bool PathMaker::Fits(const PathConfig& config, const PathMaker* maker, const sl_connect_args_t& args) {
  if (args.signal_count != Path::kSignalCount) return false;
  if (maker != nullptr && maker->window_bytes_ != 0) return args.window_bytes == maker->window_bytes_;
  const uint64_t share = config.GeometryOf(1).WindowBytes();
  return args.window_bytes != 0 && args.window_bytes % share == 0 && args.window_bytes / share <= kMostShares;
}

bool PathMaker::Accept(uint32_t transport, sl_connection_t* connection, const sl_connect_args_t& args) {
  window_bytes_ = args.window_bytes;
  const uint32_t index = IndexOf(args);
  if (paths_.size() <= index) paths_.resize(index + 1);
  Making& making = paths_[index];
  const uint32_t newest = std::max(link_->EpochOf(index), making.connection != nullptr ? making.epoch : 0);
  if (EpochOf(args.tag) <= newest || link_->failed()) {
    config_.transports[transport].ops->retire(connection);
    return false;
  }
  DropStarting(&making);
  making.transport = transport;
  making.connection = connection;
  making.port = args.port;
  making.epoch = EpochOf(args.tag);
  return true;
}

bool PathMaker::Start(uint32_t index, uint64_t now_ns) {
  Making& making = paths_[index];
  if (link_->IsUp(index) || making.connection != nullptr || now_ns < making.next_try_ns) return false;
  const LinkTransport& transport = config_.transports[route_.transport];
  const auto [local, remote] = route_.ports[index % route_.ports.size()];
  making.transport = route_.transport;
  making.port = local;
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  args.port = local;
  args.peer = link_->peer();
  args.lane = link_->lane();
  args.tag = TagOf(config_.comm_id, index, ++making.epoch);
  args.window_bytes = window_bytes_;
  args.signal_count = Path::kSignalCount;
  sl_connection_t* connection = nullptr;
  ClearLastError();
  const sl_address_t& address = transport.peers->at(args.peer)[remote].address;
  const sl_status_t status = transport.ops->connect(transport.transport, &address, &args, &connection);
  if (status != SL_OK) {
    OnRefused(&making, status, now_ns);
    return false;
  }
  making.connection = connection;
  return true;
}

std::optional<PathMaker::Made> PathMaker::Finish(uint32_t index, uint64_t now_ns) {
  Making& making = paths_[index];
  if (making.connection == nullptr) return {};
  const LinkTransport& transport = config_.transports[making.transport];
  const uint32_t state = transport.ops->connection_state(making.connection);
  if (state == SL_CONNECTION_CONNECTING) return {};
  // Of an accepted connection the state does not matter: what the peer put before it left counts.
  LinkConnection connection;
  connection.ops = transport.ops;
  connection.connection = making.connection;
  connection.window.struct_size = sizeof connection.window;
  ClearLastError();
  sl_status_t status = transport.ops->window(making.connection, &connection.window);
  if (Connects() && state != SL_CONNECTION_UP) {
    // It ended before it was up; the window's status says whether the peer's host has answered that nobody listens.
    if (status != SL_ERR_PEER_LOST) status = SL_ERR_LINK_DOWN;
  } else if (status == SL_ERR_AGAIN) {
    return {};
  }
  if (status != SL_OK) {
    DropStarting(&making);
    OnRefused(&making, status, now_ns);
    return {};
  }
  making.connection = nullptr;
  ForgetFailures(&making);
  connection.window.bytes = window_bytes_;  // a transport may give more
  connection.bytes_per_second = RateOf(transport, making.port);
  Made made{making.transport, making.epoch, connection};
  // The first one shows what more is wanted.
  if (connection.window.peer == nullptr && wanted_ != 0) {
    wanted_ = std::clamp(config_.connections, wanted_, ChunkLink::kMaxPaths);
    if (paths_.size() < wanted_) paths_.resize(wanted_);
  }
  return made;
}

void PathMaker::Restart(uint64_t now_ns) {
  for (Making& making : paths_) {
    ForgetFailures(&making);
    making.next_try_ns = now_ns;
  }
}

void PathMaker::Drop() {
  for (Making& making : paths_) DropStarting(&making);
}

void PathMaker::DropStarting(Making* making) const {
  if (making->connection != nullptr) config_.transports[making->transport].ops->retire(making->connection);
  making->connection = nullptr;
}

void PathMaker::ForgetFailures(Making* making) {
  making->refusals = 0;
  making->why.clear();
  making->failing_since_ns = 0;
  making->failure_is_said = false;
  making->short_since_ns = 0;
  making->backoff_ns = kFirstBackoffNs;
}

void PathMaker::OnRefused(Making* making, sl_status_t status, uint64_t now_ns) {
  const auto index = making - paths_.data();
  const std::string& transport = config_.transports[making->transport].name;
  const std::string& why = making->why;
  making->why = LastError();
  Logf(SL_LOG_DEBUG, "rank {} peer {} lane {} path {}: connect over {} failed: {} ({})", config_.rank, link_->peer(),
       link_->lane(), index, transport, why, StatusName(status));
  making->backoff_ns = std::clamp(2 * making->backoff_ns, kFirstBackoffNs, kLongestBackoffNs);
  making->next_try_ns = now_ns + making->backoff_ns;
  if (link_->up()) return;
  if (SL_IS_USAGE_ERROR(status)) return link_->Fail(status, "the transport refuses the peer's address");
  if (SL_IS_RESOURCE_ERROR(status)) return OnShortage(making, status, now_ns);
  // Nobody listening does not pass. Anything else may: a port comes up again, a route is there again.
  making->refusals = status == SL_ERR_PEER_LOST ? making->refusals + 1 : 0;
  const auto given_up = [](const Making& path) { return path.refusals >= kRefusalsToGiveUp; };
  if (std::all_of(paths_.begin(), paths_.end(), given_up)) {
    return link_->Fail(SL_ERR_PEER_LOST, "the peer does not listen any more" + (why.empty() ? why : ": " + why));
  }
  if (making->failing_since_ns == 0) making->failing_since_ns = now_ns;
  if (making->failure_is_said || now_ns - making->failing_since_ns < kSayFailureAfterNs) return;
  making->failure_is_said = true;
  Logf(SL_LOG_WARN, "rank {} peer {} lane {} path {}: cannot connect over {}: {}; trying again", config_.rank,
       link_->peer(), link_->lane(), index, transport, why);
}

void PathMaker::OnShortage(Making* making, sl_status_t status, uint64_t now_ns) const {
  if (making->short_since_ns == 0) {
    making->short_since_ns = now_ns;
    Logf(SL_LOG_WARN, "rank {} peer {} lane {}: {}; trying again for a while", config_.rank, link_->peer(),
         link_->lane(), making->why);
  } else if (now_ns - making->short_since_ns > kShortagePatienceNs) {
    link_->Fail(status, making->why);
  }
}

}  // namespace sl::kernel
