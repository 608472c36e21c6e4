// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/tls.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <thread>

#include "sdk/fd.h"

namespace sl::kernel {
namespace {

constexpr Secret kKey{1, 2, 3};
constexpr int kPatienceMs = 20'000;

struct Pair {
  Fd ends[2];
};

Pair NewPair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {{Fd(fds[0]), Fd(fds[1])}};
}

std::unique_ptr<Tls> Begin(const Fd& fd, Tls::Role role, const Secret& key = kKey) {
  auto tls = Tls::Begin(fd.get(), role, key);
  EXPECT_TRUE(tls.ok()) << tls.status().message();
  return tls.Take();
}

bool Wait(const Fd& fd, short events) {
  pollfd item{fd.get(), events, 0};
  return poll(&item, 1, kPatienceMs) == 1;
}

// All of `text`, or what errno says.
int SendText(Tls* tls, const Fd& fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = tls->Send(text.data() + at, text.size() - at);
    if (sent > 0) at += static_cast<size_t>(sent);
    if (sent > 0) continue;
    if (errno != EAGAIN) return errno;
    if (!Wait(fd, tls->awaits_input() ? POLLIN : POLLOUT)) return ETIMEDOUT;
  }
  return 0;
}

// `bytes` bytes; fewer with an error, which `out_error` gets.
std::string ReceiveText(Tls* tls, const Fd& fd, size_t bytes, int* out_error) {
  std::string text(bytes, '\0');
  *out_error = 0;
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = tls->Receive(text.data() + at, bytes - at);
    if (got > 0) at += static_cast<size_t>(got);
    if (got > 0) continue;
    *out_error = got == 0 ? ECONNRESET : errno;
    if (*out_error != EAGAIN || !Wait(fd, POLLIN)) return text.substr(0, at);
    *out_error = 0;
  }
  return text;
}

TEST(Tls, CarriesBytesBothWays) {
  const Pair pair = NewPair();
  const auto caller = Begin(pair.ends[0], Tls::Role::kCaller);
  const auto called = Begin(pair.ends[1], Tls::Role::kCalled);
  std::string question(1'000'000, 'q'), answer(300'000, 'a');
  for (size_t i = 0; i < question.size(); i += 7) question[i] = static_cast<char>(i);
  std::thread other([&] {
    int error = 0;
    EXPECT_TRUE(ReceiveText(called.get(), pair.ends[1], question.size(), &error) == question) << error;
    EXPECT_EQ(SendText(called.get(), pair.ends[1], answer), 0);
  });
  EXPECT_EQ(SendText(caller.get(), pair.ends[0], question), 0);
  int error = 0;
  EXPECT_TRUE(ReceiveText(caller.get(), pair.ends[0], answer.size(), &error) == answer) << error;
  other.join();
}

// Passes on what comes at `from`, for as long as there is somebody; `change` sees every piece.
template <typename Change>
void Relay(const Fd& from, const Fd& to, Change change) {
  char piece[4096];
  while (Wait(from, POLLIN)) {
    const ssize_t got = recv(from.get(), piece, sizeof(piece), 0);
    if (got <= 0) break;
    change(piece, static_cast<size_t>(got));
    if (send(to.get(), piece, static_cast<size_t>(got), MSG_NOSIGNAL) != got) break;
  }
  shutdown(to.get(), SHUT_WR);
}

// Two ends with somebody between them who reads, and maybe changes, what the caller says.
class TlsOnTheWay : public testing::Test {
 protected:
  template <typename Change>
  void Begin(const Secret& called_key, Change change) {
    caller_ = sl::kernel::Begin(near_.ends[0], Tls::Role::kCaller);
    called_ = sl::kernel::Begin(far_.ends[1], Tls::Role::kCalled, called_key);
    there_ = std::thread([this, change] { Relay(near_.ends[1], far_.ends[0], change); });
    back_ = std::thread([this] { Relay(far_.ends[0], near_.ends[1], [](char*, size_t) {}); });
  }
  // Says `text` and returns what arrives, or the error.
  std::string Pass(const std::string& text, int* out_error) {
    std::thread speaker([&] {
      if (SendText(caller_.get(), near_.ends[0], text) != 0) shutdown(near_.ends[0].get(), SHUT_RDWR);
    });
    const std::string heard = ReceiveText(called_.get(), far_.ends[1], text.size(), out_error);
    if (*out_error != 0) shutdown(far_.ends[1].get(), SHUT_RDWR);
    speaker.join();
    return heard;
  }
  // Nobody is between them any more, nor uses what `change` named.
  void End() {
    shutdown(near_.ends[0].get(), SHUT_RDWR);
    shutdown(far_.ends[1].get(), SHUT_RDWR);
    there_.join();
    back_.join();
  }

  Pair near_ = NewPair(), far_ = NewPair();
  std::unique_ptr<Tls> caller_, called_;
  std::thread there_, back_;
};

const std::string kWords = "what the ranks of this job say to each other";

TEST_F(TlsOnTheWay, ShowsNothingOfWhatIsSaid) {
  std::string seen;
  Begin(kKey, [&seen](const char* piece, size_t bytes) { seen.append(piece, bytes); });
  int error = 0;
  EXPECT_EQ(Pass(kWords, &error), kWords);
  End();
  EXPECT_EQ(error, 0);
  EXPECT_GT(seen.size(), kWords.size());
  EXPECT_EQ(seen.find(kWords.substr(0, 8)), std::string::npos);
}

TEST_F(TlsOnTheWay, NoticesEveryChange) {
  size_t passed = 0;
  Begin(kKey, [&passed](char* piece, size_t bytes) {
    // Behind the handshake, which is shorter than this, and before the end of what is said.
    if (passed < 20'000 && passed + bytes >= 20'000) piece[bytes - 1] = static_cast<char>(piece[bytes - 1] ^ 1);
    passed += bytes;
  });
  int error = 0;
  const std::string text(100'000, 'x');
  EXPECT_LT(Pass(text, &error).size(), text.size());
  End();
  EXPECT_EQ(error, EPROTO);
}

TEST_F(TlsOnTheWay, DoesNotTalkToWhoHasAnotherKey) {
  Begin(Secret{3, 2, 1}, [](char*, size_t) {});
  int error = 0;
  EXPECT_EQ(Pass(kWords, &error), "");
  End();
  EXPECT_EQ(error, EPROTO);
}

TEST(Tls, DoesNotTakePlainWords) {
  const Pair pair = NewPair();
  const auto called = Begin(pair.ends[1], Tls::Role::kCalled);
  ASSERT_EQ(send(pair.ends[0].get(), kWords.data(), kWords.size(), 0), static_cast<ssize_t>(kWords.size()));
  int error = 0;
  EXPECT_EQ(ReceiveText(called.get(), pair.ends[1], 1, &error), "");
  EXPECT_EQ(error, EPROTO);
}

}  // namespace
}  // namespace sl::kernel
