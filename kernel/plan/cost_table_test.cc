// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/cost_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace sl::kernel {
namespace {

class Costs : public testing::Test {
 protected:
  Costs() {
    measured_.place = "site.toml:9:1";
    shape_.size = 4;
  }

  CostCurve& Add(sl_op_kind_t op, std::vector<CostPoint> points) {
    CostCurve curve;
    curve.op = op;
    curve.ranks = 4;
    curve.algorithm = "ring";
    curve.points = std::move(points);
    measured_.costs.push_back(std::move(curve));
    return measured_.costs.back();
  }

  CostTable Table() const { return CostTable(&measured_, shape_, SpreadOf(shape_)); }
  std::optional<uint64_t> TimeNs(sl_op_kind_t op, uint64_t bytes) const { return Table().TimeNs(op, "ring", bytes); }

  Measured measured_;
  sl_comm_shape_t shape_{};
};

using Time = std::optional<uint64_t>;

TEST_F(Costs, AreInterpolatedLinearlyAndNeverExtrapolated) {
  Add(SL_OP_ALL_REDUCE, {{8, 1000}, {1008, 3000}, {2008, 2000}});
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), Time(1000));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 508), Time(2000));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 1008), Time(3000));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 1508), Time(2500));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 2008), Time(2000));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 7), std::nullopt);
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 2009), std::nullopt);
}

TEST_F(Costs, DoNotOverflowAtTheLimitsOfTheProfile) {
  constexpr uint64_t kBytes = uint64_t{1} << 48;
  constexpr uint64_t kNs = uint64_t{1} << 42;
  Add(SL_OP_ALL_REDUCE, {{0, kNs}, {kBytes, 1}});
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, kBytes - 1), Time(2));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, kBytes / 2), Time(kNs / 2 + 1));
}

TEST_F(Costs, OfSendsAreThoseOfReceives) {
  Add(SL_OP_SEND, {{8, 700}});
  EXPECT_EQ(TimeNs(SL_OP_SEND, 8), Time(700));
  EXPECT_EQ(TimeNs(SL_OP_RECV, 8), Time(700));
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), std::nullopt);
  EXPECT_EQ(Table().TimeNs(SL_OP_SEND, "tree", 8), std::nullopt);
}

TEST_F(Costs, HoldForCommunicatorsOfTheirFormOnly) {
  CostCurve& curve = Add(SL_OP_ALL_REDUCE, {{8, 700}});
  curve.hosts = 2;
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), std::nullopt);
  EXPECT_EQ(Table().Absence(SL_OP_ALL_REDUCE, 8), "all_reduce over 4 ranks on 1 host was not measured");
  const char* even[] = {"x", "y", "x", "y"};
  shape_.host_of = even;
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), Time(700));
  const char* uneven[] = {"x", "y", "x", "x"};
  shape_.host_of = uneven;
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), std::nullopt);
  EXPECT_EQ(Table().Absence(SL_OP_ALL_REDUCE, 8), "nothing is measured for hosts with 1 to 3 ranks");
  shape_.host_of = even;
  shape_.device_kind = 1;
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), std::nullopt);
  shape_.device_kind = 0;
  shape_.size = 2;
  EXPECT_EQ(TimeNs(SL_OP_ALL_REDUCE, 8), std::nullopt);
}

TEST_F(Costs, SayWhatIsMissing) {
  EXPECT_FALSE(CostTable(nullptr, shape_, SpreadOf(shape_)).exists());
  Add(SL_OP_SEND, {{8, 700}, {64, 800}});
  EXPECT_TRUE(Table().exists());
  EXPECT_EQ(Table().Absence(SL_OP_RECV, 65), "send was measured from 8 to 64 bytes");
  EXPECT_EQ(Table().Absence(SL_OP_RECV, 64), "no algorithm that can serve this send was measured");
  EXPECT_EQ(Table().Origin(), "site.toml:9:1: a machine that is not named");
}

TEST(Spread, CountsRanksOfEachHost) {
  const char* hosts[] = {"x", "y", "x", "x"};
  sl_comm_shape_t shape{};
  shape.size = 4;
  EXPECT_EQ(SpreadOf(shape).hosts, 1u);
  EXPECT_EQ(SpreadOf(shape).fewest, 4u);
  shape.host_of = hosts;
  const Spread spread = SpreadOf(shape);
  EXPECT_EQ(spread.hosts, 2u);
  EXPECT_EQ(spread.fewest, 1u);
  EXPECT_EQ(spread.most, 3u);
  EXPECT_FALSE(spread.even());
}

}  // namespace
}  // namespace sl::kernel
