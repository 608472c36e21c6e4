// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/transfer_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sl::kernel {
namespace {

sl_op_t Op(sl_op_kind_t kind, uint32_t peer, uint64_t number) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.count = 1 + number;
  op.datatype = SL_INT8;
  op.peer = static_cast<int32_t>(peer);
  return op;
}

// counts[from][to]
using Counts = std::vector<std::vector<uint32_t>>;

// A rank's part of them, its queues shuffled.
std::pmr::vector<sl_op_t> GroupOf(uint32_t rank, const Counts& counts, std::mt19937& random) {
  const auto size = static_cast<uint32_t>(counts.size());
  std::pmr::vector<sl_op_t> ops;
  std::vector<uint32_t> queues;
  for (uint32_t peer = 0; peer < size; ++peer) {
    queues.insert(queues.end(), counts[rank][peer], peer);
    queues.insert(queues.end(), counts[peer][rank], size + peer);
  }
  std::shuffle(queues.begin(), queues.end(), random);
  std::vector<uint64_t> numbers(2 * size);
  for (const uint32_t queue : queues) {
    ops.push_back(Op(queue < size ? SL_OP_SEND : SL_OP_RECV, queue % size, numbers[queue]++));
  }
  return ops;
}

// A rank with its launches. In one that has begun each queue goes on by itself.
struct Rank {
  Rank(const std::pmr::vector<sl_op_t>& ops, uint32_t rank, uint32_t size, uint32_t most) : steps(ops, rank, size) {
    for (uint32_t end = 0; end != steps.count();) ends.push_back(end = steps.Cut(end, most));
  }
  // The next of a queue in the launch that runs; `count()`: none.
  uint32_t Head(sl_op_kind_t kind, uint32_t peer) const {
    if (ends.empty()) return steps.count();
    for (uint32_t i = begin; i != ends.front(); ++i) {
      if (!done[i] && steps.ops()[i].kind == kind && steps.ops()[i].peer == static_cast<int32_t>(peer)) return i;
    }
    return steps.count();
  }
  void End(uint32_t op) {
    done[op] = true;
    while (!ends.empty() && std::all_of(done.begin() + begin, done.begin() + ends.front(), [](bool d) { return d; })) {
      begin = ends.front();
      ends.erase(ends.begin());
    }
  }

  TransferSteps steps;
  std::vector<uint32_t> ends;  // of the launches that have not ended
  uint32_t begin = 0;
  std::vector<bool> done = std::vector<bool>(steps.count());
};

// Whether all messages arrive, where each waits for both of its ends.
bool Ends(std::vector<Rank>& ranks) {
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t from = 0; from < ranks.size(); ++from) {
      for (uint32_t to = 0; to < ranks.size(); ++to) {
        const uint32_t send = ranks[from].Head(SL_OP_SEND, to);
        const uint32_t recv = ranks[to].Head(SL_OP_RECV, from);
        if (send == ranks[from].steps.count() || recv == ranks[to].steps.count()) continue;
        EXPECT_EQ(ranks[from].steps.ops()[send].count, ranks[to].steps.ops()[recv].count);
        ranks[from].End(send);
        ranks[to].End(recv);
        moved = true;
      }
    }
  }
  return std::all_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.ends.empty(); });
}

TEST(TransferSteps, LetsEveryMessageArriveHoweverRanksCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t size = round % 50 == 49 ? 60 : 1 + random() % 7;
    const uint32_t most = size == 60 ? 3 : 1 + random() % 40;
    Counts counts(size, std::vector<uint32_t>(size));
    for (auto& row : counts) {
      for (uint32_t& count : row) count = random() % 3 == 0 ? 0 : random() % most;
    }
    std::vector<Rank> ranks;
    for (uint32_t rank = 0; rank < size; ++rank) {
      ranks.emplace_back(GroupOf(rank, counts, random), rank, size, 1 + random() % 50);
    }
    ASSERT_TRUE(Ends(ranks)) << "round " << round << ": " << size << " ranks wait for each other";
  }
}

TEST(TransferSteps, TakesNoMoreThanAskedButForAStep) {
  std::mt19937 random(2);
  const Counts counts(3, std::vector<uint32_t>(3, 100));
  const TransferSteps steps(GroupOf(1, counts, random), 1, 3);
  ASSERT_EQ(steps.count(), 600u);
  for (uint32_t most = 1; most < 20; ++most) {
    for (uint32_t begin = 0; begin != 600;) {
      const uint32_t end = steps.Cut(begin, most);
      ASSERT_GT(end, begin);
      EXPECT_LE(end - begin, std::max(most, 2u));
      EXPECT_GE(std::min(end + 1, 600u), std::min(begin + most, 600u)) << "more would go into it";
      begin = end;
    }
  }
  EXPECT_EQ(steps.Cut(0, 600), 600u);
  EXPECT_EQ(steps.Cut(598, 1), 600u);
}

TEST(TransferSteps, KeepsAMessageToItselfWithItsOtherEnd) {
  std::mt19937 random(3);
  const Counts counts(2, std::vector<uint32_t>(2, 50));
  const TransferSteps steps(GroupOf(0, counts, random), 0, 2);
  for (uint32_t begin = 0, end = 0; begin != steps.count(); begin = end) {
    end = steps.Cut(begin, 7);
    uint64_t ends[2] = {0, 0};
    for (uint32_t i = begin; i != end; ++i) {
      if (steps.ops()[i].peer == 0) ends[steps.ops()[i].kind == SL_OP_SEND ? 0 : 1] += steps.ops()[i].count;
    }
    EXPECT_EQ(ends[0], ends[1]);
  }
}

}  // namespace
}  // namespace sl::kernel
