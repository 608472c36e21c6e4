// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/lifecycle.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>

#include "kernel/comm/id_desk.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/issue.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kAbortNs = 1'000'000'000;

// Runs `call` now, or on the communicator's worker, which blocks all signals.
Status RunCall(sl_comm_t* handle, bool nonblocking, std::function<Status()> call) {
  if (!nonblocking) {
    Status outcome = call();
    std::lock_guard lock(handle->work_mutex);
    handle->work_outcome = outcome;
    return outcome;
  }
  std::lock_guard lock(handle->work_mutex);
  if (handle->working) return {SL_ERR_STATE, "another call on this communicator is still in progress"};
  if (handle->worker.joinable()) handle->worker.join();
  handle->working = true;
  handle->work_outcome = Status(SL_IN_PROGRESS);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  handle->worker = std::thread([handle, call = std::move(call)] {
    Status outcome = call();
    std::lock_guard done(handle->work_mutex);
    handle->work_outcome = std::move(outcome);
    handle->working = false;
    handle->work_done.notify_all();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return Status(SL_IN_PROGRESS);
}

Status BecomeReady(sl_comm_t* handle, Status joined) {
  if (joined.ok()) joined = PrepareToIssue(handle);
  if (joined.ok()) {
    handle->comm.state.store(Communicator::State::kReady, std::memory_order_release);
  } else {
    handle->comm.Fail(joined);
  }
  return joined;
}

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

// True once nobody is inside any more, and no launch of it runs.
bool DrainWithin(sl_comm_t* handle, uint64_t deadline_ns) {
  while (handle->in_call.load(std::memory_order_seq_cst) != 0 || handle->pending.outstanding() != 0) {
    if (NowNs() >= deadline_ns) return false;
    sched_yield();
  }
  return AwaitLaunches(handle, deadline_ns);
}

// A communicator that comes out of `parent`, not yet joined.
std::unique_ptr<sl_comm_t> NewChild(const sl_comm_t& parent, const sl_comm_config_t* config) {
  CommConfig child = parent.comm.config();
  if (config != nullptr && config->timeout_ns != 0) child.timeout_ns = config->timeout_ns;
  if (config != nullptr && config->name != nullptr) child.name = config->name;
  auto handle = std::make_unique<sl_comm_t>(parent.comm.process(), child);
  handle->nonblocking = config != nullptr ? config->nonblocking != 0 : parent.nonblocking;
  return handle;
}

// `excluded` is sorted.
Status CheckExcluded(const Communicator& parent, const std::vector<uint32_t>& excluded) {
  if (excluded.empty()) return {SL_ERR_INVALID, "no rank is excluded; a copy of all is made by a split"};
  if (excluded.back() >= parent.size()) {
    return {SL_ERR_INVALID, "rank " + std::to_string(excluded.back()) + " is excluded; ranks are 0 to " +
                                std::to_string(parent.size() - 1)};
  }
  if (const auto twice = std::adjacent_find(excluded.begin(), excluded.end()); twice != excluded.end()) {
    return {SL_ERR_INVALID, "rank " + std::to_string(*twice) + " is excluded twice"};
  }
  if (std::binary_search(excluded.begin(), excluded.end(), parent.rank())) {
    return {SL_ERR_INVALID, "rank " + std::to_string(parent.rank()) + " excludes itself; excluded ranks do not call"};
  }
  return {};
}

void JoinWorker(sl_comm_t* handle) {
  std::thread worker;
  {
    std::lock_guard lock(handle->work_mutex);
    worker = std::move(handle->worker);
  }
  if (worker.joinable()) worker.join();
}

void Free(sl_comm_t* handle) {
  JoinWorker(handle);
  StopIssuing(handle);
  delete handle;
}

}  // namespace

namespace {

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

}  // namespace

Status MakeId(sl_unique_id_t* out_id) {
  SL_ASSIGN(Process * process, Process::Get());
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
  SL_ASSIGN(mine.device, process->FindDevice(config.device_kind, config.device_ordinal));
  mine.rank = config.rank;
  mine.size = config.size;
  mine.timeout_ns =
      config.timeout_ns != 0 ? config.timeout_ns : process->profile().settings().comm.bootstrap_timeout_ms * 1000000;
  mine.name = config.name != nullptr ? config.name : "";
  auto handle = std::make_unique<sl_comm_t>(process, mine);
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

Status SplitComm(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config, sl_comm_t** out_comm) {
  if (parent->comm.state.load() != Communicator::State::kReady) {
    return {SL_ERR_STATE, "split of a communicator that is not ready"};
  }
  SL_TRY(parent->comm.Health());
  const bool nonblocking = config != nullptr ? config->nonblocking != 0 : parent->nonblocking;
  const Communicator::SplitTurn turn = parent->comm.BeginSplit();
  if (color < 0) {
    *out_comm = nullptr;
    return RunCall(parent, nonblocking,
                   [parent, turn, color, key] { return parent->comm.Split(turn, color, key).status(); });
  }
  std::unique_ptr<sl_comm_t> handle = NewChild(*parent, config);
  sl_comm_t* raw = handle.get();
  Status status = RunCall(raw, nonblocking, [raw, parent, turn, color, key]() -> Status {
    Result<Communicator::Seat> seat = parent->comm.Split(turn, color, key);
    if (!seat.ok()) return BecomeReady(raw, seat.status());
    return BecomeReady(raw, raw->comm.JoinAsChild(seat.Take()));
  });
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status ShrinkComm(sl_comm_t* parent, std::span<const uint32_t> excluded, uint32_t flags, const sl_comm_config_t* config,
                  sl_comm_t** out_comm) {
  if (parent->comm.state.load() != Communicator::State::kReady) {
    return {SL_ERR_STATE, "shrink of a communicator that is not ready, or was finalized"};
  }
  if ((flags & ~SL_SHRINK_ABORT) != 0) {
    return {SL_ERR_INVALID, "shrink knows no flags " + std::to_string(flags & ~SL_SHRINK_ABORT)};
  }
  std::vector<uint32_t> sorted(excluded.begin(), excluded.end());
  std::sort(sorted.begin(), sorted.end());
  SL_TRY(CheckExcluded(parent->comm, sorted));
  const bool abort = (flags & SL_SHRINK_ABORT) != 0;
  if (const Status health = parent->comm.Health(); !abort && !health.ok()) {
    return {health.code(), health.message() + "; a broken communicator is shrunk with the abort flag"};
  }
  if (abort) parent->comm.Revoke();
  std::unique_ptr<sl_comm_t> handle = NewChild(*parent, config);
  sl_comm_t* raw = handle.get();
  Status status = RunCall(raw, raw->nonblocking, [raw, parent, abort, sorted]() -> Status {
    if (abort && !DrainWithin(parent, NowNs() + kAbortNs)) {
      return BecomeReady(raw,
                         {SL_ERR_TIMEOUT, "operations of the communicator that is shrunk did not stop within 1 s"});
    }
    return BecomeReady(raw, raw->comm.JoinShrunk(&parent->comm, sorted));
  });
  if (!status.ok()) {
    StopIssuing(raw);
    return status;
  }
  *out_comm = handle.release();
  return status;
}

Status CommState(sl_comm_t* handle) {
  {
    std::lock_guard lock(handle->work_mutex);
    if (handle->working) return Status(SL_IN_PROGRESS);
    if (!handle->work_outcome.ok()) return handle->work_outcome;
  }
  SL_TRY(handle->comm.Health());
  // Who waits on the host finds mismatches itself; launches that nobody watches are looked after by who asks.
  const bool is_idle = handle->comm.state.load() != Communicator::State::kReady;
  if (is_idle || handle->comm.device().is_watched()) return {};
  Status mismatch = FindMismatch(handle);
  if (!mismatch.ok()) handle->comm.Fail(mismatch);
  return mismatch;
}

Status WaitComm(sl_comm_t* handle, uint64_t deadline_ns) {
  constexpr uint64_t kSliceNs = 1'000'000'000;  // the longest that the clock of a wait is asked for
  std::unique_lock lock(handle->work_mutex);
  // The worker ends by itself: every wait in it is bounded.
  while (handle->working) {
    const uint64_t now = NowNs();
    if (now >= deadline_ns) return {SL_ERR_TIMEOUT, "the communicator is still in progress"};
    handle->work_done.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kSliceNs)));
  }
  if (handle->worker.joinable()) handle->worker.join();  // it has done its work and only has to return
  return handle->work_outcome;
}

