// SPDX-License-Identifier: Apache-2.0
//
// Zero-copy sends that have not ended when their connection does: the system keeps their sources, and must let go of
// them before they are free.
#include <algorithm>
#include <cstring>
#include <vector>

#include "modules/transport-tcp/tests/guests.h"
#include "modules/transport-tcp/wire.h"

namespace sl::transport_tcp {
namespace {

// Rank 1 puts to a peer that is this test and does not read.
class ZeroCopyEnd : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 32 << 20;  // far more than sockets hold

  void SetUp() override {
    b_ = module_.Open(1, 2);
    ASSERT_EQ(module_.ops->listen(b_, 0, &address_), SL_OK);
    peer_.emplace(address_, 1, kBytes);
    peer_->SayHello();
    ASSERT_TRUE(Until([&] { return peer_->IsChallenged(); }));
    peer_->Confirm();
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    ASSERT_TRUE(Until([&] { return module_.ops->accept(b_, &connection_, &said) == SL_OK; }));
    for (uint64_t cookie = 5; cookie <= 7; ++cookie) {
      const sl_put_t put = MakePut(source_.data(), kBytes, 0, SL_NO_SIGNAL, 0, cookie);
      ASSERT_EQ(module_.ops->put(connection_, &put), SL_OK);
    }
    // Until the system takes no more, and the peer's host has acknowledged what it took.
    for (const uint64_t end = NowNs() + 50'000'000; NowNs() < end;) module_.ops->progress(b_);
    ASSERT_GE(CountersOf(b_).zerocopy_sends, 1u);
    ASSERT_GT(CountersOf(b_).sent_bytes, kBytes / 1024);
    ASSERT_TRUE(Poll().empty()) << "no put has left";
  }
  void TearDown() override { module_.ops->close(b_); }

  template <typename Condition>
  bool Until(Condition condition) {
    return Eventually([&] {
      module_.ops->progress(b_);
      return condition();
    });
  }
  std::vector<sl_completion_t> Poll() {
    std::vector<sl_completion_t> found(64);
    uint32_t count = 0;
    EXPECT_EQ(module_.ops->poll(b_, found.data(), 64, &count), SL_OK);
    found.resize(count);
    return found;
  }
  // How many bytes the peer gets of a source that was written again after it was free.
  uint64_t CountSpoiltBytes() {
    std::fill(source_.begin(), source_.end(), kSpoilt);
    uint64_t spoilt = 0;
    std::vector<uint8_t> bytes(1 << 20);
    Eventually([&] {
      const ssize_t got = recv(peer_->stream().get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) spoilt += static_cast<uint64_t>(std::count(bytes.begin(), bytes.begin() + got, kSpoilt));
      return got == 0 || (got < 0 && errno != EAGAIN);
    });
    return spoilt;
  }

  static constexpr uint8_t kSpoilt = 0xee;
  Module module_{With("zerocopy_minimum_bytes", "10000")};
  std::vector<uint8_t> source_ = std::vector<uint8_t>(kBytes, 1);
  sl_transport_t* b_ = nullptr;
  sl_address_t address_ = {};
  sl_connection_t* connection_ = nullptr;
  std::optional<Greeter> peer_;
};

TEST_F(ZeroCopyEnd, TellsSourcesFreeOnceWhenTheSystemHasLetGoOfThem) {
  const Frame garbage = {77, 77, 77, 77, 77, 77};
  ASSERT_EQ(send(peer_->stream().get(), &garbage, sizeof garbage, MSG_NOSIGNAL), ssize_t{sizeof garbage});
  ASSERT_TRUE(Until([&] { return module_.ops->connection_state(connection_) == SL_CONNECTION_DOWN; }));
  std::vector<sl_completion_t> found;
  ASSERT_TRUE(Until([&] {
    for (const sl_completion_t& completion : Poll()) found.push_back(completion);
    return found.size() == 3;
  })) << found.size();
  EXPECT_EQ(CountSpoiltBytes(), 0u) << "sent from memory that is its user's again";
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].cookie, 5 + i);
    EXPECT_EQ(found[i].status, SL_ERR_LINK_DOWN);
  }
  for (const uint64_t end = NowNs() + 150'000'000; NowNs() < end;) module_.ops->progress(b_);
  EXPECT_TRUE(Poll().empty()) << "each once";
  const Counters& counters = CountersOf(b_);
  EXPECT_LE(counters.zerocopy_copied, counters.zerocopy_sends);
}

TEST_F(ZeroCopyEnd, RetireFreesSources) {
  module_.ops->retire(connection_);
  EXPECT_EQ(CountSpoiltBytes(), 0u) << "sent from memory that is its user's again";
  EXPECT_TRUE(Poll().empty());
  EXPECT_EQ(module_.CountLines(SL_LOG_WARN, "still reads"), 0u);
}

// Streams take this from their listener.
void RefuseZeroCopyOfListeners() {
  for (int fd = 3; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0) continue;
    const int off = 0;
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &off, sizeof off), 0);
  }
}

TEST(ZeroCopyRefused, PutsAreCopiedAndComplete) {
  Module module(With("zerocopy_minimum_bytes", "10000"));
  sl_transport_t* const a = module.Open(0, 2);
  sl_transport_t* const b = module.Open(1, 2);
  sl_address_t address = {};
  ASSERT_EQ(module.ops->listen(b, 0, &address), SL_OK);
  RefuseZeroCopyOfListeners();
  sl_connection_t* from = nullptr;
  const sl_connect_args_t args = Args(1, 1 << 20);
  ASSERT_EQ(module.ops->connect(a, &address, &args, &from), SL_OK);
  sl_connection_t* to = nullptr;
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  uint64_t completed = 0;
  const auto progress = [&] {
    sl_completion_t found[64];
    uint32_t count = 0;
    module.ops->progress(a);
    module.ops->progress(b);
    EXPECT_EQ(module.ops->poll(b, found, 64, &count), SL_OK);
    completed += count;
  };
  ASSERT_TRUE(Eventually([&] {
    progress();
    return module.ops->accept(b, &to, &said) == SL_OK;
  }));
  const std::vector<uint8_t> source(20'000, 1);
  for (uint64_t cookie = 1; cookie <= 100; ++cookie) {
    const sl_put_t put = MakePut(source.data(), source.size(), 0, SL_NO_SIGNAL, 0, cookie);
    ASSERT_TRUE(Eventually([&] {
      progress();
      return module.ops->put(to, &put) == SL_OK;
    })) << cookie;
  }
  EXPECT_TRUE(Eventually([&] {
    progress();
    return completed == 100;
  })) << completed;
  EXPECT_EQ(CountersOf(b).zerocopy_sends, 0u);
  module.ops->close(a);
  module.ops->close(b);
}

}  // namespace
}  // namespace sl::transport_tcp
