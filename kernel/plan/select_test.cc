// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "kernel/events/last_error.h"
#include "kernel/plan/allocation_count_test_util.h"

// An algorithm whose answers a test sets.
struct sl_algorithm_t {
  uint64_t time_ns = 1000;
  uint32_t processors = 0;
  sl_status_t status = SL_OK;
  uint32_t determinism = SL_DETERMINISM_RANK;
  uint32_t run = SL_RUN_PLAN;
  sl_status_t plan_status = SL_OK;
  bool describes = true;
  const char* reason = nullptr;  // in place of the usual ones
  int estimates = 0;
  int plans = 0;
  std::vector<sl_copy_t> copies;
  std::vector<sl_part_t> parts;
};

namespace sl::kernel {
namespace {

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t*, sl_estimate_t* out) {
  ++algorithm->estimates;
  out->time_ns = algorithm->time_ns;
  out->processors = algorithm->processors;
  out->determinism = algorithm->determinism;
  out->run = algorithm->run;
  std::snprintf(out->reason, sizeof(out->reason), "%s",
                algorithm->reason != nullptr ? algorithm->reason
                : algorithm->status == SL_OK ? "as told"
                                             : "not today");
  return algorithm->status;
}

sl_status_t MakePlan(sl_algorithm_t* algorithm, const sl_op_t*, const sl_plan_builder_ops_t* ops,
                     sl_plan_builder_t* builder) {
  ++algorithm->plans;
  if (algorithm->plan_status != SL_OK) return SetLastError(algorithm->plan_status, "out of ideas");
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = 1;
  desc.chunk = desc.rounds = 1;
  if (algorithm->describes) static_cast<void>(ops->describe(builder, &desc));
  return SL_OK;
}

sl_status_t MakeCopies(sl_algorithm_t* algorithm, const sl_op_t*, sl_copy_t* out_copies, uint32_t capacity,
                       uint32_t* out_count) {
  *out_count = static_cast<uint32_t>(algorithm->copies.size());
  if (*out_count > capacity) return SL_ERR_LIMIT;
  std::copy(algorithm->copies.begin(), algorithm->copies.end(), out_copies);
  return SL_OK;
}

sl_status_t MakeParts(sl_algorithm_t* algorithm, const sl_op_t*, sl_part_t* out_parts, uint32_t* out_count) {
  *out_count = static_cast<uint32_t>(algorithm->parts.size());
  std::copy_n(algorithm->parts.begin(), std::min<size_t>(*out_count, SL_MOST_PARTS), out_parts);
  return SL_OK;
}

class Selection : public testing::Test {
 protected:
  Selection() {
    ops_.estimate = Estimate;
    ops_.plan = MakePlan;
    ops_.copies = MakeCopies;
    ops_.parts = MakeParts;
    shape_.rank = 1;
    shape_.size = 4;
    shape_.lanes = 1;
    shape_.link_chunk_bytes = 4096;
    a_.time_ns = 3000;
    b_.time_ns = 2000;
    c_.time_ns = 2000;
  }

  std::unique_ptr<Selector> Make(SelectSettings settings = {}) {
    return std::make_unique<Selector>(
        std::vector<Candidate>{{"gamma", &ops_, &c_}, {"beta", &ops_, &b_}, {"alpha", &ops_, &a_}}, std::move(settings),
        &shape_);
  }

  static sl_op_t Op(uint64_t count = 1024) {
    sl_op_t op{};
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_FLOAT32;
    op.root = -1;
    op.peer = -1;
    op.count = count;
    return op;
  }

  // A cost of all-reduces over `ranks` of one host.
  static CostCurve Curve(const std::string& algorithm, std::vector<CostPoint> points, uint32_t ranks = 4) {
    CostCurve curve;
    curve.op = SL_OP_ALL_REDUCE;
    curve.algorithm = algorithm;
    curve.ranks = ranks;
    curve.points = std::move(points);
    return curve;
  }

  // Settings with these costs, which the fixture keeps.
  SelectSettings WithCosts(std::vector<CostCurve> costs) {
    measured_.place = "site.toml:9:1";
    measured_.machine = "a bench";
    measured_.date = "2026-11-21";
    measured_.costs = std::move(costs);
    SelectSettings settings;
    settings.measured = &measured_;
    return settings;
  }

