// SPDX-License-Identifier: Apache-2.0
//
// The lists of all ranks, carried out over buffers of this process: every byte that a rank is to receive is written
// exactly once, with the right value, and nothing else is touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "modules/algo-copy/algorithm.h"
#include "sdk/datatype.h"

namespace sl::algo_copy {
namespace {

constexpr sl_op_kind_t kKinds[] = {SL_OP_ALL_GATHER, SL_OP_ALL_TO_ALL, SL_OP_BROADCAST, SL_OP_SCATTER, SL_OP_GATHER};

sl_op_t OpOf(sl_op_kind_t kind, uint64_t count, int32_t root) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_INT8;
  op.count = count;
  op.root = root;
  op.peer = -1;
  op.symmetric = kind == SL_OP_GATHER ? SL_OP_SEND_SYMMETRIC : SL_OP_RECV_SYMMETRIC;
  return op;
}

bool IsRooted(sl_op_kind_t kind) { return kind == SL_OP_BROADCAST || kind == SL_OP_SCATTER || kind == SL_OP_GATHER; }

std::vector<sl_copy_t> ListOf(const sl_op_t& op, uint32_t rank, uint32_t ranks) {
  const sl_algorithm_t algorithm(nullptr, rank, ranks, true);
  std::vector<sl_copy_t> list(2 * ranks);
  uint32_t count = 0;
  EXPECT_TRUE(algorithm.Copies(op, list, &count).ok());
  list.resize(count);
  return list;
}

struct Byte {
  uint8_t value = 0;
  uint32_t written = 0;
};
using Buffer = std::vector<Byte>;

uint8_t SentBy(uint32_t rank, uint64_t at) { return static_cast<uint8_t>(rank * 101 + at * 7 + at / 251 + 1); }

// All ranks of one operation; of a long one, whose lists keep to multiples of `grain` bytes, each grain as one byte.
class World {
 public:
  World(const sl_op_t& op, uint32_t ranks, uint64_t grain = 1) : op_(op), ranks_(ranks) {
    op_.count /= grain;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Buffer send(Bytes(SL_BUFFER_SEND, rank));
      for (uint64_t at = 0; at < send.size(); ++at) send[at] = {SentBy(rank, at), 1};
      send_.push_back(std::move(send));
      recv_.emplace_back(Bytes(SL_BUFFER_RECV, rank));
      lists_.push_back(ListOf(op, rank, ranks));
      for (sl_copy_t& copy : lists_.back()) {
        EXPECT_EQ((copy.from | copy.to | copy.bytes) % grain, 0u);
        copy.from /= grain;
        copy.to /= grain;
        copy.bytes /= grain;
      }
    }
  }

