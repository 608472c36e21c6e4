// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/proof.h"

#include <fmt/format.h>

#include <memory>

#include "kernel/plan/plan.h"
#include "sdk/status.h"
#include "tools/verify/verify.h"

namespace sl::conform {

std::string ProvePlans(const std::vector<RankToProve>& ranks, bool in_place, uint32_t determinism) {
  std::vector<std::unique_ptr<kernel::Plan>> plans;
  verify::Case test;
  test.in_place = in_place;
  test.determinism = determinism;
  for (const RankToProve& rank : ranks) {
    const sl_comm_shape_t& shape = *rank.shape;
    kernel::PlanBuilder builder(
        {shape.rank, shape.size, shape.lanes, shape.link_chunk_bytes, shape.link_slots, rank.op});
    const sl_status_t status = rank.plan(kernel::PlanBuilder::Ops(), builder.handle());
    Result<std::unique_ptr<kernel::Plan>> plan = builder.Finish();
    if (!plan.ok()) return fmt::format("rank {}: the plan is not legal: {}", shape.rank, plan.status().message());
    if (status != SL_OK) return fmt::format("rank {}: plan() gave {}", shape.rank, StatusName(status));
    test.ranks.push_back({plan.value().get(), rank.op});
    plans.push_back(plan.Take());
  }
  const verify::Verdict verdict = verify::Verify(test);
  return verdict.proved() ? "" : verify::ToText(*verdict.counter_example);
}

}  // namespace sl::conform
