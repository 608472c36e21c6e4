// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/lifecycle.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "kernel/control/id_desk.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/graph_hold.h"
#include "kernel/runtime/judge.h"
#include "kernel/runtime/launches.h"

namespace sl::kernel {
namespace {

// For the launches of this process's other ranks to end, that are told to.
constexpr uint64_t kSiblingsNs = 500'000'000;
// For some small copies to peers, which wait for nobody.
constexpr uint64_t kRetractNs = 500'000'000;
// For memory to be freed, when nothing runs that freeing would wait for: a program that ends a communicator may go on
// with its memory. Who aborts is in a hurry.
constexpr uint64_t kFreeNs = 1'000'000'000;
constexpr uint64_t kFreeInHasteNs = 250'000'000;

Status CheckConfig(const sl_comm_config_t& config) {
  if (config.size == 0 || config.size > kSignatureMaxRanks) {
    return {SL_ERR_INVALID, "a communicator of " + std::to_string(config.size) + " ranks; 1 to " +
                                std::to_string(kSignatureMaxRanks) + " are possible"};
  }
  if (config.rank >= config.size) {
    return {SL_ERR_INVALID, "rank " + std::to_string(config.rank) + " of " + std::to_string(config.size) +
                                "; ranks are 0 to " + std::to_string(config.size - 1)};
  }
  if (config.ids == nullptr || config.id_count == 0) return {SL_ERR_INVALID, "a communicator needs a unique id"};
  if (config.id_count > config.size) {
    return {SL_ERR_INVALID, std::to_string(config.id_count) + " ids for " + std::to_string(config.size) +
                                " ranks; every id needs a rank"};
  }
  return {};
}

bool IsUsable(const Communicator& comm) {
  const auto state = comm.state.load();
  return state == Communicator::State::kReady || state == Communicator::State::kSuspended;
}

Result<std::vector<RendezvousId>> DecodeIds(const sl_comm_config_t& config) {
  std::vector<RendezvousId> ids;
  std::map<uint64_t, uint32_t> known;
  for (uint32_t i = 0; i < config.id_count; ++i) {
    SL_ASSIGN(const RendezvousId id, DecodeId(config.ids[i]));
    const auto [other, fresh] = known.emplace(id.nonce(), i);
    if (!fresh) {
      return Status(SL_ERR_INVALID, "ids " + std::to_string(other->second) + " and " + std::to_string(i) +
                                        " are the same; every id comes from a call of its own");
    }
    ids.push_back(id);
  }
  return ids;
}

// Launches that were given up have told peers where this rank's callers' buffers lie. Mappings of other processes keep
// that memory; ranks of this process reach it where it lies, and the program may free it or use it for something else.
// So it is taken back: a launch that begins later waits for what is not there any more, until its abort word ends it.
// Launches of this process that have begun are ended, and waited for. Copies and puts ask nothing, so all that the
// other ranks have issued is waited for, as long as there is time.
void EndLateUse(sl_comm_t* handle, bool has_given_up, bool is_drained, Fate fate) {
  Communicator& comm = handle->comm;
  if (comm.reach() == nullptr) return;
  const bool has_fault = std::atomic_ref<uint32_t>(comm.control()->fault).load(std::memory_order_acquire) != 0;
  if (!has_given_up && !has_fault) return;
  const bool has_siblings = handle->place != nullptr;
  if (has_siblings) {
    ProcessLaunchRoll()->GiveUpOthers(*handle->place,
                                      {SL_ERR_PEER_LOST, comm.RankName(comm.rank()) + " " + FateText(fate)});
  }
  if (is_drained) comm.RetractBuffers(NowNs() + kRetractNs);
  if (has_siblings) ProcessLaunchRoll()->AwaitOthers(*handle->place, NowNs() + kSiblingsNs);
}

// Of a communicator that is not cancelled yet: what it has issued may not have come to its end by itself.
bool MayBeInTheMiddle(const sl_comm_t& handle) {
  const Communicator& comm = handle.comm;
  if (comm.device().is_watched() || comm.state.load() == Communicator::State::kJoining) return false;
  return comm.HasStoppedLaunches() || LaunchesMayRun(handle);
}

}  // namespace

Result<ProcessorBounds> BoundsOf(const sl_comm_config_t* config, const ProcessorBounds& otherwise) {
  if (config == nullptr) return otherwise;
  ProcessorBounds bounds;
  if (config->struct_size < offsetof(sl_comm_config_t, processor_free)) return bounds;
  bounds = {config->processors_min, config->processors_max, config->processor_weight};
  if (SL_HAS(config, sl_comm_config_t, processor_free)) bounds.free = config->processor_free != 0 ? 1 : 0;
  if (bounds.most != 0 && bounds.least > bounds.most) {
    return Status(SL_ERR_INVALID, "operations hold at least " + std::to_string(bounds.least) +
                                      " processors and at most " + std::to_string(bounds.most) +
                                      "; the least must not be above the most");
  }
  if (bounds.weight > ProcessorBounds::kMostWeight) {
    return Status(SL_ERR_INVALID, "a processor weighs " + std::to_string(bounds.weight) + " thousandths; 0 to " +
                                      std::to_string(ProcessorBounds::kMostWeight) + " are possible");
  }
  return bounds;
}

uint32_t* CallMarkOf(const sl_comm_config_t* config) {
  return config != nullptr && SL_HAS(config, sl_comm_config_t, call_mark) ? config->call_mark : nullptr;
}

Status MakeId(sl_unique_id_t* out_id) {
  SL_ASSIGN(Process * process, Process::GetForId());
  const std::string& rendezvous = process->profile().settings().comm.rendezvous;
  SL_ASSIGN(const RendezvousId id, rendezvous.empty() ? process->rendezvous()->NewId() : IdOfAddress(rendezvous));
  *out_id = EncodeId(id);
  return {};
}

Status CreateComm(const sl_comm_config_t& config, sl_comm_t** out_comm) {
  SL_TRY(CheckConfig(config));
  SL_ASSIGN(Process * process, Process::Get());
  SL_ASSIGN(const std::vector<RendezvousId> ids, DecodeIds(config));
  CommConfig mine;
  SL_ASSIGN(mine.bounds, BoundsOf(&config, {}));
  SL_ASSIGN(mine.device, process->FindDevice(config.device_kind, config.device_ordinal));
  mine.rank = config.rank;
  mine.size = config.size;
  mine.timeout_ns =
      config.timeout_ns != 0 ? config.timeout_ns : process->profile().settings().comm.bootstrap_timeout_ms * 1000000;
  mine.name = config.name != nullptr ? config.name : "";
  auto handle = std::make_unique<sl_comm_t>(process, mine, CallMarkOf(&config));
  handle->nonblocking = config.nonblocking != 0;
  sl_comm_t* raw = handle.get();
  Status status = RunCall(raw, raw->nonblocking, [raw, ids] { return BecomeReady(raw, raw->comm.Join(ids)); });
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status CommState(sl_comm_t* handle) {
  const Visit visit(handle);
  {
    std::lock_guard lock(handle->work_mutex);
    if (handle->working) return Status(SL_IN_PROGRESS);
    // A call that was refused, and told so, leaves the communicator as good as before.
    const bool is_over = handle->work_told && IsUsable(handle->comm);
    if (!handle->work_outcome.ok() && !is_over) return handle->work_outcome;
  }
  if (handle->revoked.load()) return {};  // what it failed by is over with it
  if (handle->comm.state.load() == Communicator::State::kFinalized)
    return {};  // what becomes of others is their affair
  SL_TRY(handle->comm.Failure());
  SL_TRY(handle->comm.WorkFailure());
  // Who waits on the host finds mismatches itself. Calls that no launch waits for are compared when somebody asks.
  const bool is_idle = handle->comm.state.load() != Communicator::State::kReady;
  if (is_idle || handle->comm.device().is_watched()) return {};
  Status mismatch = FindMismatch(handle);
  if (!mismatch.ok()) handle->comm.FailLaunches(mismatch);
  return mismatch;
}

Status WaitComm(sl_comm_t* handle, uint64_t deadline_ns) {
  constexpr uint64_t kSliceNs = 1'000'000'000;  // the longest that the clock of a wait is asked for
  const Visit visit(handle);
  std::unique_lock lock(handle->work_mutex);
  // The worker ends by itself: every wait in it is bounded.
  while (handle->working) {
    const uint64_t now = NowNs();
    if (now >= deadline_ns) return {SL_ERR_TIMEOUT, "the communicator is still in progress"};
    handle->work_done.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kSliceNs)));
  }
  if (handle->worker.joinable()) handle->worker.Join();  // it has done its work and only has to return
  handle->work_told = true;
  return handle->work_outcome;
}

