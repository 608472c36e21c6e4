// SPDX-License-Identifier: Apache-2.0
//
// An algorithm that does nothing but write down when it was entered: into the operation's receive buffer. It serves
// every all-reduce at no cost, so that the kernel always chooses it. Only bench_dispatch has it on its search path.
#include <cstring>

#include "bench/dispatch/clock.h"
#include "sdk/module.h"
#include "sl_algorithm.h"
#include "sl_device.h"

struct sl_instance_t {
  const sl_host_t* host;
};

struct sl_algorithm_t {
  const sl_device_ops_t* device_ops;
  sl_device_t* device;
  sl_image_t* image;
};

namespace {

sl_status_t DoNothing(const void*, void*, sl_wait_t*) { return SL_OK; }
const sl_host_kernel_t kKernel = {"probe", DoNothing, 0, 0};
const sl_image_desc_t kImage = {sizeof(sl_image_desc_t), 1, &kKernel, nullptr, 0, nullptr};

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    sl_image_t* image = nullptr;
    const sl_status_t status = env->device_ops->image_load(env->device, &kImage, &image);
    if (status != SL_OK) return sl::Status(status, "the device takes no host kernels");
    *out_algorithm = new sl_algorithm_t{env->device_ops, env->device, image};
    return {};
  });
}

void Destroy(sl_algorithm_t* algorithm) {
  algorithm->device_ops->image_unload(algorithm->device, algorithm->image);
  delete algorithm;
}

sl_status_t Estimate(sl_algorithm_t*, const sl_op_t* op, sl_estimate_t* out_estimate) {
  std::strcpy(out_estimate->reason, "does nothing");
  if (op->kind != SL_OP_ALL_REDUCE || op->count * 4 < sizeof(uint64_t)) return SL_ERR_UNSUPPORTED;
  out_estimate->run = SL_RUN_LAUNCH;
  out_estimate->time_ns = 0;
  out_estimate->determinism = SL_DETERMINISM_WORLD_SIZE;
  return SL_OK;
}

sl_status_t Launch(sl_algorithm_t* algorithm, const sl_op_t* op, void*, uint32_t, sl_launch_t* out_launch) {
  const uint64_t entered = sl::bench::Ticks();
  out_launch->image = algorithm->image;
  std::memcpy(op->recv, &entered, sizeof(entered));
  return SL_OK;
}

// What bench_dispatch calls to see what a call into another module costs.
sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t* shape, sl_demand_t* out_demand) {
  out_demand->symmetric_bytes = shape->size;
  return SL_OK;
}

constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.demand = Demand;
  ops.create = Create;
  ops.destroy = Destroy;
  ops.estimate = Estimate;
  ops.launch = Launch;
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

sl_status_t Open(const sl_host_t* host, const sl_open_args_t*, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    *out_instance = new sl_instance_t{host};
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "probe"},
};
const sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_DEVICE_ID, 1, SL_DEVICE_REVISION}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = "dispatch-probe",
    .version = "0.1.0",
    .vendor = "Starling",
    .summary = "says when an algorithm is entered",
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
