// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/link_table.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/link/keeper.h"
#include "sdk/status.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kFirstBackoffNs = 1'000'000;
constexpr uint64_t kLongestBackoffNs = 100'000'000;
constexpr uint64_t kLongestTickNs = 5'000'000;
constexpr uint32_t kCallsPerClock = 16;
// The peer's host says at once that nobody listens; after so many in a row the process has gone, or has closed.
constexpr uint32_t kRefusalsToGiveUp = 3;
// What is missing on this side may be there again in a moment; who waits must hear what to do if it is not.
constexpr uint64_t kShortagePatienceNs = 2'000'000'000;
constexpr uint64_t kSayFailureAfterNs = 2'000'000'000;

uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The connecting end says with its tag which communicator, path and attempt a connection is for.
constexpr uint64_t kCommMask = (1 << 24) - 1;
uint64_t TagOf(uint64_t comm_id, uint32_t path, uint32_t epoch) {
  return (comm_id & kCommMask) << 40 | uint64_t{path} << 32 | epoch;
}
uint32_t PathOf(uint64_t tag) { return static_cast<uint32_t>(tag >> 32) & 0xff; }
uint32_t EpochOf(uint64_t tag) { return static_cast<uint32_t>(tag); }

sl_port_t PortFacts(const LinkTransport& transport, uint32_t index) {
  sl_port_t port = {};
  port.struct_size = sizeof port;
  // A transport that does not say is up.
  if (transport.ops->port_info(transport.transport, index, &port) != SL_OK) port.state = SL_PORT_UP;
  return port;
}

LinkTableConfig WithDefaults(LinkTableConfig config) {
  if (config.now_ns == nullptr) config.now_ns = MonotonicNs;
  config.slots = std::max(config.slots, 1u);
  config.lanes = std::clamp(config.lanes, 1u, LinkTable::kPlanLanes);
  return config;
}

}  // namespace

LinkTable::LinkTable(LinkTableConfig config)
    : config_(WithDefaults(std::move(config))), uses_(config_.transports.size()) {
  context_.rank = config_.rank;
  context_.comm_id = config_.comm_id;
  context_.resend_ns = config_.resend_ns;
  // Somebody has to look: without a keeper the user does (LinkTableConfig::keeper), with one that cannot run, nobody.
  if (config_.keeper == nullptr) context_.tell_after_ns = config_.tell_after_ns;
  context_.now_ns = config_.now_ns;
  tick_ns_ = std::min(kLongestTickNs, config_.resend_ns / 4 + 1);
  by_lane_.resize(config_.lanes, std::vector<Entry*>(config_.size, nullptr));
  if (config_.keeper != nullptr) config_.keeper->Add(this);
}

LinkTable::~LinkTable() {
  if (config_.keeper != nullptr) config_.keeper->Remove(this);
  for (const auto& entry : entries_) {
    for (Making& making : entry->paths) DropStarting(&making);
  }
}

void LinkTable::UseTransport(uint32_t index) {
  if (uses_[index] != Use::kNone) return;
  const LinkTransport& transport = config_.transports[index];
  uses_[index] = wait_objects_.Use(transport.ops, transport.transport) ? Use::kHasDescriptor : Use::kRings;
  if (uses_[index] == Use::kHasDescriptor) WantCare();
}

void LinkTable::WantCare() {
  if (needs_care() || config_.keeper == nullptr) return;
  needs_care_.store(true, std::memory_order_relaxed);
  config_.keeper->Want();
  if (config_.keeper->running()) context_.tell_after_ns = config_.tell_after_ns;
}

bool LinkTable::SomePeerCannotRing() const {
  return unsettled_ != 0 && std::any_of(entries_.begin(), entries_.end(), [this](const auto& entry) {
           return !entry->settled && uses_[entry->route.transport] != Use::kHasDescriptor;
         });
}

sl_doorbell_t* LinkTable::doorbell() {
  sl_doorbell_t* bell = wait_objects_.bell();
  if (bell == nullptr || SomePeerCannotRing()) return nullptr;
  if (wait_objects_.descriptors().empty()) return bell;
  if (config_.keeper == nullptr || !config_.keeper->running()) return nullptr;
  if (context_.owing != 0 && wait_objects_.HasSleepers()) TellReleased();
  if (wait_objects_.NeedsWatch()) config_.keeper->Want();
  return bell;
}

