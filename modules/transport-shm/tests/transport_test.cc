// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "modules/transport-shm/completion_ring.h"
#include "modules/transport-shm/tests/fixture.h"
#include "modules/transport-shm/transport.h"
#include "sdk/doorbell.h"

namespace sl::transport_shm {
namespace {

// Two ranks in one process.
class Shm : public ::testing::Test {
 protected:
  void SetUp() override {
    a_ = module_.Open(0, 2);
    b_ = module_.Open(1, 2);
    ASSERT_EQ(ops_->listen(b_, 0, &address_), SL_OK);
  }
  void TearDown() override {
    ops_->close(a_);
    ops_->close(b_);
  }

  sl_connection_t* Connect(sl_connect_args_t args) {
    sl_connection_t* connection = nullptr;
    EXPECT_EQ(ops_->connect(a_, &address_, &args, &connection), SL_OK);
    return connection;
  }

  sl_connection_t* Accept(sl_connect_args_t* out_args = nullptr) {
    sl_connection_t* connection = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    EXPECT_TRUE(Eventually([&] { return ops_->accept(b_, &connection, &args) == SL_OK; }));
    if (out_args != nullptr) *out_args = args;
    return connection;
  }

  bool ProgressUntilState(sl_transport_t* transport, sl_connection_t* connection, uint32_t state) {
    return Eventually([&] {
      EXPECT_EQ(ops_->progress(transport), SL_OK);
      return ops_->connection_state(connection) == state;
    });
  }

  // Connects a socket to b_'s listener, as anybody on the host can.
  int Visit() {
    Address address;
    std::memcpy(&address, address_.data, sizeof address);
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, "starling-", 9);
    std::memcpy(name.sun_path + 10, address.name, kNameBytes);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), offsetof(sockaddr_un, sun_path) + 10 + kNameBytes), 0);
    return fd;
  }

  uint64_t StrangersAtB() const { return reinterpret_cast<Transport*>(b_)->strangers(); }

  Module module_{200};
  const sl_transport_ops_t* ops_ = module_.ops;
  sl_transport_t* a_ = nullptr;
  sl_transport_t* b_ = nullptr;
  sl_address_t address_ = {};
};

TEST_F(Shm, PutsBeforeTheAcceptorKnows) {
  sl_connection_t* a = Connect(Args(1));
  ASSERT_EQ(ops_->connection_state(a), SL_CONNECTION_UP);
  const char text[] = "early";
  const sl_put_t put = MakePut(text, sizeof text, 100, 2, 5);
  ASSERT_EQ(ops_->put(a, &put), SL_OK);
  ops_->notify(a);

  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  sl_connection_t* b = Accept(&said);
  EXPECT_EQ(said.peer, 0u);
  EXPECT_EQ(said.lane, 1u);
  EXPECT_EQ(said.tag, 42u);
  EXPECT_EQ(said.window_bytes, 1u << 16);
  const sl_window_t window = WindowOf(ops_, b);
  EXPECT_EQ(Signal(window, 2), 5u);
  EXPECT_EQ(Signal(window, 0), 0u);
  EXPECT_STREQ(static_cast<char*>(window.local) + 100, text);
}

TEST_F(Shm, PutsBothWaysWithoutACopyAndWithNothing) {
  sl_connection_t* a = Connect(Args(1, 1 << 20));
  sl_connection_t* b = Accept();
  const sl_window_t wa = WindowOf(ops_, a);
  const sl_window_t wb = WindowOf(ops_, b);
  ASSERT_NE(wa.peer, nullptr);
  std::memset(wa.peer, 9, 1 << 20);
  sl_put_t put = MakePut(nullptr, 1 << 20, 0, 0, 1);
  ASSERT_EQ(ops_->put(a, &put), SL_OK);
  ASSERT_EQ(Signal(wb, 0), 1u);
  EXPECT_EQ(static_cast<uint8_t*>(wb.local)[(1 << 20) - 1], 9);

  std::vector<uint8_t> large(1 << 20, 4);
  put = MakePut(large.data(), large.size(), 0, 3, 8);
  ASSERT_EQ(ops_->put(b, &put), SL_OK);
  ASSERT_EQ(Signal(wa, 3), 8u);
  EXPECT_EQ(std::memcmp(wa.local, large.data(), large.size()), 0);
  EXPECT_EQ(static_cast<uint8_t*>(wb.local)[0], 9) << "one window only is written";

  put = MakePut(large.data(), 0, 1 << 20, SL_NO_SIGNAL, 0);
  EXPECT_EQ(ops_->put(b, &put), SL_OK);
}

