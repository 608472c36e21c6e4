// SPDX-License-Identifier: Apache-2.0
// An algorithm that gets no memory says so, and loses nothing: a job that runs out of it ends with an error.
#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"

namespace sl::conform::algorithm {
namespace {

// A builder that takes everything.
const sl_plan_builder_ops_t kPatient = {sizeof(kPatient), 0,
                                        [](sl_plan_builder_t*, const sl_plan_desc_t*) -> sl_status_t { return SL_OK; },
                                        [](sl_plan_builder_t*) -> sl_status_t { return SL_OK; },
                                        [](sl_plan_builder_t*, const sl_step_t*) -> sl_status_t { return SL_OK; }};

// Estimates and plans every kind of operation; each answers with a status of its own.
void Use(Trial& trial, const Subject& subject, sl_algorithm_t* algorithm) {
  for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
    const sl_op_t op = MakeOp(kind, SL_FLOAT32, SL_SUM, 5000, 0);
    sl_estimate_t estimate{};
    estimate.struct_size = sizeof(estimate);
    if (subject.ops.estimate(algorithm, &op, &estimate) != SL_OK || estimate.run != SL_RUN_PLAN) continue;
    ClearError();
    const sl_status_t status =
        subject.ops.plan(algorithm, &op, &kPatient, reinterpret_cast<sl_plan_builder_t*>(&trial));
    trial.Expect(status == SL_OK || !ErrorText().empty(), "{}: plan() gave {} without a text", OpText(op),
                 StatusName(status));
  }
}

void FailsCleanly(Trial& trial) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  const Team team(trial, subject, TeamShape{3});
  if (!team.IsServed()) trial.Skip("it serves no communicator of 3 ranks: " + team.Refusal());
  const sl_algorithm_env_t env = team.env(1);
  ForEachShortage(trial, subject.module(), Imports::Kind::kMemory, trial.full() ? 2000 : 200, [&] {
    ClearError();
    sl_algorithm_t* algorithm = nullptr;
    const sl_status_t status = subject.ops.create(subject.instance(), &env, &algorithm);
    if (status == SL_OK) {
      Use(trial, subject, algorithm);
      subject.ops.destroy(algorithm);
    } else {
      trial.Expect(algorithm == nullptr && !ErrorText().empty(), "create gave {}, an algorithm or no text",
                   StatusName(status));
    }
  });
}

}  // namespace

std::vector<Test> ShortageTests() {
  return {{"Shortage.OfMemoryFailsCleanly", "any allocation of create() and plan() refused: an error in words, or none",
           FailsCleanly, 20}};
}

}  // namespace sl::conform::algorithm
