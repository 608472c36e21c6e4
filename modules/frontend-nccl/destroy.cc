// SPDX-License-Identifier: Apache-2.0
//
// How communicators end. Finalizing completes a rank's own work and meets the other ranks, so that none leaves while
// others still need it. But programs owe each other no order of these calls, and NCCL's wait for no other rank:
// - The ranks of one process may be finalized and destroyed one after the other on one thread, without a group: a rank
//   waits for no sibling that has still to be called, and the last one to be destroyed frees them all.
// - Processes may end several communicators in different orders: who has waited for the others alone for a second
//   goes on, and the communicator meets them without its program. It is freed by a later call; a process that exits
//   waits for the meeting, kExitPatience at most, since others take one that ends too early for lost.
// A handle that is claimed for its end can be claimed by nobody else, so from there on nothing takes memory: handles
// that end together, and those that are late, are linked by next_to_end.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kExitPatience{30};

bool Failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// Serialises who frees a family of ranks; held for looks and marks only, never while waiting.
constinit std::mutex g_families_mutex;

// Destroyed by their programs, and waiting for ranks of other processes; guarded by g_families_mutex.
constinit ncclComm* g_late = nullptr;

bool IsUnderWay(const ncclComm* comm) {
  return !comm->aborted.load() && LoadedRuntime().comm_state(comm->kernel, nullptr, 0, nullptr) == SL_IN_PROGRESS;
}

pid_t g_late_process = 0;  // not its forked children

// Registered behind what the communicators live on, the driver of a device among it, and so called before its end.
void EndLateAtExit() {
  if (getpid() != g_late_process) return;
  const Clock::time_point deadline = Clock::now() + kExitPatience;
  const auto is_waiting = [] {
    const std::lock_guard<std::mutex> lock(g_families_mutex);
    const ncclComm* late = g_late;
    while (late != nullptr && !IsUnderWay(late)) late = late->next_to_end;
    return late != nullptr;
  };
  while (is_waiting() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  FreeLate();
}

void LeaveForLater(ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(g_families_mutex);
  if (g_late_process == 0 && std::atexit(EndLateAtExit) == 0) g_late_process = getpid();
  comm->next_to_end = std::exchange(g_late, comm);
}

// The ranks to free now, linked: `comm` and those of its family that were parked for it; none while a sibling has still
// to come, then `comm` is parked. A rank that needs nobody is freed at once. Chosen ranks leave the family for good.
ncclComm* ChooseForFreeing(ncclComm* comm) noexcept {
  const std::lock_guard<std::mutex> lock(g_families_mutex);
  comm->next_to_end = nullptr;
  const uint64_t family = comm->comm_id.load(std::memory_order_relaxed);
  if (family == 0) return comm;
  const bool all_ending = !HasSiblingToCome(comm);
  if (comm->cold->finalizing && !all_ending) {
    comm->parked = true;
    return nullptr;
  }
  ncclComm* last = comm;
  AnyRankHere(family, comm, [&last, all_ending](ncclComm* sibling) {
    if (all_ending && sibling->parked) last = last->next_to_end = sibling;
    return false;
  });
  last->next_to_end = nullptr;
  for (ncclComm* one = comm; one != nullptr; one = one->next_to_end) {
    one->parked = false;
    one->comm_id.store(0, std::memory_order_relaxed);
  }
  return comm;
}

// Frees a claimed handle that has no pins any more, with all that belongs to it.
sl_status_t End(ncclComm* comm) {
  sl_status_t status = SL_OK;
  if (comm->kernel != nullptr) {
    const sl_runtime_ops_t& runtime = LoadedRuntime();
    status = comm->aborted.load() ? runtime.comm_abort(comm->kernel) : runtime.comm_destroy(comm->kernel);
  }
  Release(comm);
  return status;
}

ncclResult_t Free(const char* function, ncclComm* comm) {
  ncclResult_t result = ncclSuccess;
  if (comm->cold->finalizing) {
    const auto is_vain = [comm] { return comm->aborted.load() || OthersAreLate(comm); };
    const sl_status_t waited = AwaitKernel(comm, kDestroying, is_vain);
    if (waited == SL_IN_PROGRESS && !comm->aborted.load()) {
      LeaveForLater(comm);
      return ncclSuccess;
    }
    if (waited < SL_OK) result = FailWith(function, waited);
  }
  const sl_status_t destroyed = End(comm);
  if (destroyed < SL_OK && result == ncclSuccess) result = FailWith(function, destroyed);
  return result;
}

// Lets a communicator complete what is outstanding. One that failed already has nobody left to meet; its error was
// reported when it happened. Nor do those that were revoked or suspended.
ncclResult_t BeginDestroy(const char* function, ncclComm* comm) {
  const Pin pin(comm);
  const auto is_ready = [comm] { return comm->phase.load(std::memory_order_seq_cst) == kReady; };
  if (!is_ready() || comm->cold->revoked) return ncclSuccess;
  // A split, say, that its program has not waited for; what comes of it is not asked any more.
  if (IsUnderWay(comm)) AwaitKernel(comm, kReady);
  if (!is_ready()) return ncclSuccess;  // another thread ends it
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  if (LoadedRuntime().comm_info(comm->kernel, &info) == SL_OK && info.suspended != 0) return ncclSuccess;
  if (LoadedRuntime().comm_state(comm->kernel, nullptr, 0, nullptr) < SL_OK) return ncclSuccess;
  return StartFinalize(function, comm);
}

}  // namespace