std::span<const int32_t> LinkTable::descriptors() {
  if (users() != 1 || context_.owing != 0 || SomePeerCannotRing()) return {};
  return wait_objects_.Offer();
}

LinkTable::Entry* LinkTable::Find(uint32_t peer, uint32_t lane) {
  return lane < by_lane_.size() ? by_lane_[lane][peer] : nullptr;
}

LinkTable::Entry* LinkTable::Make(uint32_t peer, uint32_t lane) {
  if (lane >= by_lane_.size()) by_lane_.resize(lane + 1, std::vector<Entry*>(config_.size, nullptr));
  Entry* entry = entries_.emplace_back(std::make_unique<Entry>()).get();
  by_lane_[lane][peer] = entry;
  entry->link = std::make_unique<ChunkLink>(&context_, LinkGeometry{config_.slots, config_.chunk_bytes}, peer, lane);
  entry->route = FindRoute(config_.transports, peer);
  if (entry->route.ports.empty()) {
    entry->link->Fail(SL_ERR_NOT_FOUND, "no transport of the profile reaches the peer");
    entry->settled = true;
    return entry;
  }
  UseTransport(entry->route.transport);
  if (Connects(peer)) {
    entry->wanted = std::min(static_cast<uint32_t>(entry->route.ports.size()), ChunkLink::kMaxPaths);
    entry->window_bytes = WindowBytesTo(peer, entry->route.ports.size());
  }
  ++unsettled_;
  return entry;
}

// Several connections share what is under way, so that each has work while a chunk of another one is waited for. Within
// a host there is one, and its slots are to stay in the processor's cache.
uint64_t LinkTable::WindowBytesTo(uint32_t peer, size_t ports) const {
  const char* const* hosts = config_.hosts;
  const bool here = hosts == nullptr || std::strcmp(hosts[peer], hosts[config_.rank]) == 0;
  const uint32_t shares =
      here ? 1 : std::clamp(std::max(config_.connections, static_cast<uint32_t>(ports)), 1u, kMostShares);
  return LinkGeometry{config_.slots * shares, config_.chunk_bytes}.WindowBytes();
}

bool LinkTable::IsWindow(uint64_t bytes) const {
  const uint64_t share = LinkGeometry{config_.slots, config_.chunk_bytes}.WindowBytes();
  return bytes != 0 && bytes % share == 0 && bytes / share <= kMostShares;
}

bool LinkTable::Reaches(uint32_t peer) const { return !FindRoute(config_.transports, peer).ports.empty(); }

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
  sl_status_t first = SL_OK;
  for (size_t i = 0; i < config_.transports.size(); ++i) {
    const LinkTransport& transport = config_.transports[i];
    const sl_status_t status = transport.ops->progress(transport.transport);
    if (status < SL_OK && status != SL_ERR_AGAIN && first == SL_OK) first = status;
    if (status == SL_OK && uses_[i] == Use::kHasDescriptor) wait_objects_.CountNews();
  }
  // The clock costs more than a look at memory, and less than one at a network, which may come after a long sleep.
  const bool clock_is_cheap = unsettled_ != 0 || !wait_objects_.descriptors().empty();
  if (clock_is_cheap || ++calls_ % kCallsPerClock == 0) [[unlikely]]
    Advance(config_.now_ns());
  return first;
}

void LinkTable::Advance(uint64_t now_ns) {
  const bool due = now_ns >= next_tick_ns_;
  if (unsettled_ != 0 || due) AcceptAll();
  if (due) Tick(now_ns);
  for (size_t i = 0; context_.owing != 0 && i < entries_.size(); ++i) entries_[i]->link->TellIfLate(now_ns);
  for (size_t i = 0; unsettled_ != 0 && i < entries_.size(); ++i) {
    if (!entries_[i]->settled) Settle(entries_[i].get(), now_ns);
  }
}

void LinkTable::TellReleased() {
  for (size_t i = 0; context_.owing != 0 && i < entries_.size(); ++i) entries_[i]->link->TellReleased();
}

