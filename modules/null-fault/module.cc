// SPDX-License-Identifier: Apache-2.0
//
// null-fault: the skeleton of a fault policy. It shares new chunks equally among the connections without a fault.
// README.md says in ten steps how to make a module of it.
#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_fault.h"

// One opened module: everything it holds per process.
struct sl_instance_t {
  const sl_host_t* host;
  bool verbose;
};

// The policy of one link.
struct sl_fault_policy_t {
  uint32_t connections;
};

namespace {

// Declared once: checking, `starling modules --describe` and the reference are made from this table. An enum beside it
// names the positions.
enum Option : uint32_t { kVerbose };
const sl_option_t kOptions[] = {
    sl::BoolOption("verbose", "whether the module logs that it was opened", "false"),
};

constexpr uint32_t kFaulty = SL_HEALTH_PORT_DOWN | SL_HEALTH_REMOTE_DOWN | SL_HEALTH_ERROR | SL_HEALTH_PROBE_LOST;

sl_status_t Create(sl_instance_t* instance, uint32_t connections, sl_fault_policy_t** out_policy) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_policy = new sl_fault_policy_t{connections};
    return {};
  });
}

void Destroy(sl_fault_policy_t* policy) { delete policy; }

// Deterministic in its inputs. Never all zero while one connection has no fault; all zero when none is left.
sl_status_t Evaluate(sl_fault_policy_t*, uint64_t, const sl_connection_health_t* health, uint32_t connections,
                     uint32_t* out_weights, sl_fault_verdict_t* out_verdict) {
  for (uint32_t i = 0; i < connections; ++i) out_weights[i] = (health[i].flags & kFaulty) == 0 ? 1 : 0;
  out_verdict->probe_mask_lo = 0;
  out_verdict->next_look_ns = SL_NO_DEADLINE;
  return SL_OK;
}

constexpr sl_fault_ops_t kOps = {
    .struct_size = sizeof(sl_fault_ops_t),
    .reserved = 0,
    .create = Create,
    .destroy = Destroy,
    .evaluate = Evaluate,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    *out_instance = new sl_instance_t{host, options.Bool(kVerbose)};
    if (options.Bool(kVerbose)) host->log(host->ctx, SL_LOG_INFO, "opened");
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_FAULT_ID, SL_FAULT_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a fault policy of equal shares",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .quiesce = Quiesce,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