ncclResult_t StartFinalize(const char* function, ncclComm* comm) {
  const Pin pin(comm);
  if (const ncclResult_t ready = RequireReady(function, comm); ready != ncclSuccess) return ready;
  const sl_status_t status = LoadedRuntime().comm_finalize(comm->kernel);
  if (status < SL_OK) return FailWith(function, status);  // it was not begun
  comm->cold->finalizing = status == SL_IN_PROGRESS;
  ChangePhase(comm, status == SL_OK ? kFinalized : kFinalizing);
  return ResultOf(status);
}

ncclResult_t AwaitFinalize(const char* function, ncclComm* comm) {
  const Pin pin(comm);
  const sl_status_t status = AwaitKernel(comm, kFinalizing, [comm] { return OthersAreLate(comm); });
  if (status == SL_IN_PROGRESS) {  // ncclCommDestroy waits on
    ChangePhase(comm, kFinalized);
    return ncclSuccess;
  }
  if (status == SL_ERR_ABORTED) {
    return Fail(ncclInvalidUsage, "%s: the communicator was aborted while it was being finalized", function);
  }
  comm->cold->finalizing = false;
  if (status != SL_OK) return BecomeFailed(function, comm, status);  // told here, and not again by ncclCommDestroy
  ChangePhase(comm, kFinalized);
  return ncclSuccess;
}

void FreeLate() {
  ncclComm* met = nullptr;
  {
    const std::lock_guard<std::mutex> lock(g_families_mutex);
    for (ncclComm** at = &g_late; *at != nullptr;) {
      ncclComm* comm = *at;
      if (IsUnderWay(comm)) {
        at = &comm->next_to_end;
      } else {
        *at = comm->next_to_end;
        comm->next_to_end = std::exchange(met, comm);
      }
    }
  }
  while (met != nullptr) End(std::exchange(met, met->next_to_end));
}

void Discard(ncclComm* comm) noexcept {
  if (!ClaimForEnding(comm)) return;
  comm->aborted.store(true);
  AwaitPins(comm);
  End(comm);
}

ncclResult_t DestroyComms(const char* function, const std::vector<ncclComm*>& comms) {
  FreeLate();
  ncclResult_t result = ncclSuccess;
  std::vector<ncclComm*> ours;
  ours.reserve(comms.size());
  // All start before any is waited for: they may be ranks of one communicator.
  for (ncclComm* comm : comms) {
    const ncclResult_t begun = BeginDestroy(function, comm);
    if (Failed(begun) && result == ncclSuccess) result = begun;
    if (ClaimForEnding(comm)) {
      ours.push_back(comm);
    } else {
      result = Fail(ncclInvalidArgument, "%s: the communicator was destroyed or aborted already", function);
    }
  }
  for (ncclComm* comm : ours) {
    AwaitPins(comm);
    ncclComm* chosen = ChooseForFreeing(comm);
    for (const ncclComm* one = chosen; one != nullptr; one = one->next_to_end) {  // their patience ends together
      if (one->cold->finalizing) OthersAreLate(one);
    }
    while (chosen != nullptr) {
      const ncclResult_t freed = Free(function, std::exchange(chosen, chosen->next_to_end));
      if (freed != ncclSuccess && result == ncclSuccess) result = freed;
    }
  }
  return result;
}

ncclResult_t AbortComm(const char* function, ncclComm* comm) {
  if (comm->phase.load(std::memory_order_acquire) == kQueued) {
    return Fail(ncclInvalidUsage, "%s: the communicator is made in a group; end the group first", function);
  }
  const bool is_ours = ClaimForEnding(comm);
  comm->aborted.store(true);
  if (!is_ours) return ncclSuccess;  // another thread destroys it, and stops waiting for peers now
  AwaitPins(comm);
  // Ranks of this process that waited for this one, to be destroyed with it, will not finish either.
  comm->cold->finalizing = false;
  sl_status_t status = SL_OK;
  for (ncclComm* next = ChooseForFreeing(comm); next != nullptr;) {
    ncclComm* one = std::exchange(next, next->next_to_end);
    one->aborted.store(true);
    const sl_status_t ended = End(one);
    if (one == comm) status = ended;
  }
  return status < SL_OK ? FailWith(function, status) : ncclSuccess;
}

}  // namespace sl::frontend_nccl
