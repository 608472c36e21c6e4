// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/link_table.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string>

#include "kernel/events/log.h"
#include "kernel/link/keeper.h"
#include "sdk/clock.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kLongestTickNs = 5'000'000;
constexpr uint32_t kCallsPerClock = 16;

LinkTableConfig WithDefaults(LinkTableConfig config) {
  if (config.now_ns == nullptr) config.now_ns = NowNs;
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
  context_.begin = config_.begin;
  tick_ns_ = std::min(kLongestTickNs, config_.resend_ns / 4 + 1);
  by_lane_.resize(config_.lanes, std::vector<Entry*>(config_.size, nullptr));
  if (config_.keeper != nullptr) config_.keeper->Add(this);
}

LinkTable::~LinkTable() {
  if (config_.keeper != nullptr) config_.keeper->Remove(this);
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
           return !entry->settled && uses_[entry->maker.transport()] != Use::kHasDescriptor;
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
  Entry* entry = entries_.emplace_back(std::make_unique<Entry>(&context_, config_, peer, lane)).get();
  by_lane_[lane][peer] = entry;
  if (!entry->maker.has_route()) {
    entry->link.Fail(SL_ERR_NOT_FOUND, "no transport of the profile reaches the peer");
    entry->settled = true;
    return entry;
  }
  ++unsettled_;  // it is listed: before what may throw
  UseTransport(entry->maker.transport());
  return entry;
}

bool LinkTable::Reaches(uint32_t peer) const { return !FindRoute(config_.transports, peer).ports.empty(); }

Link* LinkTable::Get(uint32_t peer, uint32_t lane) {
  Entry* entry = Find(peer, lane);
  if (entry != nullptr) [[likely]]
    return &entry->link;
  entry = Make(peer, lane);
  // A first attempt right here saves a round of waiting.
  if (!entry->settled) Settle(entry, config_.now_ns());
  return &entry->link;
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
  for (size_t i = 0; context_.owing != 0 && i < entries_.size(); ++i) entries_[i]->link.TellIfLate(now_ns);
  for (size_t i = 0; unsettled_ != 0 && i < entries_.size(); ++i) {
    if (!entries_[i]->settled) Settle(entries_[i].get(), now_ns);
  }
}

void LinkTable::TellReleased() {
  for (size_t i = 0; context_.owing != 0 && i < entries_.size(); ++i) entries_[i]->link.TellReleased();
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
  const auto complete = [](const auto& entry) { return entry->link.failed() || entry->maker.AllUp(); };
  Care care;
  care.moved = news != wait_objects_.news();
  care.busy = unsettled_ != 0 || !Idle() || !std::all_of(entries_.begin(), entries_.end(), complete);
  if (asked) {
    for (const int32_t fd : wait_objects_.descriptors()) watched->push_back({fd, POLLIN, 0});
    care.busy = false;  // the sleeper wakes for that, sooner than later
  }
  return care;
}

void LinkTable::Tick(uint64_t now_ns) {
  next_tick_ns_ = now_ns + tick_ns_;
  for (const auto& entry : entries_) {
    if (entry->link.up()) entry->link.Service(now_ns);
    NoteSettled(entry.get(), now_ns);
    if (entry->settled && !entry->link.failed()) Settle(entry.get(), now_ns);
  }
}

// Notices that a link came up, went down or failed.
void LinkTable::NoteSettled(Entry* entry, uint64_t now_ns) {
  const ChunkLink& link = entry->link;
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
  entry->maker.Restart(now_ns);
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

void LinkTable::Admit(uint32_t index, sl_connection_t* connection, const sl_connect_args_t& args) {
  const LinkTransport& transport = config_.transports[index];
  if (args.lane >= kMaxLanes || !PathMaker::IsOurs(config_, args)) {
    ++strangers_;
    Logf(SL_LOG_WARN, "rank {}: dropped a connection from rank {} lane {} tag {:#x}, which names no link of ours",
         config_.rank, args.peer, args.lane, args.tag);
    return transport.ops->retire(connection);
  }
  Entry* entry = Find(args.peer, args.lane);
  if (!PathMaker::Fits(config_, entry == nullptr ? nullptr : &entry->maker, args)) {
    ++strangers_;
    Logf(SL_LOG_ERROR,
         "rank {}: rank {} connects with windows of {} bytes, which are not cut like ours: link.chunk_bytes or "
         "link.slots differ between the ranks' profiles",
         config_.rank, args.peer, args.window_bytes);
    return transport.ops->retire(connection);
  }
  if (entry == nullptr) entry = Make(args.peer, args.lane);
  const bool taken = entry->maker.Accept(index, connection, args);
  if (taken && entry->settled) AttachIfMade(entry, PathMaker::IndexOf(args), config_.now_ns());
}

// Brings an entry closer to being up, or to having failed.
void LinkTable::Settle(Entry* entry, uint64_t now_ns) {
  ChunkLink& link = entry->link;
  PathMaker& maker = entry->maker;
  for (uint32_t i = 0; i < maker.count() && !link.failed(); ++i) AttachIfMade(entry, i, now_ns);
  const bool broken = entry->was_up && !link.up() && !link.failed();
  // Not a difference: it may have been noticed after the caller looked at the clock.
  if (broken && now_ns > entry->broken_since_ns + config_.link_timeout_ns) {
    const std::string why = maker.why();
    link.Fail(SL_ERR_LINK_DOWN, "it went down and could not be made again in time" + (why.empty() ? why : ": " + why));
  }
  for (uint32_t i = 0; i < maker.wanted() && !link.failed(); ++i) {
    if (maker.Start(i, now_ns)) AttachIfMade(entry, i, now_ns);
  }
  if (link.failed()) maker.Drop();
  NoteSettled(entry, now_ns);
}

void LinkTable::AttachIfMade(Entry* entry, uint32_t index, uint64_t now_ns) {
  const std::optional<PathMaker::Made> made = entry->maker.Finish(index, now_ns);
  if (!made.has_value()) return;
  UseTransport(made->transport);
  const sl_status_t status = entry->link.Attach(index, made->connection, made->epoch, wait_objects_.bell());
  if (status != SL_OK) {
    entry->link.Fail(status, "no memory for what is on its way");
  } else {
    entry->was_up = true;
    if (made->connection.window.peer == nullptr) WantCare();
  }
  NoteSettled(entry, now_ns);
}

bool LinkTable::Idle() {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry->link.failed() || entry->link.idle(); });
}

uint64_t LinkTable::resends() const {
  uint64_t sum = 0;
  for (const auto& entry : entries_) sum += entry->link.resends();
  return sum;
}

}  // namespace sl::kernel
