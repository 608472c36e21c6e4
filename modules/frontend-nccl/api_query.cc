// SPDX-License-Identifier: Apache-2.0
//
// Questions: version, errors, facts of a communicator.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

// The communicator once it is connected; NULL with `*out_result` set when the question cannot be answered.
ncclComm* Connected(const char* function, const ncclComm* handle, const void* out, const char* out_name,
                    ncclResult_t* out_result) {
  *out_result = ncclInvalidArgument;
  ncclComm* comm = CheckComm(function, handle);
  if (comm == nullptr) return nullptr;
  if (out == nullptr) {
    Fail(ncclInvalidArgument, "%s: argument %s is NULL", function, out_name);
    return nullptr;
  }
  const uint32_t phase = comm->phase.load(std::memory_order_acquire);
  const bool was_connected = phase == kFinalizing || phase == kFinalized || phase == kDestroying;
  *out_result = was_connected ? ncclSuccess : RequireReady(function, comm);
  return *out_result == ncclSuccess ? comm : nullptr;
}

ncclResult_t MemStats(ncclComm_t handle, ncclCommMemStat_t stat, uint64_t* value) {
  constexpr const char* kFunction = "ncclCommMemStats";
  ncclResult_t result = ncclSuccess;
  ncclComm* comm = Connected(kFunction, handle, value, "value", &result);
  if (comm == nullptr) return result;
  if (static_cast<unsigned>(stat) > static_cast<unsigned>(ncclStatGpuMemTotal)) {
    return Fail(ncclInvalidArgument, "%s: argument stat is %d, must be 0 to 3", kFunction, static_cast<int>(stat));
  }
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  const sl_status_t status = LoadedRuntime().comm_info(comm->kernel, &info);
  if (status != SL_OK) return FailWith(kFunction, status);
  // As in NCCL, suspending changes none of the sums. On hosts the device's memory is the host's.
  const bool is_host = info.device_kind == SL_DEVICE_HOST;
  const uint64_t now_held = is_host ? info.host_bytes + info.shared_bytes : info.device_bytes;
  const uint64_t persistent = info.suspended != 0 ? now_held : now_held - info.releasable_bytes;
  switch (stat) {
    case ncclStatGpuMemSuspend:
      *value = info.releasable_bytes;
      break;
    case ncclStatGpuMemSuspended:
      *value = info.suspended;
      break;
    case ncclStatGpuMemPersist:
      *value = persistent;
      break;
    case ncclStatGpuMemTotal:
      *value = persistent + info.releasable_bytes;
      break;
  }
  return ncclSuccess;
}

ncclResult_t AsyncError(ncclComm_t handle, ncclResult_t* out) {
  constexpr const char* kFunction = "ncclCommGetAsyncError";
  ncclComm* comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument asyncError is NULL", kFunction);
  *out = Poll(kFunction, comm);
  return ncclSuccess;
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  if (version == nullptr) return fe::Fail(ncclInvalidArgument, "ncclGetVersion: argument version is NULL");
  *version = fe::ReportedVersion();
  return ncclSuccess;
}

SL_NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) { return fe::ResultName(result); }

// The communicator only matters to a thread that has met no error: it then learns what befell the communicator.
SL_NCCL_API(const char*, ncclGetLastError, ncclComm_t comm) {
  if (ncclComm* live = fe::Live(comm); live != nullptr && *fe::LastError() == '\0') fe::Poll("ncclGetLastError", live);
  return fe::LastError();
}

SL_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return fe::AsyncError(comm, asyncError);
}

// NCCL reads its log settings again here; the kernel's log is set up once per process, which is what stays right.
SL_NCCL_API(void, ncclResetDebugInit, void) {}

SL_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  ncclResult_t result = ncclSuccess;
  const ncclComm* connected = fe::Connected("ncclCommCount", comm, count, "count", &result);
  if (connected != nullptr) *count = connected->size;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  ncclResult_t result = ncclSuccess;
  const ncclComm* connected = fe::Connected("ncclCommCuDevice", comm, device, "device", &result);
  if (connected != nullptr) *device = connected->device;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  ncclResult_t result = ncclSuccess;
  const ncclComm* connected = fe::Connected("ncclCommUserRank", comm, rank, "rank", &result);
  if (connected != nullptr) *rank = connected->rank;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return fe::MemStats(comm, stat, value);
}
