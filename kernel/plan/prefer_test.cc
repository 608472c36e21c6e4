// SPDX-License-Identifier: Apache-2.0
//
// Rules that prefer one algorithm of a module to the others of it.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernel/plan/select.h"

// An algorithm whose answers a test sets.
struct sl_algorithm_t {
  uint64_t time_ns = 1000;
  uint32_t processors = 0;
  sl_status_t status = SL_OK;
  uint32_t run = SL_RUN_LAUNCH;
};

namespace sl::kernel {
namespace {

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t*, sl_estimate_t* out) {
  out->time_ns = algorithm->time_ns;
  out->processors = algorithm->processors;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = algorithm->run;
  std::snprintf(out->reason, sizeof(out->reason), algorithm->status == SL_OK ? "as told" : "not today");
  return algorithm->status;
}

// The two parts of an all-reduce.
sl_status_t Parts(sl_algorithm_t*, const sl_op_t* op, sl_part_t* out_parts, uint32_t* out_count) {
  const uint64_t block = op->count / 4;
  out_parts[0] = {sizeof(sl_part_t), SL_OP_REDUCE_SCATTER, -1, 0, block, SL_BUFFER_SEND, SL_BUFFER_RECV, 0, 0};
  out_parts[1] = {sizeof(sl_part_t), SL_OP_ALL_GATHER, -1, 0, block, SL_BUFFER_RECV, SL_BUFFER_RECV, 0, 0};
  *out_count = 2;
  return SL_OK;
}

// Two algorithms of one module, quick the quicker, and one of another.
class Preference : public testing::Test {
 protected:
  Preference() {
    ops_.estimate = Estimate;
    ops_.parts = Parts;
    shape_.size = 4;
    quick_.time_ns = 1000;
    slow_.time_ns = 1500;
    other_.time_ns = 2000;
  }

  const Choice* Select(const std::vector<SelectRule>& rules) {
    SelectSettings settings;
    settings.rules = rules;
    settings.runs_sequences = true;
    std::vector<Candidate> candidates = {{"mod_quick", &ops_, &quick_, 1, "mod 1.0"},
                                         {"mod_slow", &ops_, &slow_, 1, "mod 1.0"},
                                         {"other", &ops_, &other_, 1, "other 1.0"}};
    if (has_sequence_) candidates.push_back({"sequence", &ops_, &sequence_, 1, "sequence 1.0"});
    selector_ = std::make_unique<Selector>(candidates, settings, &shape_);
    auto choice = selector_->Select(Op());
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return choice.ok() ? choice.value() : nullptr;
  }

  static sl_op_t Op() {
    sl_op_t op{};
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_FLOAT32;
    op.root = op.peer = -1;
    op.count = 1024;
    return op;
  }

  static SelectRule Prefer(const std::string& name) {
    SelectRule rule;
    rule.prefer = name;
    rule.place = "p.toml:3:1";
    return rule;
  }

  sl_algorithm_ops_t ops_{};
  sl_comm_shape_t shape_{};
  sl_algorithm_t quick_, slow_, other_, sequence_;
  bool has_sequence_ = false;
  std::unique_ptr<Selector> selector_;
};

TEST_F(Preference, ServesInPlaceOfAnotherOfItsModule) {
  const Choice* choice = Select({Prefer("mod_slow")});
  EXPECT_STREQ(choice->name, "mod_slow");
  EXPECT_EQ(choice->reason, "the cheapest of 3; preferred to mod_quick by p.toml:3:1");
  EXPECT_EQ(choice->estimate.time_ns, 1500u) << "its own";
}

TEST_F(Preference, LeavesWhatAnotherModuleServesBest) {
  other_.time_ns = 900;
  EXPECT_STREQ(Select({Prefer("mod_slow")})->name, "other");
}

TEST_F(Preference, HoldsThoughTheOtherModuleIsQuickerThanThePreferred) {
  other_.time_ns = 1200;
  EXPECT_STREQ(Select({Prefer("mod_slow")})->name, "mod_slow") << "the module is compared by its cheapest";
}

TEST_F(Preference, SaysWhyThePreferredCannot) {
  slow_.status = SL_ERR_UNSUPPORTED;
  const Choice* choice = Select({Prefer("mod_slow")});
  EXPECT_STREQ(choice->name, "mod_quick");
  EXPECT_EQ(choice->reason, "the cheapest of 2; p.toml:3:1 prefers mod_slow, but it cannot: not today");
}

TEST_F(Preference, IsNoUseAgainstPinsAndBans) {
  SelectRule pin;
  pin.algorithm = "other";
  EXPECT_STREQ(Select({Prefer("mod_slow"), pin})->name, "other");
  SelectRule ban;
  ban.forbid = {"mod_slow"};
  EXPECT_STREQ(Select({Prefer("mod_slow"), ban})->name, "mod_quick");
}

TEST_F(Preference, IsTheFirstThatApplies) {
  SelectRule large = Prefer("mod_slow");
  large.min_bytes = 1 << 20;
  EXPECT_STREQ(Select({large, Prefer("mod_quick")})->name, "mod_quick");
}

TEST_F(Preference, TakesNobodyThatIsPassedOverForItsProcessors) {
  shape_.processor_free = 1;
  slow_.processors = 4;
  EXPECT_STREQ(Select({Prefer("mod_slow")})->name, "mod_quick");
}

// A sequence competes as before: its parts cost what their cheapest would.
TEST_F(Preference, ServesPartsAtTheCostOfTheCheapest) {
  has_sequence_ = true;
  sequence_.run = SL_RUN_SEQUENCE;
  sequence_.time_ns = 0;
  quick_.time_ns = 1000;
  SelectRule pin;
  pin.ops = {SL_OP_ALL_REDUCE};
  pin.algorithm = "sequence";
  const Choice* choice = Select({Prefer("mod_slow"), pin});
  ASSERT_EQ(choice->parts.size(), 2u);
  EXPECT_STREQ(choice->parts[0].choice->name, "mod_slow");
  EXPECT_EQ(choice->estimate.time_ns, 2000u);
}

}  // namespace
}  // namespace sl::kernel