LinkTable::Care LinkTable::Keep(std::vector<pollfd>* watched) {
  if (!needs_care()) return {};
  // Who waits looks after the links itself, unless it sleeps.
  const bool asked = users() != 0;
  if (asked && !wait_objects_.watched()) return {};
  const Driving driving(this);
  if (!driving.has_begun()) return {.busy = true};
  if (asked && !wait_objects_.KeepWatching()) return {};
  const uint64_t news = wait_objects_.news();
  // Whoever drove since the last look has done all this.
  if (asked || drives() == kept_at_ + 1) {
    calls_ = kCallsPerClock - 1;  // this time with the clock
    TellReleased();
    static_cast<void>(Progress());
  }
  kept_at_ = drives();
  const auto complete = [this](const auto& entry) { return entry->link->failed() || IsComplete(*entry); };
  Care care;
  care.moved = news != wait_objects_.news();
  care.busy = unsettled_ != 0 || !Idle() || !std::all_of(entries_.begin(), entries_.end(), complete);
  if (asked) {
    for (const int32_t fd : wait_objects_.descriptors()) watched->push_back({fd, POLLIN, 0});
    care.busy = false;  // the sleeper wakes for that, sooner than later
  }
  return care;
}

// Every path that this end makes is up.
bool LinkTable::IsComplete(const Entry& entry) const {
  for (uint32_t i = 0; i < entry.wanted; ++i) {
    if (!entry.link->IsUp(i)) return false;
  }
  return true;
}

void LinkTable::Tick(uint64_t now_ns) {
  next_tick_ns_ = now_ns + tick_ns_;
  for (const auto& entry : entries_) {
    if (entry->link->up()) entry->link->Service(now_ns);
    NoteSettled(entry.get(), now_ns);
    if (entry->settled && !entry->link->failed()) Settle(entry.get(), now_ns);
  }
}

// Notices that a link came up, went down or failed.
void LinkTable::NoteSettled(Entry* entry, uint64_t now_ns) {
  const ChunkLink& link = *entry->link;
  const bool settled = link.up() || link.failed();
  entry->was_up |= link.up();
  if (settled == entry->settled) return;
  entry->settled = settled;
  wait_objects_.CountNews();
  if (settled) {
    --unsettled_;
    return;
  }
  // It was up and is not any more.
  ++unsettled_;
  entry->broken_since_ns = now_ns;
  for (Making& making : entry->paths) {
    ForgetFailures(&making);
    making.next_try_ns = now_ns;
  }
}

void LinkTable::ForgetFailures(Making* making) {
  making->refusals = 0;
  making->why.clear();
  making->failing_since_ns = 0;
  making->failure_is_said = false;
  making->short_since_ns = 0;
  making->backoff_ns = kFirstBackoffNs;
}

void LinkTable::AcceptAll() {
  for (uint32_t i = 0; i < config_.transports.size(); ++i) {
    const LinkTransport& transport = config_.transports[i];
    sl_connection_t* connection = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    while (transport.ops->accept(transport.transport, &connection, &args) == SL_OK) Admit(i, connection, args);
  }
}

bool LinkTable::IsOurs(const sl_connect_args_t& args) const {
  return args.tag >> 40 == (config_.comm_id & kCommMask) && args.peer < config_.rank && args.lane < kMaxLanes &&
         PathOf(args.tag) < ChunkLink::kMaxPaths;
}

