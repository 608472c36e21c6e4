// SPDX-License-Identifier: Apache-2.0
//
// Selection for calls with settings of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "kernel/plan/allocation_count_test_util.h"
#include "kernel/plan/select.h"

// An algorithm with ways, or none, whose answers a test sets.
struct sl_algorithm_t {
  uint64_t time_ns = 1000;
  uint32_t processors = 0;
  uint32_t run = SL_RUN_LAUNCH;
  std::vector<const char*> ways;
  sl::kernel::SettingsView* view = nullptr;
  uint32_t asked_bound = 0;  // processors_max as the last estimate saw it
  std::vector<sl_part_t> parts;
};

namespace sl::kernel {
namespace {

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  out->time_ns = algorithm->time_ns;
  out->processors = algorithm->processors;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = algorithm->run;
  std::snprintf(out->reason, sizeof(out->reason), "as told");
  if (op->settings == 0 || algorithm->view == nullptr) return SL_OK;
  const sl_settings_ops_t& settings = *SettingsView::Ops();
  sl_op_settings_t shown{};
  shown.struct_size = sizeof(shown);
  EXPECT_EQ(settings.get(algorithm->view->handle(), op->settings, &shown), SL_OK);
  algorithm->asked_bound = shown.processors_max;
  if (algorithm->ways.empty()) return SL_OK;
  const bool serves = std::any_of(algorithm->ways.begin(), algorithm->ways.end(), [&](const char* way) {
    return settings.allows(algorithm->view->handle(), op->settings, way) == 1;
  });
  return serves ? SL_OK : SL_ERR_UNSUPPORTED;
}

sl_status_t MakeParts(sl_algorithm_t* algorithm, const sl_op_t*, sl_part_t* out_parts, uint32_t* out_count) {
  *out_count = static_cast<uint32_t>(algorithm->parts.size());
  std::copy(algorithm->parts.begin(), algorithm->parts.end(), out_parts);
  return SL_OK;
}

class SelectionOfCalls : public testing::Test {
 protected:
  SelectionOfCalls() {
    ops_.estimate = Estimate;
    ops_.parts = MakeParts;
    shape_.struct_size = sizeof(shape_);
    shape_.size = 4;
    quick_.ways = {"one_shot", "two_shot"};
    quick_.view = &quick_view_;
    slow_.time_ns = 9000;
    slow_.view = &slow_view_;
  }

  std::unique_ptr<Selector> Make(SelectSettings settings = {}) {
    settings.calls = &table_;
    return std::make_unique<Selector>(
        std::vector<Candidate>{{"quick", &ops_, &quick_, SL_ALGORITHM_REVISION, "", &quick_view_},
                               {"slow", &ops_, &slow_, slow_revision_, "", &slow_view_}},
        std::move(settings), &shape_);
  }

  sl_op_t Op(const sl_call_settings_t& wanted) {
    sl_op_t op{};
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_FLOAT32;
    op.root = op.peer = -1;
    op.count = 1024;
    op.settings = table_.NumberOf(wanted).value();
    return op;
  }
  sl_op_t Op(const char* ways, bool is_forced = true) {
    sl_call_settings_t wanted{};
    wanted.ways = ways;
    wanted.is_forced = is_forced ? 1 : 0;
    return Op(wanted);
  }

