// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/link_table.h"

#include <time.h>

#include <algorithm>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "sdk/status.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kFirstBackoffNs = 1'000'000;
constexpr uint64_t kLongestBackoffNs = 100'000'000;
constexpr uint64_t kLongestTickNs = 5'000'000;
constexpr uint32_t kCallsPerClock = 16;
// A transport refuses at once when nobody listens; after so many in a row the process has gone, or has closed.
constexpr uint32_t kRefusalsToGiveUp = 3;

uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// A transport that does not say is up.
bool IsPortUp(const LinkTransport& transport) {
  sl_port_t port = {};
  port.struct_size = sizeof port;
  return transport.ops->port_info(transport.transport, transport.port, &port) != SL_OK ||
         (port.state & SL_PORT_UP) != 0;
}

LinkTableConfig WithDefaults(LinkTableConfig config) {
  if (config.now_ns == nullptr) config.now_ns = MonotonicNs;
  config.slots = std::max(config.slots, 1u);
  config.lanes = std::clamp(config.lanes, 1u, LinkTable::kMaxLanes);
  return config;
}

}  // namespace

LinkTable::LinkTable(LinkTableConfig config) : config_(WithDefaults(std::move(config))) {
  context_.rank = config_.rank;
  context_.comm_id = config_.comm_id;
  context_.geometry = {config_.slots, config_.chunk_bytes};
  context_.resend_ns = config_.resend_ns;
  tick_ns_ = std::min(kLongestTickNs, config_.resend_ns / 4 + 1);
  if (config_.transports.size() == 1) {
    const LinkTransport& only = config_.transports[0];
    sl_wait_object_t object = {};
    object.struct_size = sizeof object;
    const bool given = only.ops->wait_object(only.transport, &object) == SL_OK;
    if (given && object.type == SL_WAIT_DOORBELL) context_.doorbell = object.doorbell;
  }
  by_lane_.resize(config_.lanes, std::vector<Entry*>(config_.size, nullptr));
}

LinkTable::~LinkTable() {
  for (const auto& entry : entries_) DropStarting(entry.get());
}

LinkTable::Entry* LinkTable::Find(uint32_t peer, uint32_t lane) {
  return lane < by_lane_.size() ? by_lane_[lane][peer] : nullptr;
}

LinkTable::Entry* LinkTable::Make(uint32_t peer, uint32_t lane) {
  if (lane >= by_lane_.size()) by_lane_.resize(lane + 1, std::vector<Entry*>(config_.size, nullptr));
  Entry* entry = entries_.emplace_back(std::make_unique<Entry>()).get();
  by_lane_[lane][peer] = entry;
  entry->link = std::make_unique<ChunkLink>(&context_, peer, lane);
  const auto reaches = [&](const LinkTransport& transport) {
    return peer < transport.peers.size() && transport.peers[peer].bytes != 0;
  };
  const auto found = std::find_if(config_.transports.begin(), config_.transports.end(), reaches);
  if (found == config_.transports.end()) {
    entry->link->Fail(SL_ERR_NOT_FOUND, "no transport of the profile reaches the peer");
    entry->settled = true;
    return entry;
  }
  entry->transport = static_cast<uint32_t>(found - config_.transports.begin());
  entry->backoff_ns = kFirstBackoffNs;
  ++unsettled_;
  return entry;
}

Link* LinkTable::Get(uint32_t peer, uint32_t lane) {
  Entry* entry = Find(peer, lane);
  if (entry != nullptr) [[likely]]
    return entry->link.get();
  entry = Make(peer, lane);
  // A first attempt right here saves a round of waiting.
  if (!entry->settled) Settle(entry, config_.now_ns());
  return entry->link.get();
}

