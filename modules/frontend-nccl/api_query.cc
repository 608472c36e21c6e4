// SPDX-License-Identifier: Apache-2.0
//
// Questions: version, errors, facts of a communicator.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

// Whether it is connected, or was: then its rank, size and device are known, whatever has become of it since.
ncclResult_t RequireConnected(const char* function, ncclComm* comm, const void* out, const char* out_name) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument %s is NULL", function, out_name);
  const uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
  const bool was_connected = phase == kFinalizing || phase == kFinalized || phase == kDestroying;
  return was_connected ? ncclSuccess : RequireReady(function, comm);
}

ncclResult_t MemStats(ncclComm_t handle, ncclCommMemStat_t stat, uint64_t* value) {
  constexpr const char* kFunction = "ncclCommMemStats";
  const Pin comm = CheckComm(kFunction, handle);
  ncclResult_t result = RequireConnected(kFunction, comm, value, "value");
  if (result == ncclSuccess) result = RequireParts(kFunction, comm);
  if (result != ncclSuccess) return result;
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
  const Pin comm = CheckComm(kFunction, handle);
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
  const fe::Pin live(fe::Live(comm));
  if (live != nullptr && *fe::LastError() == '\0') fe::Poll("ncclGetLastError", live);
  return fe::LastError();
}

SL_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return fe::AsyncError(comm, asyncError);
}

// NCCL reads its log settings again here; the kernel's log is set up once per process, which is what stays right.
SL_NCCL_API(void, ncclResetDebugInit, void) {}

// NCCL exports it and declares it nowhere.
SL_NCCL_API(void, ncclResetDebugInitInternal, void) {}

SL_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  const fe::Pin checked = fe::CheckComm("ncclCommCount", comm);
  const ncclResult_t result = fe::RequireConnected("ncclCommCount", checked, count, "count");
  if (result == ncclSuccess) *count = checked->size;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  const fe::Pin checked = fe::CheckComm("ncclCommCuDevice", comm);
  const ncclResult_t result = fe::RequireConnected("ncclCommCuDevice", checked, device, "device");
  if (result == ncclSuccess) *device = checked->device;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  const fe::Pin checked = fe::CheckComm("ncclCommUserRank", comm);
  const ncclResult_t result = fe::RequireConnected("ncclCommUserRank", checked, rank, "rank");
  if (result == ncclSuccess) *rank = checked->rank;
  return result;
}

SL_NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return fe::MemStats(comm, stat, value);
}
