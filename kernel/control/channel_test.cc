// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

namespace sl::kernel {
namespace {

constexpr uint32_t kMaxBytes = 16u << 20;

Patience Brief() { return {NowNs() + 10'000'000'000}; }

// A channel, whose owner this is, and the other end of its stream.
class ChannelTest : public testing::Test, public Channel::Owner {
 protected:
  ChannelTest() : control_(ControlThread::Start().Take()) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    other_end_ = Stream(Fd(fds[1]));
    channel_ = std::make_unique<Channel>(control_.get(), Stream(Fd(fds[0])), kMaxBytes, this);
  }
  ~ChannelTest() override { channel_.reset(); }

  void OnFrame(Channel*, const FrameHeader&, Bytes) override {}
  void OnClosed(Channel*, const Status&) override {}

  std::unique_ptr<ControlThread> control_;
  Stream other_end_;
  std::unique_ptr<Channel> channel_;
};

// More than the socket takes at once.
TEST_F(ChannelTest, SendsTheRestOfWhatWasQueuedBeforeItWasOpened) {
  const Bytes much(4 << 20, 'x');
  channel_->Send(FrameType::kSpread, 1, much);
  ASSERT_TRUE(channel_->Open().ok());
  Bytes got(sizeof(FrameHeader) + much.size());
  EXPECT_TRUE(ReceiveAll(other_end_, got, Brief()).ok());
  EXPECT_EQ(channel_->unsent(), 0u);
}

}  // namespace
}  // namespace sl::kernel
