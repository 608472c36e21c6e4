// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/status.h"

SL_NCCL_API(ncclResult_t, ncclGroupStart, void) { return sl::frontend_nccl::StartGroup(); }

SL_NCCL_API(ncclResult_t, ncclGroupEnd, void) { return sl::frontend_nccl::EndGroup(); }

SL_NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo) {
  return sl::frontend_nccl::SimulateGroup(simInfo);
}
