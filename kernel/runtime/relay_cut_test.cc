// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kArea = 4096;

sl_op_t Op(sl_op_kind_t kind, uint64_t count, sl_datatype_t datatype = SL_FLOAT32, int32_t peer = -1) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.count = count;
  op.datatype = datatype;
  op.root = 0;
  op.peer = peer;
  return op;
}

uint64_t Blocks(sl_op_kind_t kind, uint32_t size) {
  return kind == SL_OP_ALL_REDUCE || kind == SL_OP_REDUCE || kind == SL_OP_BROADCAST ? 1 : size;
}

TEST(RelayCut, CoversEveryElementOfACollectiveOnceInPiecesThatFit) {
  for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
    for (const uint32_t size : {1u, 3u, 512u}) {
      for (const uint64_t count : {1u, 2u, 341u, 1023u, 1024u, 1025u, 5000u}) {
        const sl_op_t op = Op(kind, count);
        RelaySchedule schedule;
        CutCollective({&op, 1}, 0, size, kArea, &schedule);
        ASSERT_EQ(schedule.pieces.size(), schedule.parts.size());
        uint64_t next = 0;
        for (const RelayPart& part : schedule.parts) {
          EXPECT_EQ(part.first, next);
          EXPECT_GT(part.count, 0u);
          EXPECT_LE(part.count * 4 * Blocks(kind, size), kArea);
          EXPECT_EQ(part.send_at + part.recv_at, 0u);
          next += part.count;
        }
        EXPECT_EQ(next, count) << OpKindName(kind) << " of " << count << " over " << size;
      }
    }
  }
}

TEST(RelayCut, LeavesWholeWhatFits) {
  const sl_op_t op = Op(SL_OP_ALL_GATHER, kArea / 4 / 8);
  RelaySchedule schedule;
  CutCollective({&op, 1}, 0, 8, kArea, &schedule);
  EXPECT_EQ(schedule.pieces.size(), 1u);
}

TEST(RelayCut, PacksSmallMessagesTogether) {
  std::vector<sl_op_t> ops;
  for (int32_t peer = 1; peer < 8; ++peer) {
    ops.push_back(Op(SL_OP_SEND, 16, SL_FLOAT32, peer));
    ops.push_back(Op(SL_OP_RECV, 16, SL_FLOAT32, peer));
  }
  RelaySchedule schedule;
  CutTransfers(ops, 0, 8, kArea, &schedule);
  ASSERT_EQ(schedule.pieces.size(), 1u);
  EXPECT_EQ(schedule.pieces[0].end, 14u);
  std::vector<uint64_t> sent;
  for (const RelayPart& part : schedule.parts) {
    if (ops[part.op].kind == SL_OP_SEND) sent.push_back(part.send_at);
  }
  std::sort(sent.begin(), sent.end());
  EXPECT_EQ(std::adjacent_find(sent.begin(), sent.end()), sent.end()) << "two messages at one place";
}

// What ranks hold of each other's messages while slots are few.
class Exchange {
 public:
  Exchange(uint32_t ranks, uint32_t seed) : random_(seed), ops_(ranks), schedules_(ranks), done_(ranks) {
    // Every rank states its messages in an order of its own; only those of a pair keep theirs.
    for (uint32_t from = 0; from < ranks; ++from) {
      for (uint32_t to = 0; to < ranks; ++to) {
        for (uint32_t i = 0; from != to && i < random_() % 3; ++i) {
          const uint64_t count = random_() % 2 == 0 ? random_() % 40 + 1 : random_() % 4000 + 1;
          ops_[from].push_back(Op(SL_OP_SEND, count, SL_FLOAT32, static_cast<int32_t>(to)));
          ops_[to].push_back(Op(SL_OP_RECV, count, SL_FLOAT32, static_cast<int32_t>(from)));
        }
      }
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::stable_sort(ops_[rank].begin(), ops_[rank].end(), [salt = random_()](const sl_op_t& a, const sl_op_t& b) {
        const auto key = [salt](const sl_op_t& op) {
          return (static_cast<uint32_t>(op.peer) + 1) * 2654435761u ^ salt;
        };
        return key(a) < key(b);
      });
      CutTransfers(ops_[rank], rank, ranks, kArea, &schedules_[rank]);
      done_[rank].resize(schedules_[rank].pieces.size());
      for (size_t piece = 0; piece < done_[rank].size(); ++piece) {
        done_[rank][piece] = schedules_[rank].pieces[piece].end - schedules_[rank].pieces[piece].first;
      }
    }
  }

  // Moves what both ends hold in one of their `slots` pieces, until all has been; false when nothing moves any more.
  bool Complete(uint32_t slots) {
    for (;;) {
      if (std::all_of(done_.begin(), done_.end(), [](const auto& left) { return Head(left) == left.size(); }))
        return true;
      if (!Move(slots)) return false;
    }
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // from, to

  static size_t Head(const std::vector<uint32_t>& left) {
    return static_cast<size_t>(std::find_if(left.begin(), left.end(), [](uint32_t parts) { return parts != 0; }) -
                               left.begin());
  }

  bool Move(uint32_t slots) {
    // Of each pair, the parts that sender and receiver hold, in order; links keep that order.
    std::map<Key, std::vector<std::pair<uint32_t, size_t>>> sent, received;
    for (uint32_t rank = 0; rank < ops_.size(); ++rank) {
      const size_t head = Head(done_[rank]);
      for (size_t piece = head; piece < std::min(done_[rank].size(), head + slots); ++piece) {
        for (uint32_t i = schedules_[rank].pieces[piece].first; i < schedules_[rank].pieces[piece].end; ++i) {
          const RelayPart& part = schedules_[rank].parts[i];
          if (moved_.count({rank, i}) != 0) continue;
          const sl_op_t& op = ops_[rank][part.op];
          const auto peer = static_cast<uint32_t>(op.peer);
          if (op.kind == SL_OP_SEND) sent[{rank, peer}].push_back({i, piece});
          if (op.kind == SL_OP_RECV) received[{peer, rank}].push_back({i, piece});
        }
      }
    }
    bool moved = false;
    for (const auto& [key, parts] : sent) {
      const auto& taken = received[key];
      for (size_t i = 0; i < std::min(parts.size(), taken.size()); ++i) {
        EXPECT_EQ(schedules_[key.first].parts[parts[i].first].count,
                  schedules_[key.second].parts[taken[i].first].count);
        moved_.insert({{key.first, parts[i].first}, true});
        moved_.insert({{key.second, taken[i].first}, true});
        --done_[key.first][parts[i].second];
        --done_[key.second][taken[i].second];
        moved = true;
      }
    }
    return moved;
  }

  std::mt19937 random_;
  std::vector<std::vector<sl_op_t>> ops_;
  std::vector<RelaySchedule> schedules_;
  std::vector<std::vector<uint32_t>> done_;              // by rank and piece: parts that are left
  std::map<std::pair<uint32_t, uint32_t>, bool> moved_;  // rank, part
};

TEST(RelayCut, CompletesEveryExchangeWithAsFewSlotsAsOne) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    for (const uint32_t ranks : {2u, 3u, 5u, 8u}) {
      for (const uint32_t slots : {1u, 4u}) {
        EXPECT_TRUE(Exchange(ranks, seed).Complete(slots)) << ranks << " ranks, seed " << seed << ", slots " << slots;
      }
    }
  }
}

}  // namespace
}  // namespace sl::kernel
