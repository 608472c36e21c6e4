// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/call_choice.h"

namespace sl::algo_symmetric {

CallWishes CallWishes::Of(const sl_algorithm_env_t& env) {
  if (!SL_HAS(&env, sl_algorithm_env_t, settings)) return {};
  return {env.settings_ops, env.settings};
}

uint32_t CallWishes::NumberOf(const sl_op_t& op) const {
  return ops != nullptr && SL_HAS(&op, sl_op_t, settings) ? op.settings : 0;
}

std::optional<Choice> ChooseFor(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings,
                                const CallWishes& wishes) {
  const uint32_t number = wishes.NumberOf(op);
  if (number == 0) return Choose(op, rank, size, settings);
  sl_op_settings_t wanted{};
  wanted.struct_size = sizeof(wanted);
  GpuSettings own = settings;
  if (wishes.ops->get(wishes.settings, number, &wanted) == SL_OK) {
    own.budget = {wanted.processors_min, wanted.processors_max, wanted.processor_weight};
  }
  const auto allows = [&](Family family) {
    return wishes.ops->allows(wishes.settings, number, FamilyOption(family)) != 0;
  };
  const Choice usual = Choose(op, rank, size, own);
  if (allows(usual.family)) return usual;
  std::optional<Choice> best;
  own.forced = true;
  for (uint32_t i = 0; i < kFamilies; ++i) {
    own.family = static_cast<Family>(i);
    if (!allows(own.family)) continue;
    const Choice one = Choose(op, rank, size, own);
    if (one.family != own.family) continue;  // it cannot serve the operation
    const auto cost = [&](const Choice& choice) { return Weighed(choice.time_ns, choice.blocks, own.budget); };
    if (!best || cost(one) < cost(*best)) best = one;
  }
  return best;
}

}  // namespace sl::algo_symmetric
