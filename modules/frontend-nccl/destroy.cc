// SPDX-License-Identifier: Apache-2.0
//
// How communicators end. Finalizing completes a rank's own work and meets the other ranks, so that none leaves while
// others still need it. But programs owe each other no order of these calls, and NCCL's wait for no other rank:
// - The ranks of one process may be finalized and destroyed one after the other on one thread, without a group: a rank
//   waits for no sibling that has still to be called, and the last one to be destroyed frees them all.
// - Processes may end several communicators in different orders: who has waited for the others alone for kPatience
//   goes on, and the communicator meets them without its program. It is freed by a later call; a process that exits
//   waits for the meeting, kExitPatience at most, since others take one that ends too early for lost.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::seconds kExitPatience{30};

bool Failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// Serialises who frees a family of ranks; held for looks and marks only, never while waiting.
constinit std::mutex g_families_mutex;

// True when the kernel's finalize of a rank in this phase does not wait for anything its program has still to call.
bool IsEnding(uint32_t phase) {
  return phase == kFinalizing || phase == kFinalized || phase == kFailed || phase == kDestroying;
}

bool IsMeeting(const ncclComm* comm) {
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  return LoadedRuntime().comm_info(comm->kernel, &info) == SL_OK && info.meeting != 0;
}

bool HasSiblingToCome(const ncclComm* comm) {
  const uint64_t family = comm->comm_id.load(std::memory_order_relaxed);
  if (family == 0) return false;
  const std::vector<ncclComm*> siblings = RanksHere(family, comm);
  return std::any_of(siblings.begin(), siblings.end(),
                     [](const ncclComm* sibling) { return !IsEnding(sibling->phase.load(std::memory_order_acquire)); });
}

// Whether there is no point in waiting on until the communicator is finalized: a question for AwaitKernel.
std::function<bool()> OthersAreLate(const ncclComm* comm) {
  return [comm, since = std::optional<Clock::time_point>()]() mutable {
    if (!IsMeeting(comm)) return false;
    if (!since) since = Clock::now();
    return HasSiblingToCome(comm) || Clock::now() - *since >= kPatience;
  };
}

// Destroyed by their programs, and waiting for ranks of other processes; guarded by g_families_mutex. Never destroyed.
std::vector<ncclComm*>& Late() {
  static auto* const late = new std::vector<ncclComm*>;
  return *late;
}

bool IsUnderWay(const ncclComm* comm) {
  return LoadedRuntime().comm_state(comm->kernel, nullptr, 0, nullptr) == SL_IN_PROGRESS;
}

pid_t g_late_process = 0;  // not its forked children

// Registered behind what the communicators live on, the driver of a device among it, and so called before its end.
void EndLateAtExit() {
  if (getpid() != g_late_process) return;
  const Clock::time_point deadline = Clock::now() + kExitPatience;
  const auto is_waiting = [] {
    const std::lock_guard<std::mutex> lock(g_families_mutex);
    return std::any_of(Late().begin(), Late().end(), IsUnderWay);
  };
  while (is_waiting() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  FreeLate();
}

void LeaveForLater(ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(g_families_mutex);
  if (g_late_process == 0 && std::atexit(EndLateAtExit) == 0) g_late_process = getpid();
  Late().push_back(comm);
}

// The ranks to free now: `comm` and those of its family that were parked for it; none while a sibling has still to
// come, then `comm` is parked. A rank that needs nobody is freed at once. Chosen ranks leave the family for good.
std::vector<ncclComm*> ChooseForFreeing(ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(g_families_mutex);
  std::vector<ncclComm*> chosen = {comm};
  const uint64_t family = comm->comm_id.load(std::memory_order_relaxed);
  if (family == 0) return chosen;
  const bool all_ending = !HasSiblingToCome(comm);
  if (comm->cold->finalizing && !all_ending) {
    comm->parked = true;
    return {};
  }
  for (ncclComm* sibling : RanksHere(family, comm)) {
    if (all_ending && sibling->parked) chosen.push_back(sibling);
  }
  for (ncclComm* one : chosen) {
    one->parked = false;
    one->comm_id.store(0, std::memory_order_relaxed);
  }
  return chosen;
}

ncclResult_t Free(const char* function, ncclComm* comm) {
  const sl_runtime_ops_t& runtime = LoadedRuntime();
  ncclResult_t result = ncclSuccess;
  if (comm->cold->finalizing) {
    const sl_status_t waited = AwaitKernel(comm, kDestroying, OthersAreLate(comm));
    if (waited == SL_IN_PROGRESS) {
      LeaveForLater(comm);
      return ncclSuccess;
    }
    // Who is done needs the lost one for nothing.
    const bool missed_nothing = waited == SL_ERR_PEER_LOST && IsMeeting(comm);
    if (waited < SL_OK && !missed_nothing) result = FailWith(function, waited);
  }
  if (comm->kernel != nullptr) {
    const sl_status_t destroyed = runtime.comm_destroy(comm->kernel);
    if (destroyed < SL_OK && result == ncclSuccess) result = FailWith(function, destroyed);
  }
  Release(comm);
  return result;
}

// Lets a communicator complete what is outstanding. One that failed already has nobody left to meet; its error was
// reported when it happened. Nor do those that were revoked or suspended.
ncclResult_t BeginDestroy(const char* function, ncclComm* comm) {
  if (comm->phase.load(std::memory_order_acquire) != kReady || comm->cold->revoked) return ncclSuccess;
  if (IsUnderWay(comm)) {  // a split, say, that its program has not waited for; what comes of it is not asked any more
    const Pin pin(comm);
    AwaitKernel(comm, kReady);
  }
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  if (LoadedRuntime().comm_info(comm->kernel, &info) == SL_OK && info.suspended != 0) return ncclSuccess;
  if (LoadedRuntime().comm_state(comm->kernel, nullptr, 0, nullptr) < SL_OK) return ncclSuccess;
  return StartFinalize(function, comm);
}

}  // namespace

