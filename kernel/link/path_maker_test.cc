// SPDX-License-Identifier: Apache-2.0
//
// What becomes of attempts to connect, and of connections that a peer has made.
#include "kernel/link/path_maker.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernel/events/log.h"
#include "kernel/link/fake_transport_test_util.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kMs = 1'000'000;

class PathMakerTest : public ::testing::Test {
 protected:
  void SetUp() override { ConfigureLog(SL_LOG_ERROR, ""); }

  // Of `rank`, for its link to the other one of two.
  void Open(uint32_t rank, bool mapped = true, uint32_t connections = 1) {
    net_ = std::make_unique<FakeNet>(2, mapped);
    config_.rank = rank;
    config_.chunk_bytes = 64;
    config_.slots = 2;
    config_.connections = connections;
    config_.transports = {net_->LinkTransportOf(rank)};
    context_.now_ns = [] { return uint64_t{1}; };
    link_ = std::make_unique<ChunkLink>(&context_, config_.GeometryOf(1), 1 - rank, 0);
    maker_ = std::make_unique<PathMaker>(config_, link_.get());
  }

  // Tries every millisecond.
  void TryUntil(uint64_t end_ms) {
    for (; now_ms_ < end_ms && !link_->failed(); ++now_ms_) EXPECT_FALSE(maker_->Start(0, now_ms_ * kMs));
  }

  sl_status_t LinkStatus() {
    Chunk chunk;
    return link_->Peek(&chunk);
  }

  // What rank 0 says of an attempt.
  sl_connect_args_t Attempt(uint32_t epoch) const {
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    args.peer = 1;
    args.tag = epoch;
    args.window_bytes = config_.GeometryOf(1).WindowBytes();
    args.signal_count = Path::kSignalCount;
    return args;
  }

  // Makes that attempt and hands it to the maker of rank 1. returns: rank 0's end
  sl_connection_t* Visit(uint32_t epoch, bool is_taken) {
    sl_connection_t* visitor = nullptr;
    sl_connection_t* accepted = nullptr;
    sl_connect_args_t args = Attempt(epoch);
    EXPECT_EQ(FakeNet::Ops()->connect(net_->Transport(0), &net_->Addresses()[1], &args, &visitor), SL_OK);
    EXPECT_EQ(FakeNet::Ops()->accept(net_->Transport(1), &accepted, &args), SL_OK);
    EXPECT_EQ(maker_->Accept(0, accepted, args), is_taken);
    return visitor;
  }

  std::unique_ptr<FakeNet> net_;
  PathConfig config_;
  LinkContext context_;
  std::unique_ptr<ChunkLink> link_;
  std::unique_ptr<PathMaker> maker_;
  uint64_t now_ms_ = 0;
};

TEST_F(PathMakerTest, HandsAPathOutOnce) {
  Open(0);
  EXPECT_FALSE(maker_->Finish(0, 1).has_value()) << "nothing was begun";
  EXPECT_TRUE(maker_->Start(0, 1));
  EXPECT_FALSE(maker_->Start(0, 1)) << "one is on its way";
  const std::optional<PathMaker::Made> made = maker_->Finish(0, 1);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->epoch, 1u);
  EXPECT_EQ(made->connection.window.bytes, config_.GeometryOf(1).WindowBytes());
  EXPECT_FALSE(maker_->Finish(0, 1).has_value());
  EXPECT_FALSE(maker_->AllUp());
  ASSERT_EQ(link_->Attach(0, made->connection, made->epoch, nullptr), SL_OK);
  EXPECT_TRUE(maker_->AllUp());
  EXPECT_FALSE(maker_->Start(0, 1)) << "the path is up";
}

TEST_F(PathMakerTest, RetiresWhatIsOnItsWay) {
  Open(0);
  ASSERT_TRUE(maker_->Start(0, 1));
  EXPECT_EQ(net_->live_ends(), 1u);
  maker_.reset();
  EXPECT_EQ(net_->live_ends(), 0u);
}

TEST_F(PathMakerTest, WantsAsManyPathsAsConfiguredOnceTheFirstIsNotMapped) {
  for (const bool mapped : {true, false}) {
    Open(0, mapped, 3);
    EXPECT_EQ(maker_->wanted(), 1u);
    ASSERT_TRUE(maker_->Start(0, 1));
    const std::optional<PathMaker::Made> made = maker_->Finish(0, 1);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(maker_->wanted(), mapped ? 1u : 3u);
    EXPECT_EQ(maker_->count(), maker_->wanted());
    FakeNet::Ops()->retire(made->connection.connection);
  }
}

