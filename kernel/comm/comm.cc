// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/comm.h"

#include <algorithm>
#include <cstring>

#include "kernel/comm/roster.h"
#include "kernel/comm/transport_set.h"
#include "kernel/control/id_desk.h"
#include "kernel/control/meet.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {
namespace {

// What stands behind an id that is an address only. Rank 0 makes it, and a desk at which the others fetch it.
Result<RendezvousId> IdBehind(const RendezvousId& asked, Process* process, const CommConfig& config,
                              const std::atomic<uint64_t>* cancel_ns, std::unique_ptr<IdDesk>* out_desk) {
  if (config.rank != 0) {
    const uint64_t spent = process->spent_ids()->Newest(asked, config.rank);
    return FetchId(asked, config.rank, spent, *process->switchboard(), {NowNs() + config.timeout_ns, cancel_ns});
  }
  SL_ASSIGN(const RendezvousId id, process->rendezvous()->NewId());
  if (config.size == 1) return id;
  SL_ASSIGN(*out_desk, IdDesk::Open(process->control(), process->switchboard()->choice(), asked, id));
  return id;
}

sl_transport_env_t TransportEnv(const TreeIdentity& identity, const HostId& host, const Settings::Comm& wanted) {
  sl_transport_env_t env{};
  env.struct_size = sizeof(env);
  env.rank = identity.rank;
  env.size = identity.size;
  const Secret secret = DeriveSecret(identity.secret, "transports", identity.nonce, 0);
  std::copy(secret.begin(), secret.end(), env.job_secret);
  std::copy(host.begin(), host.end(), env.host_id);
  env.interfaces = wanted.interface.c_str();
  env.address_family = wanted.socket_family == NetFamily::kIpv4 ? 4 : wanted.socket_family == NetFamily::kIpv6 ? 6 : 0;
  return env;
}

// Devices of equal domain reach each other's memory; one that cannot share it has a domain of its own.
std::array<uint8_t, 16> DomainOf(const Device& device, uint32_t rank) {
  std::array<uint8_t, 16> domain{};
  if (device.can_export()) {
    std::copy_n(device.info.domain, domain.size(), domain.begin());
  } else {
    domain.fill(0xff);
    std::memcpy(domain.data(), &rank, sizeof(rank));
  }
  return domain;
}

constexpr uint64_t kNoMoreStops = UINT64_MAX;

}  // namespace

Communicator::Communicator(Process* process, CommConfig config) : process_(process), config_(std::move(config)) {}

Communicator::~Communicator() {
  Leave(Fate::kDeparted);
  if (const uint64_t stopping = stopping_.exchange(kNoMoreStops); stopping != 0) {
    process_->control()->Cancel(stopping);
    process_->control()->Settle();
  }
  runs_.reset();
  DestroyAlgorithms();
  CloseReach();
  op_log_.MarkEnd();
  DetachSignals();
  links_.reset();
  transports_.reset();
  if (sl_control_t* control = control_.load(); control != nullptr) device().ops->release(device().handle, control);
}

void Communicator::KeepMemoryOnly() {
  {
    const auto held = process_->control()->Hold();  // a failure that is found there is told to runs_
    runs_.reset();
  }
  links_.reset();
  transports_.reset();
  extension_.reset();  // who calls hears that it has ended
  LeaveKeeper();
}

Status Communicator::Join(const std::vector<RendezvousId>& given, const ControlTree* origin) {
  std::vector<RendezvousId> ids = given;
  std::unique_ptr<IdDesk> desk;  // until all have met
  const bool is_from_desk = IsAddressOnly(ids[0]);
  if (is_from_desk) {
    if (ids.size() != 1)
      return {SL_ERR_INVALID, "with comm.rendezvous (NCCL_COMM_ID) ranks meet by one id, not several"};
    SL_ASSIGN(ids[0], IdBehind(ids[0], process_, config_, &cancelled_ns_, &desk));
  }
  const RendezvousId& id = ids[0];
  nonce_ = id.nonce();
  SL_ASSIGN(extension_, Extension::Open(process_->switchboard(), id.secret));
  const uint64_t silence_ns = process_->profile().settings().comm.silence_ms * 1000000;
  Result<TreeNeighbours> met =
      Meet({ids, config_.rank, config_.size, extension_.get(), config_.timeout_ns, silence_ns, &cancelled_ns_,
            [origin] { return origin != nullptr ? origin->Loss() : Status(); }});
  if (is_from_desk && met.ok()) process_->spent_ids()->AddMet(given[0], nonce_);
  if (is_from_desk && !met.ok()) process_->spent_ids()->AddFailed(given[0], config_.rank, nonce_);
  SL_TRY(met.status());
  const TreeNeighbours where = met.Take();
  deadline_ns_ = NowNs() + config_.timeout_ns;
  return WhyGivenUp(SetUp({config_.rank, config_.size, nonce_, id.secret}, where));
}

