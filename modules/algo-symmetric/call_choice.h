// SPDX-License-Identifier: Apache-2.0
//
// How a collective runs on a GPU whose call wants something otherwise than its communicator (sl_op_t::settings): other
// bounds on SMs, or certain families only, by the names that the option gpu_family has for them.
#pragma once

#include <optional>

#include "modules/algo-symmetric/choice.h"

namespace sl::algo_symmetric {

// What an algorithm is told of calls; both NULL: nothing.
struct CallWishes {
  const sl_settings_ops_t* ops = nullptr;
  sl_settings_t* settings = nullptr;

  static CallWishes Of(const sl_algorithm_env_t& env);
  // 0: the call has none of its own.
  uint32_t NumberOf(const sl_op_t& op) const;
};

// As Choose; nothing where none of the families that the call allows can serve it. Of an operation whose call has
// settings the least cost of those families counts, even where the profile forces or tells another one.
std::optional<Choice> ChooseFor(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings,
                                const CallWishes& wishes);

}  // namespace sl::algo_symmetric
