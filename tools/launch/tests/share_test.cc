// SPDX-License-Identifier: Apache-2.0
//
// Ranks are threads here: what they share goes over real sockets and files.
#include "tools/launch/share.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "sdk/fd.h"

namespace sl::launch {
namespace {

using std::chrono::milliseconds;
using Bytes = std::array<std::byte, 128>;

class ShareTest : public testing::Test {
 protected:
  Place PlaceOf(int rank, int size) const {
    Place place{};
    place.rank = rank;
    place.size = size;
    place.job = "test";
    place.key =
        "test-" + std::to_string(getpid()) + "-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    place.one_host = one_host_;
    place.master = master_;
    place.port = port_;
    return place;
  }
  // What became of a rank: "" when it got rank 0's bytes, else the words of its error.
  std::string Join(const Place& place, milliseconds timeout = milliseconds(30'000)) const {
    Bytes bytes{};
    if (place.rank == 0) bytes.fill(std::byte{0x5a});
    try {
      Share(place, id_file_).FromFirst(bytes, timeout);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return bytes.front() == std::byte{0x5a} && bytes.back() == std::byte{0x5a} ? "" : "wrong bytes";
  }
  // All of them at once.
  std::vector<std::string> JoinAll(const std::vector<Place>& places,
                                   milliseconds timeout = milliseconds(30'000)) const {
    std::vector<std::string> words(places.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < places.size(); ++i) {
      threads.emplace_back([&, i] { words[i] = Join(places[i], timeout); });
    }
    for (std::thread& thread : threads) thread.join();
    return words;
  }
  // The first ones at once, the rest when `done` of those are through.
  std::vector<std::string> JoinAll(const std::vector<Place>& first, const std::vector<Place>& rest, size_t done) const {
    std::vector<std::string> words(first.size() + rest.size());
    std::atomic<size_t> through{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < first.size(); ++i) {
      threads.emplace_back([&, i] {
        words[i] = Join(first[i]);
        ++through;
      });
    }
    while (through < done) std::this_thread::yield();
    for (size_t i = 0; i < rest.size(); ++i) words[first.size() + i] = Join(rest[i]);
    for (std::thread& thread : threads) thread.join();
    return words;
  }
  std::vector<Place> AllOf(int size) const {
    std::vector<Place> places;
    for (int rank = size; rank-- > 0;) places.push_back(PlaceOf(rank, size));
    return places;
  }

  bool one_host_ = false;
  std::string master_;
  uint16_t port_ = 0;
  std::string id_file_;
};

// Below the ports that the system gives out, apart from those of other tests that run meanwhile.
uint16_t SomePort() { return static_cast<uint16_t>(30000 + getpid() % 250 * 8); }

class OnOneHost : public ShareTest {
 protected:
  OnOneHost() { one_host_ = true; }
};

class AcrossHosts : public ShareTest {
 protected:
  AcrossHosts() {
    master_ = "127.0.0.1";
    port_ = SomePort();
  }
};

Fd Listen(uint16_t port) {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0) << std::strerror(errno);
  EXPECT_EQ(listen(listener.get(), 16), 0);
  return listener;
}

TEST_F(OnOneHost, GivesEveryRankTheBytesOfTheFirst) { EXPECT_EQ(JoinAll(AllOf(9)), std::vector<std::string>(9)); }

TEST_F(OnOneHost, NamesRanksThatDoNotCome) {
  const auto words = JoinAll({PlaceOf(0, 4), PlaceOf(2, 4)}, milliseconds(2000));
  EXPECT_NE(words[0].find("of 4 ranks, ranks 1, 3 did not come"), std::string::npos) << words[0];
  EXPECT_EQ(words[1], "");
}

TEST_F(OnOneHost, SaysThatTheFirstRankDidNotCome) {
  const std::string words = Join(PlaceOf(1, 2), milliseconds(300));
  EXPECT_NE(words.find("rank 0 of 2 did not hand out the id at this host"), std::string::npos) << words;
  EXPECT_NE(words.find("Connection refused"), std::string::npos) << words;
}

TEST_F(OnOneHost, RefusesASecondFirstRank) {
  std::vector<std::string> words = JoinAll({PlaceOf(0, 2), PlaceOf(0, 2)}, {PlaceOf(1, 2)}, 1);
  if (words[0].empty()) std::swap(words[0], words[1]);
  EXPECT_NE(words[0].find("is another process rank 0 too"), std::string::npos) << words[0];
  EXPECT_EQ(words[1], "");
  EXPECT_EQ(words[2], "");
}

TEST_F(OnOneHost, RefusesARankThatComesTwice) {
  const auto words = JoinAll({PlaceOf(0, 3), PlaceOf(1, 3), PlaceOf(1, 3)}, {PlaceOf(2, 3)}, 2);
  const std::string both = words[1] + words[2];
  EXPECT_EQ(both, "two processes came as rank 1 of 3; every rank comes once");
  EXPECT_EQ(words[0], "") << "one of the two counts";
  EXPECT_EQ(words[3], "") << "one of the two counts";
}

TEST_F(OnOneHost, RefusesRanksThatWereToldAnotherSize) {
  const auto words = JoinAll({PlaceOf(0, 2), PlaceOf(1, 3)}, {PlaceOf(1, 2)}, 1);
  EXPECT_NE(words[1].find("this process is rank 1 of 3, says its launcher; rank 0 was told 2 ranks"), std::string::npos)
      << words[1];
  EXPECT_EQ(words[0], "");
  EXPECT_EQ(words[2], "");
}

TEST_F(AcrossHosts, GivesEveryRankTheBytesOfTheFirst) { EXPECT_EQ(JoinAll(AllOf(9)), std::vector<std::string>(9)); }

TEST_F(AcrossHosts, TakesTheNextPortWhereOneIsTaken) {
  const Fd stranger = Listen(port_);  // accepts and says nothing
  std::vector<std::string> words = JoinAll(AllOf(3));
  EXPECT_EQ(words, std::vector<std::string>(3));
}

TEST_F(AcrossHosts, KeepsJobsApartThatHaveOnePort) {
  std::vector<Place> places = AllOf(3);
  for (Place place : AllOf(3)) {
    place.job = "other";
    places.push_back(place);
  }
  EXPECT_EQ(JoinAll(places), std::vector<std::string>(6));
}

TEST_F(AcrossHosts, DoesNotMindStrangers) {
  Place first = PlaceOf(0, 2);
  std::string words = "unfinished";
  std::thread rank([&] { words = Join(first); });
  std::vector<Fd> strangers;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port_);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  while (strangers.size() < 100) {
    Fd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(stranger.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) continue;  // not yet listening
    const size_t bytes = strangers.size() % 3 * 20;  // nothing, half a request, garbage
    const std::string garbage(bytes, 'x');
    send(stranger.get(), garbage.data(), bytes, MSG_NOSIGNAL);
    strangers.push_back(std::move(stranger));
  }
  EXPECT_EQ(Join(PlaceOf(1, 2)), "");
  rank.join();
  EXPECT_EQ(words, "");
}

TEST_F(AcrossHosts, SaysThatTheFirstRanksHostIsAnother) {
  master_ = "198.51.100.1";  // of documentation's own addresses
  const std::string words = Join(PlaceOf(0, 2), milliseconds(300));
  EXPECT_NE(words.find("198.51.100.1 port " + std::to_string(port_ + kPorts - 1) + " is not on this host"),
            std::string::npos)
      << words;
}

TEST_F(AcrossHosts, SaysThatANameIsUnknown) {
  master_ = "no-such-host.invalid";
  for (const int rank : {0, 1}) {
    const std::string words = Join(PlaceOf(rank, 2), milliseconds(300));
    EXPECT_NE(words.find("the name no-such-host.invalid is not known here"), std::string::npos) << words;
  }
}

TEST_F(ShareTest, WantsToBeToldAWay) {
  EXPECT_NE(Join(PlaceOf(1, 2)).find("set MASTER_ADDR to its host"), std::string::npos);
  master_ = "127.0.0.1";
  EXPECT_NE(Join(PlaceOf(1, 2)).find("MASTER_PORT is not set"), std::string::npos);
}

TEST_F(ShareTest, NeedsNoWayForOneRank) { EXPECT_EQ(Join(PlaceOf(0, 1)), ""); }

class ThroughAFile : public ShareTest {
 protected:
  ThroughAFile() {
    id_file_ = std::filesystem::temp_directory_path() / ("starling-share-" + std::to_string(getpid()));
    std::filesystem::remove(id_file_);
  }
};

TEST_F(ThroughAFile, GivesTheBytesOn) {
  Bytes bytes;
  bytes.fill(std::byte{0x5a});
  {
    Share first(PlaceOf(0, 2), id_file_);
    first.FromFirst(bytes, milliseconds(300));
    EXPECT_EQ(std::filesystem::status(id_file_).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_EQ(Join(PlaceOf(1, 2)), "");
  }
  EXPECT_FALSE(std::filesystem::exists(id_file_));
}

TEST_F(ThroughAFile, RefusesOneThatIsAlreadyThere) {
  std::ofstream(id_file_) << "left over";
  EXPECT_NE(Join(PlaceOf(0, 2)).find("is already there"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(id_file_));
  std::filesystem::remove(id_file_);
}

TEST_F(ThroughAFile, GivesUpWhenTheFirstRankDoesNotWriteIt) {
  EXPECT_NE(Join(PlaceOf(1, 2), milliseconds(300)).find("rank 0 did not write id file"), std::string::npos);
}

}  // namespace
}  // namespace sl::launch