  void Run() {
    for (uint32_t phase = 0; phase < SL_COPY_PHASES; ++phase) {
      std::vector<Buffer> before = recv_;  // what copies of a phase read was there when it began
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        for (const sl_copy_t& copy : lists_[rank]) {
          if (copy.phase == phase) Carry(copy, rank, before);
        }
      }
    }
  }

  void Check() const {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      for (uint64_t at = 0; at < recv_[rank].size(); ++at) {
        const Byte& byte = recv_[rank][at];
        if (byte.written == 1 && byte.value == Wanted(rank, at)) continue;
        FAIL() << "rank " << rank << ", byte " << at << ": written " << byte.written << " times, at last "
               << static_cast<int>(byte.value);
      }
    }
  }

  void CheckPhases() const {
    const auto last = [](const std::vector<sl_copy_t>& list) { return list.empty() ? 0 : list.back().phase; };
    for (const auto& list : lists_) {
      EXPECT_EQ(last(list), last(lists_[0])) << "all ranks have as many";
      EXPECT_TRUE(std::is_sorted(list.begin(), list.end(),
                                 [](const sl_copy_t& a, const sl_copy_t& b) { return a.phase < b.phase; }));
    }
  }

 private:
  uint64_t Bytes(uint32_t buffer, uint32_t rank) const {
    const bool is_root = op_.root == static_cast<int32_t>(rank);
    const bool sends = buffer == SL_BUFFER_SEND;
    switch (op_.kind) {
      case SL_OP_ALL_GATHER:
        return sends ? op_.count : op_.count * ranks_;
      case SL_OP_BROADCAST:
        return sends && !is_root ? 0 : op_.count;
      case SL_OP_SCATTER:
        return !sends ? op_.count : is_root ? op_.count * ranks_ : 0;
      case SL_OP_GATHER:
        return sends ? op_.count : is_root ? op_.count * ranks_ : 0;
      default:
        return op_.count * ranks_;
    }
  }

  uint8_t Wanted(uint32_t rank, uint64_t at) const {
    const auto block = static_cast<uint32_t>(at / op_.count);
    switch (op_.kind) {
      case SL_OP_BROADCAST:
        return SentBy(static_cast<uint32_t>(op_.root), at);
      case SL_OP_SCATTER:
        return SentBy(static_cast<uint32_t>(op_.root), rank * op_.count + at);
      case SL_OP_ALL_TO_ALL:
        return SentBy(block, rank * op_.count + at % op_.count);
      default:
        return SentBy(block, at % op_.count);
    }
  }

  void Carry(const sl_copy_t& copy, uint32_t by, const std::vector<Buffer>& before) {
    if (copy.bytes == 0) return;
    ASSERT_EQ(copy.struct_size, sizeof(copy));
    ASSERT_TRUE(copy.from_rank == by || copy.to_rank == by);
    ASSERT_EQ(copy.to_buffer, SL_BUFFER_RECV);
    if (copy.from_rank != by) {
      ASSERT_EQ(copy.from_buffer, SL_BUFFER_SEND);
      ASSERT_TRUE((op_.symmetric & SL_OP_SEND_SYMMETRIC) != 0);
    }
    ASSERT_TRUE(copy.to_rank == by || (op_.symmetric & SL_OP_RECV_SYMMETRIC) != 0);
    const Buffer& from = (copy.from_buffer == SL_BUFFER_SEND ? send_ : before)[copy.from_rank];
    Buffer& to = recv_[copy.to_rank];
    ASSERT_LE(copy.from + copy.bytes, from.size());
    ASSERT_LE(copy.to + copy.bytes, to.size());
    for (uint64_t i = 0; i < copy.bytes; ++i) {
      if (from[copy.from + i].written != 1) FAIL() << "it is read before it is there";
      to[copy.to + i].value = from[copy.from + i].value;
      ++to[copy.to + i].written;
    }
  }

  sl_op_t op_;
  const uint32_t ranks_;
  std::vector<Buffer> send_;
  std::vector<Buffer> recv_;
  std::vector<std::vector<sl_copy_t>> lists_;
};

