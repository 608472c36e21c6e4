// SPDX-License-Identifier: Apache-2.0
//
// algo-symmetric: collectives by direct loads and stores on symmetric memory. The ABI face: one algorithm on hosts, and
// on GPUs one for each family of kernels and one for sends and receives. The work is in host_algorithm.h, families/ and
// transfer_algorithm.h.
#include "modules/algo-symmetric/family_algorithm.h"
#include "modules/algo-symmetric/host_algorithm.h"
#include "modules/algo-symmetric/transfer_algorithm.h"
#include "sdk/algorithm_module.h"
#include "sdk/device/vigil.h"

using sl::algo_symmetric::CallBounds;
using sl::algo_symmetric::CudaRank;
using sl::algo_symmetric::CudaRanks;
using sl::algo_symmetric::Family;
using sl::algo_symmetric::FamilyAlgorithm;
using sl::algo_symmetric::GpuSettings;
using sl::algo_symmetric::HostAlgorithm;
using sl::algo_symmetric::ImageShelf;
using sl::algo_symmetric::Layout;
using sl::algo_symmetric::Sizes;
using sl::algo_symmetric::TransferAlgorithm;
using sl::algo_symmetric::kernels::Trigger;
namespace families = sl::algo_symmetric::families;

struct sl_instance_t {
  const sl_host_t* host;
  Sizes sizes;
  GpuSettings gpu;
  std::unique_ptr<ImageShelf> images;
  std::unique_ptr<CudaRanks> ranks;
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
    sl::IntOption("gpu_dawdle_ns", "ns",
                  "for tests: GPU threads stop by chance for up to so long between the steps of a protocol", "0", 0,
                  sl::dev::kMostDawdleNs),
    sl::IntOption("gpu_first_epoch", "", "for tests: where the counters of GPU kernels begin that wrap at 2^32", "0", 0,
                  UINT32_MAX - 1),
    sl::IntOption("gpu_mail_bytes", "bytes", "longest message that goes by packets, where they have room for it",
                  "524288", 0, 524288),
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

sl_status_t DemandOfHost(sl_instance_t* instance, const sl_comm_shape_t* shape, sl_demand_t* out) {
  const bool serves = shape->domain_size == shape->size && shape->device_kind == SL_DEVICE_HOST;
  out->symmetric_bytes = serves ? Layout::Of(instance->sizes).total : 0;
  return SL_OK;
}

// The slices of all families, demanded by the one that serves every collective.
sl_status_t DemandOfCuda(sl_instance_t* instance, const sl_comm_shape_t* shape, sl_demand_t* out) {
  const bool serves =
      shape->domain_size == shape->size && shape->device_kind == SL_DEVICE_CUDA && ImageShelf::HasImages();
  out->symmetric_bytes = serves ? CudaRank::SliceBytes(shape->size, instance->gpu.On(*shape)) : 0;
  return SL_OK;
}

sl::Status SharesNoMemory() { return {SL_ERR_UNSUPPORTED, "algo-symmetric: not all ranks share memory with this one"}; }

sl::Result<std::unique_ptr<sl_algorithm_t>> MakeForHost(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.shape->device_kind != SL_DEVICE_HOST) {
    return sl::Status(SL_ERR_UNSUPPORTED,
                      "algo-symmetric: symmetric is for hosts; on GPUs each family serves by itself");
  }
  if (env.shape->domain_size != env.shape->size || env.symmetric.base == nullptr) return SharesNoMemory();
  static_assert(sizeof(sl::algo_symmetric::Work) <= 4096, "kernels promise arguments of at least 4,096 bytes");
  if (env.shape->size > instance.sizes.stage_bytes / sl::dev::kLineBytes) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: stage_bytes is too small for " +
                                              std::to_string(env.shape->size) + " ranks; raise the option stage_bytes");
  }
  auto algorithm = std::make_unique<HostAlgorithm>(instance.host, env, instance.sizes);
  SL_TRY(algorithm->LoadKernels());
  return std::unique_ptr<sl_algorithm_t>(std::move(algorithm));
}