Status FinalizeComm(sl_comm_t* handle) {
  const auto state = handle->comm.state.load();
  if (state != Communicator::State::kReady) {
    return {SL_ERR_STATE, state == Communicator::State::kJoining ? "finalize of a communicator that is not ready"
                                                                 : "the communicator was finalized before"};
  }
  handle->comm.state.store(Communicator::State::kFinalizing);
  return RunCall(handle, handle->nonblocking, [handle]() -> Status {
    const uint64_t timeout_ms = handle->comm.process()->profile().settings().comm.operation_timeout_ms;
    const uint64_t deadline_ns = timeout_ms == 0 ? SL_NO_DEADLINE : NowNs() + timeout_ms * 1000000;
    while (handle->pending.outstanding() != 0 && !handle->comm.cancelled()) {
      if (NowNs() >= deadline_ns) return {SL_ERR_TIMEOUT, "finalize: operations on streams did not end"};
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
    if (!AwaitLaunches(handle, deadline_ns)) {
      return {SL_ERR_TIMEOUT, "finalize: launches on the device did not end"};
    }
    SL_TRY(handle->comm.Health());
    SL_TRY(handle->comm.Finalize());
    SL_TRY(FindMismatch(handle));
    handle->comm.state.store(Communicator::State::kFinalized);
    return {};
  });
}

Status DestroyComm(sl_comm_t* handle) {
  JoinWorker(handle);
  // Work on streams ends by itself, or by the communicator's failure; on the host both are bounded by the operation's
  // timeout.
  const uint64_t timeout_ms = handle->comm.process()->profile().settings().comm.operation_timeout_ms;
  const bool is_watched = handle->comm.device().is_watched();
  if (!DrainWithin(handle, is_watched ? SL_NO_DEADLINE : NowNs() + timeout_ms * 1000000)) {
    handle->comm.StopLaunches(SL_ERR_TIMEOUT);
    if (!DrainWithin(handle, NowNs() + kAbortNs)) {
      Logf(SL_LOG_WARN, "rank {}: launches of a destroyed communicator do not end; its memory is kept",
           handle->comm.rank());
      return {};
    }
  }
  handle->comm.Drain();
  handle->comm.Leave(Fate::kDeparted);
  handle->comm.AwaitFarewell();
  Free(handle);
  return {};
}

Status AbortComm(sl_comm_t* handle) {
  handle->comm.Cancel();
  // A worker that still sets the communicator up sees the cancellation at its next wait.
  JoinWorker(handle);
  handle->comm.Leave(Fate::kAborted);
  if (!DrainWithin(handle, NowNs() + kAbortNs)) {
    Logf(SL_LOG_WARN, "rank {}: work of an aborted communicator did not stop within 1 s; its memory is kept",
         handle->comm.rank());
    return {};
  }
  Free(handle);
  return {};
}

}  // namespace sl::kernel
