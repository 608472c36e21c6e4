// SPDX-License-Identifier: Apache-2.0
//
// The door when it cannot let in who knocks: it says why, keeps nobody busy, and goes on when it can.
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "modules/transport-tcp/tests/guests.h"

namespace sl::transport_tcp {
namespace {

// Rank 1 listens, and may sleep.
class Door : public ::testing::Test {
 protected:
  explicit Door(const Options& options = kLoopback) : module_(options) {}
  void SetUp() override {
    b_ = module_.Open(1, 2);
    ASSERT_EQ(module_.ops->listen(b_, 0, &address_), SL_OK);
    sl_wait_object_t object = {};
    object.struct_size = sizeof object;
    ASSERT_EQ(module_.ops->wait_object(b_, &object), SL_OK);
    news_ = {object.fd, POLLIN, 0};
  }
  void TearDown() override { module_.ops->close(b_); }

  bool HasNews() { return poll(&news_, 1, 0) == 1; }
  sl_status_t Accept() {
    sl_connect_args_t said = {};
    said.struct_size = sizeof said;
    sl_connection_t* connection = nullptr;
    return module_.ops->accept(b_, &connection, &said);
  }
  template <typename Condition>
  bool Until(Condition condition) {
    return Eventually([&] {
      module_.ops->progress(b_);
      return condition();
    });
  }
  // Of a rank that sleeps until there is news, how often it is woken, and how often progress says that something moved.
  void Sleep(uint64_t ms, int* out_woken, int* out_moved) {
    *out_woken = *out_moved = 0;
    for (const uint64_t end = NowNs() + ms * 1'000'000; NowNs() < end;) {
      *out_woken += poll(&news_, 1, 5);
      // It looks at the clock now and then.
      for (int i = 0; i < 16; ++i) *out_moved += module_.ops->progress(b_) == SL_OK ? 1 : 0;
    }
  }

