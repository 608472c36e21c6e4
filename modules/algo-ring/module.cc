// SPDX-License-Identifier: Apache-2.0
//
// algo-ring: collectives as plans over links, in three families. The ABI face; the plans are in ring.cc, tree.cc and
// direct.cc.
#include "sdk/module.h"
#include "algorithm.h"

using sl::algo_ring::CostOptions;
using sl::algo_ring::Family;
using sl::algo_ring::Shape;

struct sl_instance_t {
  const sl_host_t* host;
  CostOptions options;
};

namespace {

// Error texts of plan() need the host, which an algorithm does not carry.
struct Algorithm : sl_algorithm_t {
  Algorithm(std::unique_ptr<Family> plans, const Shape& of, const sl_instance_t& instance)
      : sl_algorithm_t(std::move(plans), of, instance.options), host(instance.host) {}
  const sl_host_t* const host;
};

const sl_option_t kOptions[] = {
    sl::IntOption("latency_ns", "ns", "time of one hop between ranks of a host", "700", 0, 1e9),
    sl::IntOption("bytes_per_second", "bytes/s", "rate of one link within a host, reduction included", "6000000000",
                  1e6, 1e15),
    sl::IntOption("network_latency_ns", "ns", "time of one hop between hosts", "20000", 0, 1e9),
    sl::IntOption("network_bytes_per_second", "bytes/s", "rate of one host's network", "3000000000", 1e6, 1e15),
    sl::IntOption("direct_ranks", "ranks", "most ranks that connect to each other for one operation", "32", 1, 65535),
};

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out) {
  out->symmetric_bytes = 0;
  return SL_OK;
}

template <std::unique_ptr<Family> (*kMake)(const Shape&)>
sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    const Shape shape = Shape::Of(*env->shape);
    *out = new Algorithm(kMake(shape), shape, *instance);
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) { delete static_cast<Algorithm*>(algorithm); }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  return algorithm->Estimate(*op, out);
}

sl_status_t Plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                 sl_plan_builder_t* builder) {
  return sl::Guard(static_cast<Algorithm*>(algorithm)->host, [&] { return algorithm->Plan(*op, ops, builder); });
}

template <std::unique_ptr<Family> (*kMake)(const Shape&)>
constexpr sl_algorithm_ops_t kOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = Demand,
    .create = Create<kMake>,
    .destroy = Destroy,
    .estimate = Estimate,
    .plan = Plan,
    .launch = nullptr,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
    *out = new sl_instance_t{host, {value(0), value(1), value(2), value(3), static_cast<uint32_t>(value(4))}};
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps<sl::algo_ring::MakeRing>, "ring"},
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps<sl::algo_ring::MakeTree>, "tree"},
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps<sl::algo_ring::MakeDirect>, "direct"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives and point to point as plans over links",
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