TEST_F(Shm, RefusesPutsOutsideTheWindow) {
  sl_connection_t* a = Connect(Args(1, 4096, 2));
  const uint64_t word = 0;
  for (sl_put_t put : {MakePut(&word, 8, 4089, 0, 1), MakePut(&word, 8, UINT64_MAX, 0, 1),
                       MakePut(&word, UINT64_MAX, 8, 0, 1), MakePut(&word, 8, 0, 2, 1)}) {
    put.cookie = 7;
    EXPECT_EQ(ops_->put(a, &put), SL_ERR_INVALID);
  }
  sl_completion_t done = {};
  uint32_t count = 0;
  EXPECT_EQ(ops_->poll(a_, &done, 1, &count), SL_OK);
  EXPECT_EQ(count, 0u) << "what was refused completes, too";
  sl_connection_t* b = Accept();
  EXPECT_EQ(Signal(WindowOf(ops_, b), 0), 0u);
}

TEST_F(Shm, ReportsCompletionsInOrderAndNeverLosesOne) {
  sl_connection_t* a = Connect(Args(1));
  sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
  for (put.cookie = 1; put.cookie <= CompletionRing::kCells; ++put.cookie) ASSERT_EQ(ops_->put(a, &put), SL_OK);
  EXPECT_EQ(ops_->put(a, &put), SL_ERR_AGAIN);
  std::vector<sl_completion_t> done(2 * CompletionRing::kCells);
  uint32_t count = 0;
  ASSERT_EQ(ops_->poll(a_, done.data(), 2 * CompletionRing::kCells, &count), SL_OK);
  ASSERT_EQ(count, CompletionRing::kCells);
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(done[i].cookie, i + 1);
  EXPECT_EQ(done[0].connection, a);
  EXPECT_EQ(ops_->put(a, &put), SL_OK);
}

TEST_F(Shm, AnswersAProbeFromProgress) {
  sl_connection_t* a = Connect(Args(1));
  Accept();
  ops_->notify(a);  // takes the reply
  ASSERT_EQ(ops_->probe(a, 77), SL_OK);
  EXPECT_EQ(ops_->probe(a, 78), SL_ERR_AGAIN);
  sl_completion_t done = {};
  uint32_t count = 0;
  ops_->progress(a_);
  ops_->poll(a_, &done, 1, &count);
  EXPECT_EQ(count, 0u) << "nobody has answered yet";
  ASSERT_TRUE(Eventually([&] {
    ops_->progress(b_);
    ops_->progress(a_);
    ops_->poll(a_, &done, 1, &count);
    return count == 1;
  }));
  EXPECT_EQ(done.cookie, 77u);
  EXPECT_EQ(done.kind, SL_COMPLETION_PROBE);
  EXPECT_EQ(done.status, SL_OK);
}

TEST_F(Shm, KeepsOrderBetweenTwoThreads) {
  sl_connection_t* a = Connect(Args(1));
  sl_connection_t* b = Accept();
  constexpr uint64_t kRounds = 20000;
  std::thread peer([&] {
    const sl_window_t window = WindowOf(ops_, b);
    for (uint64_t i = 1; i <= kRounds; ++i) {
      ASSERT_TRUE(Eventually([&] { return Signal(window, 0) >= i; }));
      ASSERT_EQ(*static_cast<uint64_t*>(window.local), i);
      const sl_put_t put = MakePut(nullptr, 0, 0, 1, i);
      ASSERT_EQ(ops_->put(b, &put), SL_OK);
    }
  });
  const sl_window_t window = WindowOf(ops_, a);
  for (uint64_t i = 1; i <= kRounds; ++i) {
    const sl_put_t put = MakePut(&i, sizeof i, 0, 0, i);
    ASSERT_EQ(ops_->put(a, &put), SL_OK);
    ASSERT_TRUE(Eventually([&] { return Signal(window, 1) >= i; }));
  }
  peer.join();
}

