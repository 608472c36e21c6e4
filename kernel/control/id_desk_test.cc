// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/id_desk.h"

#include <gtest/gtest.h>

#include <thread>

namespace sl::kernel {
namespace {

TEST(IdOfAddress, IsTheSameOnAllRanks) {
  for (const char* text : {"192.0.2.1:4711", "[fd00::1]:4711"}) {
    const Result<RendezvousId> one = IdOfAddress(text);
    const Result<RendezvousId> other = IdOfAddress(text);
    ASSERT_TRUE(one.ok() && other.ok()) << one.status().message();
    EXPECT_TRUE(IsAddressOnly(one.value()));
    EXPECT_EQ(ToText(one.value().rendezvous.net), text);
    const Result<RendezvousId> decoded = DecodeId(EncodeId(one.value()));
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded.value().nonce(), other.value().nonce());
    EXPECT_EQ(decoded.value().secret, other.value().secret);
  }
}

TEST(IdOfAddress, DiffersWithAddressAndPort) {
  const uint64_t nonce = IdOfAddress("192.0.2.1:4711").value().nonce();
  EXPECT_NE(IdOfAddress("192.0.2.1:4712").value().nonce(), nonce);
  EXPECT_NE(IdOfAddress("192.0.2.2:4711").value().nonce(), nonce);
}

TEST(IdOfAddress, SaysWhatToWriteInstead) {
  for (const char* text : {"", ":", "4711", "192.0.2.1", "192.0.2.1:", ":4711", "192.0.2.1:0", "192.0.2.1:65536",
                           "192.0.2.1:47x", "[fd00::1]"}) {
    const Result<RendezvousId> id = IdOfAddress(text);
    ASSERT_EQ(id.status().code(), SL_ERR_CONFIG) << text;
    EXPECT_NE(id.status().message().find("comm.rendezvous (NCCL_COMM_ID) is \"" + std::string(text) + "\""),
              std::string::npos)
        << id.status().message();
  }
}

// Rank 0's desk at a free port of the loopback interface, and the others' switchboard.
class IdDeskTest : public testing::Test {
 protected:
  IdDeskTest()
      : control_(ControlThread::Start().Take()),
        others_(control_.get(), NetChoice{"lo"}),
        asked_(IdOfAddress("127.0.0.1:" + std::to_string(FreePort())).Take()) {}

  static uint16_t FreePort() {
    return ListenNet(ChooseInterface(ListInterfaces().Take(), "lo", NetFamily::kAny).Take(), 0).Take().address.port;
  }
  void Open(uint64_t nonce) {
    RendezvousId given = asked_;
    given.rendezvous.extension = nonce;
    Result<std::unique_ptr<IdDesk>> desk = IdDesk::Open(control_.get(), NetChoice{"lo"}, asked_, given);
    ASSERT_TRUE(desk.ok()) << desk.status().message();
    desk_ = desk.Take();
  }
  // The nonce of the id that is given to the rank; 0: none in time.
  uint64_t Fetch(uint32_t rank, uint64_t patience_ns = 10'000'000'000) {
    const Result<RendezvousId> id =
        FetchId(asked_, rank, spent_.Newest(asked_, rank), others_, {NowNs() + patience_ns});
    EXPECT_TRUE(id.ok() || id.status().code() == SL_ERR_TIMEOUT) << id.status().message();
    return id.ok() ? id.value().nonce() : 0;
  }

  std::unique_ptr<ControlThread> control_;
  Switchboard others_;
  const RendezvousId asked_;
  SpentIds spent_;
  std::unique_ptr<IdDesk> desk_;
};

// The first answer was lost on the way, or the rank's process, which had it, was started anew.
TEST_F(IdDeskTest, GivesTheIdToARankThatAsksAgain) {
  Open(7);
  EXPECT_EQ(Fetch(1), 7u);
  EXPECT_EQ(Fetch(1), 7u);
}

// Anybody who reaches the address can ask.
TEST_F(IdDeskTest, GivesRanksTheIdWhateverStrangersHaveAskedForBefore) {
  Open(7);
  for (const uint32_t rank : {0u, 1u, 2u, 3u, UINT32_MAX}) EXPECT_EQ(Fetch(rank), 7u);
  for (const uint32_t rank : {1u, 2u, 3u}) EXPECT_EQ(Fetch(rank), 7u) << rank;
}

// The desk may still be open when a quick rank wants the next communicator.
TEST_F(IdDeskTest, MakesRanksThatHaveMetWaitForTheNextId) {
  Open(7);
  EXPECT_EQ(Fetch(1), 7u);
  spent_.AddMet(asked_, 7);
  for (const uint32_t rank : {1u, 2u}) EXPECT_EQ(Fetch(rank, 300'000'000), 0u) << rank;
  std::thread next([this] {
    const timespec nap{0, 100'000'000};
    nanosleep(&nap, nullptr);  // it may come late
    desk_.reset();
    Open(8);
  });
  EXPECT_EQ(Fetch(1), 8u);
  next.join();
  EXPECT_EQ(Fetch(2), 8u);
}

// Another rank of the process has still to hear, by that id, that there will be no communicator.
TEST_F(IdDeskTest, MakesOnlyTheRankThatHasFailedWaitForTheNextId) {
  Open(7);
  spent_.AddFailed(asked_, 1, 7);
  EXPECT_EQ(Fetch(1, 300'000'000), 0u);
  EXPECT_EQ(Fetch(2), 7u);
  desk_.reset();
  Open(8);
  EXPECT_EQ(Fetch(1), 8u);
  spent_.AddMet(asked_, 8);
  EXPECT_EQ(Fetch(1, 300'000'000), 0u);
}

}  // namespace
}  // namespace sl::kernel
