// SPDX-License-Identifier: Apache-2.0
//
// null-algorithm: the skeleton of an algorithm. It serves no operation, and `starling explain` shows its reason.
// README.md says in ten steps how to make a module of it.
#include <cstdio>

#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_algorithm.h"

// One opened module: everything it holds per process.
struct sl_instance_t {
  const sl_host_t* host;
  bool verbose;
};

// One algorithm of one rank of one communicator.
struct sl_algorithm_t {
  const sl_instance_t* instance;
  const sl_comm_shape_t* shape;  // lives as long as the algorithm
};

namespace {

// Declared once: checking, `starling modules --describe` and the reference are made from this table. An enum beside it
// names the positions.
enum Option : uint32_t { kVerbose };
const sl_option_t kOptions[] = {
    sl::BoolOption("verbose", "whether the module logs that it was opened", "false"),
};

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out_demand) {
  out_demand->symmetric_bytes = 0;
  return SL_OK;
}

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_algorithm = new sl_algorithm_t{instance, env->shape};
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

// Pure, and the same on all ranks. A reason belongs to the refusal: people read it in `starling explain`.
sl_status_t Estimate(sl_algorithm_t*, const sl_op_t*, sl_estimate_t* out_estimate) {
  std::snprintf(out_estimate->reason, sizeof(out_estimate->reason), "a skeleton serves nothing");
  return SL_ERR_UNSUPPORTED;
}

constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.demand = Demand;
  ops.create = Create;
  ops.destroy = Destroy;
  ops.estimate = Estimate;
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

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
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "an algorithm that serves no operation",
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