// Broadcasts of the longer ones go in two phases.
TEST(Copies, WriteEveryByteOnce) {
  for (const sl_op_kind_t kind : kKinds) {
    for (uint32_t ranks = 2; ranks <= 9; ++ranks) {
      for (const uint64_t count : {1u, 3u, 512u, 513u, 4000u}) {
        for (uint32_t root = 0; root < (IsRooted(kind) ? ranks : 1); ++root) {
          SCOPED_TRACE(std::string(OpKindName(kind)) + " of " + std::to_string(count) + " over " +
                       std::to_string(ranks) + " ranks, root " + std::to_string(root));
          World world(OpOf(kind, count, IsRooted(kind) ? static_cast<int32_t>(root) : -1), ranks);
          world.Run();
          world.Check();
          world.CheckPhases();
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Copies, PartsOfALongBroadcastAreHandedOn) {
  struct Case {
    uint32_t ranks;
    uint64_t count;
    uint32_t root;
  };
  for (const auto& [ranks, count, root] :
       {Case{3, 64 << 20, 1}, {4, (32 << 20) + 512, 0}, {6, (32 << 20) + 3 * 512, 5}}) {
    SCOPED_TRACE(std::to_string(count) + " over " + std::to_string(ranks) + " ranks, root " + std::to_string(root));
    const sl_op_t op = OpOf(SL_OP_BROADCAST, count, static_cast<int32_t>(root));
    ASSERT_EQ(ListOf(op, 0, ranks).back().phase, 1u);
    World world(op, ranks, 512);
    world.Run();
    world.Check();
    world.CheckPhases();
  }
}

TEST(Copies, NoTwoRanksTurnToTheSameOneAtOnce) {
  constexpr uint32_t kRanks = 8;
  for (const sl_op_kind_t kind : {SL_OP_ALL_GATHER, SL_OP_ALL_TO_ALL}) {
    for (uint32_t step = 0; step < kRanks; ++step) {
      std::vector<uint32_t> targets;
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        targets.push_back(ListOf(OpOf(kind, 64, -1), rank, kRanks)[step].to_rank);
      }
      std::sort(targets.begin(), targets.end());
      EXPECT_EQ(std::unique(targets.begin(), targets.end()), targets.end()) << step;
    }
  }
}

TEST(Copies, SayHowManyThereAreWhenThereIsTooLittleRoom) {
  const sl_algorithm_t algorithm(nullptr, 1, 4, true);
  std::vector<sl_copy_t> list(3);
  uint32_t count = 0;
  EXPECT_EQ(algorithm.Copies(OpOf(SL_OP_ALL_GATHER, 5, -1), list, &count).code(), SL_ERR_LIMIT);
  EXPECT_EQ(count, 4u);
}

TEST(Estimate, HoldsNoProcessorsAndGrows) {
  for (const sl_op_kind_t kind : kKinds) {
    uint64_t before = 0;
    for (const uint64_t count : {uint64_t{1} << 10, uint64_t{1} << 22, uint64_t{1} << 30}) {
      sl_estimate_t estimate{};
      const sl_algorithm_t algorithm(nullptr, 0, 8, true);
      ASSERT_EQ(algorithm.Estimate(OpOf(kind, count, 0), &estimate), SL_OK);
      EXPECT_EQ(estimate.run, SL_RUN_COPIES);
      EXPECT_EQ(estimate.processors, 0u);
      EXPECT_GT(estimate.time_ns, before) << OpKindName(kind) << " of " << count;
      before = estimate.time_ns;
    }
  }
}

TEST(Estimate, RefusesWhatItCannotReachOrCompute) {
  const sl_algorithm_t algorithm(nullptr, 0, 4, true);
  const auto reason = [&](const sl_op_t& op) {
    sl_estimate_t estimate{};
    EXPECT_EQ(algorithm.Estimate(op, &estimate), SL_ERR_UNSUPPORTED);
    return std::string(estimate.reason);
  };
  for (const sl_op_kind_t kind : kKinds) {
    sl_op_t op = OpOf(kind, 100, 0);
    op.symmetric ^= SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC;
    EXPECT_NE(reason(op).find("are not all in a symmetric window"), std::string::npos) << OpKindName(kind);
  }
  sl_op_t old = OpOf(SL_OP_ALL_GATHER, 100, -1);
  old.struct_size = SL_OP_SIZE_1_1;
  EXPECT_EQ(reason(old), "its receive buffers are not all in a symmetric window") << "what lies behind is not read";
  EXPECT_EQ(reason(OpOf(SL_OP_ALL_REDUCE, 100, -1)), "copy engines do not compute");
  EXPECT_EQ(reason(OpOf(SL_OP_SEND, 100, -1)), "two ranks exchange without the others");
}

// Whether a gather or scatter is in place some ranks know, and others do not.
TEST(Copies, LeaveGathersAndScattersToWhoAsksForThem) {
  const sl_algorithm_t algorithm(nullptr, 0, 4, false);
  for (const sl_op_kind_t kind : kKinds) {
    sl_estimate_t estimate{};
    const bool is_served = kind != SL_OP_GATHER && kind != SL_OP_SCATTER;
    EXPECT_EQ(algorithm.Estimate(OpOf(kind, 100, 0), &estimate), is_served ? SL_OK : SL_ERR_UNSUPPORTED);
  }
}

}  // namespace
}  // namespace sl::algo_copy
