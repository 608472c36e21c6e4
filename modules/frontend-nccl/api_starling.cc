// SPDX-License-Identifier: Apache-2.0
//
// Starling's own additions to the NCCL API.
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/nccl_starling.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclStarlingServedBy(ncclComm_t handle, char* text,
                                                                                    size_t capacity) {
  using namespace sl::frontend_nccl;  // the whole file is this function
  constexpr const char* kFunction = "ncclStarlingServedBy";
  const Pin comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  if (text == nullptr || capacity == 0)
    return Fail(ncclInvalidArgument, "%s: argument text is NULL or empty", kFunction);
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  const sl_status_t status = LoadedRuntime().served_by(comm->kernel, text, capacity, nullptr);
  return status == SL_OK ? ncclSuccess : FailWith(kFunction, status);
}
