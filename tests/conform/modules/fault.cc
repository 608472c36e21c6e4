// SPDX-License-Identifier: Apache-2.0
// A sound fault policy, but for what the one BROKEN_… that is defined says.
#include <unistd.h>

#include <atomic>

#include "sl_fault.h"
#include "tests/conform/modules/frame.h"

struct sl_fault_policy_t {
  uint32_t looks;
  uint32_t* more = nullptr;
};

namespace {

[[maybe_unused]] std::atomic<uint32_t> g_looks{0};

constexpr uint32_t kFaulty = SL_HEALTH_PORT_DOWN | SL_HEALTH_REMOTE_DOWN | SL_HEALTH_ERROR | SL_HEALTH_PROBE_LOST;

sl_status_t Create(sl_instance_t* instance, uint32_t, sl_fault_policy_t** out_policy) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    auto* policy = new sl_fault_policy_t{0};
#if defined(BROKEN_FAULT_LOSES)
    policy->more = new uint32_t{1};  // where this throws, the policy is lost
#endif
    *out_policy = policy;
    return {};
  });
}

void Destroy(sl_fault_policy_t* policy) {
  delete policy->more;
  delete policy;
}

sl_status_t Evaluate(sl_fault_policy_t* policy, [[maybe_unused]] uint64_t now_ns, const sl_connection_health_t* health,
                     uint32_t connections, uint32_t* out_weights, sl_fault_verdict_t* out_verdict) {
  ++policy->looks;
#if defined(BROKEN_FAULT_SLEEPS)
  usleep(20);
#endif
  for (uint32_t i = 0; i < connections; ++i) {
#if defined(BROKEN_FAULT_UNWRITTEN)
    if (i + 1 == connections && connections > 1) break;
#endif
    out_weights[i] = (health[i].flags & kFaulty) == 0 ? 1 : 0;
#if defined(BROKEN_FAULT_ALL_ZERO)
    if (health[0].flags != 0) out_weights[i] = 0;
#elif defined(BROKEN_FAULT_STICKS)
    if ((health[i].flags & SL_HEALTH_REMOTE_DOWN) != 0) out_weights[i] = 1;
#elif defined(BROKEN_FAULT_SHARED_PAST)
    if (out_weights[i] != 0) out_weights[i] = 1 + (++g_looks % 7);
#endif
  }
#if defined(BROKEN_FAULT_OVERRUN)
  out_weights[connections] = 1;
#endif
  out_verdict->probe_mask_lo = 0;
  out_verdict->next_look_ns = SL_NO_DEADLINE;
#if defined(BROKEN_FAULT_PROBES)
  out_verdict->probe_mask_lo = ~0u;
#elif defined(BROKEN_FAULT_PAST)
  out_verdict->next_look_ns = now_ns / 2;
#endif
  return SL_OK;
}

constexpr sl_fault_ops_t kOps = {sizeof(sl_fault_ops_t), 0, Create, Destroy, Evaluate};

}  // namespace

const sl_provide_t kProvide = {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_FAULT_ID, SL_FAULT_REVISION, 1, &kOps,
                               SL_MODULE_NAME};
