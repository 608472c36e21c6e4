// SPDX-License-Identifier: Apache-2.0
//
// How communicators end. Finalizing meets the other ranks. A program may destroy the ranks of one process one after the
// other on one thread, without a group, and may do so without finalizing first: then the first ranks only start to
// finalize, and the last one waits for all and frees them.
#include <algorithm>

#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

bool Failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// Serialises who frees a family of ranks; held for looks and marks only, never while waiting.
constinit std::mutex g_families_mutex;

// True when the kernel's finalize of a rank in this phase does not wait for anything its program has still to call.
bool IsEnding(uint32_t phase) {
  return phase == kFinalizing || phase == kFinalized || phase == kFailed || phase == kDestroying;
}

// The ranks to free now: `comm` and those of its family that were parked for it; none while a sibling has still to
// come, then `comm` is parked. A rank that needs nobody is freed at once. Chosen ranks leave the family for good.
std::vector<ncclComm*> ChooseForFreeing(ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(g_families_mutex);
  std::vector<ncclComm*> chosen = {comm};
  const uint64_t family = comm->comm_id.load(std::memory_order_relaxed);
  if (family == 0) return chosen;
  const std::vector<ncclComm*> siblings = RanksHere(family, comm);
  const bool all_ending = std::all_of(siblings.begin(), siblings.end(), [](const ncclComm* sibling) {
    return IsEnding(sibling->phase.load(std::memory_order_acquire));
  });
  if (comm->cold->finalizing && !all_ending) {
    comm->parked = true;
    return {};
  }
  for (ncclComm* sibling : siblings) {
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
    const sl_status_t waited = AwaitKernel(comm, kDestroying);
    if (waited < SL_OK) result = FailWith(function, waited);
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
  const sl_status_t status = AwaitKernel(comm, kFinalizing);
  if (status == SL_ERR_ABORTED) {
    return Fail(ncclInvalidUsage, "%s: the communicator was aborted while it was being finalized", function);
  }
  if (status != SL_OK) return BecomeFailed(function, comm, status);
  comm->cold->finalizing = false;
  ChangePhase(comm, kFinalized);
  return ncclSuccess;
}

ncclResult_t DestroyComms(const char* function, const std::vector<ncclComm*>& comms) {
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
