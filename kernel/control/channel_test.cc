// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

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

  void OnFrame(Channel*, const FrameHeader&, Bytes) override {
    if (frames_++ == throw_at_) throw std::bad_alloc();
  }
  void OnClosed(Channel*, const Status& why) override {
    const std::lock_guard lock(mutex_);
    if (closings_++ == throw_at_closing_) throw std::bad_alloc();
    why_ = why;
    is_told_ = true;
    told_.notify_all();
  }
  bool HearsOfTheEnd() {
    std::unique_lock lock(mutex_);
    return told_.wait_for(lock, std::chrono::seconds(10), [this] { return is_told_; });
  }
  void Say(FrameType type) { ASSERT_TRUE(SendAll(other_end_, EncodeFrame(type, 0, {}), Brief()).ok()); }
  // What the other end hears: SL_ERR_PEER_LOST, the end of the stream.
  sl_status_t Hear() {
    uint8_t byte;
    return ReceiveAll(other_end_, {&byte, 1}, Brief()).code();
  }

  std::unique_ptr<ControlThread> control_;
  Stream other_end_;
  std::unique_ptr<Channel> channel_;
  std::atomic<int> frames_{0};
  int throw_at_ = -1;          // the number of a frame
  int throw_at_closing_ = -1;  // the number of a call
  std::mutex mutex_;
  std::condition_variable told_;
  int closings_ = 0;      // guarded by mutex_
  bool is_told_ = false;  // guarded by mutex_
  Status why_;            // guarded by mutex_
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

TEST_F(ChannelTest, EndsWhenItsOwnerThrows) {
  throw_at_ = 1;
  ASSERT_TRUE(channel_->Open().ok());
  Say(FrameType::kBeat);
  Say(FrameType::kBeat);
  EXPECT_TRUE(HearsOfTheEnd());
  EXPECT_EQ(frames_, 2);
  EXPECT_EQ(why_.code(), SL_ERR_INTERNAL) << why_.message();
  EXPECT_EQ(Hear(), SL_ERR_PEER_LOST) << "the other end does not wait for ever";
}

TEST_F(ChannelTest, SaysOnceMoreThatItHasEndedToAnOwnerThatThrew) {
  throw_at_closing_ = 0;
  ASSERT_TRUE(channel_->Open().ok());
  other_end_ = Stream();
  EXPECT_TRUE(HearsOfTheEnd());
}

TEST_F(ChannelTest, EndsForAPeerThatBreaksTheFormat) {
  ASSERT_TRUE(channel_->Open().ok());
  const std::string words(sizeof(FrameHeader), 'x');
  ASSERT_TRUE(SendAll(other_end_, {reinterpret_cast<const uint8_t*>(words.data()), words.size()}, Brief()).ok());
  EXPECT_TRUE(HearsOfTheEnd());
  EXPECT_EQ(Hear(), SL_ERR_PEER_LOST);
}

}  // namespace
}  // namespace sl::kernel