  sl_algorithm_ops_t ops_{};
  sl_comm_shape_t shape_{};
  CallSettingsTable table_{&shape_};
  SettingsView quick_view_{&table_, "quick"};
  SettingsView slow_view_{&table_, "slow"};
  sl_algorithm_t quick_, slow_;
  uint32_t slow_revision_ = SL_ALGORITHM_REVISION;
};

TEST_F(SelectionOfCalls, TakesTheAlgorithmThatACallNames) {
  auto selector = Make();
  EXPECT_STREQ(selector->Select(Op("")).value()->name, "quick");
  EXPECT_STREQ(selector->Select(Op("slow")).value()->name, "slow");
  EXPECT_STREQ(selector->Select(Op("^quick")).value()->name, "slow");
  EXPECT_STREQ(selector->Select(Op("slow,quick/two")).value()->name, "quick");
  EXPECT_STREQ(selector->Select(Op("")).value()->name, "quick") << "what others asked for does not stay";
}

TEST_F(SelectionOfCalls, RefusesWhatACallInsistsOnAndNobodyServesAndSaysWhoCould) {
  auto selector = Make();
  const Status refused = selector->Select(Op("collnet")).status();
  EXPECT_EQ(refused.code(), SL_ERR_UNSUPPORTED);
  const std::string& text = refused.message();
  EXPECT_NE(text.find("no algorithm of \"collnet\" serves all_reduce of 1024 float32"), std::string::npos) << text;
  EXPECT_NE(text.find("what could: quick (as told), slow (as told)"), std::string::npos) << text;
}

TEST_F(SelectionOfCalls, FallsBackWhereACallDoesNotInsist) {
  auto selector = Make();
  const Choice* choice = selector->Select(Op("collnet", false)).value();
  EXPECT_STREQ(choice->name, "quick");
  EXPECT_NE(choice->reason.find("nothing serves \"collnet\""), std::string::npos) << choice->reason;
  EXPECT_EQ(choice->settings, Op("collnet", false).settings | kPartBit) << "launch() must not look for a way either";
}

TEST_F(SelectionOfCalls, KeepsItsChoicesWithoutAllocating) {
  auto selector = Make();
  const sl_op_t plain = Op("");
  const sl_op_t named = Op("slow");
  const Choice* first = selector->Select(plain).value();
  const Choice* second = selector->Select(named).value();
  const uint64_t before = AllocationCount();
  EXPECT_EQ(selector->Select(plain).value(), first);
  EXPECT_EQ(selector->Select(named).value(), second);
  EXPECT_EQ(AllocationCount(), before);
}

TEST_F(SelectionOfCalls, WeighsSmsAsTheCallWants) {
  quick_.processors = 32;
  sl_call_settings_t wanted{};
  wanted.has_policy = 1;
  wanted.processor_free = 1;
  auto selector = Make();
  EXPECT_STREQ(selector->Select(Op(wanted)).value()->name, "slow") << "which holds none";
  wanted.processor_free = 0;
  wanted.processor_weight = 1000;
  EXPECT_STREQ(selector->Select(Op(wanted)).value()->name, "slow");
  EXPECT_STREQ(selector->Select(Op("")).value()->name, "quick");
}

TEST_F(SelectionOfCalls, BoundsNobodyWhoCannotBeBound) {
  quick_.time_ns = 90000;
  slow_.processors = 32;
  slow_revision_ = 9;
  sl_call_settings_t wanted{};
  wanted.processors_max = 4;
  auto selector = Make();
  EXPECT_STREQ(selector->Select(Op("")).value()->name, "slow");
  EXPECT_STREQ(selector->Select(Op(wanted)).value()->name, "quick");
  EXPECT_EQ(quick_.asked_bound, 4u);
  const std::string text = selector->Explain(Op(wanted));
  EXPECT_NE(text.find("this call bounds its SMs, and it speaks revision 9"), std::string::npos) << text;
}

TEST_F(SelectionOfCalls, FollowsTheRuleOfACallBeforeTheProfiles) {
  SelectSettings settings;
  settings.rules.emplace_back();
  settings.rules[0].algorithm = "quick";
  settings.rules[0].place = "site.toml:3:1";
  auto selector = Make(std::move(settings));
  sl_call_settings_t wanted{};
  wanted.rule = "algorithm = \"slow\"";
  const Choice* choice = selector->Select(Op(wanted)).value();
  EXPECT_STREQ(choice->name, "slow");
  EXPECT_EQ(choice->reason, "pinned by this call's rule");
  wanted.rule = "algorithm = \"slow\"\nmin_bytes = 1000000";
  EXPECT_STREQ(selector->Select(Op(wanted)).value()->name, "quick") << "it does not apply";
  wanted.rule = "forbid = [\"quick\"]";
  EXPECT_STREQ(selector->Select(Op(wanted)).value()->name, "slow");
}

TEST_F(SelectionOfCalls, HoldsThePartsOfASequenceToItsBoundsAlone) {
  sl_part_t part{};
  part.struct_size = sizeof(part);
  part.kind = SL_OP_ALL_REDUCE;
  part.root = -1;
  part.count = 1024;
  part.send_buffer = SL_BUFFER_SEND;
  part.recv_buffer = SL_BUFFER_RECV;
  slow_.run = SL_RUN_SEQUENCE;
  slow_.parts = {part};
  SelectSettings settings;
  settings.runs_sequences = true;
  auto selector = Make(std::move(settings));
  sl_call_settings_t wanted{};
  wanted.ways = "slow";
  wanted.is_forced = 1;
  wanted.processors_max = 6;
  const Choice* choice = selector->Select(Op(wanted)).value();
  EXPECT_STREQ(choice->name, "slow");
  ASSERT_EQ(choice->parts.size(), 1u);
  EXPECT_STREQ(choice->parts[0].choice->name, "quick");
  EXPECT_EQ(quick_.asked_bound, 6u);
}

}  // namespace
}  // namespace sl::kernel