void LinkTable::Admit(uint32_t index, sl_connection_t* connection, const sl_connect_args_t& args) {
  const LinkTransport& transport = config_.transports[index];
  if (!IsOurs(args)) {
    ++strangers_;
    Logf(SL_LOG_WARN, "rank {}: dropped a connection from rank {} lane {} tag {:#x}, which names no link of ours",
         config_.rank, args.peer, args.lane, args.tag);
    return transport.ops->retire(connection);
  }
  Entry* entry = Find(args.peer, args.lane);
  const bool first = entry == nullptr || entry->window_bytes == 0;
  const bool fits = first ? IsWindow(args.window_bytes) : args.window_bytes == entry->window_bytes;
  if (!fits || args.signal_count != Path::kSignalCount) {
    ++strangers_;
    Logf(SL_LOG_ERROR,
         "rank {}: rank {} connects with windows of {} bytes, which are not cut like ours: link.chunk_bytes or "
         "link.slots differ between the ranks' profiles",
         config_.rank, args.peer, args.window_bytes);
    return transport.ops->retire(connection);
  }
  if (entry == nullptr) entry = Make(args.peer, args.lane);
  entry->window_bytes = args.window_bytes;
  const uint32_t path = PathOf(args.tag);
  if (entry->paths.size() <= path) entry->paths.resize(path + 1);
  Making& making = entry->paths[path];
  const uint32_t newest = std::max(entry->link->EpochOf(path), making.connection != nullptr ? making.epoch : 0);
  if (EpochOf(args.tag) <= newest || entry->link->failed()) return transport.ops->retire(connection);
  DropStarting(&making);
  making.transport = index;
  making.connection = connection;
  making.port = args.port;
  making.epoch = EpochOf(args.tag);
  if (entry->settled) FinishStart(entry, path, config_.now_ns());
}

void LinkTable::DropStarting(Making* making) {
  if (making->connection != nullptr) config_.transports[making->transport].ops->retire(making->connection);
  making->connection = nullptr;
}

// Brings an entry closer to being up, or to having failed.
void LinkTable::Settle(Entry* entry, uint64_t now_ns) {
  ChunkLink* link = entry->link.get();
  if (entry->paths.size() < entry->wanted) entry->paths.resize(entry->wanted);
  for (uint32_t i = 0; i < entry->paths.size() && !link->failed(); ++i) {
    if (entry->paths[i].connection != nullptr) FinishStart(entry, i, now_ns);
  }
  const bool broken = entry->was_up && !link->up() && !link->failed();
  // Not a difference: it may have been noticed after the caller looked at the clock.
  if (broken && now_ns > entry->broken_since_ns + config_.link_timeout_ns) {
    const std::string why = entry->paths.empty() ? "" : entry->paths[0].why;
    link->Fail(SL_ERR_LINK_DOWN, "it went down and could not be made again in time" + (why.empty() ? why : ": " + why));
  }
  for (uint32_t i = 0; i < entry->wanted && !link->failed(); ++i) {
    const Making& making = entry->paths[i];
    if (!link->IsUp(i) && making.connection == nullptr && now_ns >= making.next_try_ns) StartConnect(entry, i, now_ns);
  }
  if (link->failed()) {
    for (Making& making : entry->paths) DropStarting(&making);
  }
  NoteSettled(entry, now_ns);
}

void LinkTable::StartConnect(Entry* entry, uint32_t index, uint64_t now_ns) {
  const LinkTransport& transport = config_.transports[entry->route.transport];
  const uint32_t peer = entry->link->peer();
  const auto [local, remote] = entry->route.ports[index % entry->route.ports.size()];
  Making& making = entry->paths[index];
  making.transport = entry->route.transport;
  making.port = local;
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  args.port = local;
  args.peer = peer;
  args.lane = entry->link->lane();
  args.tag = TagOf(config_.comm_id, index, ++making.epoch);
  args.window_bytes = entry->window_bytes;
  args.signal_count = Path::kSignalCount;
  sl_connection_t* connection = nullptr;
  ClearLastError();
  const sl_status_t status =
      transport.ops->connect(transport.transport, &transport.peers->at(peer)[remote].address, &args, &connection);
  if (status != SL_OK) return OnRefused(entry, index, status, now_ns);
  making.connection = connection;
  FinishStart(entry, index, now_ns);
}

