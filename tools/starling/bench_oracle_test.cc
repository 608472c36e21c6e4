// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace sl::tools {
namespace {

constexpr size_t kCount = Oracle::kPeriod * 2 + 77;  // more than one turn of the table

std::vector<unsigned char> InputOf(Oracle& oracle, DataType type, int rank, size_t count) {
  std::vector<unsigned char> bytes(count * SizeOf(type));
  oracle.Fill(rank, 0, count, bytes.data());
  return bytes;
}

// Reduces in the order last rank to first, in the type itself.
template <typename T, typename Combine>
std::vector<T> Reduce(Oracle& oracle, DataType type, int ranks, Combine combine) {
  std::vector<T> total(kCount), next(kCount);
  std::memcpy(total.data(), InputOf(oracle, type, ranks - 1, kCount).data(), kCount * sizeof(T));
  for (int rank = ranks - 2; rank >= 0; --rank) {
    std::memcpy(next.data(), InputOf(oracle, type, rank, kCount).data(), kCount * sizeof(T));
    for (size_t i = 0; i < kCount; ++i) total[i] = combine(total[i], next[i]);
  }
  return total;
}

template <typename T, typename Combine>
void ExpectAccepted(DataType type, RedOp op, Combine combine) {
  for (int ranks : {1, 2, 3, 4, 8, 33}) {
    Oracle oracle(type, op, ranks, 7, kCount);
    std::vector<T> total = Reduce<T>(oracle, type, ranks, combine);
    EXPECT_EQ(oracle.CheckReduced(0, kCount, total.data()), 0u) << Name(type) << " " << Name(op) << " " << ranks;
  }
}

TEST(Oracle, AcceptsAnotherOrderOfTheSameReduction) {
  auto sum = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
  auto product = [](auto a, auto b) { return static_cast<decltype(a)>(a * b); };
  auto larger = [](auto a, auto b) { return a > b ? a : b; };
  ExpectAccepted<float>(DataType::kFloat, RedOp::kSum, sum);
  ExpectAccepted<float>(DataType::kFloat, RedOp::kProd, product);
  ExpectAccepted<float>(DataType::kFloat, RedOp::kMax, larger);
  ExpectAccepted<double>(DataType::kDouble, RedOp::kSum, sum);
  ExpectAccepted<double>(DataType::kDouble, RedOp::kProd, product);
  ExpectAccepted<uint8_t>(DataType::kUint8, RedOp::kSum, sum);
  ExpectAccepted<uint32_t>(DataType::kUint32, RedOp::kProd, product);
  ExpectAccepted<uint64_t>(DataType::kUint64, RedOp::kSum, sum);
  ExpectAccepted<int8_t>(DataType::kInt8, RedOp::kMax, larger);
}

TEST(Oracle, NoticesARankLeftOutOrAddedTwice) {
  for (int type = 0; type < kDataTypeCount; ++type) {
    const auto data = static_cast<DataType>(type);
    for (RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMulSum}) {
      // The expected result of three ranks where four take part differs nearly everywhere it can.
      Oracle four(data, op, 4, 7, kCount), three(data, op, 3, 7, kCount);
      std::vector<unsigned char> result(kCount * SizeOf(data));
      for (size_t i = 0; i < kCount; ++i) {
        MathOf(data).Expected(op, 3, 7, i % Oracle::kPeriod, &result[i * SizeOf(data)]);
      }
      EXPECT_GT(four.CheckReduced(0, kCount, result.data()), kCount / 4) << Name(data) << " " << Name(op);
    }
  }
}

TEST(Oracle, NoticesABlockAtTheWrongPlace) {
  Oracle oracle(DataType::kFloat, RedOp::kNone, 2, 7, kCount);
  std::vector<unsigned char> input = InputOf(oracle, DataType::kFloat, 0, kCount);
  EXPECT_EQ(oracle.CheckInput(0, 0, kCount, input.data()), 0u);
  EXPECT_EQ(oracle.CheckInput(0, 100, kCount - 100, input.data() + 400), 0u);
  EXPECT_GT(oracle.CheckInput(1, 0, kCount, input.data()), kCount / 2);  // another rank's
  EXPECT_GT(oracle.CheckInput(0, 1, kCount - 1, input.data()), kCount / 2);
  // A whole turn of the table further the values differ as well.
  EXPECT_GT(oracle.CheckInput(0, Oracle::kPeriod, 1000, input.data()), 500u);
}

TEST(Oracle, CountsEachWrongElement) {
  Oracle oracle(DataType::kInt32, RedOp::kSum, 2, 7, 100);
  std::vector<int32_t> result(100);
  for (size_t i = 0; i < 100; ++i) MathOf(DataType::kInt32).Expected(RedOp::kSum, 2, 7, i, &result[i]);
  EXPECT_EQ(oracle.CheckReduced(0, 100, result.data()), 0u);
  result[3] ^= 1;
  result[99] ^= 1;
  EXPECT_EQ(oracle.CheckReduced(0, 100, result.data()), 2u);
}

TEST(Oracle, NeverAcceptsNan) {
  Oracle oracle(DataType::kFloat, RedOp::kSum, 8, 7, 64);
  std::vector<float> result(64, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(oracle.CheckReduced(0, 64, result.data()), 64u);
}

TEST(Oracle, KeepsEveryReductionInsideTheRangeOfItsType) {
  for (int type = static_cast<int>(DataType::kHalf); type < kDataTypeCount; ++type) {
    const auto data = static_cast<DataType>(type);
    for (int op = 0; op < kRedOpCount; ++op) {
      for (int ranks : {2, 8, 64, 512}) {
        unsigned char element[8] = {};
        for (size_t i = 0; i < 200; ++i) {
          const double tolerance = MathOf(data).Expected(static_cast<RedOp>(op), ranks, 3, i, element);
          ASSERT_TRUE(std::isfinite(tolerance));
          ASSERT_TRUE(MathOf(data).Close(element, element, 0)) << Name(data) << " " << Name(static_cast<RedOp>(op));
        }
      }
    }
  }
}

}  // namespace
}  // namespace sl::tools
