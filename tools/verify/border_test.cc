// SPDX-License-Identifier: Apache-2.0
//
// What crosses the borders of hosts, counted from plans: bytes and messages of two-level ones against those of flat
// ones, which do not know hosts; and what two-level ones move within a host.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel/plan/part.h"
#include "sdk/datatype.h"
#include "tools/verify/algorithms.h"
#include "tools/verify/layout.h"
#include "tools/verify/rank_set.h"

namespace sl::verify {
namespace {

struct Traffic {
  uint64_t bytes = 0;
  uint64_t messages = 0;
};

// Calls `visit` with every PUT and its elements, in the order of lanes, rounds and steps.
template <typename Visit>
void ForEachPut(const kernel::Plan& plan, Visit visit) {
  const sl_plan_desc_t& desc = plan.desc();
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    for (uint64_t round = 0; round < desc.rounds; ++round) {
      uint32_t repetitions = 1, left = 0;
      for (const kernel::PlanStep& step : plan.lane(lane)) {
        if (step.data.kind == SL_STEP_REPEAT) {
          repetitions = step.data.count;
          left = step.data.length;
          continue;
        }
        for (uint32_t i = 0; i < repetitions && step.data.kind == SL_STEP_PUT; ++i) {
          const sl_operand_t& shape = step.data.shape;
          const uint32_t block = kernel::BlockAt(shape.block, shape.block_step, i, desc.block_modulus);
          const kernel::Part part = kernel::PartOf(plan.geometry(shape.buffer), block, desc.chunk, round);
          if (part.elements != 0) visit(static_cast<uint32_t>(step.data.peer), part.elements);
        }
        if (left != 0 && --left == 0) repetitions = 1;
      }
    }
  }
}

// The longest chain of messages of which each is sent after the one before has come. Plans of one lane and one round.
uint32_t LongestChain(const PlanSet& set) {
  struct Progress {
    size_t step = 0;
    uint32_t chain = 0;
  };
  std::vector<Progress> ranks(set.plans.size());
  std::map<std::pair<uint32_t, uint32_t>, std::deque<uint32_t>> sent;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const auto steps = set.plans[rank]->lane(0);
      for (Progress& at = ranks[rank]; at.step < steps.size(); ++at.step) {
        const sl_step_t& step = steps[at.step].data;
        const auto peer = static_cast<uint32_t>(step.peer);
        if (step.kind == SL_STEP_PUT) sent[{rank, peer}].push_back(at.chain + 1);
        if (step.kind == SL_STEP_WAIT) {
          std::deque<uint32_t>& came = sent[{peer, rank}];
          if (came.empty()) break;
          at.chain = std::max(at.chain, came.front());
          came.pop_front();
        }
        moved = true;
      }
    }
  }
  uint32_t longest = 0;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(set.plans[rank]->lane_count(), 1u);
    EXPECT_EQ(ranks[rank].step, set.plans[rank]->lane(0).size()) << "rank " << rank << " is stuck";
    longest = std::max(longest, ranks[rank].chain);
  }
  return longest;
}

class Borders : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Algorithms>> loaded = Algorithms::Load("auto");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    algorithms_ = loaded.Take();
  }

  // The most that leaves or enters a host, counted in messages and in bytes.
  Traffic Busiest(const std::string& name, const sl_op_t& op, uint32_t ranks, const std::string& hosts) {
    CommShape shape{.ranks = ranks};
    shape.host_of = HostsOf(hosts, ranks).Take();
    const Result<PlanSet> made = MakePlans(name, op, shape);
    EXPECT_TRUE(made.ok()) << name << ": " << made.status().message();
    std::vector<Traffic> leaves(ranks), enters(ranks);  // by host
    for (uint32_t rank = 0; rank < ranks && made.ok(); ++rank) {
      ForEachPut(*made.value().plans[rank], [&](uint32_t peer, uint64_t elements) {
        if (shape.host_of[peer] == shape.host_of[rank]) return;
        for (Traffic* traffic : {&leaves[shape.host_of[rank]], &enters[shape.host_of[peer]]}) {
          traffic->bytes += elements * DatatypeBytes(op.datatype);
          ++traffic->messages;
        }
      });
    }
    Traffic most;
    for (const auto& direction : {leaves, enters}) {
      for (const Traffic& traffic : direction) {
        most.bytes = std::max(most.bytes, traffic.bytes);
        most.messages = std::max(most.messages, traffic.messages);
      }
    }
    return most;
  }

  // The most bytes that a rank writes for its neighbours, or reads of what they wrote, with two-level plans.
  uint64_t BusiestNeighbour(const sl_op_t& op, uint32_t ranks, const std::string& hosts) {
    CommShape shape{.ranks = ranks};
    shape.host_of = HostsOf(hosts, ranks).Take();
    const Result<PlanSet> made = MakePlans("two-level", op, shape);
    EXPECT_TRUE(made.ok()) << made.status().message();
    std::vector<uint64_t> writes(ranks), reads(ranks);
    for (uint32_t rank = 0; rank < ranks && made.ok(); ++rank) {
      ForEachPut(*made.value().plans[rank], [&](uint32_t peer, uint64_t elements) {
        if (shape.host_of[peer] != shape.host_of[rank]) return;
        writes[rank] += elements * DatatypeBytes(op.datatype);
        reads[peer] += elements * DatatypeBytes(op.datatype);
      });
    }
    return std::max(*std::max_element(writes.begin(), writes.end()), *std::max_element(reads.begin(), reads.end()));
  }

  Result<PlanSet> MakePlans(const std::string& name, const sl_op_t& op, const CommShape& shape) {
    const auto& list = algorithms_->list();
    const auto found = std::find_if(list.begin(), list.end(), [&](const Algorithm& each) { return each.name == name; });
    if (found == list.end()) return Status(SL_ERR_NOT_FOUND, "no such algorithm");
    return RankSet::Create(*found, shape).Take()->MakePlans(op);
  }

  static sl_op_t Op(sl_op_kind_t kind, uint64_t count, int32_t root = -1) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = kind;
    op.datatype = SL_FLOAT32;
    op.reduction = SL_SUM;
    op.root = root;
    op.peer = -1;
    op.count = count;
    return op;
  }

  std::unique_ptr<Algorithms> algorithms_;
};