ncclResult_t StartFinalize(const char* function, ncclComm* comm) {
  const sl_status_t status = LoadedRuntime().comm_finalize(comm->kernel);
  if (SL_IS_USAGE_ERROR(status)) return FailWith(function, status);  // it was not begun
  if (status < SL_OK) return BecomeFailed(function, comm, status);
  comm->cold->finalizing = status == SL_IN_PROGRESS;
  ChangePhase(comm, status == SL_OK ? kFinalized : kFinalizing);
  return ResultOf(status);
}

ncclResult_t AwaitFinalize(const char* function, ncclComm* comm) {
  const Pin pin(comm);
  const sl_status_t status = AwaitKernel(comm, kFinalizing, OthersAreLate(comm));
  if (status == SL_IN_PROGRESS) return ncclSuccess;  // ncclCommDestroy waits on
  if (status == SL_ERR_ABORTED) {
    return Fail(ncclInvalidUsage, "%s: the communicator was aborted while it was being finalized", function);
  }
  if (status != SL_OK) return BecomeFailed(function, comm, status);
  comm->cold->finalizing = false;
  ChangePhase(comm, kFinalized);
  return ncclSuccess;
}

void FreeLate() {
  std::vector<ncclComm*> met;
  {
    const std::lock_guard<std::mutex> lock(g_families_mutex);
    const auto first = std::stable_partition(Late().begin(), Late().end(), IsUnderWay);
    met.assign(first, Late().end());
    Late().erase(first, Late().end());
  }
  for (ncclComm* comm : met) {
    LoadedRuntime().comm_destroy(comm->kernel);
    Release(comm);
  }
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
    for (ncclComm* one : ChooseForFreeing(comm)) {
      const ncclResult_t freed = Free(function, one);
      if (freed != ncclSuccess && result == ncclSuccess) result = freed;
    }
  }
  return result;
}

ncclResult_t AbortComm(const char* function, ncclComm* comm) {
  if (comm->phase.load(std::memory_order_acquire) == kQueued) {
    return Fail(ncclInvalidUsage, "%s: the communicator is made in a group; end the group first", function);
  }
  if (!ClaimForEnding(comm)) {
    return Fail(ncclInvalidArgument, "%s: the communicator is being destroyed already", function);
  }
  AwaitPins(comm);
  const sl_status_t status = LoadedRuntime().comm_abort(comm->kernel);
  comm->kernel = nullptr;
  // Ranks of this process that waited for this one, to be destroyed with it, will not finish either.
  comm->cold->finalizing = false;
  for (ncclComm* one : ChooseForFreeing(comm)) {
    if (one != comm) LoadedRuntime().comm_abort(one->kernel);
    Release(one);
  }
  return status < SL_OK ? FailWith(function, status) : ncclSuccess;
}

}  // namespace sl::frontend_nccl
