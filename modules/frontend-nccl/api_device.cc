// SPDX-License-Identifier: Apache-2.0
//
// The host functions of NCCL's device API. What only computes is served. What fills structures that kernels read is
// not: their layouts change from release to release of NCCL, and a wrong one corrupts a program's memory silently.
#include <algorithm>
#include <cstring>

#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/nccl_device_host.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

constexpr int kSlotBytes = 8;

ncclResult_t NoDeviceApi(const char* function) {
  return Fail(ncclInvalidUsage,
              "%s: the device API is not served, since its structures differ between NCCL releases; use the host "
              "functions, or NCCL itself for this program",
              function);
}

// A team nobody belongs to: what a team function says about a bad communicator, having no other way.
constexpr ncclTeam_t kNoTeam = {0, 0, 0};

// Its rank and size stay in the handle, whatever becomes of its parts.
const ncclComm* ReadyComm(const char* function, const ncclComm* handle) {
  const Pin comm = CheckComm(function, handle);
  return RequireReady(function, comm) == ncclSuccess ? comm.operator->() : nullptr;
}

ncclResult_t QueryProperties(ncclComm_t handle, ncclCommProperties_t* out) {
  constexpr const char* kFunction = "ncclCommQueryProperties";
  const Pin comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument props is NULL", kFunction);
  if (out->magic != NCCL_API_MAGIC || out->size < offsetof(ncclCommProperties_t, rank)) {
    return Fail(ncclInvalidArgument,
                "%s: argument props was not initialised; start from "
                "NCCL_COMM_PROPERTIES_INITIALIZER",
                kFunction);
  }
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  if (const sl_status_t status = LoadedRuntime().comm_info(comm->kernel, &info); status != SL_OK) {
    return FailWith(kFunction, status);
  }
  ncclCommProperties_t properties = *out;
  properties = {out->size, out->magic, out->version,       comm->rank, comm->size,          comm->device,      -1,
                false,     false,      NCCL_GIN_TYPE_NONE, comm->size, info.one_sided != 0, NCCL_GIN_TYPE_NONE};
  std::memcpy(out, &properties, std::min(out->size, sizeof(properties)));
  return ncclSuccess;
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties_t* props) {
  return fe::QueryProperties(comm, props);
}

SL_NCCL_API(ncclTeam_t, ncclTeamWorld, ncclComm_t comm) {
  const ncclComm* ready = fe::ReadyComm("ncclTeamWorld", comm);
  return ready != nullptr ? ncclTeam_t{ready->size, ready->rank, 1} : fe::kNoTeam;
}

SL_NCCL_API(ncclTeam_t, ncclTeamLsa, ncclComm_t comm) {
  return fe::ReadyComm("ncclTeamLsa", comm) != nullptr ? ncclTeam_t{1, 0, 1} : fe::kNoTeam;
}

SL_NCCL_API(ncclTeam_t, ncclTeamRail, ncclComm_t comm) {
  const ncclComm* ready = fe::ReadyComm("ncclTeamRail", comm);
  return ready != nullptr ? ncclTeam_t{ready->size, ready->rank, 1} : fe::kNoTeam;
}

SL_NCCL_API(ncclTeam_t, ncclTeamCft, ncclComm_t comm, ncclCftTeamMode_t mode) {
  (void)mode;
  return fe::ReadyComm("ncclTeamCft", comm) != nullptr ? ncclTeam_t{1, 0, 1} : fe::kNoTeam;
}

SL_NCCL_API(ncclTeam_t, ncclTeamCftMultimem, ncclComm_t comm) {
  return fe::ReadyComm("ncclTeamCftMultimem", comm) != nullptr ? ncclTeam_t{1, 0, 1} : fe::kNoTeam;
}

SL_NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank) {
  const ncclComm* ready = fe::ReadyComm("ncclTeamRankToWorld", comm);
  return ready != nullptr ? ready->rank + (rank - team.rank) * team.stride : -1;
}

SL_NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank) {
  return fe::ReadyComm("ncclTeamRankToLsa", comm) != nullptr ? (rank - team.rank) * team.stride : -1;
}