sl_status_t LinkTable::Progress() {
  if (busy_.test_and_set(std::memory_order_acquire)) return SL_OK;
  sl_status_t first = SL_OK;
  for (const LinkTransport& transport : config_.transports) {
    const sl_status_t status = transport.ops->progress(transport.transport);
    if (status < SL_OK && status != SL_ERR_AGAIN && first == SL_OK) first = status;
  }
  // The clock costs more than all the rest.
  if (unsettled_ != 0 || ++calls_ % kCallsPerClock == 0) [[unlikely]] {
    const uint64_t now = config_.now_ns();
    if (unsettled_ != 0 || now >= next_tick_ns_) AcceptAll();
    if (now >= next_tick_ns_) Tick(now);
    if (unsettled_ != 0) {
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (!entries_[i]->settled) Settle(entries_[i].get(), now);
      }
    }
  }
  busy_.clear(std::memory_order_release);
  return first;
}

void LinkTable::Tick(uint64_t now_ns) {
  next_tick_ns_ = now_ns + tick_ns_;
  for (const auto& entry : entries_) {
    ChunkLink* link = entry->link.get();
    if (link->up()) link->Service(now_ns);
    if (!entry->settled || link->up() || link->failed()) continue;
    // It was up and is not any more.
    entry->settled = false;
    ++unsettled_;
    entry->broken_since_ns = now_ns;
    entry->refusals = 0;
    entry->backoff_ns = kFirstBackoffNs;
    entry->next_try_ns = now_ns;
  }
}

void LinkTable::AcceptAll() {
  for (const LinkTransport& transport : config_.transports) {
    sl_connection_t* connection = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    while (transport.ops->accept(transport.transport, &connection, &args) == SL_OK) Admit(transport, connection, args);
  }
}

bool LinkTable::IsOurs(const sl_connect_args_t& args) const {
  return args.tag >> 32 == (config_.comm_id & UINT32_MAX) && args.peer < config_.size && args.peer < config_.rank &&
         args.lane < kMaxLanes;
}

void LinkTable::Admit(const LinkTransport& transport, sl_connection_t* connection, const sl_connect_args_t& args) {
  if (!IsOurs(args)) {
    ++strangers_;
    Logf(SL_LOG_WARN, "rank {}: dropped a connection from rank {} lane {} tag {:#x}, which names no link of ours",
         config_.rank, args.peer, args.lane, args.tag);
    return transport.ops->retire(connection);
  }
  if (args.window_bytes != context_.geometry.WindowBytes() || args.signal_count != ChunkLink::kSignalCount) {
    ++strangers_;
    Logf(SL_LOG_ERROR,
         "rank {}: rank {} connects with windows of {} bytes, {} expected: link.chunk_bytes or link.slots differ "
         "between the ranks' profiles",
         config_.rank, args.peer, args.window_bytes, context_.geometry.WindowBytes());
    return transport.ops->retire(connection);
  }
  Entry* entry = Find(args.peer, args.lane);
  if (entry == nullptr) entry = Make(args.peer, args.lane);
  const auto epoch = static_cast<uint32_t>(args.tag);
  const uint32_t newest = std::max(entry->link->epoch(), entry->starting != nullptr ? entry->epoch : 0);
  if (epoch <= newest || entry->link->failed()) return transport.ops->retire(connection);
  DropStarting(entry);
  if (entry->settled) {
    entry->settled = false;
    ++unsettled_;
    entry->broken_since_ns = config_.now_ns();
  }
  entry->starting = connection;
  entry->starting_ops = transport.ops;
  entry->epoch = epoch;
}

void LinkTable::DropStarting(Entry* entry) {
  if (entry->starting != nullptr) entry->starting_ops->retire(entry->starting);
  entry->starting = nullptr;
}

