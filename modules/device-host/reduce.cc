// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/reduce.h"

#include "modules/device-host/reduce_tables.h"
// Highway's header comes after the choice of instruction sets above.
#include "hwy/targets.h"

namespace sl::device_host {
namespace {

// The instruction sets compiled in and supported. Asked once: CPUID traps in virtual machines and costs microseconds.
int64_t UsableTargets() {
  static const int64_t targets = hwy::SupportedTargets() & CompiledReduceTargets();
  return targets;
}

// The n-th best of the usable instruction sets; 0 past the last. A lower bit is a better set.
int64_t TargetAt(size_t set) {
  int64_t targets = UsableTargets();
  for (; set > 0 && targets != 0; --set) targets &= targets - 1;
  return targets & -targets;
}

}  // namespace

size_t DatatypeBytes(sl_datatype_t datatype) {
  switch (datatype) {
    case SL_INT8:
    case SL_UINT8:
    case SL_FLOAT8E4M3:
    case SL_FLOAT8E5M2:
      return 1;
    case SL_FLOAT16:
    case SL_BFLOAT16:
      return 2;
    case SL_INT32:
    case SL_UINT32:
    case SL_FLOAT32:
      return 4;
    case SL_INT64:
    case SL_UINT64:
    case SL_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

sl_reduce_fn FindReduce(sl_datatype_t datatype, sl_reduction_t reduction) {
  return FindReduceFor(0, datatype, reduction);
}

const char* InstructionSetName(size_t set) {
  const int64_t target = TargetAt(set);
  return target == 0 ? nullptr : hwy::TargetName(target);
}

sl_reduce_fn FindReduceFor(size_t set, sl_datatype_t datatype, sl_reduction_t reduction) {
  const int64_t target = TargetAt(set);
  if (target == 0) return nullptr;
  const sl_reduce_fn found = FindIntReduce(target, datatype, reduction);
  return found != nullptr ? found : FindFloatReduce(target, datatype, reduction);
}

}  // namespace sl::device_host
