// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/switchboard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "kernel/control/extension.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Patience Brief() { return {NowNs() + 20 * kSecond}; }

HostId Space(uint8_t number) {
  HostId space{};
  space[0] = number;
  return space;
}

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// One process that is called, on one host, and one that calls it, on the same host or on another one.
enum class Way { kLocal, kTcp, kTls };

class SwitchboardTest : public testing::TestWithParam<Way> {
 protected:
  SwitchboardTest()
      : control_(ControlThread::Start().Take()),
        called_(control_.get(), Choice(), IsNet() ? Space(1) : ReadSpaceId()),
        caller_(control_.get(), Choice(), IsNet() ? Space(2) : ReadSpaceId()) {
    EXPECT_TRUE(FillRandom(secret_).ok());
    if (IsNet()) {
      EXPECT_TRUE(called_.OpenNet().ok());
    }
    extension_ = Extension::Open(&called_, secret_).Take();
  }

  static bool IsNet() { return GetParam() != Way::kLocal; }
  static NetChoice Choice() { return {.interfaces = "lo", .tls = GetParam() == Way::kTls}; }
  static uint32_t Options() { return GetParam() == Way::kTls ? kEncrypts : 0; }
  Result<Stream> Connect() {
    const Endpoint to = extension_->endpoint();
    SL_ASSIGN(Fd fd, IsNet() ? ConnectNet(to.net, nullptr, Brief()) : ConnectLocal(to.local, Brief()));
    return Stream(std::move(fd));
  }
  Result<Stream> Call(const Secret& secret, const std::string& body = "") {
    return caller_.Call(extension_->endpoint(), secret, FrameType::kChild, BytesOf(body), Brief());
  }
  void Greet(const Stream& stream, const Greeting& greeting) {
    Writer hello;
    hello.Put(greeting.extension);
    hello.Put(greeting.options);
    hello.Put(greeting.callers);
    ASSERT_TRUE(SendAll(stream, EncodeFrame(FrameType::kHello, 0, hello.bytes()), Brief()).ok());
  }
  void EncryptWhereIsDue(Stream* stream, const Secret& secret) {
    if (GetParam() != Way::kTls) return;
    ASSERT_TRUE(Encrypt(stream, Tls::Role::kCaller, secret, extension_->endpoint().extension).ok());
  }
  // Somebody who knows the secret is put through whatever else goes on.
  void ExpectService(const std::string& body) {
    const Result<Stream> stream = Call(secret_, body);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    const Result<Switchboard::Caller> caller = extension_->Take(FrameType::kChild, Brief());
    ASSERT_TRUE(caller.ok()) << caller.status().message();
    EXPECT_EQ(std::string(caller.value().body.begin(), caller.value().body.end()), body);
  }
  static void ExpectClosed(const Stream& stream) {
    uint8_t byte;
    const sl_status_t end = ReceiveAll(stream, {&byte, 1}, Brief()).code();
    EXPECT_EQ(end, end == SL_ERR_DENIED && GetParam() == Way::kTls ? end : SL_ERR_PEER_LOST);
  }

  std::unique_ptr<ControlThread> control_;
  Switchboard called_;
  Switchboard caller_;
  Secret secret_{};
  std::unique_ptr<Extension> extension_;
};

const char* NameOf(Way way) { return way == Way::kLocal ? "Local" : way == Way::kTcp ? "Tcp" : "Tls"; }

INSTANTIATE_TEST_SUITE_P(Over, SwitchboardTest, testing::Values(Way::kLocal, Way::kTcp, Way::kTls),
                         [](const auto& of) { return NameOf(of.param); });

TEST_P(SwitchboardTest, PutsThroughWhoKnowsTheSecret) {
  ExpectService("first");
  ExpectService("");
  EXPECT_EQ(called_.strangers(), 0u);
}

TEST_P(SwitchboardTest, LosesNothingThatFollowsTheProof) {
  const Stream stream = Call(secret_).Take();
  ASSERT_TRUE(SendAll(stream, BytesOf("more"), Brief()).ok());
  const Switchboard::Caller caller = extension_->Take(FrameType::kChild, Brief()).Take();
  uint8_t more[4];
  ASSERT_TRUE(ReceiveAll(caller.stream, more, Brief()).ok());
  EXPECT_EQ(std::string(more, more + 4), "more");
}

