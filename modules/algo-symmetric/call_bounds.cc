// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/call_bounds.h"

namespace sl::algo_symmetric {

CallBounds::CallBounds(const sl_algorithm_env_t& env) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the member is a pointer
  if (!SL_HAS(&env, sl_algorithm_env_t, settings)) return;
  ops_ = env.settings_ops;
  settings_ = env.settings;
}

GpuSettings CallBounds::Of(const sl_op_t& op, const GpuSettings& settings) const {
  const uint32_t number = NumberOf(op);
  GpuSettings own = settings;
  sl_op_settings_t wanted{};
  wanted.struct_size = sizeof(wanted);
  if (number != 0 && ops_->get(settings_, number, &wanted) == SL_OK) {
    own.budget = {wanted.processors_min, wanted.processors_max, wanted.processor_weight};
  }
  return own;
}

}  // namespace sl::algo_symmetric
