/* SPDX-License-Identifier: Apache-2.0
 *
 * What Starling offers beyond NCCL's API. Find these functions with dlsym: other NCCL libraries lack them. */
#ifndef NCCL_STARLING_H_
#define NCCL_STARLING_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What served the newest operation on `comm`: "algorithm<tab>module<tab>reason", at most `capacity` bytes with the NUL;
 * "" before the first operation. Not beside an operation on the same communicator. */
ncclResult_t ncclStarlingServedBy(ncclComm_t comm, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
