// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/survey_crew.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "kernel/events/last_error.h"

// Sends from the root to every other rank in turn.
struct sl_algorithm_t {
  uint32_t rank;
  uint32_t size;
};

namespace sl::verify {
namespace {

// What the algorithm below gets wrong, if anything.
uint64_t wrong_count = UINT64_MAX;  // at this count the last rank forgets its copy
uint64_t refused_count = UINT64_MAX;
uint64_t launched_count = UINT64_MAX;
bool creates = true;
sl_status_t made_nothing = SL_ERR_UNSUPPORTED;  // what create() says where it does not create
bool turns = false;                             // odd roots send the other way round

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out) {
  out->symmetric_bytes = 100;
  return SL_OK;
}

sl_status_t Create(sl_instance_t*, const sl_algorithm_env_t* env, sl_algorithm_t** out) {
  EXPECT_NE(env->symmetric.base, nullptr);
  EXPECT_GE(env->symmetric.stride, 100u);
  if (!creates) return made_nothing;
  *out = new sl_algorithm_t{env->shape->rank, env->shape->size};
  return SL_OK;
}

void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t*, const sl_op_t* op, sl_estimate_t* out) {
  out->run = op->count == launched_count ? SL_RUN_LAUNCH : SL_RUN_PLAN;
  std::snprintf(out->reason, sizeof(out->reason), "a star");
  return op->kind == SL_OP_BROADCAST && op->count != refused_count ? SL_OK : SL_ERR_UNSUPPORTED;
}

sl_status_t MakePlan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                     sl_plan_builder_t* builder) {
  const bool is_root = algorithm->rank == static_cast<uint32_t>(op->root);
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = 1;
  desc.chunk = 8;
  desc.rounds = (op->count + 7) / 8;
  desc.recv = {op->count, op->count, op->count};
  if (is_root) desc.send = desc.recv;
  ops->describe(builder, &desc);
  ops->begin_lane(builder);
  sl_step_t step{};
  step.struct_size = sizeof(step);
  step.shape = {SL_BUFFER_RECV, 0, 0, -1};
  const auto add = [&](uint32_t kind, uint32_t peer, sl_operand_t a, sl_operand_t dst) {
    step.kind = kind;
    step.peer = static_cast<int32_t>(peer);
    step.a = a;
    step.dst = dst;
    ops->add_step(builder, &step);
  };
  const sl_operand_t inbox = {SL_BUFFER_INBOX, 0, 0, op->root};
  const sl_operand_t source = is_root ? sl_operand_t{SL_BUFFER_SEND, 0, 0, -1} : inbox;
  for (uint32_t k = 1; is_root && k < algorithm->size; ++k) {
    const uint32_t distance = turns && op->root % 2 != 0 ? algorithm->size - k : k;
    add(SL_STEP_PUT, (algorithm->rank + distance) % algorithm->size, source, {});
  }
  if (!is_root) add(SL_STEP_WAIT, static_cast<uint32_t>(op->root), {}, {});
  const bool forgets = op->count == wrong_count && algorithm->rank + 1 == algorithm->size;
  if (!forgets) add(SL_STEP_COPY, 0, source, step.shape);
  if (!is_root) add(SL_STEP_RELEASE, static_cast<uint32_t>(op->root), {}, {});
  return SL_OK;
}

constexpr sl_algorithm_ops_t kOps = {sizeof(sl_algorithm_ops_t),
                                     0,
                                     Demand,
                                     Create,
                                     Destroy,
                                     Estimate,
                                     MakePlan,
                                     nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr,
                                     nullptr};

class Surveys : public testing::Test {
 protected:
  void SetUp() override {
    wrong_count = refused_count = launched_count = UINT64_MAX;
    creates = true;
    made_nothing = SL_ERR_UNSUPPORTED;
    turns = false;
  }

  static SurveyRow Run(sl_op_kind_t kind, uint32_t ranks) {
    Algorithm algorithm;
    algorithm.name = "star";
    algorithm.ops = &kOps;
    auto survey = Survey::Open(algorithm, {ranks, 1024, 2, 8}, {0, 1, 17});
    EXPECT_TRUE(survey.ok()) << survey.status().message();
    return survey.value()->Run(kind);
  }
};

TEST_F(Surveys, ProveEveryRootAndPlacement) {
  const SurveyRow row = Run(SL_OP_BROADCAST, 4);
  EXPECT_FALSE(row.failure) << row.failure->text;
  EXPECT_EQ(row.proved, 4u * 3u * 4u * 2u);  // types, counts, roots, placements
  EXPECT_EQ(row.rotated, row.proved * 3 / 4);
  EXPECT_EQ(row.launches + row.refused, 0u);
}

TEST_F(Surveys, ProveRootsAsRotationsOfAnyBefore) {
  turns = true;
  const SurveyRow row = Run(SL_OP_BROADCAST, 4);
  EXPECT_FALSE(row.failure) << row.failure->text;
  EXPECT_EQ(row.proved, 4u * 3u * 4u * 2u);
  // Root 2 is root 0 moved up, and root 3 is root 1.
  EXPECT_EQ(row.rotated, row.proved / 2);
}

