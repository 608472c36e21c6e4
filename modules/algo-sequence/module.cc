// SPDX-License-Identifier: Apache-2.0
//
// algo-sequence: collectives by way of others, whichever serve those best. The ABI face.
#include "modules/algo-sequence/algorithm.h"
#include "sdk/algorithm_module.h"

struct sl_instance_t {
  const sl_host_t* host;
};

namespace {

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader&) { return sl_instance_t{host}; }

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.shape->size < 2) return sl::Status(SL_ERR_UNSUPPORTED, "algo-sequence: one rank has nobody to share with");
  return std::make_unique<sl_algorithm_t>(instance.host, env.shape->rank, env.shape->size);
}

const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("sequence", &sl::kSequencingOps<Make>)};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives by way of others",
    .provides = sl::kPointersTo<kProvides>,
    .open = Instance::Open,
    .quiesce = Instance::Quiesce,
    .close = Instance::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