Status Communicator::JoinAsChild(Seat seat) {
  config_.rank = seat.identity.rank;
  config_.size = seat.identity.size;
  deadline_ns_ = NowNs() + config_.timeout_ns;
  extension_ = std::move(seat.extension);
  return WhyGivenUp(SetUp(seat.identity, seat.neighbours, seat.origin.get()));
}

Result<Stream> Communicator::CallRank(uint32_t rank, FrameType type, std::span<const uint8_t> body,
                                      const Patience& patience) const {
  return process_->switchboard()->Call(roster_->cards()[rank].endpoint, tree_->identity().secret, type, body, patience);
}

Status Communicator::SetUp(const TreeIdentity& identity, const TreeNeighbours& where, const ControlTree* origin) {
  const LogRankScope rank_scope(config_.rank);
  nonce_ = identity.nonce;
  constexpr size_t kOfASetUp = 8;  // that files of the system and transports hold at a time; fewer may do
  static_cast<void>(EnsureDescriptors(kOfASetUp));
  auto on_fate = [this](uint32_t rank, Fate fate) { OnFate(rank, fate); };
  auto on_report = [this](uint32_t rank, const Status& failure) { OnReport(rank, failure); };
  const uint64_t silence_ns = process_->profile().settings().comm.silence_ms * 1000000;
  SL_ASSIGN(tree_, ControlTree::Build(process_->control(), identity, extension_.get(), where, silence_ns, on_fate,
                                      on_report, patience(), origin));
  SL_TRY(MeetOthers());
  FillShape();
  if (is_relayed() && !device().can_export() && !MayShareHost()) {
    Logf(SL_LOG_WARN, "device {} cannot share memory between ranks, operations go through the host",
         device().info.name);
  }
  SL_TRY(MakeControl());
  SL_TRY(MakeHeap());
  if (shape_.domain_size != config_.size) {
    tree_->WatchCalls({[this] { TellCalls(); },
                       [this](const Call& one, const Call& other) {
                         Fail({SL_ERR_MISMATCH, DescribeMismatch(one, other)});
                       }});
  }
  SL_TRY(MakeAlgorithms());
  SL_TRY(MakeLinks());
  Logf(SL_LOG_INFO, "communicator {:016x} rank {} of {} ready, host {} local rank {} of {}", nonce_, config_.rank,
       config_.size, HostName(), shape_.local_rank, shape_.local_size);
  return {};
}

// Ranks tell each other where they listen. Networks do so only where they are needed, in a second exchange: a job
// within one host opens no port.
Status Communicator::MeetOthers() {
  transports_ = std::make_unique<TransportSet>(
      process_->transports(), TransportEnv(tree_->identity(), process_->host(), process_->profile().settings().comm));
  SL_TRY(transports_->Listen(false));
  SL_ASSIGN(roster_, ExchangeCards(nonce_));
  SL_TRY(roster_->CheckAgreement(config_.rank));
  if (!roster_->MeetsWithinHost()) {
    SL_TRY(transports_->Listen(true));
    SL_ASSIGN(roster_, ExchangeCards(HashText("networks of " + std::to_string(nonce_))));
  }
  transports_->CloseSilent();
  roster_known_.store(true, std::memory_order_release);  // pairs with RankName, which the control thread calls too
  return {};
}

Result<std::shared_ptr<const Roster>> Communicator::ExchangeCards(uint64_t key) {
  SL_ASSIGN(const Contributions cards, tree_->AllGather(tree_->TakeNumber(), MyCard(), patience()));
  return process_->rosters()->Take(key, cards);
}

// The profile is the site's: it bounds what a program asks for.
ProcessorBounds Communicator::MyBounds() const {
  const Settings& settings = process_->profile().settings();
  ProcessorBounds bounds = config_.bounds;
  bounds.most = StricterBound(bounds.most, settings.comm.sm_budget);
  // What waits for peers must be on the device all at once.
  if (!device().is_host()) bounds.most = StricterBound(bounds.most, device().info.processors);
  bounds.weight = std::max(bounds.weight, settings.comm.sm_weight);
  if (settings.comm.is_sm_free) bounds.free = 1;
  return bounds;
}

