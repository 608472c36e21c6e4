// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/signature.h"

#include <gtest/gtest.h>

#include <random>

namespace sl::kernel {
namespace {

sl_op_t Op(sl_op_kind_t kind, uint64_t count, int32_t root = -1) {
  sl_op_t op{};
  op.kind = kind;
  op.datatype = SL_FLOAT32;
  op.reduction = SL_MAX;
  op.root = root;
  op.peer = -1;
  op.count = count;
  return op;
}

TEST(Signature, DiffersWhereverCallsDiffer) {
  const sl_op_t base = Op(SL_OP_REDUCE, 100, 2);
  const uint64_t signature = EncodeSignature(base);
  sl_op_t other = base;
  other.kind = SL_OP_ALL_REDUCE;
  EXPECT_NE(EncodeSignature(other), signature);
  other = base;
  other.datatype = SL_INT32;
  EXPECT_NE(EncodeSignature(other), signature);
  other = base;
  other.reduction = SL_SUM;
  EXPECT_NE(EncodeSignature(other), signature);
  other = base;
  other.root = 3;
  EXPECT_NE(EncodeSignature(other), signature);
  other = base;
  other.count = 101;
  EXPECT_NE(EncodeSignature(other), signature);
}

TEST(Signature, IgnoresWhatAnOperationDoesNotHave) {
  sl_op_t a = Op(SL_OP_ALL_GATHER, 7, 1);
  sl_op_t b = Op(SL_OP_ALL_GATHER, 7, 2);
  b.reduction = SL_PROD;
  EXPECT_EQ(EncodeSignature(a), EncodeSignature(b));
}

TEST(Signature, OfASendEqualsThatOfItsReceive) {
  EXPECT_EQ(EncodeSignature(Op(SL_OP_SEND, 9)), EncodeSignature(Op(SL_OP_RECV, 9)));
}

TEST(Signature, IsDescribedInWords) {
  EXPECT_EQ(DescribeSignature(EncodeSignature(Op(SL_OP_ALL_REDUCE, 1024))), "all_reduce of 1024 float32, max");
  EXPECT_EQ(DescribeSignature(EncodeSignature(Op(SL_OP_BROADCAST, 8, 2))), "broadcast of 8 float32, root 2");
  EXPECT_EQ(DescribeSignature(EncodeSignature(Op(SL_OP_RECV, 8))), "send or recv of 8 float32");
  EXPECT_EQ(DescribeSignature(EncodeSignature(Op(SL_OP_ALL_GATHER, UINT64_MAX))),
            "all_gather of at least 68719476735 float32");
}

TEST(Signature, OfAStrangerIsDescribedWithoutHarm) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) EXPECT_FALSE(DescribeSignature(random()).empty());
}

TEST(Signature, MismatchNamesBothSides) {
  EXPECT_EQ(DescribeMismatch(3, EncodeSignature(Op(SL_OP_ALL_REDUCE, 4)), 1, EncodeSignature(Op(SL_OP_ALL_REDUCE, 5))),
            "the calls of two ranks do not match: rank 3 called all_reduce of 4 float32, max; rank 1 called all_reduce "
            "of 5 float32, max");
}

TEST(Extents, FollowNcclsCounts) {
  EXPECT_EQ(SendElements(Op(SL_OP_ALL_GATHER, 5), 1, 4), 5u);
  EXPECT_EQ(RecvElements(Op(SL_OP_ALL_GATHER, 5), 1, 4), 20u);
  EXPECT_EQ(SendElements(Op(SL_OP_REDUCE_SCATTER, 5), 1, 4), 20u);
  EXPECT_EQ(RecvElements(Op(SL_OP_REDUCE_SCATTER, 5), 1, 4), 5u);
  EXPECT_EQ(SendElements(Op(SL_OP_BROADCAST, 5, 2), 1, 4), 0u);
  EXPECT_EQ(SendElements(Op(SL_OP_BROADCAST, 5, 2), 2, 4), 5u);
  EXPECT_EQ(RecvElements(Op(SL_OP_REDUCE, 5, 2), 1, 4), 0u);
  EXPECT_EQ(RecvElements(Op(SL_OP_GATHER, 5, 2), 2, 4), 20u);
  EXPECT_EQ(RecvElements(Op(SL_OP_GATHER, 5, 2), 1, 4), 0u);
  EXPECT_EQ(SendElements(Op(SL_OP_SCATTER, 5, 2), 2, 4), 20u);
  EXPECT_EQ(RecvElements(Op(SL_OP_SEND, 5), 2, 4), 0u);
  EXPECT_EQ(RecvElements(Op(SL_OP_ALL_TO_ALL, UINT64_MAX / 2), 0, 4), UINT64_MAX);
  EXPECT_EQ(OpBytes(Op(SL_OP_ALL_TO_ALL, 10), 4), 160u);
  EXPECT_EQ(OpBytes(Op(SL_OP_ALL_REDUCE, 10), 4), 40u);
}

TEST(Signature, TellsSettingsOfACallApart) {
  sl_op_t op{};
  op.kind = SL_OP_ALL_REDUCE;
  op.datatype = SL_FLOAT32;
  op.reduction = SL_MAX;
  op.root = -1;
  op.count = 1000;
  const uint64_t plain = EncodeSignature(op);
  op.settings = 0x1234;
  const uint64_t one = EncodeSignature(op);
  EXPECT_NE(plain, one);
  const std::string text = DescribeSignature(one);
  EXPECT_EQ(text.rfind("all_reduce of 1000 float32, max, with settings ", 0), 0u) << text;
  op.settings = 0x1236;
  EXPECT_NE(EncodeSignature(op), one);
  op.settings = 0x1234;
  EXPECT_EQ(EncodeSignature(op), one);
  op.count = uint64_t{1} << 30;
  const uint64_t large = EncodeSignature(op);
  EXPECT_EQ(DescribeSignature(large).rfind("all_reduce of at least 8388608 float32, max, with settings ", 0), 0u);
  ++op.count;
  EXPECT_NE(EncodeSignature(op), large);
  op.kind = SL_OP_BROADCAST;
  op.root = 3;
  op.count = 7;
  const std::string rooted = DescribeSignature(EncodeSignature(op));
  EXPECT_EQ(rooted.rfind("broadcast of 7 float32, root 3, with settings ", 0), 0u) << rooted;
}

}  // namespace
}  // namespace sl::kernel