TEST_P(SwitchboardTest, DropsStrangersUnanswered) {
  FrameHeader header{kFrameMagic, kFrameVersion, FrameType::kHello, 0, kHelloBytes, 0};
  const std::string hello(reinterpret_cast<const char*>(&header), sizeof(header));
  header.bytes = 0xffffffff;
  const std::string endless(reinterpret_cast<const char*>(&header), sizeof(header));
  header = {kFrameMagic, kFrameVersion, FrameType::kJoin, 0, kHelloBytes, 0};
  const std::string impatient(reinterpret_cast<const char*>(&header), sizeof(header));
  const std::string strangers[] = {"GET / HTTP/1.1\r\n\r\n........", std::string(4096, 'x'), endless,
                                   impatient + std::string(kHelloBytes, 'x')};
  for (const std::string& words : strangers) {
    const Stream stream = Connect().Take();
    ASSERT_TRUE(SendAll(stream, BytesOf(words), Brief()).ok());
    ExpectClosed(stream);
  }
  EXPECT_TRUE(Connect().ok());  // and gone again: a port scan
  const Stream half = Connect().Take();
  ASSERT_TRUE(SendAll(half, BytesOf(hello.substr(0, 7)), Brief()).ok());
  const Stream silent = Connect().Take();
  ExpectService("the job does not notice");
}

TEST_P(SwitchboardTest, DropsWhoDoesNotKnowTheSecret) {
  Secret wrong = secret_;
  wrong[0] ^= 1;
  // The caller finds out first: the called end has proved something else.
  EXPECT_EQ(Call(wrong).status().code(), SL_ERR_DENIED);
  // A caller that goes on nevertheless, and one that repeats what an honest caller said, in its own conversation.
  for (const bool replays : {false, true}) {
    Stream stream = Connect().Take();
    Greeting greeting{extension_->endpoint().extension, Options(), {}, {}};
    Greet(stream, greeting);
    const Frame answer = ReceiveFrame(stream, kMaxHelloBytes, Brief()).Take();
    ASSERT_EQ(answer.header.type, FrameType::kAnswer);
    const Proof proof = CallerProof(replays ? secret_ : wrong, greeting, FrameType::kChild, {});
    EncryptWhereIsDue(&stream, replays ? secret_ : wrong);
    const Status sent = SendAll(stream, EncodeFrame(FrameType::kChild, 0, proof), Brief());
    // Encrypted, it may hear of the refusal, or of the end that follows it, while it still speaks.
    ASSERT_TRUE(sent.ok() || GetParam() == Way::kTls) << sent.message();
    ExpectClosed(stream);
  }
  EXPECT_EQ(called_.strangers(), 3u);
  ExpectService("still");
}

TEST_P(SwitchboardTest, BelievesNoBodyThatTheProofDoesNotCover) {
  Stream stream = Connect().Take();
  Greeting greeting{extension_->endpoint().extension, Options(), {}, {}};
  Greet(stream, greeting);
  const Frame answer = ReceiveFrame(stream, kMaxHelloBytes, Brief()).Take();
  Reader in(answer.payload);
  greeting.calleds = in.Get<Challenge>();
  Writer proven;
  proven.Put(CallerProof(secret_, greeting, FrameType::kChild, BytesOf("rank 1")));
  proven.Append(BytesOf("rank 2"));
  EncryptWhereIsDue(&stream, secret_);
  ASSERT_TRUE(SendAll(stream, EncodeFrame(FrameType::kChild, 0, proven.bytes()), Brief()).ok());
  ExpectClosed(stream);
}

TEST_P(SwitchboardTest, TellsOtherVersionsThatTheyAre) {
  const Stream stream = Connect().Take();
  const FrameHeader old{kFrameMagic, kFrameVersion - 1, FrameType::kJoin, 0, 80, 0};
  ASSERT_TRUE(SendAll(stream, {reinterpret_cast<const uint8_t*>(&old), sizeof(old)}, Brief()).ok());
  const Result<Frame> refusal = ReceiveFrame(stream, kMaxHelloBytes, Brief());
  EXPECT_EQ(refusal.status().code(), SL_ERR_MISMATCH);
  EXPECT_NE(refusal.status().message().find("use one version"), std::string::npos) << refusal.status().message();
}

TEST_P(SwitchboardTest, TellsThoseWhoComeTooLate) {
  const Endpoint gone = extension_->endpoint();
  const auto other = Extension::Open(&called_, secret_).Take();  // the process is still there
  extension_.reset();
  const Status status = caller_.Call(gone, secret_, FrameType::kChild, {}, Brief()).status();
  EXPECT_EQ(status.code(), SL_ERR_STATE);
  EXPECT_NE(status.message().find("used already"), std::string::npos);
  extension_ = Extension::Open(&called_, secret_).Take();
}