  Module module_;
  sl_transport_t* b_ = nullptr;
  sl_address_t address_ = {};
  pollfd news_ = {};
};

TEST_F(Door, KeepsNobodyBusyWhileDescriptorsAreShort) {
  for (size_t shortages = 1; shortages <= 2; ++shortages) {
    const Fd guest = Knock(address_);
    std::optional<FewDescriptors> shortage(std::in_place);
    ASSERT_TRUE(Until([&] { return module_.CountLines(SL_LOG_WARN, "accept: Too many open files") == shortages; }))
        << "said once each time";
    int woken = 0, moved = 0;
    Sleep(350, &woken, &moved);
    EXPECT_EQ(woken, 0);
    EXPECT_EQ(moved, 0) << "nobody came in";
    EXPECT_EQ(module_.CountLines(SL_LOG_WARN, "accept: Too many open files"), shortages);
    EXPECT_EQ(Accept(), SL_ERR_LIMIT) << "somebody waits";
    EXPECT_NE(Module::LastError().find("ulimit -n"), std::string::npos) << Module::LastError();
    shortage.reset();
    const std::string garbage(sizeof(Hello), 'x');
    ASSERT_GT(send(guest.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    EXPECT_TRUE(Until([&] { return HungUp(guest); })) << "let in when there was room again";
    EXPECT_EQ(Accept(), SL_ERR_AGAIN);
  }
}

TEST_F(Door, SaysNothingOfAShortageThatNobodyMeets) {
  const FewDescriptors shortage;
  for (int i = 0; i < 100; ++i) {
    module_.ops->progress(b_);
    EXPECT_EQ(Accept(), SL_ERR_AGAIN);
  }
  EXPECT_EQ(module_.CountLines(SL_LOG_WARN, "Too many open files"), 0u);
}

class DoorOfOne : public Door {
 protected:
  DoorOfOne() : Door(With("handshake_slots", "1")) {}
};

TEST_F(DoorOfOne, KeepsNobodyBusyWhileItIsFullOfProvenVisitors) {
  Greeter first(address_, 1);
  first.SayHello();
  ASSERT_TRUE(Until([&] { return first.IsChallenged(); }));
  Greeter second(address_, 2);
  second.SayHello();
  ASSERT_TRUE(HasNews());
  ASSERT_TRUE(Until([&] { return !HasNews(); })) << "it knocks, but nothing can be done for it";
  int woken = 0, moved = 0;
  Sleep(100, &woken, &moved);
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(moved, 0);
  first.Confirm();
  EXPECT_TRUE(HasNews());
  EXPECT_TRUE(Until([&] { return second.IsChallenged(); })) << "there is a place again";
  second.Confirm();
  EXPECT_TRUE(Until([&] { return Accept() == SL_OK; }));
  EXPECT_TRUE(Until([&] { return Accept() == SL_OK; }));
  EXPECT_TRUE(Until([&] { return !HasNews(); }));
  EXPECT_EQ(CountersOf(b_).strangers, 0u);
}

class DoorOfFour : public Door {
 protected:
  DoorOfFour() : Door(With("handshake_slots", "4")) {}

  // The hello that the Greeter of that number says, and said before, fills no places: a peer that comes after it is
  // heard.
  void ExpectNoPlacesFor(uint8_t number) {
    std::vector<std::unique_ptr<Greeter>> recorded;
    for (int i = 0; i < 4; ++i) {
      recorded.push_back(std::make_unique<Greeter>(address_, number));
      recorded.back()->SayHello();
    }
    module_.ops->progress(b_);
    Greeter peer(address_, static_cast<uint8_t>(number + 1));
    peer.SayHello();
    EXPECT_TRUE(UntilSoon([&] { return peer.IsChallenged(); })) << "it waits for a place";
    peer.Confirm();
    EXPECT_TRUE(UntilSoon([&] { return Accept() == SL_OK; }));
  }
  // Well before a silent visitor is dropped, after 10 s.
  template <typename Condition>
  bool UntilSoon(Condition condition) {
    for (const uint64_t end = NowNs() + 4'000'000'000; NowNs() < end;) {
      module_.ops->progress(b_);
      if (condition()) return true;
    }
    return false;
  }
};

TEST_F(DoorOfFour, GivesARecordedHelloNoSecondPlace) {
  Greeter first(address_, 1);
  first.SayHello();
  ASSERT_TRUE(Until([&] { return first.IsChallenged(); }));
  ExpectNoPlacesFor(1);
  first.Confirm();
  EXPECT_TRUE(Until([&] { return Accept() == SL_OK; })) << "the peer whose hello it was is not disturbed";
}

TEST_F(DoorOfFour, GivesTheRecordedHelloOfAPeerThatIsInNoPlace) {
  for (const uint8_t number : {uint8_t{1}, uint8_t{3}}) {
    Greeter peer(address_, number);
    peer.SayHello();
    ASSERT_TRUE(Until([&] { return peer.IsChallenged(); }));
    peer.Confirm();
    ASSERT_TRUE(Until([&] { return Accept() == SL_OK; }));
    ExpectNoPlacesFor(number);
  }
}

// Whoever records a hello may be heard before the peer that made it.
TEST_F(DoorOfFour, LetsAPeerInWhoseHelloAnotherHasShownBefore) {
  Greeter sniffer(address_, 1);
  for (int i = 0; i < 100; ++i) module_.ops->progress(b_);  // it is let in first, and is silent
  Greeter peer(address_, 1);
  peer.SayHello();
  sniffer.SayHello();
  EXPECT_TRUE(UntilSoon([&] { return peer.IsChallenged(); }));
  EXPECT_FALSE(HungUp(peer.stream()));
  peer.Confirm();
  EXPECT_TRUE(UntilSoon([&] { return Accept() == SL_OK; }));
  Greeter late(address_, 1);
  late.SayHello();
  EXPECT_TRUE(UntilSoon([&] { return HungUp(late.stream()); })) << "its hello was confirmed";
  ExpectNoPlacesFor(1);
}

TEST_F(DoorOfFour, ChallengesThePeerWhoseHelloLeftUnconfirmed) {
  {
    Greeter sniffer(address_, 1);
    sniffer.SayHello();
    ASSERT_TRUE(UntilSoon([&] { return sniffer.IsChallenged(); }));
  }
  ASSERT_TRUE(UntilSoon([&] { return CountersOf(b_).strangers == 1; })) << "it has left";
  Greeter peer(address_, 1);
  peer.SayHello();
  EXPECT_TRUE(UntilSoon([&] { return peer.IsChallenged(); }));
  peer.Confirm();
  EXPECT_TRUE(UntilSoon([&] { return Accept() == SL_OK; }));
}

// While it lives, this process gets no mapping of many GiB.
class LittleAddressSpace {
 public:
  LittleAddressSpace() {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (uint64_t{1} << 30);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  }
  ~LittleAddressSpace() { setrlimit(RLIMIT_AS, &before_); }
  LittleAddressSpace(const LittleAddressSpace&) = delete;
  LittleAddressSpace& operator=(const LittleAddressSpace&) = delete;

 private:
  rlimit before_ = {};
};

TEST_F(Door, TurnsAPeerAwayThoughAChildHoldsItsStream) {
  std::optional<Greeter> peer(std::in_place, address_, 1, kMaxWindowBytes);
  peer->SayHello();
  ASSERT_TRUE(Until([&] { return peer->IsChallenged(); }));
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  peer->Confirm();
  {
    const LittleAddressSpace shortage;
    EXPECT_TRUE(Until([&] { return module_.CountLines(SL_LOG_ERROR, "no memory for a window") == 1; }));
  }
  EXPECT_TRUE(Until([&] { return HungUp(peer->stream()); }));
  peer.reset();
  EXPECT_TRUE(Until([&] { return !HasNews(); })) << "nothing is left to look at";
  int woken = 0, moved = 0;
  Sleep(50, &woken, &moved);
  EXPECT_EQ(woken, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A peer whose host takes the stream, and who says nothing, or half of what it should.
TEST(Greeting, ThatIsNotAnsweredEndsInTime) {
  const size_t fds = OpenFds();
  for (const size_t said : {size_t{0}, sizeof(Challenge) - 1}) {
    Module module(With("handshake_timeout_ms", "100"));
    sl_transport_t* a = module.Open(0, 2);
    sl_transport_t* b = module.Open(1, 2);
    sl_address_t bytes;
    ASSERT_EQ(module.ops->listen(b, 0, &bytes), SL_OK);
    const Fd mute(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t name_bytes = sizeof name;
    ASSERT_EQ(bind(mute.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    ASSERT_EQ(listen(mute.get(), 1), 0);
    ASSERT_EQ(getsockname(mute.get(), reinterpret_cast<sockaddr*>(&name), &name_bytes), 0);
    Address address = Decoded(bytes);
    address.port = ntohs(name.sin_port);
    EncodeAddress(address, &bytes);
    const sl_connect_args_t args = Args(1);
    sl_connection_t* connection = nullptr;
    ASSERT_EQ(module.ops->connect(a, &bytes, &args, &connection), SL_OK);
    const Fd stream(accept(mute.get(), nullptr, nullptr));
    const Challenge challenge = {kWireMagic, kWireVersion, sizeof(Challenge), {}, {}};
    if (said != 0) {
      ASSERT_EQ(send(stream.get(), &challenge, said, MSG_NOSIGNAL), static_cast<ssize_t>(said));
    }
    EXPECT_TRUE(Eventually(
        [&] {
          module.ops->progress(a);
          return module.ops->connection_state(connection) == SL_CONNECTION_DOWN;
        },
        3))
        << "after 100 ms, not never";
    sl_window_t window = {};
    window.struct_size = sizeof window;
    EXPECT_EQ(module.ops->window(connection, &window), SL_ERR_LINK_DOWN);
    EXPECT_NE(Module::LastError().find("ulimit -n"), std::string::npos) << Module::LastError();
    module.ops->close(a);
    module.ops->close(b);
  }
  EXPECT_EQ(OpenFds(), fds);
}

}  // namespace
}  // namespace sl::transport_tcp
