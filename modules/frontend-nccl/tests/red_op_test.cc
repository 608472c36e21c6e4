// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/red_op.h"

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "gtest/gtest.h"

namespace sl::frontend_nccl {
namespace {

const float kHalf = 0.5f;

TEST(RedOp, ReadsAHostScalarWhenItIsMade) {
  RedOpTable table(1);
  float scalar = 0.5f;
  const uint32_t number = table.Create(ncclFloat, ncclScalarHostImmediate, &scalar);
  scalar = 2.0f;
  const RedOp* op = table.Find(number);
  ASSERT_NE(op, nullptr);
  uint32_t expected = 0;
  std::memcpy(&expected, &kHalf, sizeof(expected));
  EXPECT_EQ(op->scalar_bits, expected);
  EXPECT_EQ(op->device_scalar, nullptr);
}

TEST(RedOp, KeepsTheAddressOfADeviceScalar) {
  RedOpTable table(1);
  const uint32_t number = table.Create(ncclFloat, ncclScalarDevice, &kHalf);
  EXPECT_EQ(table.Find(number)->device_scalar, &kHalf);
}

TEST(RedOp, IsNotMistakenForItsSuccessor) {
  RedOpTable table(1);
  const uint32_t first = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  EXPECT_TRUE(table.Destroy(first));
  const uint32_t second = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.Find(first), nullptr);
  EXPECT_NE(table.Find(second), nullptr);
  EXPECT_FALSE(table.Destroy(first));
}

// A program that makes an operator for every step and keeps an old number must not get another one's scalar.
TEST(RedOp, NumberStaysDeadForManyOthers) {
  RedOpTable table(1);
  const uint32_t first = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  EXPECT_TRUE(table.Destroy(first));
  for (int i = 0; i < 65000; ++i) {
    const uint32_t number = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
    ASSERT_NE(number, first) << "after " << i;
    ASSERT_TRUE(table.Destroy(number));
  }
  EXPECT_EQ(table.Find(first), nullptr);
}

TEST(RedOp, OfAnotherCommunicatorIsUnknown) {
  RedOpTable one(1);
  RedOpTable two(2);
  const uint32_t number = one.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  two.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  EXPECT_EQ(two.Find(number), nullptr);
}

TEST(RedOp, NumbersAreAboveTheBuiltInOnesAndDistinctUntilTheTableIsFull) {
  RedOpTable table(1023);
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < RedOpTable::kCapacity; ++i) {
    const uint32_t number = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
    EXPECT_GE(number, static_cast<uint32_t>(ncclNumOps));
    EXPECT_LE(number, static_cast<uint32_t>(ncclMaxRedOp));
    numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), RedOpTable::kCapacity);
  EXPECT_EQ(table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf), 0u);
  EXPECT_TRUE(table.Destroy(*numbers.begin()));
  EXPECT_NE(table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf), 0u);
}

TEST(RedOp, IsFoundWhileOthersAreMade) {
  RedOpTable table(1);
  const uint32_t kept = table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
  std::atomic<bool> stop{false};
  std::thread maker([&] {
    for (int i = 0; i < 2000; ++i) table.Destroy(table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf));
    for (int i = 0; i < 200; ++i) table.Create(ncclFloat, ncclScalarHostImmediate, &kHalf);
    stop = true;
  });
  int missed = 0;
  while (!stop) missed += table.Find(kept) == nullptr ? 1 : 0;
  maker.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace sl::frontend_nccl