TEST_F(Shm, WakesASleepingPeer) {
  sl_connection_t* a = Connect(Args(1));
  sl_connection_t* b = Accept();
  constexpr uint64_t kRounds = 300;
  const auto wait = [&](sl_transport_t* transport, const sl_window_t& window, uint64_t value) {
    sl_wait_object_t object = {};
    object.struct_size = sizeof object;
    ASSERT_EQ(ops_->wait_object(transport, &object), SL_OK);
    for (const uint64_t end = NowNs() + 20'000'000'000; Signal(window, 0) < value;) {
      ASSERT_LT(NowNs(), end);
      BellGuard guard(object.doorbell);
      if (Signal(window, 0) < value) guard.Sleep(20'000'000'000);
    }
  };
  std::thread peer([&] {
    const sl_window_t window = WindowOf(ops_, b);
    for (uint64_t i = 1; i <= kRounds; ++i) {
      wait(b_, window, i);
      const sl_put_t put = MakePut(nullptr, 0, 0, 0, i);
      ASSERT_EQ(ops_->put(b, &put), SL_OK);
      ops_->notify(b);
    }
  });
  const sl_window_t window = WindowOf(ops_, a);
  for (uint64_t i = 1; i <= kRounds; ++i) {
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, i);
    ASSERT_EQ(ops_->put(a, &put), SL_OK);
    ops_->notify(a);
    wait(a_, window, i);
  }
  peer.join();
}

TEST_F(Shm, SaysClosedAfterRetireAndKeepsWhatWasPut) {
  sl_connection_t* a = Connect(Args(1));
  const uint64_t word = 11;
  const sl_put_t put = MakePut(&word, sizeof word, 0, 0, 1);
  ASSERT_EQ(ops_->put(a, &put), SL_OK);
  ops_->retire(a);
  sl_connection_t* b = Accept();
  EXPECT_EQ(ops_->connection_state(b), SL_CONNECTION_CLOSED);
  const sl_window_t window = WindowOf(ops_, b);
  EXPECT_EQ(Signal(window, 0), 1u);
  EXPECT_EQ(*static_cast<uint64_t*>(window.local), 11u);
  EXPECT_EQ(ops_->put(b, &put), SL_ERR_LINK_DOWN);
  EXPECT_EQ(ops_->probe(b, 1), SL_ERR_LINK_DOWN);
}

TEST_F(Shm, RefusesAConnectWhenTheListenerHasGone) {
  ops_->close(b_);
  sl_connection_t* connection = nullptr;
  const sl_connect_args_t args = Args(1);
  EXPECT_EQ(ops_->connect(a_, &address_, &args, &connection), SL_ERR_PEER_LOST);
  EXPECT_NE(LastText().find("rank 1"), std::string::npos) << LastText();
  b_ = module_.Open(1, 2);
}

TEST_F(Shm, FindsAnUnacceptedConnectionDownWhenTheListenerGoes) {
  sl_connection_t* a = Connect(Args(1));
  ops_->close(b_);
  EXPECT_TRUE(ProgressUntilState(a_, a, SL_CONNECTION_DOWN));
  b_ = module_.Open(1, 2);
}

TEST_F(Shm, RefusesAddressesThatAreNotItsOwn) {
  sl_connection_t* connection = nullptr;
  sl_connect_args_t args = Args(1);
  sl_address_t garbage = address_;
  garbage.data[0] ^= 1;
  EXPECT_EQ(ops_->connect(a_, &garbage, &args, &connection), SL_ERR_INVALID);
  sl_transport_t* elsewhere = module_.Open(0, 2, 7, 4);
  EXPECT_EQ(ops_->connect(elsewhere, &address_, &args, &connection), SL_ERR_INVALID);
  ops_->close(elsewhere);
  args.window_bytes = UINT64_MAX;
  EXPECT_EQ(ops_->connect(a_, &address_, &args, &connection), SL_ERR_INVALID);
}

