// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/judge.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernel/comm/grace.h"
#include "kernel/runtime/handle.h"

namespace sl::kernel {

struct CommunicatorPeer {
  static void OnReport(Communicator* comm, uint32_t rank, const Status& failure) { comm->OnReport(rank, failure); }
  static void OnFate(Communicator* comm, uint32_t rank, Fate fate) { comm->OnFate(rank, fate); }
};

namespace {

constexpr uint64_t kMs = 1'000'000;

// Rank 0 of 4, whose ranks share no memory.
class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    device_.info.capabilities = SL_DEVICE_RUNS_HOST_KERNELS;
    CommConfig config;
    config.device = &device_;
    config.size = 4;
    handle_ = std::make_unique<sl_comm_t>(nullptr, config, nullptr);
    limits_.operation_timeout_ms = 5000;
    limits_.report_wait_ms = 1000;
  }

  Verdict JudgeAfter(uint64_t length_ms, bool is_reported = false) {
    return Judge(handle_.get(), limits_,
                 {.length_ns = length_ms * kMs,
                  .is_reported = is_reported,
                  .peer = 2,
                  .what =
                      [this] {
                        ++asked_;
                        return std::string("it waits for rank 2");
                      },
                  .who = [] { return std::string("not called by rank 2"); }});
  }

  Device device_;
  Settings::Comm limits_;
  std::unique_ptr<sl_comm_t> handle_;
  int asked_ = 0;
};

TEST_F(JudgeTest, LeavesAWaitAloneThatIsNotLong) {
  const Verdict verdict = JudgeAfter(999);
  EXPECT_TRUE(verdict.end.ok());
  EXPECT_FALSE(verdict.is_reported);
  EXPECT_EQ(asked_, 0) << "words are not needed";
}

TEST_F(JudgeTest, ReportsALongWaitOnce) {
  EXPECT_TRUE(JudgeAfter(1000).is_reported);
  EXPECT_TRUE(JudgeAfter(1000).end.ok());
  EXPECT_FALSE(JudgeAfter(4999, true).is_reported);
}

TEST_F(JudgeTest, EndsAWaitThatExceedsTheLimit) {
  const Verdict verdict = JudgeAfter(5000, true);
  EXPECT_EQ(verdict.end.code(), SL_ERR_TIMEOUT);
  EXPECT_EQ(verdict.end.message(), "timeout after 5000 ms: it waits for rank 2; not called by rank 2");
}

TEST_F(JudgeTest, EndsAWaitAtOnceThatWasAborted) {
  handle_->comm.Cancel();
  EXPECT_EQ(JudgeAfter(0).end.message(), "aborted: it waits for rank 2");
  EXPECT_EQ(JudgeAfter(0).end.code(), SL_ERR_ABORTED);
}

TEST_F(JudgeTest, SaysWhyOperationsWereRevoked) {
  handle_->comm.Revoke();
  const Status end = JudgeAfter(0).end;
  EXPECT_EQ(end.code(), SL_ERR_ABORTED);
  EXPECT_EQ(end.message(), std::string(handle_->comm.revoked()) + ": it waits for rank 2");
}

TEST_F(JudgeTest, EndsAWaitWithTheFailureThatWasFoundBefore) {
  handle_->comm.Fail({SL_ERR_LINK_DOWN, "the link to rank 3 is down"});
  const Status end = JudgeAfter(0).end;
  EXPECT_EQ(end.code(), SL_ERR_LINK_DOWN);
  EXPECT_EQ(end.message(), "the link to rank 3 is down; here it waits for rank 2");
}

// What the lost rank has left behind may still end the wait.
TEST_F(JudgeTest, GivesAWaitTheGraceAfterARankWasLost) {
  CommunicatorPeer::OnFate(&handle_->comm, 3, Fate::kLost);
  EXPECT_TRUE(JudgeAfter(kGraceNs / kMs - 1).end.ok());
  const Status end = JudgeAfter(kGraceNs / kMs).end;
  EXPECT_EQ(end.code(), SL_ERR_PEER_LOST);
  EXPECT_EQ(end.message(), handle_->comm.LostText() + ": it waits for rank 2");
}

TEST_F(JudgeTest, GivesAWaitTheGraceAfterAnotherRankHasFailed) {
  CommunicatorPeer::OnReport(&handle_->comm, 3, {SL_ERR_TIMEOUT, "timeout"});
  EXPECT_TRUE(JudgeAfter(kGraceNs / kMs - 1).end.ok());
  const Status end = JudgeAfter(kGraceNs / kMs).end;
  EXPECT_EQ(end.code(), handle_->comm.RemoteFailure().code());
  EXPECT_EQ(end.message(), handle_->comm.RemoteFailure().message() + "; here it waits for rank 2");
}

}  // namespace
}  // namespace sl::kernel
