// SPDX-License-Identifier: Apache-2.0
//
// A stream of frames without sockets: what the queue gathers, cut anywhere, is what the reader puts into the window.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "modules/transport-tcp/frame_reader.h"
#include "modules/transport-tcp/send_queue.h"
#include "modules/transport-tcp/zerocopy.h"

namespace sl::transport_tcp {
namespace {

constexpr uint64_t kWindow = 10'000;

class Stream : public ::testing::Test {
 protected:
  Stream() : window_(kWindow), signals_(4 * 8), reader_({window_.data(), kWindow, signals_.data(), 4}) {}

  bool Append(const void* source, uint64_t bytes, uint64_t offset, uint16_t signal, uint64_t value,
              uint64_t cookie = 0) {
    return queue_.Append({kFramePut, signal, 0, bytes, offset, value}, source, cookie);
  }
  // What the socket takes in one call of at most `most` bytes.
  std::vector<uint8_t> Send(uint64_t most) {
    iovec parts[SendQueue::kMaxParts];
    const int count = queue_.Gather(parts, UINT64_MAX);
    std::vector<uint8_t> sent;
    for (int i = 0; i < count && sent.size() < most; ++i) {
      const auto* bytes = static_cast<const uint8_t*>(parts[i].iov_base);
      sent.insert(sent.end(), bytes, bytes + std::min<uint64_t>(parts[i].iov_len, most - sent.size()));
    }
    queue_.Advance(sent.size(), 0);
    uint64_t cookie = 0;
    while (queue_.Finish(0, &cookie)) finished_.push_back(cookie);
    return sent;
  }
  // Gives bytes to the reader as calls of at most `most` bytes would.
  bool Feed(const std::vector<uint8_t>& bytes, uint64_t most) {
    for (size_t at = 0; at < bytes.size();) {
      iovec parts[2];
      const int count = reader_.Room(parts);
      size_t taken = 0;
      for (int i = 0; i < count; ++i) {
        const size_t now = std::min({parts[i].iov_len, bytes.size() - at - taken, static_cast<size_t>(most) - taken});
        std::memcpy(parts[i].iov_base, bytes.data() + at + taken, now);
        taken += now;
      }
      at += taken;
      if (!reader_.Take(taken)) return false;
    }
    return true;
  }
  bool FeedFrame(const Frame& frame) {
    std::vector<uint8_t> bytes(sizeof frame);
    std::memcpy(bytes.data(), &frame, sizeof frame);
    return Feed(bytes, UINT64_MAX);
  }

  std::vector<uint8_t> window_;
  std::vector<uint64_t> signals_;
  FrameReader reader_;
  SendQueue queue_;
  std::vector<uint64_t> finished_;
};

TEST_F(Stream, ArrivesWholeHoweverItIsCut) {
  std::mt19937_64 random(7);
  uint64_t value = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::vector<uint8_t>> sources;
    std::vector<uint8_t> expected(window_);
    for (int i = 0; i < 12; ++i) {
      const uint64_t bytes = random() % 3 == 0 ? random() % 4000 : random() % 260;
      const uint64_t offset = random() % (kWindow - bytes + 1);
      std::vector<uint8_t>& source = sources.emplace_back(bytes);
      for (uint8_t& byte : source) byte = static_cast<uint8_t>(random());
      std::copy(source.begin(), source.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
      ASSERT_TRUE(Append(bytes != 0 ? source.data() : nullptr, bytes, offset, value % 4, value + 1, value + 1));
      ++value;
    }
    while (queue_.HasUnsent()) ASSERT_TRUE(Feed(Send(1 + random() % 5000), 1 + random() % 3000)) << reader_.why();
    ASSERT_EQ(window_, expected) << "round " << round;
  }
  for (uint64_t word = 0; word < 4; ++word) EXPECT_EQ(signals_[word * 8], value - 3 + word);
  std::vector<uint64_t> all(value);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(finished_, all);
}

TEST_F(Stream, CopiesOnlyWhatComesWithAHeader) {
  std::vector<uint8_t> source(kWindow, 3);
  ASSERT_TRUE(Append(source.data(), kWindow, 0, 0, 1));
  const std::vector<uint8_t> bytes = Send(UINT64_MAX);
  ASSERT_TRUE(Feed(bytes, UINT64_MAX));
  EXPECT_EQ(signals_[0], 1u);
  EXPECT_EQ(reader_.copied(), FrameReader::kAhead - sizeof(Frame));
}

// As links do: long payloads, each behind a signal.
TEST(LongStream, IsCopiedHardlyAtAll) {
  constexpr uint64_t kBytes = 65536;
  constexpr uint64_t kFrames = 32;
  std::vector<uint8_t> window(kBytes), source(kBytes, 3);
  std::vector<uint64_t> signals(2 * 8);
  FrameReader reader({window.data(), kBytes, signals.data(), 2});
  std::vector<uint8_t> bytes;
  const auto append = [&bytes](const void* from, size_t size) {
    const auto* first = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), first, first + size);
  };
  for (uint64_t i = 1; i <= kFrames; ++i) {
    const Frame signal = {kFramePut, 1, 0, 0, 0, i};
    const Frame put = {kFramePut, 0, 0, kBytes, 0, i};
    append(&signal, sizeof signal);
    append(&put, sizeof put);
    append(source.data(), kBytes);
  }
  uint64_t reads = 0;
  for (size_t at = 0; at < bytes.size(); ++reads) {
    iovec parts[2];
    const int count = reader.Room(parts);
    size_t taken = 0;
    for (int i = 0; i < count; ++i) {
      const size_t now = std::min(parts[i].iov_len, bytes.size() - at - taken);
      std::memcpy(parts[i].iov_base, bytes.data() + at + taken, now);
      taken += now;
    }
    at += taken;
    ASSERT_TRUE(reader.Take(taken)) << reader.why();
  }
  EXPECT_EQ(signals[0], kFrames);
  EXPECT_LE(reader.copied(), FrameReader::kAhead + kFrames * sizeof(Frame));
  EXPECT_LE(reads, kFrames + 1);
}

