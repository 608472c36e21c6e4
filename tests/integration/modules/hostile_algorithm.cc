// SPDX-License-Identifier: Apache-2.0
// An algorithm that does not come to be, in the way of the one HOSTILE_… that is defined; or that serves one rank only.
// HOSTILE_THROWING serves all, but throws in the function that SL_TEST_THROWS_IN names.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "sdk/module.h"
#include "sdk/plan_writer.h"
#include "sl_algorithm.h"

struct sl_instance_t {};
struct sl_algorithm_t {
  uint32_t rank;
};

namespace {

#if defined(HOSTILE_THROWING)
bool MeansToThrow(const char* function) {
  const char* named = std::getenv("SL_TEST_THROWS_IN");
  return named != nullptr && std::strncmp(named, function, std::strlen(function)) == 0;
}
void MayThrow(const char* function) {
  if (!MeansToThrow(function)) return;
  if (std::strstr(std::getenv("SL_TEST_THROWS_IN"), " a number") != nullptr) throw 5;
  throw std::runtime_error("no manners");
}
constexpr bool kServesAll = true;
#else
bool MeansToThrow(const char*) { return false; }
void MayThrow(const char*) {}
constexpr bool kServesAll = false;
#endif

sl_status_t Create(sl_instance_t*, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  MayThrow("create");
#if defined(HOSTILE_SILENT)
  return SL_ERR_LIMIT;
#elif defined(HOSTILE_UNEVEN) || defined(HOSTILE_THROWING)
  *out_algorithm = new sl_algorithm_t{env->shape->rank};
  return SL_OK;
#else
  *out_algorithm = nullptr;
  return SL_OK;
#endif
}

void Destroy(sl_algorithm_t* algorithm) {
  delete algorithm;
  MayThrow("destroy");
}

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out_demand) {
  MayThrow("demand");
  out_demand->symmetric_bytes = 0;
  return SL_OK;
}

// Rank 0 finds it the best, the others cannot use it.
sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out_estimate) {
  MayThrow("estimate");
  std::snprintf(out_estimate->reason, sizeof(out_estimate->reason), "an all-reduce of rank 0");
  if (op->kind != SL_OP_ALL_REDUCE || (algorithm->rank != 0 && !kServesAll)) return SL_ERR_UNSUPPORTED;
  out_estimate->run = MeansToThrow("launch") ? SL_RUN_LAUNCH : SL_RUN_PLAN;
  out_estimate->determinism = SL_DETERMINISM_RANK;
  out_estimate->time_ns = 1;
  return SL_OK;
}

// Asks nobody.
sl_status_t Plan(sl_algorithm_t*, const sl_op_t* op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) {
  MayThrow("plan");
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = 1;
  desc.chunk = op->count;
  desc.rounds = 1;
  desc.send = desc.recv = {op->count, op->count, op->count};
  sl::PlanWriter writer(ops, builder);
  writer.Begin(desc, 0);
  const sl_operand_t all = {SL_BUFFER_SEND, 0, 0, -1};
  writer.Copy(all, all, {SL_BUFFER_RECV, 0, 0, -1});
  return writer.status();
}

sl_status_t Launch(sl_algorithm_t*, const sl_op_t*, void*, uint32_t, sl_launch_t*) {
  MayThrow("launch");
  return SL_ERR_UNSUPPORTED;
}

constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.create = Create;
  ops.destroy = Destroy;
  ops.demand = Demand;
  ops.estimate = Estimate;
  ops.plan = Plan;
  ops.launch = Launch;
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
  MayThrow("open");
  *out_instance = new sl_instance_t;
  return SL_OK;
}
void Close(sl_instance_t* instance) { delete instance; }

constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps, "hostile"}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "0.1.0",
    .vendor = "tests",
    .summary = "an algorithm that means harm",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
