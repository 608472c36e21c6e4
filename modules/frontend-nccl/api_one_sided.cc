// SPDX-License-Identifier: Apache-2.0
//
// Puts into peers' windows, signals, and waits for them. In a group they are issued at its end, the waits last.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/window.h"
#include "sdk/datatype.h"

namespace sl::frontend_nccl {
namespace {

ncclResult_t CheckPeer(const char* function, const ncclComm* comm, int peer) {
  if (peer >= 0 && peer < comm->size) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s: argument peer is %d, must be a rank, 0 to %d", function, peer, comm->size - 1);
}

// There is one signal, in one context, for each pair of ranks.
ncclResult_t CheckSignal(const char* function, int signal, int context, unsigned flags) {
  if (signal == 0 && context == 0 && flags == 0) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s: arguments sigIdx, ctx and flags are %d, %d and %u, must be 0", function, signal,
              context, flags);
}

// A put of `bytes`; of 0 bytes, a signal.
struct Target {
  int peer;
  int signal;
  int context;
  unsigned flags;
};
ncclResult_t Raise(OneSided call, const ncclComm* handle, const Target& target, ncclWindow_t window) {
  const Pin comm = CheckComm(call.function, handle);
  call.comm = comm;
  ncclResult_t result = RequireReady(call.function, comm);
  if (result != ncclSuccess) return result;
  if (result = CheckPeer(call.function, call.comm, target.peer); result != ncclSuccess) return result;
  result = CheckSignal(call.function, target.signal, target.context, target.flags);
  if (result != ncclSuccess) return result;
  call.peer = static_cast<uint32_t>(target.peer);
  if (call.bytes != 0) {
    if (call.memory == nullptr) return Fail(ncclInvalidArgument, "%s: argument localbuff is NULL", call.function);
    call.handle = window;
    call.window = KernelWindow(call.function, call.comm, window);
    if (call.window == nullptr) return ncclInvalidArgument;
  }
  return SubmitOneSided(std::move(call));
}

ncclResult_t PutSignal(OneSided call, size_t count, unsigned datatype, const ncclComm* handle, const Target& target,
                       ncclWindow_t window) {
  if (datatype >= SL_DATATYPE_COUNT) {
    return Fail(ncclInvalidArgument, "%s: argument datatype is %d, must be 0 (ncclInt8) to 11 (ncclFloat8e5m2)",
                call.function, static_cast<int>(datatype));
  }
  const size_t size = DatatypeBytes(datatype);
  if (count > UINT64_MAX / size) return Fail(ncclInvalidArgument, "%s: argument count is too large", call.function);
  call.bytes = count * size;
  return Raise(std::move(call), handle, target, window);
}

ncclResult_t WaitSignals(OneSided call, int count, const ncclWaitSignalDesc_t* wanted, const ncclComm* handle) {
  const Pin comm = CheckComm(call.function, handle);
  call.comm = comm;
  ncclResult_t result = RequireReady(call.function, comm);
  if (result != ncclSuccess) return result;
  if (count < 0)
    return Fail(ncclInvalidArgument, "%s: argument nDesc is %d, must not be negative", call.function, count);
  if (count > 0 && wanted == nullptr) {
    return Fail(ncclInvalidArgument, "%s: argument signalDescs is NULL", call.function);
  }
  for (int i = 0; i < count; ++i) {
    if (result = CheckPeer(call.function, call.comm, wanted[i].peer); result != ncclSuccess) return result;
    result = CheckSignal(call.function, wanted[i].sigIdx, wanted[i].ctx, 0);
    if (result != ncclSuccess) return result;
    if (wanted[i].opCnt < 0) {
      return Fail(ncclInvalidArgument, "%s: opCnt of descriptor %d is %d, must not be negative", call.function, i,
                  wanted[i].opCnt);
    }
    call.awaited.push_back({static_cast<uint32_t>(wanted[i].peer), static_cast<uint32_t>(wanted[i].opCnt)});
  }
  return SubmitOneSided(std::move(call));
}

OneSided CallOf(const char* function, bool waits, cudaStream_t stream) {
  OneSided call;
  call.function = function;
  call.waits = waits;
  call.stream = reinterpret_cast<sl_stream_t*>(stream);
  return call;
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  const auto type_number = static_cast<unsigned>(datatype);
  return fe::NoteInGroup(fe::Guarded("ncclPutSignal", [&] {
    fe::OneSided call = fe::CallOf("ncclPutSignal", false, stream);
    call.memory = localbuff;
    call.offset = peerWinOffset;
    return fe::PutSignal(std::move(call), count, type_number, comm, {peer, sigIdx, ctx, flags}, peerWin);
  }));
}

SL_NCCL_API(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream) {
  return fe::NoteInGroup(fe::Guarded("ncclSignal", [&] {
    return fe::Raise(fe::CallOf("ncclSignal", false, stream), comm, {peer, sigIdx, ctx, flags}, nullptr);
  }));
}

SL_NCCL_API(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
            cudaStream_t stream) {
  return fe::NoteInGroup(fe::Guarded("ncclWaitSignal", [&] {
    return fe::WaitSignals(fe::CallOf("ncclWaitSignal", true, stream), nDesc, signalDescs, comm);
  }));
}