Bytes Communicator::MyCard() const {
  Card card;
  card.host = process_->host();
  card.process = static_cast<uint32_t>(getpid());
  card.machine = ReadMachineId();
  card.cpus = ReadCpuSet();
  card.device_kind = device().info.kind;
  card.domain = DomainOf(device(), config_.rank);
  card.clique = device().info.clique;
  card.endpoint = extension_->endpoint();
  card.version = SL_VERSION;
  card.settings_hash = HashText(process_->profile().SharedText() +
                                process_->loader().SharedText({process_->host_device().name, device().name}));
  card.profile = process_->profile().name();
  card.bounds = MyBounds();
  card.addresses = transports_->addresses();
  return card.Encode();
}

void Communicator::FillShape() {
  const Settings& settings = process_->profile().settings();
  shape_.struct_size = sizeof(shape_);
  shape_.rank = config_.rank;
  shape_.size = config_.size;
  const std::vector<uint32_t> locals = roster_->RanksOfHost(config_.rank);
  const auto me = std::find(locals.begin(), locals.end(), config_.rank);
  shape_.local_rank = static_cast<uint32_t>(me - locals.begin());
  shape_.local_size = static_cast<uint32_t>(locals.size());
  shape_.domain_size = roster_->DomainSize(config_.rank, settings.comm.direct_ranks);
  shape_.device_kind = device().info.kind;
  shape_.processors =
      device().is_host() || is_relayed() ? roster_->HostProcessors(config_.rank) : device().info.processors;
  shape_.link_chunk_bytes = static_cast<uint32_t>(settings.link.chunk_bytes);
  shape_.lanes = settings.link.lanes;
  shape_.link_slots = settings.link.slots;
  shape_.host_of = roster_->hosts();
  const ProcessorBounds bounds = roster_->AgreedBounds();
  shape_.processors_min = bounds.least;
  shape_.processors_max = bounds.most;
  shape_.processor_weight = bounds.weight;
  shape_.processor_free = bounds.free;
}

Status Communicator::MakeAlgorithms() {
  std::vector<uint64_t> demands;
  Demand(&demands);
  uint64_t offset = 0;
  for (size_t i = 0; i < process_->algorithms().size(); ++i) {
    const auto& served = process_->algorithms()[i];
    sl_algorithm_env_t env{};
    env.struct_size = sizeof(env);
    env.shape = &shape_;
    if (served.uses_device) {
      env.device_ops = device().ops;
      env.device = device().handle;
    }
    if (heap_ != nullptr && demands[i] != 0) env.symmetric = {heap_->base() + offset, heap_->stride(), demands[i]};
    env.control = control_.load();
    if (reach_ != nullptr) {
      env.reach_ops = &kReachOps;
      env.reach = reach_.get();
    }
    SettingsView* const view =
        settings_views_.emplace_back(std::make_unique<SettingsView>(&call_settings_, served.name)).get();
    env.settings_ops = SettingsView::Ops();
    env.settings = view->handle();
    offset += demands[i];
    sl_algorithm_t* algorithm = nullptr;
    ClearLastError();
    const sl_status_t status = CallModule("create", served.ops->create, served.instance, &env, &algorithm);
    if (status == SL_ERR_UNSUPPORTED) {
      Logf(SL_LOG_DEBUG, "algorithm {} is not for this communicator: {}", served.name, LastError());
    } else if (status != SL_OK) {
      const Status failure = ModuleFailure(status);
      return {failure.code(), "algorithm " + served.name + " cannot be created: " + failure.message()};
    } else if (algorithm == nullptr) {
      return {SL_ERR_INTERNAL,
              "algorithm " + served.name + " said that it was created, and is not; its module is wrong"};
    } else {
      algorithms_.push_back({served.name, served.ops, algorithm, served.revision, served.module, view});
    }
  }
  SelectSettings settings;
  settings.rules = process_->profile().select();
  settings.measured = &process_->profile().measured();
  settings.determinism = process_->profile().settings().determinism;
  settings.calls = &call_settings_;
  settings.runs_plans = device().is_addressable() || is_relayed();
  settings.is_relayed = is_relayed();
  settings.runs_copies = signals_.valid() && !device().is_watched();
  settings.runs_sequences = !is_relayed() && !device().is_watched();
  selector_ = std::make_unique<Selector>(algorithms_, settings, &shape_);
  return {};
}

