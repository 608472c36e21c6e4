// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/path.h"

#include <gtest/gtest.h>

#include "kernel/link/fake_transport_test_util.h"

namespace sl::kernel {
namespace {

constexpr LinkGeometry kGeometry = {4, 64};
constexpr uint64_t kRound = uint64_t{1} << 32;  // where the halves of numbers that headers carry begin anew

// Both ends of one path.
class PathTest : public ::testing::Test {
 protected:
  explicit PathTest(bool mapped = false) : net_(2, mapped), outbox_(kGeometry.WindowBytes()) {
    const sl_transport_ops_t* ops = FakeNet::Ops();
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    args.window_bytes = kGeometry.WindowBytes();
    args.signal_count = Path::kSignalCount;
    sl_connection_t* ends[2] = {};
    EXPECT_EQ(ops->connect(net_.Transport(0), &net_.Addresses()[1], &args, &ends[0]), SL_OK);
    EXPECT_EQ(ops->accept(net_.Transport(1), &ends[1], &args), SL_OK);
    for (int side = 0; side < 2; ++side) {
      LinkConnection link;
      link.ops = ops;
      link.connection = ends[side];
      link.window.struct_size = sizeof link.window;
      EXPECT_EQ(ops->window(ends[side], &link.window), SL_OK);
      if (mapped && side == 0) peer_window_ = static_cast<uint8_t*>(link.window.peer);
      (side == 0 ? from_ : to_).Open(link, 0, 1, kGeometry);
    }
  }
  ~PathTest() override {
    for (Path* path : {&from_, &to_}) {
      const LinkConnection link = path->TakeOut();
      link.ops->retire(link.connection);
    }
  }

  static uint64_t OffsetOf(uint64_t sequence) { return (sequence - 1) % kGeometry.slots * kGeometry.SlotBytes(); }
  void Put(uint64_t sequence) {
    uint8_t* outbox = peer_window_ != nullptr ? peer_window_ : outbox_.data();
    LinkGeometry::HeaderOf(outbox + OffsetOf(sequence))->bytes = 8;
    EXPECT_EQ(from_.Put(outbox, OffsetOf(sequence), sequence), SL_OK);
    EXPECT_EQ(FakeNet::Ops()->progress(net_.Transport(1)), SL_OK);
  }
  bool Has(uint64_t sequence) {
    ChunkHeader header;
    bool corrupt = false;
    const bool found = to_.Has(OffsetOf(sequence), sequence, &header, &corrupt);
    EXPECT_FALSE(corrupt);
    return found;
  }

  FakeNet net_;
  std::vector<uint8_t> outbox_;
  uint8_t* peer_window_ = nullptr;  // of a mapped path
  Path from_;
  Path to_;
};

// The second copy of a chunk was taken from another path, so this one has still something to be taken, and then is idle
// while others carry 2^32 chunks of the link.
TEST_F(PathTest, MistakesNoOldChunkForAnotherOneWithTheSameLowHalf) {
  Put(5);
  Put(5);
  ASSERT_TRUE(Has(5));
  to_.CountTaken();
  EXPECT_FALSE(Has(5 + kRound));
  EXPECT_FALSE(Has(5 + 2 * kRound));
  Put(5 + 2 * kRound);
  EXPECT_FALSE(Has(5 + kRound));
  EXPECT_TRUE(Has(5 + 2 * kRound));
}

TEST_F(PathTest, CarriesChunksWhoseNumbersPassTheirLowHalf) {
  for (uint64_t sequence = kRound - 6; sequence < kRound + 6; ++sequence) {
    EXPECT_FALSE(Has(sequence));
    Put(sequence);
    EXPECT_TRUE(Has(sequence)) << sequence;
    to_.CountTaken();
  }
}

// A path that was idle for half of the numbers asks about what it has carried since.
TEST_F(PathTest, AsksAboutTheNewestChunkHoweverLongItWasIdle) {
  for (const uint64_t sequence : {uint64_t{5}, 7 + kRound / 2, 9 + 2 * kRound}) {
    Put(sequence);
    EXPECT_EQ(from_.Ask(1), SL_OK);
    EXPECT_TRUE(from_.AskedAbout(sequence)) << sequence;
    EXPECT_FALSE(from_.AskedAbout(sequence + 1)) << sequence;
  }
}

// What lacks a chunk stays frozen until kResent, whatever others carry meanwhile.
TEST_F(PathTest, StaysFrozenHoweverLongItTakes) {
  Put(5);
  Put(6);
  ASSERT_EQ(from_.Ask(1), SL_OK);
  ASSERT_EQ(FakeNet::Ops()->progress(net_.Transport(1)), SL_OK);
  ASSERT_EQ(to_.Answer(4), SL_OK);
  EXPECT_FALSE(Has(5));
  Put(7 + kRound / 2);
  EXPECT_FALSE(Has(7 + kRound / 2));
  ASSERT_EQ(from_.SayResent(), SL_OK);
  ASSERT_EQ(FakeNet::Ops()->progress(net_.Transport(1)), SL_OK);
  to_.ThawIfResent();
  EXPECT_TRUE(Has(7 + kRound / 2));
}

class MappedPathTest : public PathTest {
 protected:
  MappedPathTest() : PathTest(true) {}
};

// As above: what stands there is old, and not of a peer that writes what it cannot have.
TEST_F(MappedPathTest, TakesNoOldChunkForOneThatIsTooNew) {
  Put(5);
  Put(5);
  ASSERT_TRUE(Has(5));
  to_.CountTaken();
  for (const uint64_t later : {kRound / 2 + 4, kRound - 4, kRound, 3 * kRound / 2 + 4}) EXPECT_FALSE(Has(5 + later));
}

TEST_F(MappedPathTest, FindsAChunkThatIsTooNewCorrupt) {
  Put(9);
  ChunkHeader header;
  bool corrupt = false;
  EXPECT_FALSE(to_.Has(OffsetOf(5), 5, &header, &corrupt));
  EXPECT_TRUE(corrupt);
}

}  // namespace
}  // namespace sl::kernel