TEST_F(PathMakerTest, TriesAgainLaterEachTime) {
  Open(0);
  net_->SetOutage(0, "no route");
  TryUntil(1000);
  EXPECT_FALSE(link_->failed());
  EXPECT_EQ(maker_->why(), "no route");
  net_->SetOutage(0, nullptr);
  while (!maker_->Start(0, now_ms_ * kMs)) ++now_ms_;
  EXPECT_EQ(now_ms_, 1027u);
  const std::optional<PathMaker::Made> made = maker_->Finish(0, now_ms_ * kMs);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->epoch, 17u) << "after 0, 1, 3, … 127 ms, then every 100 ms";
  EXPECT_EQ(maker_->why(), "");
  FakeNet::Ops()->retire(made->connection.connection);
}

TEST_F(PathMakerTest, TriesAtOnceWhenTheLinkWentDown) {
  Open(0);
  net_->SetOutage(0, "no route");
  TryUntil(500);
  net_->SetOutage(0, nullptr);
  EXPECT_FALSE(maker_->Start(0, now_ms_ * kMs));
  maker_->Restart(now_ms_ * kMs);
  EXPECT_TRUE(maker_->Start(0, now_ms_ * kMs));
}

TEST_F(PathMakerTest, GivesUpOnAPeerThatDoesNotListen) {
  Open(0);
  net_->StopListening(1);
  TryUntil(20);
  EXPECT_EQ(LinkStatus(), SL_ERR_PEER_LOST);
  EXPECT_EQ(link_->why(), "the peer does not listen any more: refused");
}

TEST_F(PathMakerTest, CountsRefusalsInARowOnly) {
  Open(0);
  net_->StopListening(1);
  for (const uint64_t end_ms : {3, 31, 127}) {  // two refusals, then an attempt that meets nobody
    net_->SetOutage(0, nullptr);
    TryUntil(end_ms);
    net_->SetOutage(0, "no route");
    TryUntil(2 * end_ms);
  }
  EXPECT_EQ(LinkStatus(), SL_ERR_AGAIN);
}

TEST_F(PathMakerTest, OutlivesAShortShortage) {
  Open(0);
  net_->SetShortage(0, "no buffers; raise the limit");
  TryUntil(1900);
  EXPECT_EQ(LinkStatus(), SL_ERR_AGAIN);
  net_->SetShortage(0, nullptr);
  while (!maker_->Start(0, now_ms_ * kMs)) ++now_ms_;
  EXPECT_LE(now_ms_, 2000u);
}

TEST_F(PathMakerTest, FailsWithTheRemedyWhenAShortageLasts) {
  Open(0);
  net_->SetShortage(0, "no buffers; raise the limit");
  TryUntil(2500);
  EXPECT_EQ(LinkStatus(), SL_ERR_LIMIT);
  EXPECT_EQ(link_->why(), "no buffers; raise the limit");
}

TEST_F(PathMakerTest, TakesTheNewestAttempt) {
  Open(1);
  EXPECT_EQ(maker_->wanted(), 0u);
  sl_connection_t* const visitors[] = {Visit(2, true), Visit(1, false), Visit(2, false), Visit(3, true)};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(FakeNet::Ops()->connection_state(visitors[i]), i == 3 ? SL_CONNECTION_UP : SL_CONNECTION_CLOSED) << i;
    FakeNet::Ops()->retire(visitors[i]);
  }
  const std::optional<PathMaker::Made> made = maker_->Finish(0, 1);
  ASSERT_TRUE(made.has_value()) << "what the peer has put before it left counts";
  EXPECT_EQ(made->epoch, 3u);
  FakeNet::Ops()->retire(made->connection.connection);
}

TEST_F(PathMakerTest, TakesWindowsThatAreCutLikeTheFirst) {
  Open(1);
  const auto fits = [&](const PathMaker* maker, uint64_t window_bytes, uint32_t signals = Path::kSignalCount) {
    sl_connect_args_t args = Attempt(1);
    args.window_bytes = window_bytes;
    args.signal_count = signals;
    return PathMaker::Fits(config_, maker, args);
  };
  const uint64_t share = config_.GeometryOf(1).WindowBytes();
  for (const PathMaker* maker : {static_cast<const PathMaker*>(nullptr), static_cast<const PathMaker*>(maker_.get())}) {
    EXPECT_TRUE(fits(maker, share));
    EXPECT_TRUE(fits(maker, share * PathMaker::kMostShares));
    EXPECT_FALSE(fits(maker, share * (PathMaker::kMostShares + 1)));
    EXPECT_FALSE(fits(maker, share + 64));
    EXPECT_FALSE(fits(maker, 0));
    EXPECT_FALSE(fits(maker, share, 2));
  }
  FakeNet::Ops()->retire(Visit(1, true));
  EXPECT_TRUE(fits(maker_.get(), share));
  EXPECT_FALSE(fits(maker_.get(), 2 * share));
}

}  // namespace
}  // namespace sl::kernel
