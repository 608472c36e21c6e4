/* SPDX-License-Identifier: Apache-2.0
 *
 * What Starling offers beyond NCCL's API. Find these functions with dlsym: other NCCL libraries lack them. */
#ifndef NCCL_STARLING_H_
#define NCCL_STARLING_H_

#include "nccl.h"

/* For ncclCollConfig_t::ext. The rule is a text (val.s), the keys of one [[select]] rule of a profile, which goes
 * before the profile's for this one call: "algorithm = \"tree\"", "forbid = [\"ring\"]". */
#define NCCL_STARLING_VENDOR_ID 0x53544c
#define NCCL_STARLING_OPTION_RULE 1

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