void Communicator::DestroyAlgorithms() {
  selector_.reset();
  for (const Candidate& candidate : algorithms_) {
    if (CallModule("destroy", candidate.ops->destroy, candidate.algorithm) == SL_OK) continue;
    Logf(SL_LOG_ERROR, "algorithm {}: {}", candidate.name, LastError());
  }
  algorithms_.clear();
  settings_views_.clear();
}

void Communicator::RetractBuffers(uint64_t deadline_ns) const {
  for (const Candidate& candidate : algorithms_) {
    const sl_status_t status = CallModule("retract", candidate.ops->retract, candidate.algorithm, deadline_ns);
    if (status == SL_OK || status == SL_ERR_UNSUPPORTED) continue;
    Logf(SL_LOG_WARN, "algorithm {}: late launches of other ranks may still use this rank's buffers: {}",
         candidate.name, LastError());
  }
}

// Nothing fails yet: a program may only use what works within a host. One rank of each host is asked for.
void Communicator::WarnOfUnreached() const {
  const HostId* asked = nullptr;
  for (uint32_t rank = 0; rank < config_.size; ++rank) {
    const HostId& host = roster_->cards()[rank].host;
    if (rank == config_.rank || (asked != nullptr && *asked == host)) continue;
    asked = &host;
    if (links_->Reaches(rank)) continue;
    return Logf(SL_LOG_WARN, "rank {}: no transport reaches {}{}", config_.rank, RankName(rank),
                host != process_->host() ? "; between hosts a network transport is needed, such as transport-tcp: is "
                                           "its module there, not disabled by the profile (starling modules), and on "
                                           "an interface that leads there, unlike loopback (comm.interface)?"
                                         : "; enable transport-shm, or another transport, in the profile");
  }
}

Status Communicator::MakeLinks() {
  const Settings& settings = process_->profile().settings();
  LinkTableConfig config;
  config.rank = config_.rank;
  config.size = config_.size;
  config.comm_id = nonce_;
  config.chunk_bytes = static_cast<uint32_t>(settings.link.chunk_bytes);
  config.slots = settings.link.slots;
  config.hosts = roster_->hosts();
  config.lanes = settings.link.lanes;
  config.connections = settings.link.connections;
  config.resend_ns = settings.link.resend_ms * 1000000;
  config.keeper = process_->keeper();
  config.transports = transports_->ForLinks(roster_);
  links_ = std::make_unique<LinkTable>(std::move(config));
  WarnOfUnreached();
  static_assert(LinkTable::kPlanLanes * (1 + kGraphLaneSets) <= LinkTable::kMaxLanes);
  RunContext context;
  context.rank = config_.rank;
  context.size = config_.size;
  context.comm_id = nonce_;
  context.lanes = shape_.lanes;
  context.links = links_.get();
  context.algorithm_name = [this](uint32_t tag) { return AlgorithmName(tag); };
  const Device& works_on = is_relayed() ? process_->host_device() : device();
  context.device_ops = works_on.ops;
  context.device = works_on.handle;
  auto runs = std::make_unique<RunPool>(context);
  std::lock_guard lock(mutex_);  // who fails from now on tells it
  if (!failure_.ok()) runs->Fail(failure_);
  runs_ = std::move(runs);
  return {};
}

void Communicator::FillInfo(sl_comm_info_t* info) const {
  info->rank = config_.rank;
  info->size = config_.size;
  info->local_rank = shape_.local_rank;
  info->local_size = shape_.local_size;
  info->device_kind = shape_.device_kind;
  info->device_ordinal = device().ordinal;
  info->comm_id = nonce_;
  // Those of a relayed communicator start on another thread, and may not be counted beside that.
  info->host_bytes = sizeof(*this) + (runs_ != nullptr && !is_relayed() ? runs_->memory_bytes() : 0);
  info->suspended = state.load() == State::kSuspended ? 1 : 0;
  info->meeting = state.load() == State::kMeeting ? 1 : 0;
  info->one_sided = signals_.valid() ? 1 : 0;
  const auto held = HoldLog();
  if (heap_ == nullptr) {
    info->releasable_bytes = released_bytes_.load();
    return;
  }
  const bool is_on_host = device().is_host() || shape_.heap_on_host != 0;
  const uint64_t held_bytes = is_on_host ? heap_->ResidentBytes(config_.rank) : heap_->stride();
  (is_on_host ? info->shared_bytes : info->device_bytes) = held_bytes;
  info->releasable_bytes = shape_.heap_on_host != 0 ? 0 : held_bytes;  // of the device nothing
}

}  // namespace sl::kernel