  static SelectRule Pin(const std::string& name, const std::string& place) {
    SelectRule rule;
    rule.algorithm = name;
    rule.place = place;
    return rule;
  }

  sl_algorithm_ops_t ops_{};
  sl_comm_shape_t shape_{};
  sl_algorithm_t a_, b_, c_;
  Measured measured_;
};

TEST_F(Selection, TakesTheCheapestAndTheFirstNameOfEquals) {
  auto selector = Make();
  auto choice = selector->Select(Op());
  ASSERT_TRUE(choice.ok());
  EXPECT_STREQ(choice.value()->name, "beta");
  EXPECT_EQ(choice.value()->reason, "the cheapest of 3");
  EXPECT_EQ(choice.value()->algorithm, &b_);
  EXPECT_EQ(choice.value()->index, 1u);
  EXPECT_NE(choice.value()->plan, nullptr);
}

TEST_F(Selection, TradesTimeAgainstProcessorsByTheirWeight) {
  a_.time_ns = 1100;
  a_.processors = 4;
  b_.time_ns = 1000;
  b_.processors = 24;
  EXPECT_STREQ(Make()->Select(Op()).value()->name, "beta") << "only time counts";
  shape_.processor_weight = 5;  // 1100 * 1.02 = 1122, 1000 * 1.12 = 1120
  EXPECT_STREQ(Make()->Select(Op()).value()->name, "beta");
  shape_.processor_weight = 6;  // 1126 and 1144
  auto selector = Make();
  const Choice* choice = selector->Select(Op()).value();
  EXPECT_STREQ(choice->name, "alpha");
  EXPECT_EQ(choice->reason, "the cheapest of 3; an SM is worth 6 thousandths of its time");
  EXPECT_STREQ(
      Make(WithCosts({Curve("alpha", {{4096, 1100}}), Curve("beta", {{4096, 1000}})}))->Select(Op()).value()->name,
      "alpha")
      << "measured times are weighed, too";
}

TEST_F(Selection, TakesTheLongestTimesWithoutOverflow) {
  a_.time_ns = UINT64_MAX / 1024;
  b_.time_ns = c_.time_ns = UINT64_MAX;
  a_.processors = 24;
  shape_.processor_weight = 1000;
  EXPECT_STREQ(Make()->Select(Op()).value()->name, "alpha");
}

TEST_F(Selection, TakesNoLaunchWhereItIsRelayedAndSaysSo) {
  b_.run = c_.run = SL_RUN_LAUNCH;
  SelectSettings settings;
  settings.is_relayed = true;
  auto selector = Make(settings);
  auto choice = selector->Select(Op());
  ASSERT_TRUE(choice.ok());
  EXPECT_STREQ(choice.value()->name, "alpha");
  EXPECT_EQ(choice.value()->reason, "the only one possible; through pinned host memory, as its devices share none");
  EXPECT_NE(selector->Explain(Op()).find("its launches reach no other memory"), std::string::npos);
}

TEST_F(Selection, AsksNobodyWhenWarm) {
  auto selector = Make();
  const Choice* first = selector->Select(Op()).value();
  const int estimates = b_.estimates;
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 1000; ++i) {
    if (selector->Select(Op()).value() != first) FAIL();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(b_.estimates, estimates);
  EXPECT_EQ(b_.plans, 1);
}

TEST_F(Selection, KeysOnEverythingThatMatters) {
  auto selector = Make();
  std::vector<const Choice*> choices;
  const auto add = [&](auto change) {
    sl_op_t op = Op();
    change(&op);
    const Choice* choice = selector->Select(op).value();
    for (const Choice* other : choices) EXPECT_NE(choice, other);
    choices.push_back(choice);
  };
  add([](sl_op_t*) {});
  add([](sl_op_t* op) { op->kind = SL_OP_REDUCE; });
  add([](sl_op_t* op) { op->datatype = SL_INT32; });
  add([](sl_op_t* op) { op->reduction = SL_MAX; });
  add([](sl_op_t* op) { op->root = 3; });
  add([](sl_op_t* op) { op->peer = 3; });
  add([](sl_op_t* op) { op->count = 1; });
  add([](sl_op_t* op) { op->symmetric = SL_OP_SEND_SYMMETRIC; });
  EXPECT_EQ(selector->Select(Op()).value(), choices[0]);
}

TEST_F(Selection, BuildsNoPlanForLaunches) {
  b_.run = SL_RUN_LAUNCH;
  auto selector = Make();
  EXPECT_EQ(selector->Select(Op()).value()->plan, nullptr);
  EXPECT_EQ(b_.plans, 0);
}

// A broadcast of rank 1 to three others, as a list of so many copies, each the same.
sl_op_t Broadcast() {
  sl_op_t op{};
  op.kind = SL_OP_BROADCAST;
  op.root = 1;
  op.peer = -1;
  op.count = 100;
  op.symmetric = SL_OP_RECV_SYMMETRIC;
  return op;
}
sl_copy_t OneCopy() { return {sizeof(sl_copy_t), 0, 1, SL_BUFFER_SEND, 0, 2, SL_BUFFER_RECV, 0, 100}; }

TEST_F(Selection, KeepsTheCopiesOfAList) {
  b_.run = SL_RUN_COPIES;
  b_.copies.assign(20, OneCopy());  // more than the selector has room for at first
  b_.copies.back().phase = 1;
  SelectSettings settings;
  settings.runs_copies = true;
  auto selector = Make(settings);
  const Choice* choice = selector->Select(Broadcast()).value();
  EXPECT_STREQ(choice->name, "beta");
  EXPECT_EQ(choice->copies.copies.size(), 20u);
  EXPECT_EQ(choice->copies.phases, 2u);
  EXPECT_EQ(choice->plan, nullptr);
  EXPECT_NE(selector->Explain(Broadcast()).find("copies, same bits on all ranks: as told"), std::string::npos);
  sl_op_t elsewhere = Broadcast();
  elsewhere.symmetric = 0;
  EXPECT_NE(selector->Find(Broadcast()), nullptr);
  EXPECT_EQ(selector->Find(elsewhere), nullptr) << "another operation";
}

TEST_F(Selection, RefusesWrongCopies) {
  b_.run = SL_RUN_COPIES;
  SelectSettings settings;
  settings.runs_copies = true;
  const auto expect_wrong = [&](const char* why, auto change) {
    sl_op_t op = Broadcast();
    sl_copy_t copy = OneCopy();
    change(&op, &copy);
    b_.copies = {copy};
    const auto choice = Make(settings)->Select(op);
    EXPECT_EQ(choice.status().code(), SL_ERR_INTERNAL);
    EXPECT_EQ(
        choice.status().message(),
        "algorithm beta listed no copies for broadcast: a wrong copy for broadcast, number 0: " + std::string(why));
  };
  expect_wrong("there is no such phase", [](auto*, auto* copy) { copy->phase = 2; });
  expect_wrong("there is no such rank", [](auto*, auto* copy) { copy->to_rank = 4; });
  expect_wrong("neither end is this rank's", [](auto*, auto* copy) { copy->from_rank = 0; });
  expect_wrong("there is no such source", [](auto*, auto* copy) { copy->from_buffer = SL_BUFFER_SCRATCH; });
  expect_wrong("its target is no receive buffer", [](auto*, auto* copy) { copy->to_buffer = SL_BUFFER_SEND; });
  expect_wrong("it reaches out of a buffer", [](auto*, auto* copy) { copy->from = 1; });
  expect_wrong("it reaches out of a buffer", [](auto*, auto* copy) { copy->to = UINT64_MAX; });
  expect_wrong("another rank's buffer is not symmetric", [](auto* op, auto*) { op->symmetric = 0; });
  b_.copies = {OneCopy(), OneCopy()};
  b_.copies[0].phase = 1;
  EXPECT_NE(Make(settings)->Select(Broadcast()).status().message().find("phases do not ascend"), std::string::npos);
}

TEST_F(Selection, TakesNoCopiesWhereRanksCannotSignalAndForNoTransfers) {
  b_.run = c_.run = SL_RUN_COPIES;
  auto selector = Make();
  EXPECT_STREQ(selector->Select(Op()).value()->name, "alpha");
  EXPECT_NE(selector->Explain(Op()).find("cannot: copies need GPUs of one host that signal each other"),
            std::string::npos);
  SelectSettings settings;
  settings.runs_copies = settings.is_relayed = true;
  EXPECT_NE(Make(settings)->Explain(Op()).find("cannot: its copies reach no other memory"), std::string::npos);
  settings.is_relayed = false;
  sl_op_t send = Op();
  send.kind = SL_OP_SEND;
  send.peer = 2;
  EXPECT_NE(Make(settings)->Explain(send).find("cannot: lists of copies are for collectives"), std::string::npos);
}

// An all-reduce of 1024 floats over four ranks as rank 1 has it: reduce-scatter, then all-gather in place.
std::vector<sl_part_t> TwoParts() {
  return {{sizeof(sl_part_t), SL_OP_REDUCE_SCATTER, -1, 0, 256, SL_BUFFER_SEND, SL_BUFFER_RECV, 0, 1024},
          {sizeof(sl_part_t), SL_OP_ALL_GATHER, -1, 0, 256, SL_BUFFER_RECV, SL_BUFFER_RECV, 1024, 0}};
}

SelectSettings RunningSequences() {
  SelectSettings settings;
  settings.runs_sequences = true;
  return settings;
}

// What others take for its parts is what a sequence takes, and it is as good as the worst of them.
TEST_F(Selection, JudgesASequenceByItsParts) {
  a_.run = SL_RUN_SEQUENCE;
  a_.parts = TwoParts();
  a_.time_ns = 100;
  a_.determinism = SL_DETERMINISM_WORLD_SIZE;
  b_.time_ns = c_.time_ns = 5000;
  c_.time_ns = 2000;
  c_.processors = 7;
  c_.run = SL_RUN_LAUNCH;
  auto selector = Make(RunningSequences());
  EXPECT_STREQ(selector->Select(Op()).value()->name, "gamma") << "2,000 ns are less than 4,100";
  SelectSettings pinned = RunningSequences();
  pinned.rules = {Pin("alpha", "site.toml:3")};
  selector = Make(pinned);
  const Choice* choice = selector->Select(Op()).value();
  EXPECT_STREQ(choice->name, "alpha");
  EXPECT_EQ(choice->estimate.time_ns, 4100u);
  EXPECT_EQ(choice->estimate.processors, 7u);
  EXPECT_EQ(choice->estimate.determinism, SL_DETERMINISM_RANK);
  ASSERT_EQ(choice->parts.size(), 2u);
  for (const PartChoice& part : choice->parts) EXPECT_STREQ(part.choice->name, "gamma");
  EXPECT_EQ(choice->parts[1].part.kind, SL_OP_ALL_GATHER);
  EXPECT_NE(selector->Explain(Op()).find("sequence, same bits on all ranks: as told, by gamma and gamma"),
            std::string::npos)
      << selector->Explain(Op());
  const int estimates = c_.estimates;
  EXPECT_EQ(selector->Select(Op()).value(), choice);
  EXPECT_EQ(c_.estimates, estimates) << "the parts are chosen, too";
}

TEST_F(Selection, TakesMeasuredTimesOfPartsWhereAllWereMeasured) {
  a_.run = SL_RUN_SEQUENCE;
  a_.parts = TwoParts();
  a_.time_ns = 100;
  std::vector<CostCurve> costs = {Curve("beta", {{4096, 9000}}), Curve("beta", {{4096, 3000}}),
                                  Curve("beta", {{4096, 3500}})};
  costs[1].op = SL_OP_REDUCE_SCATTER;
  costs[2].op = SL_OP_ALL_GATHER;
  SelectSettings settings = WithCosts(costs);
  settings.runs_sequences = true;
  EXPECT_STREQ(Make(settings)->Select(Op()).value()->name, "alpha") << "6,600 ns are less than 9,000";
  costs.pop_back();
  settings = WithCosts(costs);
  settings.runs_sequences = true;
  EXPECT_STREQ(Make(settings)->Select(Op()).value()->name, "beta") << "a part was not measured";
  costs = {costs[1], costs[1]};
  costs[1].op = SL_OP_ALL_GATHER;
  settings = WithCosts(costs);
  settings.runs_sequences = true;
  EXPECT_STREQ(Make(settings)->Select(Op()).value()->name, "beta") << "of all-reduces nothing was measured";
}

TEST_F(Selection, TakesNoSequenceWhereItCannotRun) {
  a_.run = SL_RUN_SEQUENCE;
  a_.parts = TwoParts();
  b_.status = c_.status = SL_ERR_UNSUPPORTED;
  const auto expect_refused = [&](const SelectSettings& settings, const sl_op_t& op, const char* why) {
    const auto choice = Make(settings)->Select(op);
    EXPECT_EQ(choice.status().code(), SL_ERR_UNSUPPORTED);
    EXPECT_NE(choice.status().message().find(why), std::string::npos) << choice.status().message();
  };
  expect_refused({}, Op(), "alpha: cannot: sequences need devices of one host that order their launches themselves");
  a_.status = SL_ERR_UNSUPPORTED;
  expect_refused({}, Op(), "alpha: cannot: sequences need devices of one host that order their launches themselves");
  expect_refused(RunningSequences(), Op(), "alpha: cannot: not today");
  a_.status = SL_OK;
  expect_refused(RunningSequences(), Op(), "alpha: cannot: nobody serves its reduce_scatter");
  sl_op_t send = Op();
  send.kind = SL_OP_SEND;
  send.peer = 2;
  expect_refused(RunningSequences(), send, "cannot: sequences are for collectives");
  b_.status = SL_OK;
  b_.determinism = SL_DETERMINISM_RUN;
  SelectSettings strict = RunningSequences();
  strict.determinism = SL_DETERMINISM_RANK;
  expect_refused(strict, Op(), "alpha: cannot: nobody serves its reduce_scatter");
  c_.status = SL_OK;
  c_.run = SL_RUN_SEQUENCE;
  c_.parts = TwoParts();
  b_.status = SL_ERR_UNSUPPORTED;
  EXPECT_FALSE(Make(RunningSequences())->Select(Op()).ok()) << "sequences are no parts of each other";
}

TEST_F(Selection, RefusesWrongParts) {
  a_.run = SL_RUN_SEQUENCE;
  SelectSettings settings = RunningSequences();
  const auto expect_wrong = [&](const char* why, auto change) {
    a_.parts = TwoParts();
    change(&a_.parts[0]);
    const std::string text = Make(settings)->Explain(Op());
    EXPECT_NE(text.find(std::string("cannot: a wrong part of all_reduce, number 0: ") + why), std::string::npos)
        << text;
  };
  expect_wrong("it is no collective", [](sl_part_t* part) { part->kind = SL_OP_SEND; });
  expect_wrong("its kind has no root", [](sl_part_t* part) { part->root = 0; });
  expect_wrong("there is no such root", [](sl_part_t* part) { part->kind = SL_OP_BROADCAST; });
  expect_wrong("it moves nothing", [](sl_part_t* part) { part->count = 0; });
  expect_wrong("it reaches out of a buffer", [](sl_part_t* part) { part->count = 257; });
  expect_wrong("it reaches out of a buffer", [](sl_part_t* part) { part->recv = 3076; });
  expect_wrong("it reaches out of a buffer", [](sl_part_t* part) { part->recv = 1; });
  expect_wrong("there is no such source", [](sl_part_t* part) { part->send_buffer = SL_BUFFER_SCRATCH; });
  expect_wrong("its target is no receive buffer", [](sl_part_t* part) { part->recv_buffer = SL_BUFFER_SEND; });
  expect_wrong("the operation's buffer is not symmetric",
               [](sl_part_t* part) { part->symmetric = SL_OP_SEND_SYMMETRIC; });
  expect_wrong("there is no such symmetry", [](sl_part_t* part) { part->symmetric = 4; });
  a_.parts.clear();
  EXPECT_NE(Make(settings)->Explain(Op()).find("cannot: 0 parts, where there may be 1 to 4"), std::string::npos);
  ops_.parts = nullptr;
  EXPECT_NE(Make(settings)->Explain(Op()).find("cannot: it is a sequence without parts"), std::string::npos);
  sl_op_t gather = Op();
  gather.kind = SL_OP_ALL_GATHER;
  EXPECT_STREQ(WrongPart(TwoParts()[0], gather, 1, 4), "it reduces, and the operation does not");
}

TEST_F(Selection, PrefersWhoHoldsNoProcessorsWhereTheCommunicatorWantsIt) {
  a_.time_ns = 9000;
  b_.processors = c_.processors = 4;
  EXPECT_STREQ(Make()->Select(Op()).value()->name, "beta");
  shape_.processor_free = 1;
  auto selector = Make();
  EXPECT_STREQ(selector->Select(Op()).value()->name, "alpha");
  EXPECT_EQ(selector->Select(Op()).value()->reason, "the cheapest of 1; passed over as they hold SMs: beta, gamma");
  EXPECT_STREQ(Make(WithCosts({Curve("beta", {{4096, 1000}})}))->Select(Op()).value()->name, "alpha")
      << "a measured time makes no difference";
  SelectSettings pinned;
  pinned.rules = {Pin("gamma", "site.toml:3")};
  EXPECT_STREQ(Make(pinned)->Select(Op()).value()->name, "gamma") << "a rule does";
  a_.processors = 1;
  EXPECT_STREQ(Make()->Select(Op()).value()->name, "beta") << "there is no other way";
}

TEST_F(Selection, PinsByRule) {
  SelectSettings settings;
  settings.rules = {Pin("alpha", "site.toml:3"), Pin("gamma", "site.toml:9")};
  settings.rules[0].max_bytes = 4096;
  auto selector = Make(std::move(settings));
  EXPECT_STREQ(selector->Select(Op(1024)).value()->name, "alpha");
  EXPECT_EQ(selector->Select(Op(1024)).value()->reason, "pinned by site.toml:3");
  EXPECT_STREQ(selector->Select(Op(1025)).value()->name, "gamma");
}

TEST_F(Selection, AppliesRulesByOperationAndRanks) {
  SelectSettings settings;
  settings.rules = {Pin("alpha", "x"), Pin("alpha", "y")};
  settings.rules[0].ops = {SL_OP_BROADCAST};
  settings.rules[1].min_ranks = 5;
  auto selector = Make(std::move(settings));
  EXPECT_STREQ(selector->Select(Op()).value()->name, "beta");
}

TEST_F(Selection, AppliesRulesOfSendsToReceivesAndTheOtherWayRound) {
  for (const sl_op_kind_t stated : {SL_OP_SEND, SL_OP_RECV}) {
    SelectSettings settings;
    settings.rules = {Pin("alpha", "x")};
    settings.rules[0].ops = {stated};
    auto selector = Make(std::move(settings));
    for (const sl_op_kind_t kind : {SL_OP_SEND, SL_OP_RECV}) {
      sl_op_t op = Op();
      op.kind = kind;
      op.peer = 2;
      EXPECT_STREQ(selector->Select(op).value()->name, "alpha");
    }
    EXPECT_STREQ(selector->Select(Op()).value()->name, "beta");
  }
}

TEST_F(Selection, AppliesRulesByHostsAndDevice) {
  const char* hosts[] = {"x", "x", "x", "y"};
  shape_.host_of = hosts;
  const auto chosen_when = [&](auto state) {
    SelectSettings settings;
    settings.rules = {Pin("alpha", "x")};
    state(&settings.rules[0]);
    return std::string(Make(std::move(settings))->Select(Op()).value()->name);
  };
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->min_hosts = rule->max_hosts = 2; }), "alpha");
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->max_hosts = 1; }), "beta");
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->min_ranks_per_host = 1; }), "alpha");
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->min_ranks_per_host = 2; }), "beta");  // y has one
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->max_ranks_per_host = 3; }), "alpha");
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->max_ranks_per_host = 2; }), "beta");  // x has three
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->device_kind = 0; }), "alpha");
  EXPECT_EQ(chosen_when([](SelectRule* rule) { rule->device_kind = 1; }), "beta");
}

