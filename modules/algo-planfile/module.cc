// SPDX-License-Identifier: Apache-2.0
//
// algo-planfile: collectives whose plans are read from files. The ABI face; the format is read in plan_parser.cc.
#include "algorithm.h"
#include "sdk/algorithm_module.h"

using sl::algo_planfile::CostOptions;
using sl::algo_planfile::PlanFile;

struct sl_instance_t {
  const sl_host_t* host;
  std::vector<PlanFile> plans;
  CostOptions cost;
};

namespace {

enum Option : uint32_t { kPaths, kLatency, kRate };
const sl_option_t kOptions[] = {
    sl::StringOption("paths", "plan files and folders of *.plan, separated by colons; the first that fits serves", ""),
    sl::IntOption("latency_ns", "ns", "time from a put to the end of the wait for it", "700", 0, 1e9),
    sl::IntOption("bytes_per_second", "bytes/s", "rate at which one rank handles chunks, reduction included",
                  "6000000000", 1e6, 1e15),
};

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  SL_ASSIGN(std::vector<PlanFile> plans, sl::algo_planfile::LoadPlans(options.String(kPaths)));
  const CostOptions cost{static_cast<uint64_t>(options.Int(kLatency)), static_cast<uint64_t>(options.Int(kRate))};
  return sl_instance_t{host, std::move(plans), cost};
}

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  return std::make_unique<sl_algorithm_t>(instance.host, *env.shape, instance.plans, instance.cost);
}

const sl_provide_t kProvides[] = {
    sl::ProvideAlgorithm("planfile", &sl::kPlanningOps<Make>, SL_INTERFACE_ON_REQUEST),
};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives whose plans are read from files",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .open = Instance::Open,
    .quiesce = Instance::Quiesce,
    .close = Instance::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
