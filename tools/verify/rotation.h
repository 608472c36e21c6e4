// SPDX-License-Identifier: Apache-2.0
//
// Proving one root for all: plans whose rank numbers are turned by a distance do the same, turned.
//
// Let every plan for root R be that of root 0 with each rank's number moved up by R, modulo the number of ranks: same
// frame, same steps, same blocks, peers moved. Renaming ranks is then an isomorphism between both executions. Where,
// besides, buffers and results name no rank but the root (broadcast, reduce) or the two peers (send and receive), it
// maps initial values to initial values and wanted results to wanted results, so that one proof is the other. It keeps
// every order of reduction but renames its ranks; the class "any number of ranks" is therefore not carried over.
#pragma once

#include <cstdint>

#include "sl_algorithm.h"
#include "tools/verify/rank_set.h"

namespace sl::verify {

// Whether results and buffers of an operation name no rank but its root or peers.
bool CanRotate(sl_op_kind_t kind);

// Whether `turned` is `base` with all rank numbers moved up by `distance`. The operations differ in nothing but root
// and peers.
bool IsRotation(const PlanSet& base, const PlanSet& turned, uint32_t distance);

}  // namespace sl::verify
