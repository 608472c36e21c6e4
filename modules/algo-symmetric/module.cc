// SPDX-License-Identifier: Apache-2.0
//
// algo-symmetric: collectives by direct loads and stores on symmetric memory. The ABI face; the work is in algorithm.h.
#include <memory>
#include <new>

#include "modules/algo-symmetric/algorithm.h"
#include "sdk/module.h"

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

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    if (!Serves(*env->shape) || env->symmetric.base == nullptr) {
      return {SL_ERR_UNSUPPORTED, "algo-symmetric: not all ranks share memory with this one"};
    }
    if (env->shape->size > instance->sizes.stage_bytes / sl::dev::kLineBytes) {
      return {SL_ERR_UNSUPPORTED, "algo-symmetric: stage_bytes is too small for " + std::to_string(env->shape->size) +
                                      " ranks; raise the option stage_bytes"};
    }
    auto algorithm = std::make_unique<sl_algorithm_t>(*env, instance->sizes);
    SL_TRY(algorithm->LoadKernels());
    *out = algorithm.release();
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  return algorithm->Estimate(*op, out);
}

sl_status_t Launch(sl_algorithm_t* algorithm, const sl_op_t* op, void* args, uint32_t, sl_launch_t* out) {
  static_assert(sizeof(sl::algo_symmetric::Work) <= 4096, "kernels promise arguments of at least 4,096 bytes");
  return algorithm->Launch(*op, args, out);
}

const sl_algorithm_ops_t kOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = Demand,
    .create = Create,
    .destroy = Destroy,
    .estimate = Estimate,
    .plan = nullptr,
    .launch = Launch,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    *out = new sl_instance_t{host,
                             {static_cast<uint64_t>(options.Int(0)), static_cast<uint64_t>(options.Int(1)),
                              static_cast<uint64_t>(options.Int(2))}};
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "symmetric"},
};
// It launches kernels on the communicator's device.
const sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_DEVICE_ID, SL_DEVICE_REVISION, SL_DEVICE_REVISION}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "collectives by direct loads and stores on symmetric memory",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .requirements = sl::kPointersTo<kRequirements>,
    .open = Open,
    .quiesce = Quiesce,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
