// SPDX-License-Identifier: Apache-2.0
//
// algo-two-level: collectives of several hosts, host-local first, as plans over links. The ABI face.
#include "sdk/module.h"
#include "algorithm.h"

using sl::algo_two_level::CostOptions;

struct sl_instance_t {
  const sl_host_t* host;
  CostOptions options;
};

namespace {

const sl_option_t kOptions[] = {
    sl::IntOption("latency_ns", "ns", "time of one hop between ranks of a host", "700", 0, 1e9),
    sl::IntOption("bytes_per_second", "bytes/s", "rate of one link within a host, reduction included", "6000000000",
                  1e6, 1e15),
    sl::IntOption("network_latency_ns", "ns", "time of one hop between hosts", "20000", 0, 1e9),
    sl::IntOption("network_bytes_per_second", "bytes/s", "rate of one host's network", "3000000000", 1e6, 1e15),
};

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out) {
  out->symmetric_bytes = 0;
  return SL_OK;
}

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out = new sl_algorithm_t(instance->host, *env->shape, instance->options);
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  return algorithm->Estimate(*op, out);
}

sl_status_t Plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                 sl_plan_builder_t* builder) {
  return sl::Guard(algorithm->host, [&] { return algorithm->Plan(*op, ops, builder); });
}

constexpr sl_algorithm_ops_t kOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = Demand,
    .create = Create,
    .destroy = Destroy,
    .estimate = Estimate,
    .plan = Plan,
    .launch = nullptr,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
    *out = new sl_instance_t{host, {value(0), value(1), value(2), value(3)}};
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "two-level"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives of several hosts, host-local first",
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