void LinkTable::FinishStart(Entry* entry, uint32_t index, uint64_t now_ns) {
  Making& making = entry->paths[index];
  const LinkTransport& transport = config_.transports[making.transport];
  const uint32_t state = transport.ops->connection_state(making.connection);
  if (state == SL_CONNECTION_CONNECTING) return;
  // Of an accepted connection the state does not matter: what the peer put before it left counts.
  LinkConnection connection;
  connection.ops = transport.ops;
  connection.connection = making.connection;
  connection.window.struct_size = sizeof connection.window;
  ClearLastError();
  sl_status_t status = transport.ops->window(making.connection, &connection.window);
  if (Connects(entry->link->peer()) && state != SL_CONNECTION_UP) {
    // It ended before it was up; the window's status says whether the peer's host has answered that nobody listens.
    if (status != SL_ERR_PEER_LOST) status = SL_ERR_LINK_DOWN;
    DropStarting(&making);
    return OnRefused(entry, index, status, now_ns);
  }
  if (status == SL_ERR_AGAIN) return;
  if (status != SL_OK) {
    DropStarting(&making);
    return OnRefused(entry, index, status, now_ns);
  }
  making.connection = nullptr;
  ForgetFailures(&making);
  connection.window.bytes = entry->window_bytes;  // a transport may give more
  connection.bytes_per_second = PortFacts(transport, making.port).bytes_per_second;
  Adopt(entry, index, connection);
  NoteSettled(entry, now_ns);
}

// Gives the link its new path, and learns from the first one what more is wanted.
void LinkTable::Adopt(Entry* entry, uint32_t index, const LinkConnection& connection) {
  const Making& making = entry->paths[index];
  UseTransport(making.transport);
  const bool mapped = connection.window.peer != nullptr;
  if (!mapped && entry->wanted != 0) {
    entry->wanted = std::clamp(config_.connections, entry->wanted, ChunkLink::kMaxPaths);
    if (entry->paths.size() < entry->wanted) entry->paths.resize(entry->wanted);
  }
  const uint32_t epoch = entry->paths[index].epoch;
  if (const sl_status_t status = entry->link->Attach(index, connection, epoch, wait_objects_.bell()); status != SL_OK) {
    return entry->link->Fail(status, "no memory for what is on its way");
  }
  entry->was_up = true;
  if (!mapped) WantCare();
}

void LinkTable::OnRefused(Entry* entry, uint32_t index, sl_status_t status, uint64_t now_ns) {
  ChunkLink* link = entry->link.get();
  Making& making = entry->paths[index];
  const LinkTransport& transport = config_.transports[making.transport];
  making.why = LastError();
  Logf(SL_LOG_DEBUG, "rank {} peer {} lane {} path {}: connect over {} failed: {} ({})", config_.rank, link->peer(),
       link->lane(), index, transport.name, making.why, StatusName(status));
  making.backoff_ns = std::clamp(2 * making.backoff_ns, kFirstBackoffNs, kLongestBackoffNs);
  making.next_try_ns = now_ns + making.backoff_ns;
  if (link->up()) return;
  if (SL_IS_USAGE_ERROR(status)) return link->Fail(status, "the transport refuses the peer's address");
  if (SL_IS_RESOURCE_ERROR(status)) return OnShortage(link, &making, status, now_ns);
  // Nobody listening does not pass. Anything else may: a port comes up again, a route is there again.
  making.refusals = status == SL_ERR_PEER_LOST ? making.refusals + 1 : 0;
  const auto given_up = [](const Making& path) { return path.refusals >= kRefusalsToGiveUp; };
  if (std::all_of(entry->paths.begin(), entry->paths.end(), given_up)) {
    const std::string& why = making.why;
    return link->Fail(SL_ERR_PEER_LOST, "the peer does not listen any more" + (why.empty() ? why : ": " + why));
  }
  if (making.failing_since_ns == 0) making.failing_since_ns = now_ns;
  if (making.failure_is_said || now_ns - making.failing_since_ns < kSayFailureAfterNs) return;
  making.failure_is_said = true;
  Logf(SL_LOG_WARN, "rank {} peer {} lane {} path {}: cannot connect over {}: {}; trying again", config_.rank,
       link->peer(), link->lane(), index, transport.name, making.why);
}

void LinkTable::OnShortage(ChunkLink* link, Making* making, sl_status_t status, uint64_t now_ns) const {
  const std::string& text = making->why;
  if (making->short_since_ns == 0) {
    making->short_since_ns = now_ns;
    Logf(SL_LOG_WARN, "rank {} peer {} lane {}: {}; trying again for a while", config_.rank, link->peer(), link->lane(),
         text);
  } else if (now_ns - making->short_since_ns > kShortagePatienceNs) {
    link->Fail(status, text);
  }
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