TEST_F(Stream, StoresTheSignalAfterTheLastByteOnly) {
  std::vector<uint8_t> source(300, 9);
  ASSERT_TRUE(Append(source.data(), 300, 0, 1, 5));
  std::vector<uint8_t> bytes = Send(UINT64_MAX);
  const uint8_t last = bytes.back();
  bytes.pop_back();
  ASSERT_TRUE(Feed(bytes, 10));
  EXPECT_EQ(signals_[8], 0u);
  ASSERT_TRUE(Feed({last}, 1));
  EXPECT_EQ(signals_[8], 5u);
}

TEST_F(Stream, BreaksAtWhatIsIllegalAndStaysBroken) {
  ASSERT_TRUE(FeedFrame({kFramePut, 0, 0, 0, 0, 8}));
  EXPECT_FALSE(FeedFrame({kFramePut, 0, 0, 0, 0, 7}));
  EXPECT_STREQ(reader_.why(), "a signal that shrinks");
  EXPECT_FALSE(FeedFrame({kFramePut, 0, 0, 0, 0, 9}));
  EXPECT_EQ(signals_[0], 8u);
}

TEST_F(Stream, WritesNothingForAPutToOutside) {
  EXPECT_FALSE(FeedFrame({kFramePut, 0, 0, 2, kWindow - 1, 1}));
  EXPECT_STREQ(reader_.why(), "a put to outside the window");
  EXPECT_EQ(window_, std::vector<uint8_t>(kWindow));
  EXPECT_EQ(signals_[0], 0u);
}

TEST_F(Stream, IgnoresWhatFollowsAGoodbye) {
  ASSERT_TRUE(FeedFrame({kFrameProbe, kFrameNoSignal, 0, 0, 0, 4}));
  ASSERT_TRUE(FeedFrame({kFrameAnswer, kFrameNoSignal, 0, 0, 0, 6}));
  EXPECT_EQ(reader_.probe(), 4u);
  EXPECT_EQ(reader_.answer(), 6u);
  ASSERT_TRUE(FeedFrame({kFrameGoodbye, kFrameNoSignal, 0, 0, 0, 0}));
  EXPECT_TRUE(reader_.goodbye());
  EXPECT_TRUE(FeedFrame({kFramePut, 0, 0, 0, 0, 1}));
  EXPECT_EQ(signals_[0], 0u);
}

TEST_F(Stream, QueueIsFullUntilSlotsHaveGone) {
  uint32_t taken = 0;
  while (Append(nullptr, 0, 0, 0, taken + 1)) ++taken;
  EXPECT_EQ(taken, SendQueue::kSlots);
  EXPECT_TRUE(queue_.IsCrowded());
  EXPECT_FALSE(Send(UINT64_MAX).empty());
  EXPECT_TRUE(Append(nullptr, 0, 0, 0, taken + 1));
}