TEST_F(Selection, GoesByMeasuredTimesOverEstimates) {
  auto selector =
      Make(WithCosts({Curve("alpha", {{4096, 10}}), Curve("beta", {{4096, 20}}), Curve("gamma", {{4096, 10}})}));
  EXPECT_STREQ(selector->Select(Op()).value()->name, "alpha");
  EXPECT_EQ(selector->Select(Op()).value()->reason, "the cheapest of 3 measured");
  EXPECT_EQ(selector->Select(Op()).value()->estimate.time_ns, 3000u);
  EXPECT_EQ(selector->Estimate(Op()).value().time_ns, 10u);
}

TEST_F(Selection, PassesOverWhatWasNotMeasuredBesideWhatWas) {
  auto selector = Make(WithCosts({Curve("alpha", {{4096, 9'000'000}})}));
  EXPECT_STREQ(selector->Select(Op()).value()->name, "alpha");
  EXPECT_EQ(selector->Select(Op()).value()->reason,
            "the cheapest of 1 measured; passed over as not measured: beta, gamma");
}

TEST_F(Selection, GoesByEstimatesWhereNothingPossibleWasMeasured) {
  auto selector = Make(WithCosts({Curve("alpha", {{4096, 10}, {8192, 20}}), Curve("alpha", {{64, 10}}, 5)}));
  for (const uint64_t count : {1023, 2049}) {
    EXPECT_EQ(selector->Select(Op(count)).value()->reason, "the cheapest of 3") << count;
  }
  sl_op_t other = Op();
  other.kind = SL_OP_BROADCAST;
  EXPECT_EQ(selector->Select(other).value()->reason, "the cheapest of 3");
  a_.status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(Make(WithCosts({Curve("alpha", {{4096, 10}})}))->Select(Op()).value()->reason, "the cheapest of 2");
}

