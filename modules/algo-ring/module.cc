// SPDX-License-Identifier: Apache-2.0
//
// algo-ring: collectives as plans over links, in three families. The ABI face; the plans are in ring.cc, tree.cc and
// direct.cc.
#include "algorithm.h"
#include "sdk/algorithm_module.h"

using sl::algo_ring::CostOptions;
using sl::algo_ring::Family;
using sl::algo_ring::Shape;

struct sl_instance_t {
  const sl_host_t* host;
  CostOptions options;
};

namespace {

const sl_option_t kOptions[] = {
    sl::kLinkCostOptions[0],
    sl::kLinkCostOptions[1],
    sl::kLinkCostOptions[2],
    sl::kLinkCostOptions[3],
    sl::kLinkCostOptions[4],
    sl::IntOption("direct_ranks", "ranks", "most ranks that connect to each other for one operation", "32", 1, 65535),
};

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  return sl_instance_t{host, {sl::LinkCost::Of(options), static_cast<uint32_t>(options.Int(5))}};
}

template <std::unique_ptr<Family> (*kFamily)(const Shape&)>
sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  const Shape shape = Shape::Of(*env.shape);
  return std::make_unique<sl_algorithm_t>(instance.host, kFamily(shape), shape, instance.options);
}

const sl_provide_t kProvides[] = {
    sl::ProvideAlgorithm("ring", &sl::kPlanningOps<Make<sl::algo_ring::MakeRing>>),
    sl::ProvideAlgorithm("tree", &sl::kPlanningOps<Make<sl::algo_ring::MakeTree>>),
    sl::ProvideAlgorithm("direct", &sl::kPlanningOps<Make<sl::algo_ring::MakeDirect>>),
};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives and point to point as plans over links",
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
