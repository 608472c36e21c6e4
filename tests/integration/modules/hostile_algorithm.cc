// SPDX-License-Identifier: Apache-2.0
// An algorithm that does not come to be, in the way of the one HOSTILE_… that is defined.
#include "sdk/module.h"
#include "sl_algorithm.h"

struct sl_instance_t {};

namespace {

sl_status_t Create(sl_instance_t*, const sl_algorithm_env_t*, sl_algorithm_t** out_algorithm) {
#if defined(HOSTILE_SILENT)
  (void)out_algorithm;
  return SL_ERR_LIMIT;
#else
  *out_algorithm = nullptr;
  return SL_OK;
#endif
}

void Destroy(sl_algorithm_t*) {}

sl_status_t Estimate(sl_algorithm_t*, const sl_op_t*, sl_estimate_t*) { return SL_ERR_UNSUPPORTED; }

constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.create = Create;
  ops.destroy = Destroy;
  ops.estimate = Estimate;
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
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
    .summary = "an algorithm that does not come to be",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
