// SPDX-License-Identifier: Apache-2.0
//
// algo-planfile: collectives whose plans are read from files. The ABI face; the format is read in plan_parser.cc.
#include <cstdio>

#include "algorithm.h"
#include "sdk/datatype.h"
#include "sdk/module.h"

using sl::algo_planfile::CostOptions;
using sl::algo_planfile::PlanFile;

struct sl_instance_t {
  const sl_host_t* host;
  std::vector<PlanFile> plans;
  CostOptions cost;
};

struct sl_algorithm_t {
  const sl_instance_t* instance;
  const sl_comm_shape_t* shape;  // lives as long as the algorithm
};

namespace {

enum Option : uint32_t { kPaths, kLatency, kRate };
const sl_option_t kOptions[] = {
    sl::StringOption("paths", "plan files and folders of *.plan, separated by colons; the first that fits serves", ""),
    sl::IntOption("latency_ns", "ns", "time from a put to the end of the wait for it", "700", 0, 1e9),
    sl::IntOption("bytes_per_second", "bytes/s", "rate at which one rank handles chunks, reduction included",
                  "6000000000", 1e6, 1e15),
};

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out = new sl_algorithm_t{instance, env->shape};
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  const sl_instance_t& instance = *algorithm->instance;
  return sl::Guard(instance.host, [&]() -> sl::Status {
    std::string reason;
    const PlanFile* plan = sl::algo_planfile::FindPlan(instance.plans, *op, *algorithm->shape, &reason);
    if (plan == nullptr) {
      std::snprintf(out->reason, sizeof(out->reason), "%s", reason.c_str());
      return {SL_ERR_UNSUPPORTED, reason};
    }
    out->run = SL_RUN_PLAN;
    // What only moves data does not depend on anything.
    out->determinism = sl::HasReduction(op->kind) ? plan->determinism : SL_DETERMINISM_WORLD_SIZE;
    out->time_ns = sl::algo_planfile::TimeOf(*plan, *op, *algorithm->shape, instance.cost);
    std::snprintf(out->reason, sizeof(out->reason), "plan %s: %llu waits and %llu chunks a round", plan->name.c_str(),
                  static_cast<unsigned long long>(plan->waits), static_cast<unsigned long long>(plan->puts));
    return {};
  });
}

sl_status_t Plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                 sl_plan_builder_t* builder) {
  const sl_instance_t& instance = *algorithm->instance;
  return sl::Guard(instance.host, [&]() -> sl::Status {
    std::string reason;
    const PlanFile* plan = sl::algo_planfile::FindPlan(instance.plans, *op, *algorithm->shape, &reason);
    if (plan == nullptr) return {SL_ERR_UNSUPPORTED, reason};
    return sl::algo_planfile::WritePlan(*plan, *op, *algorithm->shape, ops, builder);
  });
}

constexpr sl_algorithm_ops_t kOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = nullptr,
    .create = Create,
    .destroy = Destroy,
    .estimate = Estimate,
    .plan = Plan,
    .launch = nullptr,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    SL_ASSIGN(std::vector<PlanFile> plans, sl::algo_planfile::LoadPlans(options.String(kPaths)));
    const CostOptions cost{static_cast<uint64_t>(options.Int(kLatency)), static_cast<uint64_t>(options.Int(kRate))};
    *out = new sl_instance_t{host, std::move(plans), cost};
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "planfile"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives whose plans are read from files",
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
