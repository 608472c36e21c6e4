// SPDX-License-Identifier: Apache-2.0
//
// What the algorithms of a communicator on GPUs share, and that launching allocates nothing.
#include "modules/algo-symmetric/cuda_rank.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "modules/algo-symmetric/family_algorithm.h"
#include "modules/algo-symmetric/tests/fake_gpu.h"
#include "modules/algo-symmetric/transfer_algorithm.h"

namespace {

thread_local uint64_t allocations = 0;

}  // namespace

// Kept from being inlined: else the compiler sees malloc and free behind new and delete, and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sl::algo_symmetric {
namespace {

class SharedRank : public testing::Test {
 protected:
  SharedRank() {
    for (sl_comm_shape_t* shape : {&one_, &other_}) {
      shape->struct_size = sizeof(*shape);
      shape->size = 2;
      shape->device_kind = SL_DEVICE_CUDA;
    }
    reach_.size = 2;
  }

  sl_algorithm_env_t Env(const sl_comm_shape_t* shape, bool with_slices) {
    sl_algorithm_env_t env{};
    env.struct_size = sizeof(env);
    env.shape = shape;
    env.device_ops = &kFakeDeviceOps;
    env.control = &control_;
    env.reach_ops = &kFakeReachOps;
    env.reach = reinterpret_cast<sl_reach_t*>(&reach_);
    if (with_slices) env.symmetric = {slice_, sizeof(slice_), sizeof(slice_)};
    return env;
  }
  std::shared_ptr<CudaRank> For(const sl_comm_shape_t* shape, bool with_slices) {
    return ranks_.For(Env(shape, with_slices), GpuSettings{24, 1}, &shelf_).Take();
  }

  static sl_op_t Op(sl_op_kind_t kind, uint64_t count) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = kind;
    op.datatype = SL_FLOAT32;
    op.root = -1;
    op.peer = kind == SL_OP_SEND ? 1 : -1;
    op.count = count;
    return op;
  }

  ImageShelf shelf_;
  CudaRanks ranks_;
  sl_comm_shape_t one_{}, other_{};
  FakeReach reach_{};
  sl_control_t control_{};
  uint8_t slice_[64] = {};  // nothing runs
};

TEST_F(SharedRank, IsOneForAllAlgorithmsOfACommunicator) {
  const auto first = For(&one_, false);
  EXPECT_FALSE(first->has_slices());
  EXPECT_EQ(For(&one_, true), first) << "whichever of them has demanded the slices";
  EXPECT_TRUE(first->has_slices());
  EXPECT_NE(For(&other_, false), first);
  EXPECT_EQ(For(&one_, false), first);
  EXPECT_TRUE(first->has_slices());
}

TEST_F(SharedRank, EndsWithTheLastAlgorithm) {
  EXPECT_TRUE(For(&one_, true)->has_slices());
  EXPECT_FALSE(For(&one_, false)->has_slices()) << "another communicator, at the same address";
}

TEST_F(SharedRank, ServesNothingWithoutSlices) {
  const FamilyAlgorithm staged(nullptr, families::kStaged, For(&one_, false));
  sl_estimate_t estimate{};
  EXPECT_EQ(staged.Estimate(Op(SL_OP_ALL_REDUCE, 100), &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_STREQ(estimate.reason, "ranks share no slices");
}

TEST_F(SharedRank, ServesCollectivesAndTransfersApart) {
  const auto rank = For(&one_, true);
  const FamilyAlgorithm staged(nullptr, families::kStaged, rank);
  const TransferAlgorithm transfers(nullptr, rank);
  sl_estimate_t estimate{};
  EXPECT_EQ(staged.Estimate(Op(SL_OP_SEND, 100), &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_STREQ(estimate.reason, "it serves collectives");
  EXPECT_EQ(transfers.Estimate(Op(SL_OP_ALL_REDUCE, 100), &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_STREQ(estimate.reason, "it serves sends and receives");
  EXPECT_EQ(transfers.Estimate(Op(SL_OP_SEND, 100), &estimate), SL_OK);
  EXPECT_EQ(staged.Estimate(Op(SL_OP_ALL_REDUCE, 100), &estimate), SL_OK);
}

// Whether the operation was met before or not.
TEST_F(SharedRank, LaunchesWithoutAllocating) {
  const auto rank = For(&one_, true);
  alignas(16) static uint8_t args[8192];
  for (const Family* family : kFamilies) {
    FamilyAlgorithm algorithm(nullptr, *family, rank);
    const sl_op_kind_t kind = family == &families::kPush   ? SL_OP_REDUCE_SCATTER
                              : family == &families::kBulk ? SL_OP_ALL_GATHER
                                                           : SL_OP_ALL_REDUCE;
    const uint64_t before = allocations;
    for (uint64_t i = 0; i < 200; ++i) {
      sl_op_t op = Op(kind, 32 * (1 + i % 50));
      op.send = args;
      op.recv = args + 4096;
      alignas(16) uint8_t room[4096];
      sl_launch_t launch{};
      launch.struct_size = sizeof(launch);
      ASSERT_EQ(algorithm.Launch(op, room, &launch), SL_OK) << family->name;
      ASSERT_GE(launch.grid[0], 1u) << family->name;
    }
    EXPECT_EQ(allocations, before) << family->name;
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
