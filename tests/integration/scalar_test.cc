// SPDX-License-Identifier: Apache-2.0
//
// The scalar of a premultiplied sum in device memory is read when the stream has come to the operation, not when the
// program calls it: here it is the result of the operation before.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr size_t kSmall = 3;      // in one packet
constexpr size_t kLarge = 70000;  // in many pieces

// A rank whose two calls are made before the other rank makes any, and so before the scalar is there.
class Premultiplied {
 public:
  explicit Premultiplied(Team& team) : team_(team), comm_(team.MakeComm()) {
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op_, &scalar_, ncclFloat32, ncclScalarDevice, comm_), ncclSuccess);
  }
  ~Premultiplied() {
    EXPECT_EQ(ncclRedOpDestroy(op_, comm_), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
  }

  void AllReduce(size_t count) {
    Begin(count);
    NCCL_OK(ncclAllReduce(send_.data(), recv_.data(), count, ncclFloat32, op_, comm_, stream_.get()));
    End(count, true);
  }
  void Reduce(size_t count) {
    Begin(count);
    NCCL_OK(ncclReduce(send_.data(), recv_.data(), count, ncclFloat32, op_, 1, comm_, stream_.get()));
    End(count, team_.rank() == 1);
  }
  void ReduceScatter(size_t count) {
    Begin(2 * count);
    NCCL_OK(ncclReduceScatter(send_.data(), recv_.data(), count, ncclFloat32, op_, comm_, stream_.get()));
    End(count, true);
  }
  void Grouped(size_t count) {
    Begin(2 * count);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(send_.data(), recv_.data(), count, ncclFloat32, op_, comm_, stream_.get()));
    NCCL_OK(ncclAllReduce(send_.data(), recv_.data() + count, count, ncclFloat32, op_, comm_, stream_.get()));
    NCCL_OK(ncclGroupEnd());
    End(2 * count, true);
  }

 private:
  // Every rank adds its number plus one, so that the scalar becomes 3.
  void Begin(size_t count) {
    if (team_.rank() == 1) team_.Barrier();
    scalar_ = 1;
    addend_ = static_cast<float>(team_.rank() + 1);
    send_.assign(count, static_cast<float>(team_.rank() + 5));
    recv_.assign(count, 0);
    NCCL_OK(ncclAllReduce(&addend_, &scalar_, 1, ncclFloat32, ncclSum, comm_, stream_.get()));
  }
  void End(size_t count, bool receives) {
    if (team_.rank() == 0) team_.Barrier();
    ASSERT_TRUE(stream_.Synchronize());
    EXPECT_EQ(scalar_, 3);
    const auto right = std::count(recv_.begin(), recv_.begin() + static_cast<ptrdiff_t>(count), 3.0f * (5 + 6));
    EXPECT_EQ(right, static_cast<ptrdiff_t>(receives ? count : 0)) << "rank " << team_.rank() << " has " << recv_[0];
    team_.Barrier();
  }

  Team& team_;
  const ncclComm_t comm_;
  HostStream stream_;
  ncclRedOp_t op_ = ncclSum;
  float scalar_ = 0;
  float addend_ = 0;
  std::vector<float> send_;
  std::vector<float> recv_;
};

void ExpectInStreamOrder() {
  RunProcesses(2, [](Team& team) {
    Premultiplied rank(team);
    for (const size_t count : {kSmall, kLarge}) {
      rank.AllReduce(count);
      rank.Reduce(count);
      rank.ReduceScatter(count);
      rank.Grouped(count);
    }
  });
}

std::string ProfileOf(const std::string& name) { return std::getenv("SL_TEST_SOURCE_DIR") + ("/configs/" + name); }

TEST(Scalar, IsReadInStreamOrderOverSharedMemory) { ExpectInStreamOrder(); }

TEST(Scalar, IsReadInStreamOrderByPlans) {
  const Environment profile("STARLING_PROFILE", ProfileOf("links.toml").c_str());
  ExpectInStreamOrder();
}

TEST(Scalar, IsReadInStreamOrderByTheProgressThread) {
  const Environment profile("STARLING_PROFILE", ProfileOf("links.toml").c_str());
  const Environment progress("STARLING_ENGINE_PROGRESS", "thread");
  ExpectInStreamOrder();
}

}  // namespace
}  // namespace sl::integration
