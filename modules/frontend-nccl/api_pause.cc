// SPDX-License-Identifier: Apache-2.0
//
// Communicators that stop working, for good or for a while.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

ncclResult_t Revoke(ncclComm_t handle, int flags) {
  constexpr const char* kFunction = "ncclCommRevoke";
  if (handle == nullptr) return ncclSuccess;
  const Pin comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (flags != NCCL_REVOKE_DEFAULT) {
    return Fail(ncclInvalidArgument, "%s: argument revokeFlags is %d, must be NCCL_REVOKE_DEFAULT (%d)", kFunction,
                flags, NCCL_REVOKE_DEFAULT);
  }
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  sl_status_t status = LoadedRuntime().comm_revoke(comm->kernel);
  if (status < SL_OK) return FailWith(kFunction, status);
  comm->cold->revoked = true;
  if (status == SL_IN_PROGRESS && comm->blocking) status = AwaitKernel(comm, kReady);
  return status < SL_OK ? FailWith(kFunction, status) : ResultOf(status);
}

ncclResult_t CheckFlags(const char* function, int flags) {
  if (flags == NCCL_SUSPEND_MEM) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s: argument flags is %d, must be NCCL_SUSPEND_MEM (%d)", function, flags,
              NCCL_SUSPEND_MEM);
}

ncclResult_t Submit(const char* function, JobKind kind, ncclComm_t handle, int flags) {
  const Pin comm = CheckComm(function, handle);
  if (const ncclResult_t ready = RequireReady(function, comm); ready != ncclSuccess) return ready;
  if (const ncclResult_t wrong = CheckFlags(function, flags); wrong != ncclSuccess) {
    return DeclineJob(kind, function, comm, wrong);
  }
  Job job(kind, function);
  job.comm = comm;
  return SubmitJob(std::move(job));
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

// Acts at once, inside a group too, as ncclCommAbort does.
SL_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  return fe::Guarded("ncclCommRevoke", [&] { return fe::Revoke(comm, revokeFlags); });
}

SL_NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  return fe::NoteInGroup(fe::Guarded(
      "ncclCommSuspend", [&] { return fe::Submit("ncclCommSuspend", fe::JobKind::kSuspend, comm, flags); }));
}

SL_NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  return fe::NoteInGroup(fe::Guarded(
      "ncclCommResume", [&] { return fe::Submit("ncclCommResume", fe::JobKind::kResume, comm, NCCL_SUSPEND_MEM); }));
}
