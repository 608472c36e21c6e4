// SPDX-License-Identifier: Apache-2.0
//
// algo-copy: collectives without arithmetic by the copy engines of GPUs, without SMs. The ABI face.
#include "modules/algo-copy/algorithm.h"
#include "sdk/algorithm_module.h"

struct sl_instance_t {
  const sl_host_t* host;
};

namespace {

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader&) { return sl_instance_t{host}; }

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.shape->size < 2) return sl::Status(SL_ERR_UNSUPPORTED, "algo-copy: one rank moves nothing to others");
  if (env.shape->domain_size != env.shape->size) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-copy: not all ranks share memory with this one");
  }
  const bool is_asked_for = SL_HAS(env.shape, sl_comm_shape_t, processor_free) && env.shape->processor_free != 0;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the member is a pointer
  const bool has_settings = SL_HAS(&env, sl_algorithm_env_t, settings);
  return std::make_unique<sl_algorithm_t>(instance.host, env.shape->rank, env.shape->size, is_asked_for,
                                          has_settings ? env.settings_ops : nullptr,
                                          has_settings ? env.settings : nullptr);
}

const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("copy", &sl::kCopyingOps<Make>)};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives without arithmetic by copy engines, without SMs",
    .provides = sl::kPointersTo<kProvides>,
    .open = Instance::Open,
    .quiesce = Instance::Quiesce,
    .close = Instance::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