TEST_F(Selection, PinsAndForbidsAgainstMeasuredTimes) {
  SelectSettings settings = WithCosts({Curve("alpha", {{4096, 10}}), Curve("beta", {{4096, 5}})});
  settings.rules = {Pin("gamma", "p:1")};
  EXPECT_EQ(Make(settings)->Select(Op()).value()->reason, "pinned by p:1");
  settings.rules[0].algorithm.clear();
  settings.rules[0].forbid = {"beta"};
  EXPECT_STREQ(Make(settings)->Select(Op()).value()->name, "alpha");
}

TEST_F(Selection, FallsBackAndSaysWhyWhenThePinnedCannot) {
  a_.status = SL_ERR_UNSUPPORTED;
  SelectSettings settings;
  settings.rules = {Pin("alpha", "site.toml:3")};
  EXPECT_EQ(Make(std::move(settings))->Select(Op()).value()->reason,
            "the cheapest of 2; site.toml:3 wants alpha, but it cannot: not today");
  SelectSettings unknown;
  unknown.rules = {Pin("delta", "site.toml:3")};
  EXPECT_EQ(Make(std::move(unknown))->Select(Op()).value()->reason,
            "the cheapest of 2; site.toml:3 wants delta, but this communicator does not have it");
}

TEST_F(Selection, ForbidsByRuleEvenThePinned) {
  SelectSettings settings;
  settings.rules = {Pin("beta", "p:1")};
  settings.rules.push_back({});
  settings.rules.back().forbid = {"beta"};
  settings.rules.back().place = "p:2";
  auto selector = Make(std::move(settings));
  auto choice = selector->Select(Op());
  EXPECT_STREQ(choice.value()->name, "gamma");
  EXPECT_EQ(choice.value()->reason, "the cheapest of 2; p:1 wants beta, but it is forbidden by p:2");
}

