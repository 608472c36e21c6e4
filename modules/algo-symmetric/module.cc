// SPDX-License-Identifier: Apache-2.0
//
// algo-symmetric: collectives by direct loads and stores on symmetric memory. The ABI face; the work is in
// host_algorithm.h and cuda_algorithm.h.
#include "modules/algo-symmetric/cuda_algorithm.h"
#include "modules/algo-symmetric/host_algorithm.h"
#include "sdk/algorithm_module.h"
#include "sdk/device/vigil.h"

using sl::algo_symmetric::ChoiceTable;
using sl::algo_symmetric::CudaAlgorithm;
using sl::algo_symmetric::Family;
using sl::algo_symmetric::GpuSettings;
using sl::algo_symmetric::HostAlgorithm;
using sl::algo_symmetric::ImageShelf;
using sl::algo_symmetric::Layout;
using sl::algo_symmetric::Sizes;
using sl::algo_symmetric::kernels::Trigger;

struct sl_instance_t {
  const sl_host_t* host;
  Sizes sizes;
  GpuSettings gpu;
  std::unique_ptr<const sl::algo_symmetric::ChoiceTable> table;  // what gpu.table points to; stays where it is
  std::unique_ptr<ImageShelf> images;
};

namespace {

const sl_option_t kOptions[] = {
    sl::IntOption("small_bytes", "bytes", "largest publication of a one-shot operation", "16384", 64, 1 << 20),
    sl::IntOption("stage_bytes", "bytes", "one stage slot of a pipelined operation; four of them per rank", "262144",
                  65536, 1 << 26),
    sl::IntOption("result_bytes", "bytes", "one result slot of a pipelined operation; four of them per rank", "131072",
                  4096, 1 << 26),
    sl::IntOption("gpu_sms", "", "SMs that a staged or direct operation on GPUs holds at most", "24", 1,
                  sl::algo_symmetric::kernels::kStagedBlocks),
    sl::IntOption("gpu_graph_lanes", "",
                  "lanes of GPU memory for captured graphs; graphs that share one must not overlap", "2", 1, 16),
    sl::ChoiceOption("gpu_family", "protocol of GPU kernels, where it can serve the operation", "auto",
                     "auto,one_shot,two_shot,staged,direct,lamport_one_shot,lamport_two_shot,bulk,push"),
    sl::IntOption("gpu_dawdle_ns", "ns",
                  "for tests: GPU threads stop by chance for up to so long between the steps of a protocol", "0", 0,
                  sl::dev::kMostDawdleNs),
    sl::IntOption("gpu_first_epoch", "", "for tests: where the counters of GPU kernels begin that wrap at 2^32", "0", 0,
                  UINT32_MAX - 1),
    sl::StringOption("gpu_choices",
                     "families of collectives on GPUs by size; modules/algo-symmetric/README.md says how", ""),
    sl::BoolOption("gpu_family_only", "for tuning: collectives that gpu_family cannot serve are refused", "false"),
    sl::BoolOption("gpu_dependent_launch",
                   "a kernel is put on the GPU while the one before it in its stream ends; in graphs, by programmatic "
                   "edges",
                   "true"),
    sl::ChoiceOption("gpu_dependent_trigger",
                     "when a kernel lets the next one in its stream onto the GPU: by its exit, once it has heard from "
                     "all peers, or early, small ones once they have sent; modules/algo-symmetric/README.md says what "
                     "the latter two cost",
                     "exit", "exit,heard,sent"),
};

sl_status_t Demand(sl_instance_t* instance, const sl_comm_shape_t* shape, sl_demand_t* out) {
  out->symmetric_bytes = 0;
  if (shape->domain_size != shape->size) return SL_OK;
  if (shape->device_kind == SL_DEVICE_HOST) out->symmetric_bytes = Layout::Of(instance->sizes).total;
  if (shape->device_kind == SL_DEVICE_CUDA && ImageShelf::HasImages()) {
    out->symmetric_bytes = CudaAlgorithm::SliceBytes(shape->size, instance->gpu.On(*shape));
  }
  return SL_OK;
}

sl::Result<std::unique_ptr<sl_algorithm_t>> MakeForHost(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  static_assert(sizeof(sl::algo_symmetric::Work) <= 4096, "kernels promise arguments of at least 4,096 bytes");
  if (env.shape->size > instance.sizes.stage_bytes / sl::dev::kLineBytes) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: stage_bytes is too small for " +
                                              std::to_string(env.shape->size) + " ranks; raise the option stage_bytes");
  }
  auto algorithm = std::make_unique<HostAlgorithm>(instance.host, env, instance.sizes);
  SL_TRY(algorithm->LoadKernels());
  return std::unique_ptr<sl_algorithm_t>(std::move(algorithm));
}