struct Layout {
  uint32_t ranks;
  uint32_t hosts;
  const char* words;
};
constexpr Layout kEven[] = {{4, 2, "2"}, {4, 2, "2:cyclic"}, {8, 2, "2"}, {16, 4, "4"}, {16, 4, "4:cyclic"}};

constexpr uint64_t kBlock = 65536;  // elements a rank

// A direct exchange sends every rank's part to every rank of another host; so does a ring whose ranks lie in turn.
TEST_F(Borders, AreCrossedByOneShareInAsManyAsAHostHasRanks) {
  for (const Layout& layout : kEven) {
    const uint64_t ranks_per_host = layout.ranks / layout.hosts;
    for (const sl_op_kind_t kind : {SL_OP_ALL_REDUCE, SL_OP_ALL_GATHER, SL_OP_REDUCE_SCATTER}) {
      const sl_op_t op = Op(kind, kind == SL_OP_ALL_REDUCE ? kBlock * layout.ranks : kBlock);
      const Traffic ours = Busiest("two-level", op, layout.ranks, layout.words);
      EXPECT_NE(ours.bytes, 0u);
      EXPECT_LE(ours.bytes * ranks_per_host, Busiest("direct", op, layout.ranks, layout.words).bytes)
          << OpKindName(kind) << " on " << layout.words;
      if (std::string(layout.words).find("cyclic") == std::string::npos) continue;
      EXPECT_LE(ours.bytes * ranks_per_host, Busiest("ring", op, layout.ranks, layout.words).bytes)
          << OpKindName(kind) << " on " << layout.words;
    }
  }
}

// What no plan can save: a host needs the sum of what the others have, and they need its own.
TEST_F(Borders, AreCrossedByNoMoreThanARingOfHostsNeeds) {
  for (const Layout& layout : kEven) {
    const sl_op_t op = Op(SL_OP_ALL_REDUCE, kBlock * layout.ranks);
    const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
    EXPECT_EQ(Busiest("two-level", op, layout.ranks, layout.words).bytes,
              2 * bytes * (layout.hosts - 1) / layout.hosts);
  }
}

// Of a host with k ranks, each gives the others (k - 1) / k of its buffer to be summed up, and its share of the sum to
// each. Through memory that all map at once, the share would be written once for all: n in all, as here for k = 2.
TEST_F(Borders, LeaveEachRankTwoSharesOfItsBufferToMoveWithinTheHost) {
  for (const Layout& layout : kEven) {
    const uint64_t ranks_per_host = layout.ranks / layout.hosts;
    const sl_op_t op = Op(SL_OP_ALL_REDUCE, kBlock * layout.ranks);
    const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
    EXPECT_EQ(BusiestNeighbour(op, layout.ranks, layout.words), 2 * bytes * (ranks_per_host - 1) / ranks_per_host)
        << layout.words;
  }
}

TEST_F(Borders, AreCrossedByFewerMessagesWhereBlocksShareThem) {
  for (const Layout& layout : kEven) {
    const uint64_t ranks_per_host = layout.ranks / layout.hosts;
    for (const sl_op_kind_t kind : {SL_OP_ALL_TO_ALL, SL_OP_GATHER, SL_OP_SCATTER}) {
      const sl_op_t op = Op(kind, 16, kind == SL_OP_ALL_TO_ALL ? -1 : 1);
      const Traffic ours = Busiest("two-level", op, layout.ranks, layout.words);
      const Traffic direct = Busiest("direct", op, layout.ranks, layout.words);
      EXPECT_EQ(ours.bytes, direct.bytes) << OpKindName(kind) << " on " << layout.words;
      EXPECT_EQ(ours.messages * ranks_per_host, direct.messages) << OpKindName(kind) << " on " << layout.words;
    }
  }
}

// Neighbours, then hosts: nobody waits for a neighbour who waits for somebody else.
TEST_F(Borders, AreReachedByAReduceScatterInOneHopAndCrossedInTheNext) {
  for (const Layout& layout : kEven) {
    CommShape shape{.ranks = layout.ranks};
    shape.host_of = HostsOf(layout.words, layout.ranks).Take();
    const Result<PlanSet> made = MakePlans("two-level", Op(SL_OP_REDUCE_SCATTER, 16), shape);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(LongestChain(made.value()), 2u) << layout.words;
  }
}

}  // namespace
}  // namespace sl::verify
