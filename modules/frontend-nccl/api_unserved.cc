// SPDX-License-Identifier: Apache-2.0
//
// Functions that are exported and refused: ncclInvalidUsage, and a last error text with what to use instead.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

ncclResult_t OneSided(const char* function, const ncclComm* handle) {
  if (CheckComm(function, handle) == nullptr) return NoteInGroup(ncclInvalidArgument);
  return NoteInGroup(Fail(ncclInvalidUsage,
                          "%s is not served: Starling has no one-sided operations yet; use ncclSend and ncclRecv in a "
                          "group",
                          function));
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  (void)localbuff, (void)count, (void)datatype, (void)peer, (void)peerWin, (void)peerWinOffset;
  (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return fe::OneSided("ncclPutSignal", comm);
}

SL_NCCL_API(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  (void)peer, (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return fe::OneSided("ncclSignal", comm);
}

SL_NCCL_API(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
            cudaStream_t stream) {
  (void)nDesc, (void)signalDescs, (void)stream;
  return fe::OneSided("ncclWaitSignal", comm);
}