// Brings an entry closer to being up, or to having failed.
void LinkTable::Settle(Entry* entry, uint64_t now_ns) {
  ChunkLink* link = entry->link.get();
  if (!link->failed() && entry->starting != nullptr) FinishStart(entry, now_ns);
  const bool broken = entry->was_up && !link->up() && !link->failed();
  if (broken && now_ns - entry->broken_since_ns > config_.link_timeout_ns) {
    link->Fail(SL_ERR_LINK_DOWN, "it went down and could not be made again in time");
  }
  if (!link->up() && !link->failed() && entry->starting == nullptr && Connects(link->peer()) &&
      now_ns >= entry->next_try_ns) {
    StartConnect(entry, now_ns);
  }
  if (!link->failed() && (!link->up() || entry->starting != nullptr)) return;
  if (link->failed()) DropStarting(entry);
  entry->settled = true;
  --unsettled_;
}

void LinkTable::StartConnect(Entry* entry, uint64_t now_ns) {
  const LinkTransport& transport = config_.transports[entry->transport];
  const uint32_t peer = entry->link->peer();
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  args.port = transport.port;
  args.peer = peer;
  args.lane = entry->link->lane();
  args.tag = Tag(++entry->epoch);
  args.window_bytes = context_.geometry.WindowBytes();
  args.signal_count = ChunkLink::kSignalCount;
  sl_connection_t* connection = nullptr;
  const sl_status_t status = transport.ops->connect(transport.transport, &transport.peers[peer], &args, &connection);
  if (status != SL_OK) return OnRefused(entry, status, now_ns);
  entry->starting = connection;
  entry->starting_ops = transport.ops;
  FinishStart(entry, now_ns);
}

void LinkTable::FinishStart(Entry* entry, uint64_t now_ns) {
  const sl_transport_ops_t* ops = entry->starting_ops;
  const uint32_t state = ops->connection_state(entry->starting);
  if (state == SL_CONNECTION_CONNECTING) return;
  ChunkLink* link = entry->link.get();
  // Of an accepted connection the state does not matter: what the peer put before it left counts.
  if (Connects(link->peer()) && state != SL_CONNECTION_UP) {
    DropStarting(entry);
    return OnRefused(entry, SL_ERR_LINK_DOWN, now_ns);
  }
  LinkPath path;
  path.ops = ops;
  path.connection = entry->starting;
  path.window.struct_size = sizeof path.window;
  sl_status_t status = ops->window(path.connection, &path.window);
  if (status == SL_ERR_AGAIN) return;
  if (status != SL_OK) {
    DropStarting(entry);
    return OnRefused(entry, status, now_ns);
  }
  entry->starting = nullptr;
  status = link->Attach(path, entry->epoch);
  if (status != SL_OK) return link->Fail(status, "no memory for what is on its way");
  entry->was_up = true;
  entry->refusals = 0;
  entry->backoff_ns = kFirstBackoffNs;
  entry->broken_since_ns = now_ns;
}

void LinkTable::OnRefused(Entry* entry, sl_status_t status, uint64_t now_ns) {
  const uint32_t peer = entry->link->peer();
  Logf(SL_LOG_DEBUG, "rank {} peer {} lane {}: connect over {} failed: {} ({})", config_.rank, peer,
       entry->link->lane(), config_.transports[entry->transport].name, LastError(), StatusName(status));
  if (SL_IS_USAGE_ERROR(status)) return entry->link->Fail(status, "the transport refuses the peer's address");
  // Lack of descriptors or memory may pass, and so may a port that is down; nobody listening does not.
  if (status == SL_ERR_LINK_DOWN && IsPortUp(config_.transports[entry->transport]) &&
      ++entry->refusals >= kRefusalsToGiveUp) {
    return entry->link->Fail(SL_ERR_PEER_LOST, "the peer does not listen any more");
  }
  entry->next_try_ns = now_ns + entry->backoff_ns;
  entry->backoff_ns = std::min(2 * entry->backoff_ns, kLongestBackoffNs);
}

bool LinkTable::Idle() {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry->link->failed() || entry->link->idle(); });
}

uint64_t LinkTable::resends() const {
  uint64_t sum = 0;
  for (const auto& entry : entries_) sum += entry->link->resends();
  return sum;
}

}  // namespace sl::kernel
