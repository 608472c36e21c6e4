// SPDX-License-Identifier: Apache-2.0
//
// The parent of a shrink with the abort flag ends at any time, in every order, and nobody waits for anybody.
#include <gtest/gtest.h>

#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kLeftOut = 1;
// Far above what it takes, so that a busy machine passes, and far below every limit of the defaults.
constexpr double kBoundSeconds = 15;

ncclResult_t AsyncError(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

// How the parent of a shrink with the abort flag ends: on members before or after the child, on the rank that is left
// out at any time.
void EndParent(ncclComm_t parent, int way) {
  if (way % 2 == 0) {
    NCCL_OK(ncclCommDestroy(parent));
  } else {
    NCCL_OK(ncclCommAbort(parent));
  }
}

TEST(ShrunkParent, EndsInAnyOrderWithinBounds) {
  for (int way = 0; way < 16; ++way) {  // bits: how it ends, before the child, the left out ends first, in the middle
    SCOPED_TRACE(way);
    RunProcesses(3, [way](Team& team) {
      const bool parent_first = (way & 2) != 0;
      const bool left_out_first = (way & 4) != 0;
      const bool has_work = (way & 8) != 0;
      const ncclComm_t parent = team.MakeComm();
      HostStream stream;
      std::vector<int> values(1 << 16, 1);
      if (has_work && team.rank() != kLeftOut) {  // which its shrink ends: rank 1 never calls it
        NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclInt32, ncclSum, parent, stream.get()));
      }
      team.Barrier();
      const double begin = Seconds();
      if (team.rank() == kLeftOut) {
        if (!left_out_first) team.Barrier();
        EndParent(parent, way);
        if (left_out_first) team.Barrier();
      } else {
        int excluded = kLeftOut;
        ncclComm_t child = nullptr;
        if (left_out_first) team.Barrier();
        NCCL_OK(ncclCommShrink(parent, &excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
        if (parent_first) EndParent(parent, way);
        int value = 1;
        NCCL_OK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, child, nullptr));
        EXPECT_EQ(value, 2);
        NCCL_OK(ncclCommDestroy(child));
        if (!parent_first) EndParent(parent, way);
        if (!left_out_first) team.Barrier();
      }
      EXPECT_LT(Seconds() - begin, kBoundSeconds);
      team.Barrier();
    });
  }
}

// Rank 0 ends the parent while rank 2 still shrinks it, and the child lives on.
TEST(ShrunkParent, EndsOnOneMemberBeforeTheOtherHasShrunk) {
  for (const bool aborts : {false, true}) {
    RunProcesses(3, [aborts](Team& team) {
      const ncclComm_t parent = team.MakeComm();
      if (team.rank() == kLeftOut) {
        NCCL_OK(ncclCommAbort(parent));
        return;
      }
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      int excluded = kLeftOut;
      ncclComm_t child = nullptr;
      const double begin = Seconds();
      const ncclResult_t begun = ncclCommShrink(parent, &excluded, 1, &child, &config, NCCL_SHRINK_ABORT);
      ASSERT_TRUE(begun == ncclInProgress || begun == ncclSuccess) << ncclGetLastError(nullptr);
      // As soon as it may: the parent's end cannot be waited for by the shrink, nor the shrink given up without a word.
      EndParent(parent, aborts ? 1 : 0);
      EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(child) != ncclInProgress; }));
      EXPECT_LT(Seconds() - begin, kBoundSeconds);
      const bool has_child = AsyncError(child) == ncclSuccess;
      if (!aborts) {
        EXPECT_TRUE(has_child) << ncclGetLastError(nullptr);
      }
      NCCL_OK(ncclCommAbort(child));
    });
  }
}

}  // namespace
}  // namespace sl::integration
