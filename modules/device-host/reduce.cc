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