sl::Result<std::shared_ptr<CudaRank>> RankOf(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.shape->device_kind != SL_DEVICE_CUDA) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: it is for GPUs; hosts are served by symmetric");
  }
  if (!ImageShelf::HasImages()) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: built without GPU kernels, for want of nvcc");
  }
  if (env.shape->domain_size != env.shape->size) return SharesNoMemory();
  if (env.control == nullptr) {
    return sl::Status(SL_ERR_UNSUPPORTED, "algo-symmetric: a GPU communicator needs a control block");
  }
  return instance.ranks->For(env, instance.gpu, instance.images.get());
}

template <const Family* kFamily>
sl::Result<std::unique_ptr<sl_algorithm_t>> MakeFamily(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  SL_ASSIGN(std::shared_ptr<CudaRank> rank, RankOf(instance, env));
  return std::unique_ptr<sl_algorithm_t>(
      new FamilyAlgorithm(instance.host, *kFamily, std::move(rank), CallBounds(env)));
}

sl::Result<std::unique_ptr<sl_algorithm_t>> MakeTransfers(const sl_instance_t& instance,
                                                          const sl_algorithm_env_t& env) {
  SL_ASSIGN(std::shared_ptr<CudaRank> rank, RankOf(instance, env));
  return std::unique_ptr<sl_algorithm_t>(new TransferAlgorithm(instance.host, std::move(rank)));
}

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader& options) {
  const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
  GpuSettings gpu{};
  gpu.staged_blocks = static_cast<uint32_t>(value(3));
  gpu.graph_lanes = static_cast<uint32_t>(value(4));
  gpu.dawdle_ns = static_cast<uint32_t>(value(5));
  gpu.first_epoch = static_cast<uint32_t>(value(6));
  gpu.mailed_bytes = value(7);
  gpu.depends = options.Bool(8);
  const std::string trigger = options.String(9);
  gpu.trigger = trigger == "sent" ? Trigger::kSent : trigger == "heard" ? Trigger::kHeard : Trigger::kExit;
  return sl_instance_t{
      host, {value(0), value(1), value(2)}, gpu, std::make_unique<ImageShelf>(), std::make_unique<CudaRanks>()};
}

sl_status_t LaunchGroup(sl_algorithm_t* algorithm, const sl_op_t* ops, uint32_t count, void* args,
                        uint32_t args_capacity, sl_launch_t* out) {
  return algorithm->LaunchGroup(ops, count, args, args_capacity, out);
}

constexpr sl_algorithm_ops_t kHostOps = sl::kLaunchingOps<MakeForHost, DemandOfHost>;
template <const Family* kFamily>
constexpr sl_algorithm_ops_t kFamilyOps = [] {
  sl_algorithm_ops_t ops = sl::kLaunchingOps<MakeFamily<kFamily>, nullptr>;
  ops.retract = sl::AlgorithmCalls<MakeFamily<kFamily>>::Retract;
  return ops;
}();
constexpr sl_algorithm_ops_t kStagedOps = sl::kLaunchingOps<MakeFamily<&families::kStaged>, DemandOfCuda>;
constexpr sl_algorithm_ops_t kTransferOps = [] {
  sl_algorithm_ops_t ops = sl::kLaunchingOps<MakeTransfers, nullptr>;
  ops.launch_group = LaunchGroup;
  ops.retract = sl::AlgorithmCalls<MakeTransfers>::Retract;
  return ops;
}();

constexpr sl_provide_t Provide(const char* name, const sl_algorithm_ops_t* ops) {
  return sl::ProvideAlgorithm(name, ops, 0, sl::dev::kVigilRevision);
}
const sl_provide_t kProvides[] = {
    Provide("symmetric", &kHostOps),
    Provide("symmetric_bulk", &kFamilyOps<&families::kBulk>),
    Provide("symmetric_direct", &kFamilyOps<&families::kDirect>),
    Provide("symmetric_lamport_one_shot", &kFamilyOps<&families::kLamportOneShot>),
    Provide("symmetric_lamport_two_shot", &kFamilyOps<&families::kLamportTwoShot>),
    Provide("symmetric_one_shot", &kFamilyOps<&families::kOneShot>),
    Provide(TransferAlgorithm::kName, &kTransferOps),
    Provide("symmetric_push", &kFamilyOps<&families::kPush>),
    Provide("symmetric_staged", &kStagedOps),
    Provide("symmetric_two_shot", &kFamilyOps<&families::kTwoShot>),
};
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
