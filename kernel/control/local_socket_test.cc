// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/local_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace sl::kernel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uid_t kNobody = 65534;

Fd SomeDescriptor() { return Fd(eventfd(0, EFD_CLOEXEC)); }

class LocalSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    near_ = Fd(ends[0]);
    far_ = Fd(ends[1]);
  }

  static Patience Soon() { return {NowNs() + kSecond / 20}; }
  static Patience Later() { return {NowNs() + 20 * kSecond}; }

  // Runs `body` in a process of its own, whose limits it may change. What fails there says so and fails the test.
  static void Apart(const std::function<void()>& body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      body();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  static void Limit(rlim_t soft, rlim_t hard) {
    const rlimit limit{soft, hard};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  Fd near_;
  Fd far_;
};

TEST_F(LocalSocket, PassesDescriptors) {
  const Fd sent = SomeDescriptor();
  const std::vector<int> twice = {sent.get(), sent.get()};
  ASSERT_TRUE(SendDescriptors(near_.get(), twice, Soon()).ok());
  Result<std::vector<Fd>> received = ReceiveDescriptors(far_.get(), 2, Soon());
  ASSERT_TRUE(received.ok()) << received.status().message();
  EXPECT_NE(received.value()[0].get(), received.value()[1].get());
  for (const Fd& fd : received.value()) EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

// One byte after the other comes; each has the descriptors that were sent with it.
TEST_F(LocalSocket, TakesNothingForWhatIsNotDue) {
  const Fd sent = SomeDescriptor();
  const std::vector<int> twice = {sent.get(), sent.get()};
  ASSERT_TRUE(SendDescriptors(near_.get(), twice, Soon()).ok());
  EXPECT_EQ(ReceiveDescriptor(far_.get(), Soon()).status().code(), SL_ERR_LINK_CORRUPT);
  ASSERT_EQ(send(near_.get(), "x", 1, 0), 1);
  EXPECT_EQ(ReceiveDescriptor(far_.get(), Soon()).status().code(), SL_ERR_LINK_CORRUPT);
  EXPECT_EQ(ReceiveDescriptor(far_.get(), Soon()).status().code(), SL_ERR_TIMEOUT);
  near_.Close();
  EXPECT_EQ(ReceiveDescriptor(far_.get(), Soon()).status().code(), SL_ERR_PEER_LOST);
}

// The system bounds the descriptors of a user that are sent and not received yet, by all its processes together.
TEST_F(LocalSocket, WaitsWhileTooManyDescriptorsAreUnderWay) {
  Apart([&] {
    constexpr rlim_t kLimit = 64;
    Limit(kLimit, kLimit);
    if (geteuid() == 0) {
      ASSERT_EQ(setresuid(kNobody, kNobody, kNobody), 0);
    }
    const Fd sent = SomeDescriptor();
    Status status;
    rlim_t under_way = 0;
    for (; under_way < 4 * kLimit; ++under_way) {
      status = SendDescriptor(near_.get(), sent.get(), Soon());
      if (!status.ok()) break;
    }
    ASSERT_LT(under_way, 4 * kLimit) << "this system has no bound, and the test shows nothing";
    EXPECT_EQ(status.code(), SL_ERR_TIMEOUT) << status.message();
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(ReceiveDescriptor(far_.get(), Soon()).ok());
    status = SendDescriptor(near_.get(), sent.get(), Later());
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

// As who is called and who opens a socket does.
TEST_F(LocalSocket, RaisesTheLimitForDescriptorsThatCome) {
  Apart([&] {
    const Fd sent = SomeDescriptor();
    const std::vector<int> many(50, sent.get());
    ASSERT_TRUE(SendDescriptors(near_.get(), many, Soon()).ok());
    Limit(32, 128);
    const Result<std::vector<Fd>> received = ReceiveDescriptors(far_.get(), many.size(), Soon());
    EXPECT_TRUE(received.ok()) << received.status().message();
  });
}

TEST_F(LocalSocket, SaysThatNoDescriptorIsLeft) {
  Apart([&] {
    const Fd sent = SomeDescriptor();
    const std::vector<int> many(50, sent.get());
    ASSERT_TRUE(SendDescriptors(near_.get(), many, Soon()).ok());
    Limit(32, 32);
    EXPECT_EQ(ReceiveDescriptors(far_.get(), many.size(), Soon()).status().code(), SL_ERR_LIMIT);
    Limit(16, 16);
    EXPECT_LT(SomeDescriptor().get(), 16) << "those that came are closed";
  });
}

}  // namespace
}  // namespace sl::kernel
