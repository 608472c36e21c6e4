// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "shell.h"

namespace digits {
namespace {

using std::chrono::seconds;

// A rank of a launcher that says nothing about hosts.
sl::launch::Place PlaceOf(int rank, int size) {
  sl::launch::Place place{};
  place.rank = rank;
  place.size = size;
  return place;
}

// Shares 128 bytes from rank 0 and returns whether they came.
bool SharesBytes(World& world) {
  std::array<unsigned char, 128> bytes{};
  if (world.rank() == 0) bytes.fill(0x5a);
  world.Share(std::as_writable_bytes(std::span(bytes)));
  return bytes.front() == 0x5a && bytes.back() == 0x5a;
}

TEST(RunLocally, GivesEveryRankTheBytesOfRankZero) {
  EXPECT_EQ(RunLocally(4, seconds(30), [](World& world) { return world.size() == 4 && SharesBytes(world) ? 0 : 1; }),
            0);
}

TEST(RunLocally, FailsWhenOneRankFails) {
  EXPECT_EQ(RunLocally(3, seconds(30), [](World& world) { return world.rank() == 2 ? 5 : 0; }), 1);
}

TEST(RunLocally, KillsTheOthersWhenOneRankIsKilled) {
  EXPECT_EQ(RunLocally(2, seconds(600), [](World& world) { return world.rank() == 1 ? raise(SIGKILL) : pause(); }), 1);
}

TEST(RunLocally, KillsAllWhenTheTimeoutHasPassed) {
  EXPECT_EQ(RunLocally(2, seconds(1), [](World&) { return pause(); }), 1);
}

TEST(RunLocally, TellsTheOthersWhenRankZeroEndsBeforeItShared) {
  const auto body = [](World& world) {
    if (world.rank() == 0) return 0;
    try {
      SharesBytes(world);
    } catch (const std::runtime_error&) {
      return 0;
    }
    return 1;
  };
  EXPECT_EQ(RunLocally(3, seconds(30), body), 0);
}

TEST(JoinLauncher, SharesThroughAFileAndRemovesIt) {
  const TemporaryFolder folder;
  const std::string id_file = folder / "id";
  // Rank 0 removes the file when its world goes, which must be after the others have read it. In the program the
  // initialisation of NCCL sees to that, here rank 1 tells rank 0 through a pipe.
  std::array<int, 2> done;
  ASSERT_EQ(pipe(done.data()), 0);
  const auto body = [&](World& local) {
    const auto world = JoinLauncher(PlaceOf(local.rank(), local.size()), id_file, seconds(30));
    close(done[local.rank() == 0 ? 1 : 0]);
    if (!SharesBytes(*world)) return 1;
    char told = 0;
    if (local.rank() == 1) return write(done[1], &told, 1) == 1 ? 0 : 1;
    return read(done[0], &told, 1) == 1 ? 0 : 1;
  };
  EXPECT_EQ(RunLocally(2, seconds(60), body), 0);
  close(done[0]);
  close(done[1]);
  EXPECT_FALSE(std::filesystem::exists(id_file));
}

}  // namespace
}  // namespace digits