Status FinalizeComm(sl_comm_t* handle) {
  const auto state = handle->comm.state.load();
  if (state == Communicator::State::kSuspended) {
    return {SL_ERR_STATE, "finalize of a suspended communicator; resume it first, or destroy it"};
  }
  if (state != Communicator::State::kReady) {
    return {SL_ERR_STATE, state == Communicator::State::kJoining ? "finalize of a communicator that is not ready"
                                                                 : "the communicator was finalized before"};
  }
  if (handle->revoked.load()) {
    return {SL_ERR_INVALID, "finalize of a revoked communicator, whose ranks owe each other nothing; destroy it"};
  }
  handle->comm.state.store(Communicator::State::kFinalizing);
  const auto call = [handle]() -> Status {
    const uint64_t timeout_ms = handle->comm.process()->profile().settings().comm.operation_timeout_ms;
    const uint64_t deadline_ns = timeout_ms == 0 ? SL_NO_DEADLINE : NowNs() + timeout_ms * 1000000;
    const auto is_busy = [handle] {
      return handle->pending.outstanding() != 0 || (handle->relay != nullptr && !handle->relay->IsResting());
    };
    while (is_busy() && !handle->comm.cancelled()) {
      if (NowNs() >= deadline_ns) return {SL_ERR_TIMEOUT, "finalize: operations on streams did not end"};
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
    constexpr uint64_t kLookNs = 50'000'000;  // between two looks whether it is aborted
    while (!AwaitLaunches(handle, std::min(deadline_ns, NowNs() + kLookNs))) {
      if (handle->comm.cancelled()) return {SL_ERR_ABORTED, "the communicator was aborted while it was finalized"};
      SL_TRY(handle->comm.WorkFailure());
      if (NowNs() >= deadline_ns) return {SL_ERR_TIMEOUT, "finalize: launches on the device did not end"};
    }
    SL_TRY(handle->comm.WorkFailure());
    handle->comm.state.store(Communicator::State::kMeeting);
    SL_TRY(handle->comm.Finalize());
    SL_TRY(FindMismatch(handle));
    handle->comm.state.store(Communicator::State::kFinalized);
    return {};
  };
  return RunCall(handle, handle->nonblocking, call,
                 [handle](const Status&) { handle->comm.state.store(Communicator::State::kReady); });
}

Status DestroyComm(sl_comm_t* handle) {
  const bool had_stopped = handle->comm.HasStoppedLaunches();
  JoinWorker(handle);
  AwaitVisits(handle, SL_NO_DEADLINE);
  // Work on streams ends by itself, or by the communicator's failure; on the host both are bounded by the operation's
  // timeout.
  const uint64_t timeout_ms = handle->comm.process()->profile().settings().comm.operation_timeout_ms;
  const bool is_watched = handle->comm.device().is_watched();
  // Launches whose end nobody could mark have been told to end.
  const uint64_t patience_ns = handle->unmarked.load() ? kStopNs : timeout_ms * 1000000;
  if (!DrainWithin(handle, is_watched ? SL_NO_DEADLINE : NowNs() + patience_ns)) {
    handle->comm.StopLaunches(SL_ERR_TIMEOUT);
    if (!DrainWithin(handle, NowNs() + kStopNs)) {
      Logf(SL_LOG_WARN, "rank {}: launches of a destroyed communicator do not end; its memory is kept",
           handle->comm.rank());
      EndLateUse(handle, true, false, Fate::kDeparted);
      DropWhenItStops(handle);
      return {};
    }
  }
  EndLateUse(handle, had_stopped, true, Fate::kDeparted);
  handle->comm.Drain();
  handle->comm.Leave(Fate::kDeparted);
  handle->comm.AwaitFarewell();
  JoinWorker(handle);
  Drop(handle, NowNs() + kFreeNs);
  return {};
}

Status AbortComm(sl_comm_t* handle) {
  const bool was_in_the_middle = MayBeInTheMiddle(*handle);
  handle->comm.Cancel();
  // A worker that still sets the communicator up sees the cancellation at its next wait, as those do that visit it. But
  // where it maps or unmaps, the driver may make it wait for kernels of others.
  const uint64_t deadline_ns = handle->comm.device().is_watched() ? SL_NO_DEADLINE : NowNs() + kStopNs;
  const bool is_left = JoinWorkerWithin(handle, deadline_ns) && AwaitVisits(handle, deadline_ns);
  if (is_left || handle->comm.has_met()) handle->comm.Leave(Fate::kAborted);
  const bool may_have_launched = is_left || handle->comm.state.load() != Communicator::State::kJoining;
  const bool is_drained = may_have_launched && DrainWithin(handle, NowNs() + kStopNs);
  if (may_have_launched) EndLateUse(handle, was_in_the_middle || !is_drained, is_left && is_drained, Fate::kAborted);
  if (!is_left || !is_drained) {
    Logf(SL_LOG_WARN, "rank {}: work of an aborted communicator did not stop within 1 s; its memory is kept",
         handle->comm.rank());
    DropWhenItStops(handle);
    return {};
  }
  Drop(handle, NowNs() + kFreeInHasteNs);
  return {};
}

}  // namespace sl::kernel
