// SPDX-License-Identifier: Apache-2.0
//
// algo-symmetric: collectives by direct loads and stores on symmetric memory. The ABI face; the work is in algorithm.h.
#include "modules/algo-symmetric/algorithm.h"
#include "sdk/algorithm_module.h"

using sl::algo_symmetric::Layout;
using sl::algo_symmetric::Sizes;

struct sl_instance_t {
  const sl_host_t* host;
  Sizes sizes;
};

namespace {

const sl_option_t kOptions[] = {
    sl::IntOption("small_bytes", "bytes", "largest publication of a one-shot operation", "16384", 64, 1 << 20),
    sl::IntOption("stage_bytes", "bytes", "one stage slot of a pipelined operation; four of them per rank", "262144",
                  65536, 1 << 26),
    sl::IntOption("result_bytes", "bytes", "one result slot of a pipelined operation; four of them per rank", "131072",
                  4096, 1 << 26),
};

bool Serves(const sl_comm_shape_t& shape) {
  return shape.device_kind == SL_DEVICE_HOST && shape.domain_size == shape.size;
}

sl_status_t Demand(sl_instance_t* instance, const sl_comm_shape_t* shape, sl_demand_t* out) {
  out->symmetric_bytes = Serves(*shape) ? Layout::Of(instance->sizes).total : 0;
  return SL_OK;
}

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  static_assert(sizeof(sl::algo_symmetric::Work) <= 4096, "kernels promise arguments of at least 4,096 bytes");
  if (!Serves(*env.shape) || env.symmetric.base == nullptr) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: not all ranks share memory with this one");
  }
  if (env.shape->size > instance.sizes.stage_bytes / sl::dev::kLineBytes) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: stage_bytes is too small for " +
                                              std::to_string(env.shape->size) + " ranks; raise the option stage_bytes");
  }
  auto algorithm = std::make_unique<sl_algorithm_t>(instance.host, env, instance.sizes);
  SL_TRY(algorithm->LoadKernels());
  return algorithm;
}

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
  return sl_instance_t{host, {value(0), value(1), value(2)}};
}

const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("symmetric", &sl::kLaunchingOps<Make, Demand>)};
// It launches kernels on the communicator's device.
const sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_DEVICE_ID, SL_DEVICE_REVISION, SL_DEVICE_REVISION}};

using Instance = sl::InstanceCalls<Open>;
constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives by direct loads and stores on symmetric memory",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .requirements = sl::kPointersTo<kRequirements>,
    .open = Instance::Open,
    .quiesce = Instance::Quiesce,
    .close = Instance::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
