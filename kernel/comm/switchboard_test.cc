// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/switchboard.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "kernel/comm/extension.h"

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
class SwitchboardTest : public testing::TestWithParam<bool> {
 protected:
  SwitchboardTest()
      : control_(ControlThread::Start().Take()),
        called_(control_.get(), NetChoice{"lo"}, GetParam() ? Space(1) : ReadSpaceId()),
        caller_(control_.get(), NetChoice{"lo"}, GetParam() ? Space(2) : ReadSpaceId()) {
    FillRandom(secret_);
    if (GetParam()) {
      EXPECT_TRUE(called_.OpenNet().ok());
    }
    extension_ = Extension::Open(&called_, secret_).Take();
  }

  Result<Fd> Connect() {
    const Endpoint to = extension_->endpoint();
    return GetParam() ? ConnectNet(to.net, nullptr, Brief()) : ConnectLocal(to.local, Brief());
  }
  Result<Fd> Call(const Secret& secret, const std::string& body = "") {
    return caller_.Call(extension_->endpoint(), secret, FrameType::kChild, BytesOf(body), Brief());
  }
  // Somebody who knows the secret is put through whatever else goes on.
  void ExpectService(const std::string& body) {
    const Result<Fd> fd = Call(secret_, body);
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    const Result<Switchboard::Caller> caller = extension_->Take(FrameType::kChild, Brief());
    ASSERT_TRUE(caller.ok()) << caller.status().message();
    EXPECT_EQ(std::string(caller.value().body.begin(), caller.value().body.end()), body);
  }
  static void ExpectClosed(const Fd& fd) {
    uint8_t byte;
    EXPECT_EQ(ReceiveAll(fd.get(), {&byte, 1}, Brief()).code(), SL_ERR_PEER_LOST);
  }

  std::unique_ptr<ControlThread> control_;
  Switchboard called_;
  Switchboard caller_;
  Secret secret_{};
  std::unique_ptr<Extension> extension_;
};

INSTANTIATE_TEST_SUITE_P(Over, SwitchboardTest, testing::Bool(),
                         [](const auto& of) { return of.param ? "Tcp" : "Local"; });

TEST_P(SwitchboardTest, PutsThroughWhoKnowsTheSecret) {
  ExpectService("first");
  ExpectService("");
  EXPECT_EQ(called_.strangers(), 0u);
}

TEST_P(SwitchboardTest, LosesNothingThatFollowsTheProof) {
  const Fd fd = Call(secret_).Take();
  ASSERT_TRUE(SendAll(fd.get(), BytesOf("more"), Brief()).ok());
  const Switchboard::Caller caller = extension_->Take(FrameType::kChild, Brief()).Take();
  uint8_t more[4];
  ASSERT_TRUE(ReceiveAll(caller.fd.get(), more, Brief()).ok());
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
    const Fd fd = Connect().Take();
    ASSERT_TRUE(SendAll(fd.get(), BytesOf(words), Brief()).ok());
    ExpectClosed(fd);
  }
  EXPECT_TRUE(Connect().ok());  // and gone again: a port scan
  const Fd half = Connect().Take();
  ASSERT_TRUE(SendAll(half.get(), BytesOf(hello.substr(0, 7)), Brief()).ok());
  const Fd silent = Connect().Take();
  ExpectService("the job does not notice");
}

TEST_P(SwitchboardTest, DropsWhoDoesNotKnowTheSecret) {
  Secret wrong = secret_;
  wrong[0] ^= 1;
  // The caller finds out first: the called end has proved something else.
  EXPECT_EQ(Call(wrong).status().code(), SL_ERR_DENIED);
  // A caller that goes on nevertheless, and one that repeats what an honest caller said, in its own conversation.
  for (const bool replays : {false, true}) {
    const Fd fd = Connect().Take();
    Greeting greeting{extension_->endpoint().extension, {}, {}};
    Writer hello;
    hello.Put(greeting.extension);
    hello.Put(greeting.callers);
    ASSERT_TRUE(SendAll(fd.get(), EncodeFrame(FrameType::kHello, 0, hello.bytes()), Brief()).ok());
    const Frame answer = ReceiveFrame(fd.get(), kMaxHelloBytes, Brief()).Take();
    ASSERT_EQ(answer.header.type, FrameType::kAnswer);
    const Proof proof = CallerProof(replays ? secret_ : wrong, greeting, FrameType::kChild, {});
    ASSERT_TRUE(SendAll(fd.get(), EncodeFrame(FrameType::kChild, 0, proof), Brief()).ok());
    ExpectClosed(fd);
  }
  EXPECT_EQ(called_.strangers(), 3u);
  ExpectService("still");
}

TEST_P(SwitchboardTest, BelievesNoBodyThatTheProofDoesNotCover) {
  const Fd fd = Connect().Take();
  Greeting greeting{extension_->endpoint().extension, {}, {}};
  Writer hello;
  hello.Put(greeting.extension);
  hello.Put(greeting.callers);
  ASSERT_TRUE(SendAll(fd.get(), EncodeFrame(FrameType::kHello, 0, hello.bytes()), Brief()).ok());
  const Frame answer = ReceiveFrame(fd.get(), kMaxHelloBytes, Brief()).Take();
  Reader in(answer.payload);
  greeting.calleds = in.Get<Challenge>();
  Writer proven;
  proven.Put(CallerProof(secret_, greeting, FrameType::kChild, BytesOf("rank 1")));
  proven.Append(BytesOf("rank 2"));
  ASSERT_TRUE(SendAll(fd.get(), EncodeFrame(FrameType::kChild, 0, proven.bytes()), Brief()).ok());
  ExpectClosed(fd);
}

TEST_P(SwitchboardTest, TellsOtherVersionsThatTheyAre) {
  const Fd fd = Connect().Take();
  const FrameHeader old{kFrameMagic, kFrameVersion - 1, FrameType::kJoin, 0, 80, 0};
  ASSERT_TRUE(SendAll(fd.get(), {reinterpret_cast<const uint8_t*>(&old), sizeof(old)}, Brief()).ok());
  const Result<Frame> refusal = ReceiveFrame(fd.get(), kMaxHelloBytes, Brief());
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
  std::vector<Fd> strangers;
  for (int i = 0; i < 1000; ++i) {
    Result<Fd> fd = Connect();
    if (!fd.ok()) GTEST_SKIP() << "the system lets no thousand connections wait: " << fd.status().message();
    strangers.push_back(fd.Take());
  }
  ExpectService("the job does not notice");
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
