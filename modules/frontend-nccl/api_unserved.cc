// SPDX-License-Identifier: Apache-2.0
//
// Functions that a later release brings. Arguments are checked as they will be; then the answer is ncclInvalidUsage and
// a last error text with what to use instead.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

ncclResult_t Unserved(const char* function, const ncclComm* handle, const char* when, const char* instead) {
  if (CheckComm(function, handle) == nullptr) return NoteInGroup(ncclInvalidArgument);
  return NoteInGroup(Fail(ncclInvalidUsage, "%s is not served yet: it comes with %s; %s", function, when, instead));
}

constexpr const char* kGpus = "the support for GPUs";
constexpr const char* kSendRecv = "use ncclSend and ncclRecv in a group";
constexpr const char* kAbort = "use ncclCommAbort, then make a new communicator with the ranks that are left";

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  (void)revokeFlags;
  return fe::Unserved("ncclCommRevoke", comm, fe::kGpus, fe::kAbort);
}

SL_NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
            ncclComm_t* newcomm, ncclConfig_t* config) {
  (void)nRanks, (void)uniqueId, (void)rank, (void)config;
  if (newcomm != nullptr) *newcomm = nullptr;
  // A rank that joins has no communicator yet, which is no fault of its own.
  if (comm == nullptr) {
    return fe::NoteInGroup(fe::Fail(ncclInvalidUsage,
                                    "ncclCommGrow is not served yet: it comes with %s; make a new communicator with "
                                    "all ranks",
                                    fe::kGpus));
  }
  return fe::Unserved("ncclCommGrow", comm, fe::kGpus, "make a new communicator with all ranks");
}

SL_NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  (void)flags;
  return fe::Unserved("ncclCommSuspend", comm, fe::kGpus, "destroy the communicator and make it again");
}

SL_NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  return fe::Unserved("ncclCommResume", comm, fe::kGpus, "destroy the communicator and make it again");
}

SL_NCCL_API(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  (void)localbuff, (void)count, (void)datatype, (void)peer, (void)peerWin, (void)peerWinOffset;
  (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return fe::Unserved("ncclPutSignal", comm, fe::kGpus, fe::kSendRecv);
}

SL_NCCL_API(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  (void)peer, (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return fe::Unserved("ncclSignal", comm, fe::kGpus, fe::kSendRecv);
}

SL_NCCL_API(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
            cudaStream_t stream) {
  (void)nDesc, (void)signalDescs, (void)stream;
  return fe::Unserved("ncclWaitSignal", comm, fe::kGpus, fe::kSendRecv);
}