TEST_F(Shm, DropsStrangersAndStillServesItsPeer) {
  std::vector<int> visitors;
  for (int i = 0; i < 40; ++i) visitors.push_back(Visit());
  for (int i = 0; i < 10; ++i) ASSERT_EQ(send(visitors[i], "garbage", 7, 0), 7);
  // A whole hello without descriptors, and half of one.
  Hello hello = {kWireMagic, kWireVersion, sizeof(Hello), 0, 1, 0, 4, 0, 4096, {}};
  ASSERT_EQ(send(visitors[10], &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  ASSERT_EQ(send(visitors[11], &hello, sizeof hello / 2, 0), static_cast<ssize_t>(sizeof hello / 2));
  // A rank of another job: right words, wrong secret.
  sl_transport_t* other = module_.Open(0, 2, 8);
  const sl_connect_args_t args = Args(1);
  sl_connection_t* wrong = nullptr;
  ASSERT_EQ(ops_->connect(other, &address_, &args, &wrong), SL_OK);

  sl_connection_t* a = Connect(Args(1));
  sl_connection_t* b = Accept();
  EXPECT_EQ(ops_->connection_state(b), SL_CONNECTION_UP);
  EXPECT_EQ(StrangersAtB(), 13u);
  EXPECT_TRUE(ProgressUntilState(other, wrong, SL_CONNECTION_DOWN));
  // The silent ones run out of time.
  EXPECT_TRUE(Eventually([&] {
    ops_->progress(b_);
    return StrangersAtB() == 41;
  }));
  const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
  EXPECT_EQ(ops_->put(a, &put), SL_OK);
  EXPECT_EQ(Signal(WindowOf(ops_, b), 0), 1u);
  for (const int fd : visitors) close(fd);
  ops_->close(other);
}

TEST_F(Shm, RefusesAnUnsealedOrShortSegment) {
  Address address;
  std::memcpy(&address, address_.data, sizeof address);
  uint8_t secret[32];
  std::memset(secret, 7, sizeof secret);
  Hello hello = {kWireMagic, kWireVersion, sizeof(Hello), 0, 1, 0, 4, 0, 1 << 20, {}};
  hello.proof = ProveHello(secret, hello, address.name);
  Result<Fd> segment = MakeSegment("starling-test", 4096);
  ASSERT_TRUE(segment.ok());
  const int visitor = Visit();
  const int fds[2] = {segment.value().get(), segment.value().get()};
  ASSERT_EQ(SendPacket(visitor, &hello, sizeof hello, fds, 2), Transfer::kDone);
  sl_connection_t* connection = nullptr;
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  EXPECT_EQ(ops_->accept(b_, &connection, &args), SL_ERR_AGAIN);
  close(visitor);
}

TEST_F(Shm, SaysOnceThatDescriptorsAreShortAndLetsItsPeerInLater) {
  for (size_t shortages = 1; shortages <= 2; ++shortages) {
    sl_connection_t* a = Connect(Args(1));
    sl_connection_t* b = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    {
      const FewDescriptors shortage(0);
      for (int i = 0; i < 200; ++i) EXPECT_EQ(ops_->accept(b_, &b, &args), SL_ERR_LIMIT) << "somebody waits";
      EXPECT_NE(LastText().find("ulimit -n"), std::string::npos) << LastText();
      const uint64_t end = NowNs() + 250'000'000;
      while (NowNs() < end) ops_->progress(b_);
    }
    EXPECT_EQ(
        module_.CountLines(SL_LOG_WARN, "accept: Too many open files; raise the limit on descriptors (ulimit -n)"),
        shortages);
    b = Accept();
    EXPECT_EQ(ops_->connection_state(b), SL_CONNECTION_UP);
    EXPECT_EQ(ops_->connection_state(a), SL_CONNECTION_UP);
    EXPECT_EQ(ops_->accept(b_, &b, &args), SL_ERR_AGAIN);
  }
}

TEST_F(Shm, SaysNothingOfAShortageThatNobodyMeets) {
  const FewDescriptors shortage(0);
  sl_connection_t* b = nullptr;
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ops_->accept(b_, &b, &args), SL_ERR_AGAIN);
  EXPECT_EQ(module_.CountLines(SL_LOG_WARN, "Too many open files"), 0u);
}

// The peer's descriptors come in a message, and are lost with it where there is no room.
TEST_F(Shm, LosesNoPeerWhoseDescriptorsFindNoRoom) {
  for (size_t left : {1u, 2u}) {
    sl_connection_t* a = Connect(Args(1));
    sl_connection_t* b = nullptr;
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    {
      const FewDescriptors shortage(left);
      EXPECT_EQ(ops_->accept(b_, &b, &args), SL_ERR_LIMIT);
    }
    b = Accept();
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(StrangersAtB(), 0u);
    {
      const FewDescriptors shortage(0);
      ops_->notify(a);  // would take the reply
    }
    EXPECT_EQ(ops_->connection_state(a), SL_CONNECTION_UP);
    ops_->notify(a);
    EXPECT_EQ(ops_->probe(a, 1), SL_OK);
    sl_completion_t done = {};
    uint32_t count = 0;
    EXPECT_TRUE(Eventually([&] {
      ops_->progress(b_);
      ops_->progress(a_);
      ops_->poll(a_, &done, 1, &count);
      return count == 1;
    }));
    EXPECT_EQ(done.status, SL_OK);
  }
}

// While it lives, this user has as many descriptors in flight as one without privileges may have.
class FullFlight {
 public:
  FullFlight() : few_(64) {
    EXPECT_EQ(syscall(SYS_capget, &header_, before_), 0);
    __user_cap_data_struct without[2] = {before_[0], before_[1]};
    without[0].effective &= ~(1u << CAP_SYS_RESOURCE | 1u << CAP_SYS_ADMIN);
    EXPECT_EQ(syscall(SYS_capset, &header_, without), 0);  // of this thread
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    ends_[0] = Fd(ends[0]);
    ends_[1] = Fd(ends[1]);
    const int fds[2] = {ends[0], ends[1]};
    const char byte = 0;
    for (int i = 0; i < 10'000 && SendPacket(ends[0], &byte, 1, fds, 2) == Transfer::kDone;) ++i;
    EXPECT_EQ(errno, ETOOMANYREFS);
    fewer_.emplace(40);  // so that those which arrive make no room
  }
  ~FullFlight() {
    Fd fds[2];
    char byte = 0;
    while (ReceivePacket(ends_[1].get(), &byte, 1, fds, 2) == Transfer::kDone) {
    }
    syscall(SYS_capset, &header_, before_);
  }
  FullFlight(const FullFlight&) = delete;
  FullFlight& operator=(const FullFlight&) = delete;

 private:
  const FewDescriptors few_;
  std::optional<FewDescriptors> fewer_;
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
  Fd ends_[2];
};

// The reply to a peer has the descriptor by which it rings: it comes late, but it comes.
TEST_F(Shm, RepliesWhenThereIsRoomForDescriptorsInFlight) {
  sl_connection_t* a = Connect(Args(1));
  {
    const FullFlight full;
    ASSERT_NE(Accept(), nullptr);
    ops_->notify(a);  // would take the reply
  }
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  ASSERT_EQ(ops_->wait_object(b_, &object), SL_OK);
  const BellGuard sleeper(object.doorbell);
  EXPECT_TRUE(Eventually([&] {
    ops_->progress(b_);
    const uint32_t before = object.doorbell->rings;
    const sl_put_t put = MakePut(nullptr, 0, 0, 0, 1);
    EXPECT_EQ(ops_->put(a, &put), SL_OK);
    ops_->notify(a);
    return object.doorbell->rings != before;
  }));
}

TEST_F(Shm, EndsTheSocketsOfStrangersThoughAChildHoldsThem) {
  const int visitor = Visit();
  sl_connection_t* b = nullptr;
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  EXPECT_EQ(ops_->accept(b_, &b, &args), SL_ERR_AGAIN);
  const pid_t child = fork();
  if (child == 0) {
    close(visitor);
    for (;;) pause();
  }
  EXPECT_TRUE(Eventually([&] {
    ops_->progress(b_);
    char byte;
    return recv(visitor, &byte, 1, MSG_DONTWAIT) == 0;
  }));
  EXPECT_EQ(StrangersAtB(), 1u);
  close(visitor);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(Shm, LeavesNothingBehind) {
  const auto cycle = [&] {
    for (int i = 0; i < 5; ++i) {
      sl_connection_t* a = Connect(Args(1));
      sl_connection_t* b = Accept();
      ops_->notify(a);
      ops_->retire(b);
      if (i % 2 == 0) ops_->retire(a);
    }
    Connect(Args(1));
    ops_->close(a_);
    ops_->close(b_);
    a_ = module_.Open(0, 2);
    b_ = module_.Open(1, 2);
    ASSERT_EQ(ops_->listen(b_, 0, &address_), SL_OK);
  };
  cycle();
  const size_t fds = OpenFds();
  const size_t maps = SharedMaps();
  cycle();
  EXPECT_EQ(OpenFds(), fds);
  EXPECT_EQ(SharedMaps(), maps);
}

}  // namespace
}  // namespace sl::transport_shm