// More connections than there are slots, none of which says a word.
TEST_P(SwitchboardTest, ServesWhileAThousandStrangersHoldOn) {
  std::vector<Stream> strangers;
  for (int i = 0; i < 1000; ++i) {
    Result<Stream> stream = Connect();
    if (!stream.ok()) GTEST_SKIP() << "the system lets no thousand connections wait: " << stream.status().message();
    strangers.push_back(stream.Take());
  }
  ExpectService("the job does not notice");
}

// More ranks come at once than there are slots, and for a while the control thread gets to none of them.
TEST_P(SwitchboardTest, DropsNobodyWhoHasSpoken) {
  std::vector<Stream> guests;
  // One slot stays free, lest the switchboard stop looking for more.
  while (guests.size() < Switchboard::kMaxGuests - 2) guests.push_back(Connect().Take());
  ExpectService("all before have been let in");
  {
    const auto held = control_->Hold();
    while (guests.size() < Switchboard::kMaxGuests) guests.push_back(Connect().Take());
    const Stream one_too_many = Connect().Take();
    for (const Stream& guest : guests) Greet(guest, {extension_->endpoint().extension, Options(), {}, {}});
    const timespec brief{0, Switchboard::kBriefNs + 10'000'000};
    nanosleep(&brief, nullptr);
  }
  for (const Stream& guest : guests) {
    const Result<Frame> answer = ReceiveFrame(guest, kMaxHelloBytes, Brief());
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer.value().header.type, FrameType::kAnswer);
  }
}

TEST_P(SwitchboardTest, LetsTheNextOneInAsSoonAsThereIsAPlace) {
  std::vector<Stream> guests;
  while (guests.size() < Switchboard::kMaxGuests) {
    guests.push_back(Connect().Take());
    Greet(guests.back(), {extension_->endpoint().extension, Options(), {}, {}});
    ASSERT_TRUE(ReceiveFrame(guests.back(), kMaxHelloBytes, Brief()).ok());
  }
  const Stream next = Connect().Take();
  const auto is_shut = [this] {
    const auto held = control_->Hold();
    return called_.is_shut();
  };
  for (const uint64_t end = NowNs() + 20 * kSecond; !is_shut() && NowNs() < end;) sched_yield();
  ASSERT_TRUE(is_shut()) << "all places are taken";
  guests.pop_back();
  Greet(next, {extension_->endpoint().extension, Options(), {}, {}});
  pollfd answer{next.fd(), POLLIN, 0};
  int shut_with_room = 0;
  for (const uint64_t end = NowNs() + 20 * kSecond; poll(&answer, 1, 0) == 0 && NowNs() < end;) {
    const auto held = control_->Hold();
    shut_with_room += called_.is_shut() && called_.guests() < Switchboard::kMaxGuests ? 1 : 0;
  }
  EXPECT_EQ(shut_with_room, 0);
  EXPECT_TRUE(ReceiveFrame(next, kMaxHelloBytes, Brief()).ok());
}

// More than twice as many ranks as there are places.
TEST_P(SwitchboardTest, IsNeverShutWhileThereIsAPlace) {
  constexpr int kCallers = 600;
  std::atomic<int> served{0};
  std::vector<std::thread> callers;
  const uint64_t begin_ns = NowNs();
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      // On a busy machine some are cut off, and call again.
      for (int call = 0; call < 6; ++call) {
        const Result<Stream> stream = Call(secret_, "rank");
        uint8_t word;
        if (!stream.ok() || !ReceiveAll(stream.value(), {&word, 1}, Brief()).ok()) continue;
        ++served;
        return;
      }
    });
  }
  int shut_with_room = 0;
  int taken = 0;
  while (taken < kCallers && NowNs() < begin_ns + 20 * kSecond) {
    const Result<Switchboard::Caller> caller = extension_->Take(FrameType::kChild, {NowNs()});
    if (caller.ok()) {
      ++taken;
      EXPECT_TRUE(SendAll(caller.value().stream, BytesOf("!"), Brief()).ok());
    }
    const auto held = control_->Hold();
    shut_with_room += called_.is_shut() && called_.guests() < Switchboard::kMaxGuests ? 1 : 0;
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(taken, kCallers);
  EXPECT_EQ(served, kCallers);
  EXPECT_EQ(shut_with_room, 0);
  RecordProperty("ms", static_cast<int>((NowNs() - begin_ns) / 1'000'000));
}