SL_NCCL_API(int, ncclLLA2ACalcSlots, int maxElts, int maxEltSize) {
  return maxElts * ((maxEltSize + fe::kSlotBytes - 1) / fe::kSlotBytes);
}

SL_NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const ncclDevCommRequirements_t* reqs,
            ncclDevComm_t* outDevComm) {
  (void)reqs, (void)outDevComm;
  if (fe::Judge("ncclDevCommCreate", comm) == nullptr) return ncclInvalidArgument;
  return fe::NoDeviceApi("ncclDevCommCreate");
}

SL_NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const ncclDevComm_t* devComm) {
  (void)devComm;
  if (fe::Judge("ncclDevCommDestroy", comm) == nullptr) return ncclInvalidArgument;
  return fe::NoDeviceApi("ncclDevCommDestroy");
}

SL_NCCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void** outPtr) {
  (void)window, (void)offset, (void)outPtr;
  return fe::NoDeviceApi("ncclGetLsaMultimemDevicePointer");
}

SL_NCCL_API(ncclResult_t, ncclGetMultimemDevicePointer, ncclWindow_t window, size_t offset,
            ncclMultimemHandle_t multimem, void** outPtr) {
  (void)window, (void)offset, (void)multimem, (void)outPtr;
  return fe::NoDeviceApi("ncclGetMultimemDevicePointer");
}

SL_NCCL_API(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank, void** outPtr) {
  (void)window, (void)offset, (void)lsaRank, (void)outPtr;
  return fe::NoDeviceApi("ncclGetLsaDevicePointer");
}

SL_NCCL_API(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer, void** outPtr) {
  (void)window, (void)offset, (void)peer, (void)outPtr;
  return fe::NoDeviceApi("ncclGetPeerDevicePointer");
}

SL_NCCL_API(ncclResult_t, ncclGetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
            ncclCftLeId* leId, size_t* leOffset) {
  (void)window, (void)offset, (void)peerCft, (void)cftTeam, (void)leId, (void)leOffset;
  return fe::NoDeviceApi("ncclGetCftDeviceLeInfo");
}

SL_NCCL_API(ncclResult_t, ncclGetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset, ncclCftLeId* leId,
            size_t* leOffset) {
  (void)window, (void)offset, (void)leId, (void)leOffset;
  return fe::NoDeviceApi("ncclGetMultimemDeviceLeInfo");
}

SL_NCCL_API(ncclResult_t, ncclGetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId* leId,
            size_t* leOffset) {
  (void)window, (void)offset, (void)peerWorld, (void)leId, (void)leOffset;
  return fe::NoDeviceApi("ncclGetPeerDeviceLeInfo");
}

SL_NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement, int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
            ncclDevResourceRequirements_t* outReq) {
  (void)nBlocks, (void)nSlots, (void)outHandle, (void)outReq;
  return fe::NoDeviceApi("ncclLLA2ACreateRequirement");
}

SL_NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers,
            ncclLsaBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq) {
  (void)team, (void)nBarriers, (void)outHandle, (void)outReq;
  return fe::NoDeviceApi("ncclLsaBarrierCreateRequirement");
}

SL_NCCL_API(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int nBarriers,
            ncclGinBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq) {
  (void)comm, (void)team, (void)nBarriers, (void)outHandle, (void)outReq;
  return fe::NoDeviceApi("ncclGinBarrierCreateRequirement");
}

SL_NCCL_API(ncclResult_t, ncclGinOutboxCreateRequirement, int nBlocks, int sizeLog2, ncclGinOutboxHandle_t* outHandle,
            ncclDevResourceRequirements_t* outReq) {
  (void)nBlocks, (void)sizeLog2, (void)outHandle, (void)outReq;
  return fe::NoDeviceApi("ncclGinOutboxCreateRequirement");
}

SL_NCCL_API(ncclResult_t, ncclGinInboxA2ACreateRequirement, ncclTeam_t peers, int nBlocks, int sizeLog2,
            ncclGinInboxA2AHandle_t* outHandle, ncclDevResourceRequirements_t* outReq) {
  (void)peers, (void)nBlocks, (void)sizeLog2, (void)outHandle, (void)outReq;
  return fe::NoDeviceApi("ncclGinInboxA2ACreateRequirement");
}
