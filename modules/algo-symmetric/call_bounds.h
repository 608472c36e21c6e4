// SPDX-License-Identifier: Apache-2.0
//
// What the call of an operation wants otherwise than its communicator (sl_op_t::settings): other bounds on SMs. Which
// families may serve it the kernel knows, as they are algorithms.
#pragma once

#include "modules/algo-symmetric/choice.h"
#include "sl_algorithm.h"

namespace sl::algo_symmetric {

class CallBounds {
 public:
  CallBounds() = default;  // calls have none of their own
  // Of the algorithm whose environment it is, which outlives this.
  explicit CallBounds(const sl_algorithm_env_t& env);

  // Of the settings of the call; 0: it has none of its own.
  uint32_t NumberOf(const sl_op_t& op) const {
    return ops_ != nullptr && SL_HAS(&op, sl_op_t, settings) ? op.settings : 0;
  }
  // The communicator's, within the bounds of the call.
  GpuSettings Of(const sl_op_t& op, const GpuSettings& settings) const;

 private:
  const sl_settings_ops_t* ops_ = nullptr;
  sl_settings_t* settings_ = nullptr;
};

}  // namespace sl::algo_symmetric
