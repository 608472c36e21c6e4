// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/shrink_desk.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/control/control_thread.h"

namespace sl::kernel {
namespace {

class ShrinkDeskTest : public testing::Test {
 protected:
  // What rank 2, which shrinks without rank 0, answers one who waits for it and says that.
  Status Answer(const Bytes& said) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return SocketError("socketpair");
    const Stream asking{Fd(ends[0])};
    {
      const Switchboard::Caller caller{Stream(Fd(ends[1])), FrameType::kBeat, said};
      desk_.OnBeat(caller);
    }
    return ReceiveFrame(asking, kMaxHelloBytes, {NowNs()}).status();
  }
  // The same, once no rank can be ahead of the news any more. However slow the machine, the last question comes later.
  Status LastAnswer(const ShrinkDesk& host) {
    Status answer = Answer(host.Beat());
    const uint64_t late_ns = NowNs() + 1'500'000'000;
    for (bool is_last = false; !is_last && answer.code() != SL_ERR_MISMATCH; answer = Answer(host.Beat())) {
      usleep(20'000);  // as hosts ask
      is_last = NowNs() >= late_ns;
    }
    return answer;
  }

  std::unique_ptr<ControlThread> control_ = ControlThread::Start().Take();
  Switchboard switchboard_{control_.get(), {}};
  std::unique_ptr<Extension> extension_ = Extension::Open(&switchboard_, Secret{1}).Take();
  ShrinkDesk desk_{extension_.get(), "rank 2", "without rank 0", 1, {1, 2, 3}};
};

// A member has come to a host, to which it is known as `rank`.
void Come(ShrinkDesk* host, uint32_t rank) {
  JoinRequest request;
  request.known_as = rank;
  request.terms = "other";  // so that no meeting is needed
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const Fd other_end(ends[0]);
  Switchboard::Caller caller{Stream(Fd(ends[1])), FrameType::kJoin, request.Encode()};
  EXPECT_TRUE(host->OnCaller(&caller));
}

TEST_F(ShrinkDeskTest, ObjectsOnceSomebodyWaitsInTheOtherMeeting) {
  ShrinkDesk host(extension_.get(), "rank 0", "without rank 3", 1, {0, 1, 2});
  Come(&host, 1);
  EXPECT_EQ(Answer(host.Beat()).code(), SL_ERR_PEER_LOST) << "not at once: rank 1 may be ahead of the news";
  const Status objection = LastAnswer(host);
  EXPECT_EQ(objection.code(), SL_ERR_MISMATCH);
  EXPECT_EQ(objection.message().find("rank 0 shrinks without rank 3, rank 2 without rank 0; "), 0U)
      << objection.message();
  EXPECT_EQ(desk_.outcome().message(), objection.message());
}

TEST_F(ShrinkDeskTest, LeavesThoseAloneWhoMayBeEarly) {
  ShrinkDesk host(extension_.get(), "rank 0", "without rank 3", 1, {0, 1, 2});
  Come(&host, 0);  // rank 0 alone has no part in the shrink of rank 2
  EXPECT_EQ(LastAnswer(host).code(), SL_ERR_PEER_LOST);
  ShrinkDesk same(extension_.get(), "rank 1", "without rank 0", 1, {1, 2, 3});
  Come(&same, 1);
  EXPECT_EQ(LastAnswer(same).code(), SL_ERR_PEER_LOST);
  EXPECT_TRUE(desk_.outcome().ok());
}

// Each rank that waits for this one has a moment of its own to hear the news of its meeting.
TEST_F(ShrinkDeskTest, DoubtsEachMeetingForItself) {
  constexpr useconds_t kLongerThanDoubtUs = 1'100'000;
  ShrinkDesk host(extension_.get(), "rank 0", "without rank 3", 1, {0, 1, 2});
  const Bytes empty = host.Beat();
  Come(&host, 1);
  EXPECT_EQ(Answer(host.Beat()).code(), SL_ERR_PEER_LOST);
  usleep(kLongerThanDoubtUs);
  ShrinkDesk later(extension_.get(), "rank 1", "without ranks 0, 4", 1, {1, 2, 3});
  Come(&later, 3);
  EXPECT_EQ(Answer(later.Beat()).code(), SL_ERR_PEER_LOST) << "rank 3 may be ahead of the news";
  EXPECT_EQ(Answer(empty).code(), SL_ERR_PEER_LOST) << "rank 1 has left";
  EXPECT_EQ(Answer(host.Beat()).code(), SL_ERR_PEER_LOST) << "and has come again";
  EXPECT_TRUE(desk_.outcome().ok());
  EXPECT_EQ(LastAnswer(later).code(), SL_ERR_MISMATCH);
}

// Nobody should, and nobody is met there.
TEST_F(ShrinkDeskTest, DropsWhoTakesItForTheHost) {
  JoinRequest request;
  request.known_as = 1;
  request.terms = "without rank 0";
  request.attempt = 1;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const Fd other_end(ends[0]);
  Switchboard::Caller caller{Stream(Fd(ends[1])), FrameType::kJoin, request.Encode()};
  EXPECT_TRUE(desk_.OnCaller(&caller));
  EXPECT_TRUE(desk_.outcome().ok());
  EXPECT_EQ(desk_.Absent(), (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(ShrinkDeskTest, DropsWhatIsNoBeat) {
  ShrinkDesk host(extension_.get(), "rank 0", "without rank 3", 1, {0, 1, 2});
  Come(&host, 1);
  Bytes cut = host.Beat();
  cut.pop_back();
  for (const Bytes& said : {Bytes(), Bytes(3), Bytes(64, 0xff), cut}) {
    EXPECT_EQ(Answer(said).code(), SL_ERR_PEER_LOST);
  }
  desk_.End({});
  EXPECT_EQ(LastAnswer(host).code(), SL_ERR_PEER_LOST) << "it waits for nobody any more";
}

}  // namespace
}  // namespace sl::kernel
