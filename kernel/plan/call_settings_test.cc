// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/call_settings.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sl::kernel {
namespace {

bool Allows(const char* expression, const char* algorithm, const char* way = "") {
  return WayExpression::Parse(expression).value().Allows(algorithm, way);
}

TEST(WayExpression, StandsForAllThatItsNamesBegin) {
  EXPECT_TRUE(Allows("", "ring"));
  EXPECT_TRUE(Allows("Ring", "ring"));
  EXPECT_TRUE(Allows("sym", "symmetric", "two_shot"));
  EXPECT_TRUE(Allows("two_shot", "symmetric", "two_shot"));
  EXPECT_TRUE(Allows("symmetric/two", "symmetric", "two_shot"));
  EXPECT_FALSE(Allows("symmetric/two", "symmetric"));
  EXPECT_FALSE(Allows("symmetric/two", "symmetric", "one_shot"));
  EXPECT_FALSE(Allows("ring", "tree"));
  EXPECT_TRUE(Allows("symmetric", "symmetric_two_shot"));
  EXPECT_TRUE(Allows("two_shot", "symmetric_two_shot"));
  EXPECT_FALSE(Allows("shot", "symmetric_two_shot"));
}

TEST(WayExpression, JoinsNamesByOrAndNot) {
  EXPECT_TRUE(Allows("tree, ring", "ring"));
  EXPECT_FALSE(Allows("tree,ring", "direct"));
  EXPECT_TRUE(Allows("^ring", "tree"));
  EXPECT_FALSE(Allows("^ring", "ring"));
  EXPECT_TRUE(Allows("symmetric + ^direct", "symmetric", "one_shot"));
  EXPECT_FALSE(Allows("symmetric + ^symmetric/direct", "symmetric", "direct"));
  EXPECT_TRUE(Allows("tree, symmetric + ^direct", "tree"));
  EXPECT_TRUE(Allows("tree|ring", "ring"));
  EXPECT_FALSE(Allows("^tree|ring", "ring"));
}

TEST(WayExpression, RefusesWhatIsNone) {
  for (const char* wrong : {",", "ring,", "+ring", "(ring)", "ring tree", "ring|", "^", "^^ring", "ring;tree"}) {
    EXPECT_EQ(WayExpression::Parse(wrong).status().code(), SL_ERR_INVALID) << wrong;
  }
}

class CallSettingsOf : public testing::Test {
 protected:
  CallSettingsOf() {
    shape_.struct_size = sizeof(shape_);
    wanted_.struct_size = sizeof(wanted_);
  }
  uint32_t Number() { return table_.NumberOf(wanted_).value(); }