TEST_F(Selection, DemandsDeterminism) {
  b_.determinism = SL_DETERMINISM_NONE;
  SelectSettings settings;
  settings.determinism = SL_DETERMINISM_RANK;
  EXPECT_STREQ(Make(std::move(settings))->Select(Op()).value()->name, "gamma");
}

TEST_F(Selection, NamesEverybodysReasonWhenNobodyServes) {
  a_.status = b_.status = c_.status = SL_ERR_UNSUPPORTED;
  auto choice = Make()->Select(Op());
  EXPECT_EQ(choice.status().code(), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(choice.status().message(),
            "no algorithm serves all_reduce of 1024 float32, sum over 4 ranks: alpha: cannot: not today; beta: cannot: "
            "not today; gamma: cannot: not today");
}

TEST_F(Selection, ReportsPlansThatCannotBeMade) {
  b_.plan_status = SL_ERR_MEMORY;
  auto choice = Make()->Select(Op());
  EXPECT_EQ(choice.status().code(), SL_ERR_MEMORY);
  EXPECT_EQ(choice.status().message(), "algorithm beta made no plan for all_reduce: out of ideas");
  b_.plan_status = SL_OK;
  b_.describes = false;
  EXPECT_EQ(Make()->Select(Op()).status().message(),
            "algorithm beta made a wrong plan for all_reduce: plan of rank 1: ends before describe");
}

TEST_F(Selection, IsBoundedAndKeepsPlansThatRun) {
  SelectSettings settings;
  settings.cache_sets = 1;
  auto selector = Make(std::move(settings));
  const Choice* held = selector->Select(Op(1)).value();
  held->plan->Hold();
  for (uint64_t count = 2; count < 100; ++count) ASSERT_TRUE(selector->Select(Op(count)).ok());
  selector->Collect();
  EXPECT_STREQ(held->name, "beta");  // still there, though long evicted
  EXPECT_EQ(selector->Find(Op(1)), nullptr);
  held->plan->Drop();
  selector->Collect();
  // The last four are what one set holds.
  for (uint64_t count = 96; count < 100; ++count) EXPECT_NE(selector->Find(Op(count)), nullptr);
  EXPECT_EQ(selector->Find(Op(95)), nullptr);
}

TEST_F(Selection, EvictsTheLeastRecentlyUsed) {
  SelectSettings settings;
  settings.cache_sets = 1;
  auto selector = Make(std::move(settings));
  for (uint64_t count = 1; count <= 4; ++count) ASSERT_TRUE(selector->Select(Op(count)).ok());
  ASSERT_TRUE(selector->Select(Op(1)).ok());
  ASSERT_TRUE(selector->Select(Op(5)).ok());
  EXPECT_NE(selector->Find(Op(1)), nullptr);
  EXPECT_EQ(selector->Find(Op(2)), nullptr);
}

TEST_F(Selection, ExplainsItself) {
  a_.status = SL_ERR_UNSUPPORTED;
  SelectSettings settings;
  settings.rules = {Pin("gamma", "site.toml:7")};
  EXPECT_EQ(Make(std::move(settings))->Explain(Op()),
            "all_reduce of 1024 float32, sum: 4096 bytes over 4 ranks\n"
            "  alpha                        -  cannot: not today\n"
            "  beta                  2.000 us  plan, same bits on all ranks: as told\n"
            "* gamma                 2.000 us  plan, same bits on all ranks: as told\n"
            "chosen: gamma, pinned by site.toml:7\n");
  EXPECT_EQ(b_.plans + c_.plans, 0);
}

TEST_F(Selection, ExplainsEstimatesBesideMeasuredTimes) {
  c_.status = SL_ERR_UNSUPPORTED;
  auto selector = Make(WithCosts({Curve("alpha", {{0, 1000}, {8192, 3000}})}));
  EXPECT_EQ(selector->Explain(Op()),
            "all_reduce of 1024 float32, sum: 4096 bytes over 4 ranks\n"
            "                        estimate      measured\n"
            "* alpha                 3.000 us      2.000 us  plan, same bits on all ranks: as told\n"
            "  beta                  2.000 us             -  plan, same bits on all ranks: as told\n"
            "  gamma                        -             -  cannot: not today\n"
            "chosen: alpha, the cheapest of 1 measured; passed over as not measured: beta\n"
            "measured at site.toml:9:1: a bench, 2026-11-21\n");
  EXPECT_EQ(selector->Explain(Op(4096)),
            "all_reduce of 4096 float32, sum: 16384 bytes over 4 ranks\n"
            "  alpha                 3.000 us  plan, same bits on all ranks: as told\n"
            "* beta                  2.000 us  plan, same bits on all ranks: as told\n"
            "  gamma                        -  cannot: not today\n"
            "chosen: beta, the cheapest of 2\n"
            "estimated, since all_reduce was measured from 0 to 8192 bytes; costs at site.toml:9:1: a bench, "
            "2026-11-21\n");
}

TEST_F(Selection, EstimatesWhatItWouldChoose) {
  auto selector = Make({});
  a_.time_ns = 700;
  const auto estimate = selector->Estimate(Op());
  ASSERT_TRUE(estimate.ok());
  EXPECT_EQ(estimate.value().time_ns, 700u);
  a_.status = b_.status = c_.status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(selector->Estimate(Op()).status().code(), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(a_.plans + b_.plans + c_.plans, 0);
}

TEST_F(Selection, ReasonsHoldNothingThatATerminalFollows) {
  a_.reason = "\x1b[2Ja plan\nof mine";
  b_.reason = "\x1b]0;title\x07";
  b_.status = SL_ERR_UNSUPPORTED;
  const std::string text = Make(SelectSettings())->Explain(Op());
  EXPECT_NE(text.find("all ranks: \\x1b[2Ja plan\\x0aof mine\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cannot: \\x1b]0;title\\x07\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace sl::kernel