sl::Result<std::unique_ptr<sl_algorithm_t>> MakeForCuda(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (!ImageShelf::HasImages()) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: built without GPU kernels, for want of nvcc");
  }
  if (env.control == nullptr) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: a GPU communicator needs a control block");
  }
  auto algorithm = std::make_unique<CudaAlgorithm>(instance.host, env, instance.gpu);
  SL_TRY(algorithm->LoadKernels(instance.images.get()));
  if (instance.gpu.first_epoch != 0) SL_TRY(algorithm->WindCounters());
  return std::unique_ptr<sl_algorithm_t>(std::move(algorithm));
}

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.shape->device_kind == SL_DEVICE_CUDA && !ImageShelf::HasImages()) return MakeForCuda(instance, env);
  if (env.shape->domain_size != env.shape->size || env.symmetric.base == nullptr) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: not all ranks share memory with this one");
  }
  if (env.shape->device_kind == SL_DEVICE_HOST) return MakeForHost(instance, env);
  if (env.shape->device_kind == SL_DEVICE_CUDA) return MakeForCuda(instance, env);
  return sl::Status(SL_ERR_UNSUPPORTED,
                    "algo-symmetric: no kernels for devices of kind " + std::to_string(env.shape->device_kind));
}

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
  GpuSettings gpu{};
  gpu.staged_blocks = static_cast<uint32_t>(value(3));
  gpu.graph_lanes = static_cast<uint32_t>(value(4));
  const std::string family = options.String(5);
  gpu.forced = family != "auto";
  for (uint32_t i = 0; i < sl::algo_symmetric::kFamilies; ++i) {
    if (FamilyOption(static_cast<Family>(i)) == family) gpu.family = static_cast<Family>(i);
  }
  gpu.dawdle_ns = static_cast<uint32_t>(value(6));
  gpu.first_epoch = static_cast<uint32_t>(value(7));
  SL_ASSIGN(ChoiceTable table, ChoiceTable::Parse(options.String(8)));
  sl_instance_t instance{host,
                         {value(0), value(1), value(2)},
                         gpu,
                         std::make_unique<ChoiceTable>(std::move(table)),
                         std::make_unique<ImageShelf>()};
  instance.gpu.table = instance.table.get();
  instance.gpu.strict = options.Bool(9);
  instance.gpu.depends = options.Bool(10);
  const std::string trigger = options.String(11);
  instance.gpu.trigger = trigger == "sent" ? Trigger::kSent : trigger == "heard" ? Trigger::kHeard : Trigger::kExit;
  return instance;
}

sl_status_t LaunchGroup(sl_algorithm_t* algorithm, const sl_op_t* ops, uint32_t count, void* args,
                        uint32_t args_capacity, sl_launch_t* out) {
  return algorithm->LaunchGroup(ops, count, args, args_capacity, out);
}

constexpr sl_algorithm_ops_t kOps = [] {
  sl_algorithm_ops_t ops = sl::kLaunchingOps<Make, Demand>;
  ops.launch_group = LaunchGroup;
  ops.retract = sl::AlgorithmCalls<Make>::Retract;
  return ops;
}();

const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("symmetric", &kOps, 0, sl::dev::kVigilRevision)};
// It launches kernels on the communicator's device.
const sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_DEVICE_ID, 1, SL_DEVICE_REVISION}};

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