  sl_comm_shape_t shape_{};
  CallSettingsTable table_{&shape_};
  sl_call_settings_t wanted_{};
};

TEST_F(CallSettingsOf, AreNoneWhereNothingIsAsked) {
  wanted_.is_forced = 1;
  wanted_.ways = " ";
  EXPECT_EQ(Number(), 0u);
  EXPECT_EQ(table_.Find(2), nullptr);
}

TEST_F(CallSettingsOf, HaveOneNumberOnEveryRankAndInEveryCall) {
  wanted_.processors_max = 8;
  wanted_.ways = "ring";
  const uint32_t number = Number();
  EXPECT_NE(number, 0u);
  EXPECT_EQ(number & kPartBit, 0u);
  const std::string copy = " ring ";
  wanted_.ways = copy.c_str();
  EXPECT_EQ(Number(), number);
  CallSettingsTable of_another_rank(&shape_);
  wanted_.processors_max = 4;
  EXPECT_NE(of_another_rank.NumberOf(wanted_).value(), number);
  wanted_.processors_max = 8;
  EXPECT_EQ(of_another_rank.NumberOf(wanted_).value(), number);
  EXPECT_EQ(table_.Find(number), table_.Find(number | kPartBit));
}

TEST_F(CallSettingsOf, StayWithinTheCommunicatorsBounds) {
  shape_.processors_min = 2;
  shape_.processors_max = 16;
  wanted_.processors_max = 32;
  EXPECT_EQ(table_.Find(Number())->shown.processors_max, 16u);
  EXPECT_EQ(table_.Find(Number())->shown.processors_min, 2u);
  wanted_.processors_max = 1;
  EXPECT_EQ(table_.Find(Number())->shown.processors_max, 1u);
  EXPECT_EQ(table_.Find(Number())->shown.processors_min, 1u) << "the bound from above wins";
  wanted_.processors_min = 12;
  wanted_.processors_max = 0;
  EXPECT_EQ(table_.Find(Number())->shown.processors_min, 12u);
}

TEST_F(CallSettingsOf, TakeThePolicyInPlaceOfTheCommunicators) {
  shape_.processor_weight = 8;
  wanted_.processors_max = 4;
  EXPECT_EQ(table_.Find(Number())->shown.processor_weight, 8u);
  wanted_.has_policy = 1;
  wanted_.processor_free = 1;
  EXPECT_EQ(table_.Find(Number())->shown.processor_weight, 0u);
  EXPECT_EQ(table_.Find(Number())->shown.processor_free, 1u);
}

TEST_F(CallSettingsOf, ReadARuleAsTheProfileDoes) {
  wanted_.rule = "algorithm = \"tree\"\nmin_bytes = 64";
  const CallSettings* settings = table_.Find(Number());
  ASSERT_TRUE(settings->rule.has_value());
  EXPECT_EQ(settings->rule->algorithm, "tree");
  EXPECT_EQ(settings->rule->min_bytes, 64u);
  wanted_.rule = "algorithms = \"tree\"";
  const Status wrong = table_.NumberOf(wanted_).status();
  EXPECT_EQ(wrong.code(), SL_ERR_CONFIG);
  EXPECT_NE(wrong.message().find("algorithm"), std::string::npos) << wrong.message();
  wanted_.rule = "algorithm = \"tree\"\n [comm]\ntls = true";
  EXPECT_EQ(table_.NumberOf(wanted_).status().code(), SL_ERR_CONFIG);
}

TEST_F(CallSettingsOf, AreNotWithoutEnd) {
  for (size_t i = 1; i <= CallSettingsTable::kMost; ++i) {
    wanted_.processors_max = static_cast<uint32_t>(i);
    const Result<uint32_t> number = table_.NumberOf(wanted_);
    ASSERT_TRUE(number.ok()) << "two of these share their number, which is a hash: try other settings";
  }
  wanted_.processors_max = CallSettingsTable::kMost + 1;
  EXPECT_EQ(table_.NumberOf(wanted_).status().code(), SL_ERR_LIMIT);
}

TEST_F(CallSettingsOf, AreShownToOneAlgorithmByItsName) {
  wanted_.ways = "symmetric/two_shot";
  wanted_.processors_max = 6;
  const uint32_t number = Number();
  SettingsView view(&table_, "symmetric");
  sl_op_settings_t shown{};
  shown.struct_size = sizeof(shown);
  const sl_settings_ops_t& ops = *SettingsView::Ops();
  EXPECT_EQ(ops.get(view.handle(), number, &shown), SL_OK);
  EXPECT_EQ(shown.processors_max, 6u);
  EXPECT_EQ(ops.get(view.handle(), number + 2, &shown), SL_ERR_NOT_FOUND);
  EXPECT_EQ(view.times_asked(), 0u);
  EXPECT_EQ(ops.allows(view.handle(), number, "two_shot"), 1);
  EXPECT_EQ(ops.allows(view.handle(), number, "one_shot"), 0);
  EXPECT_EQ(ops.allows(view.handle(), number | kPartBit, "one_shot"), 1) << "parts are held to the bounds alone";
  EXPECT_EQ(view.times_asked(), 3u);
}

}  // namespace
}  // namespace sl::kernel
