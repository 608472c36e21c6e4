// SPDX-License-Identifier: Apache-2.0
//
// algo-two-level: collectives of several hosts, host-local first, as plans over links. The ABI face.
#include "algorithm.h"
#include "sdk/algorithm_module.h"

struct sl_instance_t {
  const sl_host_t* host;
  sl::LinkCost cost;
};

namespace {

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  return sl_instance_t{host, sl::LinkCost::Of(options)};
}

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  return std::make_unique<sl_algorithm_t>(instance.host, *env.shape, instance.cost);
}

const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("two-level", &sl::kPlanningOps<Make>)};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives of several hosts, host-local first",
    .options = sl::kPointersTo<sl::kLinkCostOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .open = Instance::Open,
    .quiesce = Instance::Quiesce,
    .close = Instance::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