TEST_F(Stream, LeavesShortSourcesFreeAtOnce) {
  std::vector<uint8_t> source(SendQueue::kInlineBytes, 1);
  ASSERT_TRUE(Append(source.data(), source.size(), 0, 0, 1));
  source.assign(source.size(), 2);
  ASSERT_TRUE(Feed(Send(UINT64_MAX), UINT64_MAX));
  EXPECT_EQ(window_[0], 1);
  EXPECT_EQ(window_[source.size() - 1], 1);
}

TEST_F(Stream, KeepsZeroCopySlotsUntilTheSystemIsDone) {
  std::vector<uint8_t> source(5000, 1);
  ASSERT_TRUE(Append(source.data(), 5000, 0, 0, 1, 11));
  ASSERT_TRUE(Append(nullptr, 0, 0, 0, 2, 12));
  iovec parts[SendQueue::kMaxParts];
  EXPECT_TRUE(queue_.NextIsAlone(4096));
  ASSERT_EQ(queue_.Gather(parts, 4096), 2) << "frame and payload of the long put, alone";
  queue_.Advance(1000, 1);  // cut: two calls
  queue_.Advance(sizeof(Frame) + 4000, 2);
  EXPECT_FALSE(queue_.NextIsAlone(4096));
  queue_.Advance(sizeof(Frame), 0);
  uint64_t cookie = 0;
  EXPECT_FALSE(queue_.Finish(1, &cookie));
  ASSERT_TRUE(queue_.Finish(2, &cookie));
  EXPECT_EQ(cookie, 11u);
  ASSERT_TRUE(queue_.Finish(2, &cookie));
  EXPECT_EQ(cookie, 12u);
}

TEST_F(Stream, AbandonedSlotsAreNotFreeWhileTheSystemReadsThem) {
  std::vector<uint8_t> source(5000, 1);
  for (uint64_t cookie = 21; cookie <= 23; ++cookie) ASSERT_TRUE(Append(source.data(), 5000, 0, 0, cookie, cookie));
  queue_.Advance(sizeof(Frame) + 5000, 1);
  queue_.Advance(1000, 2);  // then it was full
  queue_.Abandon();
  EXPECT_FALSE(queue_.HasUnsent());
  EXPECT_TRUE(queue_.AtFrame());
  uint64_t cookie = 0;
  EXPECT_FALSE(queue_.Finish(0, &cookie));
  ASSERT_TRUE(queue_.Finish(1, &cookie));
  EXPECT_EQ(cookie, 21u);
  EXPECT_FALSE(queue_.Finish(1, &cookie)) << "call 2 read a part of it";
  ASSERT_TRUE(queue_.Finish(2, &cookie));
  EXPECT_EQ(cookie, 22u);
  ASSERT_TRUE(queue_.Finish(2, &cookie));
  EXPECT_EQ(cookie, 23u);
  EXPECT_FALSE(queue_.Finish(2, &cookie));
  ASSERT_TRUE(Append(nullptr, 0, 0, 0, 24, 24)) << "a put that came late";
  EXPECT_TRUE(queue_.HasUnsent());
}

TEST_F(Stream, DropsWhatWasSentAndWhatWasNot) {
  ASSERT_TRUE(Append(nullptr, 0, 0, 0, 1, 21));
  ASSERT_TRUE(Append(nullptr, 0, 0, 0, 2, 22));
  queue_.Advance(sizeof(Frame) + 5, 1);
  uint64_t cookie = 0;
  ASSERT_TRUE(queue_.Drop(&cookie));
  EXPECT_EQ(cookie, 21u);
  ASSERT_TRUE(queue_.Drop(&cookie));
  EXPECT_EQ(cookie, 22u);
  EXPECT_FALSE(queue_.Drop(&cookie));
  EXPECT_TRUE(queue_.AtFrame());
}

TEST(ZeroCopies, FinishInOrderWhateverTheNoticesSay) {
  ZeroCopies copies;
  for (int i = 0; i < 10; ++i) copies.Begin();
  EXPECT_TRUE(copies.Finish(0, 2));
  EXPECT_EQ(copies.finished(), 3u);
  EXPECT_TRUE(copies.Finish(5, 6));
  EXPECT_TRUE(copies.Finish(4, 4));
  EXPECT_EQ(copies.finished(), 3u) << "call 3 is still read";
  EXPECT_TRUE(copies.Finish(3, 3));
  EXPECT_EQ(copies.finished(), 7u);
  EXPECT_TRUE(copies.Finish(7, 30)) << "calls that were never made";
  EXPECT_EQ(copies.finished(), 7u);
  EXPECT_TRUE(copies.outstanding());
  EXPECT_TRUE(copies.Finish(7, 9));
  EXPECT_FALSE(copies.outstanding());
}

}  // namespace
}  // namespace sl::transport_tcp