TEST_F(Surveys, NameTheCaseThatFails) {
  wrong_count = 17;
  const SurveyRow row = Run(SL_OP_BROADCAST, 4);
  ASSERT_TRUE(row.failure);
  EXPECT_EQ(row.failure->what, "star broadcast of 17 float32, root 0, 4 ranks");
  EXPECT_EQ(row.failure->text,
            "wrong value at rank 3\n"
            "  element    recv[0]\n"
            "  holds      nothing, no step writes it\n"
            "  should be  send0[0]\n");
  EXPECT_EQ(row.proved, 2u * 4u * 2u);
}

TEST_F(Surveys, CountWhatHasNoPlan) {
  launched_count = 17;
  refused_count = 1;
  const SurveyRow row = Run(SL_OP_BROADCAST, 2);
  EXPECT_EQ(row.launches, 4u);
  EXPECT_EQ(row.refused, 4u);
  EXPECT_EQ(row.proved, 4u * 2u * 2u);
  EXPECT_EQ(row.reason, "a star");
  const SurveyRow other = Run(SL_OP_ALL_GATHER, 2);
  EXPECT_EQ(other.proved, 0u);
  EXPECT_EQ(other.refused, 12u);
}

TEST_F(Surveys, SayWhatTheyFoldedAndAgreeWithWhatTheyExecute) {
  Algorithm algorithm;
  algorithm.ops = &kOps;
  const auto run = [&](Effort effort) {
    return Survey::Open(algorithm, {4, 1024, 2, 8}, {0, 1, 17}, effort).value()->Run(SL_OP_BROADCAST);
  };
  SurveyRow folded = run(Effort::kFold);
  SurveyRow executed = run(Effort::kExecute);
  EXPECT_EQ(folded.proved, executed.proved);
  EXPECT_EQ(folded.rotated, executed.rotated);
  EXPECT_EQ(folded.folded, 4u * 3u * 2u);  // types, counts, placements
  EXPECT_EQ(executed.folded, 0u);
  EXPECT_LT(folded.steps, executed.steps);
  // What does not fold fails as it does when it is executed.
  wrong_count = 17;
  folded = run(Effort::kFold);
  executed = run(Effort::kExecute);
  ASSERT_TRUE(folded.failure && executed.failure);
  EXPECT_EQ(folded.failure->text, executed.failure->text);
}

TEST_F(Surveys, OfManyThreadsReportInOrder) {
  wrong_count = 17;
  Algorithm algorithm;
  algorithm.name = "star";
  algorithm.ops = &kOps;
  SurveyPlan plan;
  plan.counts = {0, 1, 17};
  for (const uint32_t ranks : {2u, 5u, 3u, 4u}) {
    for (const sl_op_kind_t kind : {SL_OP_ALL_GATHER, SL_OP_BROADCAST}) {
      plan.tasks.push_back({&algorithm, {ranks, 1024, 2, 8}, kind});
    }
  }
  for (const uint32_t threads : {1u, 3u, 100u}) {
    plan.threads = threads;
    std::vector<uint32_t> reported;
    const auto rows = RunSurveys(plan, [&](const SurveyRow& row) { reported.push_back(row.ranks * 100 + row.kind); });
    ASSERT_EQ(rows.size(), plan.tasks.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].kind, plan.tasks[i].kind);
      EXPECT_EQ(rows[i].ranks, plan.tasks[i].shape.ranks);
      EXPECT_EQ(rows[i].failure.has_value(), rows[i].kind == SL_OP_BROADCAST);
      EXPECT_EQ(reported[i], rows[i].ranks * 100 + rows[i].kind);
    }
  }
}

TEST_F(Surveys, OfManyThreadsSayWhatCannotBeCreated) {
  creates = false;
  Algorithm algorithm;
  algorithm.ops = &kOps;
  SurveyPlan plan;
  plan.tasks.push_back({&algorithm, {}, SL_OP_BROADCAST});
  const auto rows = RunSurveys(plan, [](const SurveyRow&) {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].refused, 1u);
  EXPECT_FALSE(rows[0].failure);
}

TEST_F(Surveys, PassOnWhyAnAlgorithmIsNotForAShape) {
  creates = false;
  Algorithm algorithm;
  algorithm.ops = &kOps;
  EXPECT_EQ(Survey::Open(algorithm, {}, {}).status().code(), SL_ERR_UNSUPPORTED);
}

TEST_F(Surveys, RefuseWhatSaysThatItWasCreatedAndIsNot) {
  creates = false;
  Algorithm algorithm;
  algorithm.ops = &kOps;
  made_nothing = SL_OK;
  EXPECT_EQ(Survey::Open(algorithm, {}, {}).status().message(), "create() said SL_OK and made nothing");
  kernel::SetLastError(SL_ERR_UNSUPPORTED, "words of an earlier call");
  made_nothing = 42;
  const Status unknown = Survey::Open(algorithm, {}, {}).status();
  EXPECT_EQ(unknown.code(), SL_ERR_INTERNAL);
  EXPECT_EQ(unknown.message(), "status 42, unknown status");
}

TEST(CountsFor, CutPlansAtTheirBoundaries) {
  const std::vector<uint64_t> counts = CountsFor(SL_OP_ALL_REDUCE, 5, 100);
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
  for (const uint64_t count : {0u, 1u, 4u, 5u, 6u, 99u, 101u, 1006u}) {
    EXPECT_TRUE(std::binary_search(counts.begin(), counts.end(), count)) << count;
  }
}

}  // namespace
}  // namespace sl::verify