// Lets each end hear the other until one has left.
void PutThrough(const Stream& one, const Stream& other) {
  pollfd ends[] = {{one.fd(), POLLIN, 0}, {other.fd(), POLLIN, 0}};
  for (;;) {
    ASSERT_GT(poll(ends, 2, 20'000), 0) << "neither end says anything";
    for (const int end : {0, 1}) {
      if (ends[end].revents == 0) continue;
      uint8_t bytes[4096];
      const ssize_t got = recv(ends[end].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return;
      if (!SendAll(end == 0 ? other : one, {bytes, static_cast<size_t>(got)}, Brief()).ok()) return;
    }
  }
}

// Dropped as one of too many, twice.
TEST_P(SwitchboardTest, CallsAgainWhenCutOff) {
  NetListener net;
  LocalListener local;
  Endpoint door = extension_->endpoint();
  if (IsNet()) {
    net = ListenNet(ChooseInterface(ListInterfaces().Take(), "lo", NetFamily::kAny).Take(), 0).Take();
    door.net = net.address;
  } else {
    local = ListenLocal().Take();
    door.local = local.name;
  }
  const Fd& listener = IsNet() ? net.fd : local.fd;
  std::thread keeper([&] {
    for (int guest = 0; guest < 3; ++guest) {
      pollfd ready{listener.get(), POLLIN, 0};
      ASSERT_EQ(poll(&ready, 1, 20'000), 1) << "guest " << guest << " does not come";
      const Stream caller((IsNet() ? AcceptNet(listener) : AcceptLocal(listener)).Take());
      if (guest == 2) PutThrough(caller, Connect().Take());
    }
  });
  Result<Stream> stream = caller_.Call(door, secret_, FrameType::kChild, BytesOf("again"), Brief());
  EXPECT_TRUE(stream.ok()) << stream.status().message();
  const Result<Switchboard::Caller> caller = extension_->Take(FrameType::kChild, Brief());
  if (stream.ok()) stream = Stream(Fd());
  keeper.join();
  ASSERT_TRUE(caller.ok()) << caller.status().message();
  EXPECT_EQ(std::string(caller.value().body.begin(), caller.value().body.end()), "again");
}

// Whoever has TLS off would send what the others want encrypted, or the other way round.
TEST(SwitchboardNet, RefusesToTalkWhereOnlyOneEndEncrypts) {
  const auto control = ControlThread::Start().Take();
  for (const bool called_encrypts : {false, true}) {
    Switchboard called(control.get(), {.interfaces = "lo", .tls = called_encrypts}, Space(1));
    Switchboard caller(control.get(), {.interfaces = "lo", .tls = !called_encrypts}, Space(2));
    ASSERT_TRUE(called.OpenNet().ok());
    const auto extension = Extension::Open(&called, Secret{1}).Take();
    const Status refused = caller.Call(extension->endpoint(), Secret{1}, FrameType::kChild, {}, Brief()).status();
    EXPECT_EQ(refused.code(), SL_ERR_MISMATCH);
    EXPECT_NE(refused.message().find(called_encrypts ? "comm.tls is on" : "comm.tls is off"), std::string::npos)
        << refused.message();
  }
}

TEST(SwitchboardNet, ListensOnTheChosenInterfaceAlone) {
  const auto control = ControlThread::Start().Take();
  Switchboard switchboard(control.get(), NetChoice{"lo"});
  const auto before = Extension::Open(&switchboard, Secret{1}).Take();
  EXPECT_FALSE(before->endpoint().net.valid()) << "no port before one is needed";
  const NetAddress address = switchboard.OpenNet().Take();
  EXPECT_EQ(ToText(address), "127.0.0.1:" + std::to_string(address.port));
  EXPECT_EQ(before->endpoint().net, address);
  EXPECT_EQ(switchboard.OpenNet().Take(), address) << "one port a process";
}

TEST(SwitchboardNet, SaysWhatIsWrongWhenNothingIsThere) {
  const auto control = ControlThread::Start().Take();
  Switchboard switchboard(control.get(), NetChoice{"lo"}, Space(2));
  Endpoint nowhere;
  nowhere.space = Space(1);
  nowhere.process = 4711;
  EXPECT_EQ(switchboard.Call(nowhere, Secret{1}, FrameType::kChild, {}, Brief()).status().code(), SL_ERR_UNSUPPORTED);
  NetListener listener = ListenNet(ChooseInterface(ListInterfaces().Take(), "lo", NetFamily::kAny).Take(), 0).Take();
  nowhere.net = listener.address;
  listener.fd = Fd();
  const Status refused = switchboard.Call(nowhere, Secret{1}, FrameType::kChild, {}, Brief()).status();
  EXPECT_EQ(refused.code(), SL_ERR_PEER_LOST);
  EXPECT_NE(refused.message().find(ToText(nowhere.net)), std::string::npos) << refused.message();
  Switchboard no_interface(control.get(), NetChoice{"=absent0"}, Space(2));
  EXPECT_EQ(no_interface.OpenNet().status().code(), SL_ERR_NOT_FOUND);
}

}  // namespace
}  // namespace sl::kernel
