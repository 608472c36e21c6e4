// SPDX-License-Identifier: Apache-2.0
//
// The parts of all ranks, carried out one after the other over numbers of this process: they come to an all-reduce.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "modules/algo-sequence/algorithm.h"
#include "sdk/datatype.h"

namespace sl::algo_sequence {
namespace {

using Numbers = std::vector<int64_t>;

sl_op_t OpOf(uint64_t count, uint32_t symmetric = 0) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = SL_OP_ALL_REDUCE;
  op.datatype = SL_INT64;
  op.count = count;
  op.root = op.peer = -1;
  op.symmetric = symmetric;
  return op;
}

std::vector<sl_part_t> PartsOf(const sl_op_t& op, uint32_t rank, uint32_t ranks) {
  const sl_algorithm_t algorithm(nullptr, rank, ranks);
  std::vector<sl_part_t> parts(SL_MOST_PARTS);
  uint32_t count = 0;
  EXPECT_TRUE(algorithm.Parts(op, parts, &count).ok());
  parts.resize(count);
  return parts;
}

class World {
 public:
  World(uint64_t count, uint32_t ranks, bool in_place) : in_place_(in_place) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Numbers send(count);
      for (uint64_t at = 0; at < count; ++at) send[at] = static_cast<int64_t>(at * ranks + rank);
      send_.push_back(send);
      recv_.push_back(in_place ? send : Numbers(count, -1));
      parts_.push_back(PartsOf(OpOf(count), rank, ranks));
    }
  }

  void Run() {
    for (size_t i = 0; i < parts_[0].size(); ++i) {
      const std::vector<Numbers> sent = in_place_ ? recv_ : send_;
      const std::vector<Numbers> received = recv_;
      for (uint32_t rank = 0; rank < parts_.size(); ++rank) Carry(i, rank, sent, received);
    }
  }

  void Check() const {
    const auto ranks = static_cast<int64_t>(recv_.size());
    for (const Numbers& numbers : recv_) {
      for (uint64_t at = 0; at < numbers.size(); ++at) {
        const int64_t wanted = static_cast<int64_t>(at) * ranks * ranks + ranks * (ranks - 1) / 2;
        ASSERT_EQ(numbers[at], wanted) << "element " << at;
      }
    }
  }

 private:
  // Part `i` of one rank, of what stood in the buffers before anybody began it.
  void Carry(size_t i, uint32_t rank, const std::vector<Numbers>& sent, const std::vector<Numbers>& received) {
    const sl_part_t& part = parts_[rank][i];
    int64_t* to = recv_[rank].data() + part.recv / sizeof(int64_t);
    const auto from = [&](uint32_t r) {
      const sl_part_t& theirs = parts_[r][i];
      return (theirs.send_buffer == SL_BUFFER_SEND ? sent : received)[r].data() + theirs.send / sizeof(int64_t);
    };
    const auto ranks = static_cast<uint32_t>(parts_.size());
    for (uint64_t at = 0; at < part.count; ++at) {
      if (part.kind == SL_OP_ALL_GATHER) {
        for (uint32_t r = 0; r < ranks; ++r) to[r * part.count + at] = from(r)[at];
        continue;
      }
      const uint64_t first = part.kind == SL_OP_REDUCE_SCATTER ? rank * part.count : 0;
      int64_t sum = 0;
      for (uint32_t r = 0; r < ranks; ++r) sum += from(r)[first + at];
      to[at] = sum;
    }
  }

  const bool in_place_;
  std::vector<Numbers> send_;
  std::vector<Numbers> recv_;
  std::vector<std::vector<sl_part_t>> parts_;
};

TEST(Parts, ComeToAnAllReduce) {
  constexpr uint64_t kBlock = (64 << 10) / sizeof(int64_t);
  for (const bool in_place : {false, true}) {
    for (const uint32_t ranks : {2u, 3u, 7u, 8u}) {
      for (const uint64_t more : {uint64_t{0}, uint64_t{1}, uint64_t{ranks * 16 - 1}, uint64_t{ranks * 16 + 5}}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(more) + " more");
        World world(ranks * kBlock + more, ranks, in_place);
        world.Run();
        world.Check();
      }
    }
  }
}

// Copies of an all-gather need its receive buffers in a window at one offset; those of a reduce-scatter lie at another
// on every rank, and so does what the all-gather sends.
TEST(Parts, AreAsSymmetricAsTheirBuffers) {
  const auto parts = PartsOf(OpOf(1 << 20 | 1, SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC), 1, 4);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].symmetric, SL_OP_SEND_SYMMETRIC);
  EXPECT_EQ(parts[1].symmetric, SL_OP_RECV_SYMMETRIC);
  EXPECT_EQ(parts[2].symmetric, SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC);
  for (const sl_part_t& part : PartsOf(OpOf(1 << 20 | 1), 1, 4)) EXPECT_EQ(part.symmetric, 0u);
}

// All ranks list as many parts, of one kind and count.
TEST(Parts, AreAlikeOnAllRanks) {
  const auto first = PartsOf(OpOf(1 << 20 | 1), 0, 8);
  for (uint32_t rank = 1; rank < 8; ++rank) {
    const auto parts = PartsOf(OpOf(1 << 20 | 1), rank, 8);
    ASSERT_EQ(parts.size(), first.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].kind, first[i].kind);
      EXPECT_EQ(parts[i].count, first[i].count);
    }
  }
}

TEST(Estimate, ServesLongAllReducesAlone) {
  const sl_algorithm_t algorithm(nullptr, 0, 8);
  sl_estimate_t estimate{};
  EXPECT_EQ(algorithm.Estimate(OpOf(8 << 13), &estimate), SL_OK);
  EXPECT_EQ(estimate.run, SL_RUN_SEQUENCE);
  EXPECT_EQ(algorithm.Estimate(OpOf((8 << 13) - 1), &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_STREQ(estimate.reason, "two operations take longer to begin than one");
  estimate = {};
  sl_op_t other = OpOf(1 << 20);
  other.kind = SL_OP_REDUCE_SCATTER;
  EXPECT_EQ(algorithm.Estimate(other, &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_STREQ(estimate.reason, "only an all-reduce is two operations");
  EXPECT_EQ(estimate.run, SL_RUN_SEQUENCE) << "what it refuses would be one, too";
}

}  // namespace
}  // namespace sl::algo_sequence
