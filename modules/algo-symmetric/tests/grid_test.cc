// SPDX-License-Identifier: Apache-2.0
//
// How many SMs collectives on GPUs hold: what the communicator allows, and by themselves no more than they need.
#include "modules/algo-symmetric/grid.h"

#include <gtest/gtest.h>

#include "modules/algo-symmetric/direct_work.h"
#include "modules/algo-symmetric/tests/gpu_team.h"

namespace sl::algo_symmetric {
namespace {

constexpr uint32_t kSms = 24;  // the default of gpu_sms
constexpr uint64_t kAllBytes[] = {8, 4096, 65536, 512 << 10, 4 << 20, 64 << 20, 1 << 30};

GpuSettings WithBudget(const SmBudget& budget) {
  GpuSettings settings = GpuTeam::SettingsOf(kSms);
  settings.budget = budget;
  return settings;
}

// Whose longer buffer has so many bytes.
sl_op_t OpOf(sl_op_kind_t kind, uint64_t bytes, uint32_t size) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_BFLOAT16;
  op.reduction = SL_SUM;
  op.root = 0;
  op.peer = -1;
  op.count = std::max<uint64_t>(bytes / 2 / (Case::ManyIn(kind) || Case::ManyOut(kind) ? size : 1), 1);
  return op;
}

// Calls with every collective of these sizes among 2, 4 and 8 ranks.
template <typename Call>
void ForEachCollective(const Call& call) {
  for (uint32_t size : {2u, 4u, 8u}) {
    for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind < SL_OP_SEND; ++kind) {
      for (uint64_t bytes : kAllBytes) {
        SCOPED_TRACE(testing::Message() << OpKindName(kind) << " of " << bytes << " bytes over " << size << " ranks");
        call(OpOf(kind, bytes, size), size, bytes);
      }
    }
  }
}

TEST(Grid, HoldsNoMoreThanTheBudget) {
  for (uint32_t budget : {1u, 2u, 4u, 6u, 16u}) {
    SCOPED_TRACE(testing::Message() << "budget " << budget);
    ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
      const Choice choice = Choose(op, 0, size, WithBudget({0, budget, 0}));
      EXPECT_GE(choice.blocks, 1u);
      EXPECT_LE(choice.blocks, budget);
      EXPECT_GE(choice.time_ns, Choose(op, 0, size, WithBudget({})).time_ns) << "fewer SMs are not quicker";
      for (uint32_t rank = 1; rank < size; ++rank) {
        const Choice other = Choose(op, rank, size, WithBudget({0, budget, 0}));
        EXPECT_EQ(other.blocks, choice.blocks);
        EXPECT_EQ(other.family, choice.family);
        EXPECT_EQ(other.time_ns, choice.time_ns);
      }
    });
  }
}

TEST(Grid, HoldsNoMoreThanTheBudgetWhicheverFamilyIsForced) {
  for (uint32_t f = 0; f < kFamilies.size(); ++f) {
    ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
      EXPECT_LE(ChooseOf(*kFamilies[f], op, 0, size, WithBudget({0, 3, 0})).blocks, 3u) << kFamilies[f]->words;
    });
  }
}

TEST(Grid, HoldsWhatTheWireNeedsWhereNothingIsAsked) {
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t bytes) {
    const Choice choice = Choose(op, 0, size, WithBudget({}));
    EXPECT_LE(choice.blocks, kSms);
    if (bytes < kLongBytes) return;
    // Of two ranks, half of what blocks move stays at home, and who pushes reduces as much: fewer would cost more than
    // 3 %.
    const bool needs_all = size == 2 && (!HasReduction(op.kind) || choice.family == &families::kPush);
    EXPECT_LE(choice.blocks, needs_all ? kSms : 16u);
    EXPECT_GE(choice.blocks, HasReduction(op.kind) ? kReducingBlocks : kStoringBlocks);
  });
}

// The wire carries more stores than loads; where callers' buffers lie does not matter then.
TEST(Grid, PushesLongReduceScatters) {
  for (const bool reaches : {true, false}) {
    GpuSettings settings = WithBudget({});
    settings.reaches = reaches;
    ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t bytes) {
      const Choice choice = Choose(op, 0, size, settings);
      if (op.kind != SL_OP_REDUCE_SCATTER) {
        EXPECT_NE(choice.family, &families::kPush);
      } else if (bytes >= 1 << 30) {
        EXPECT_EQ(choice.family, &families::kPush);
        EXPECT_FALSE(choice.send_reached || choice.recv_reached);
      } else if (reaches && bytes <= 4 << 20) {
        EXPECT_NE(choice.family, &families::kPush) << "a unit is long on its way";
      }
      sl_op_t scaled = op;
      scaled.reduction = SL_PREMUL_SUM;
      EXPECT_NE(Choose(scaled, 0, size, settings).family, &families::kPush);
    });
  }
  const auto family = [](uint32_t size, const GpuSettings& settings) {
    return Choose(OpOf(SL_OP_REDUCE_SCATTER, 1 << 30, size), 0, size, settings).family;
  };
  EXPECT_EQ(Choose(OpOf(SL_OP_REDUCE_SCATTER, 128 << 20, 2), 0, 2, WithBudget({})).family, &families::kDirect)
      << "24 blocks instead of 16 for 2 %";
  EXPECT_EQ(family(4, WithBudget({0, 16, 0})), &families::kPush);
  EXPECT_EQ(family(4, WithBudget({0, 15, 0})), &families::kDirect) << "it takes 16 blocks";
  const auto refuses = [](uint32_t size) {
    GpuSettings all = GpuTeam::SettingsOf(1);
    all.serves_all = true;
    return families::kPush.refuses(OpOf(SL_OP_REDUCE_SCATTER, 1 << 30, size), size, all);
  };
  EXPECT_STREQ(refuses(2), nullptr);
  EXPECT_STREQ(refuses(32), "slices have no room for units of so many ranks");
}

TEST(Grid, GoesByHowPartsAreAligned) {
  const auto family = [](sl_op_kind_t kind, uint64_t bytes, uint64_t more_elements, uint32_t size = 4) {
    sl_op_t op = OpOf(kind, bytes, size);
    op.count += more_elements;
    return Choose(op, 0, size, WithBudget({})).family;
  };
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 1 << 30, 0), &families::kBulk);
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 1 << 30, 8), &families::kDirect) << "bulk copies of parts of lines are slow";
  EXPECT_EQ(family(SL_OP_REDUCE_SCATTER, 1 << 30, 8), &families::kPush);
  EXPECT_EQ(family(SL_OP_REDUCE_SCATTER, 1 << 30, 1), &families::kDirect) << "own contributions would be loaded twice";
  EXPECT_EQ(family(SL_OP_REDUCE_SCATTER, 32 << 20, 0, 2), &families::kDirect);
  EXPECT_EQ(family(SL_OP_REDUCE_SCATTER, 32 << 20, 1, 2), &families::kPush) << "results would be stored in parts";
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 256 << 10, 0), &families::kLamportOneShot);
  EXPECT_EQ(family(SL_OP_ALL_GATHER, 128 << 10, 1), &families::kOneShot) << "long packets are put together from parts";
}

TEST(Grid, CutsVectorsAtLinesOfTheWire) {
  for (uint32_t size : {2u, 3u, 4u, 7u, 8u}) {
    for (sl_op_kind_t kind : {SL_OP_ALL_REDUCE, SL_OP_REDUCE, SL_OP_BROADCAST}) {
      for (uint64_t bytes : {uint64_t{2} << 20, uint64_t{1} << 29}) {
        for (uint32_t rank = 0; rank < size; ++rank) {
          const kernels::DirectWork work = DirectOf(OpOf(kind, bytes, size), rank, size, true);
          EXPECT_EQ(work.from % kernels::kWireLineBytes, 0);
          EXPECT_EQ(work.to % kernels::kWireLineBytes, 0);
        }
      }
    }
  }
  const auto family = [](uint64_t bytes, uint32_t size) {
    return Choose(OpOf(SL_OP_BROADCAST, bytes, size), 0, size, WithBudget({})).family;
  };
  for (uint32_t size : {3u, 4u, 8u}) {
    EXPECT_EQ(family(4 << 20, size), &families::kDirect);
    EXPECT_EQ(family(128 << 20, size), &families::kBulk) << "thirds begin at lines, too";
  }
}

TEST(Grid, GoesInTwoShotsWhereOneWouldMeetSeveralTimes) {
  const auto family = [](uint64_t bytes, uint32_t size) {
    return Choose(OpOf(SL_OP_ALL_REDUCE, bytes, size), 0, size, WithBudget({})).family;
  };
  EXPECT_EQ(family(128 << 10, 3), &families::kLamportOneShot);
  EXPECT_EQ(family(512 << 10, 3), &families::kLamportTwoShot) << "352 units of three ranks meet 170 at a time";
  EXPECT_EQ(family(512 << 10, 2), &families::kLamportOneShot) << "two ranks' packets do not meet there";
}

TEST(Grid, HandsLongerBroadcastsByPacketsOn) {
  const auto family = [](uint64_t bytes, uint32_t size, const GpuSettings& settings) {
    return Choose(OpOf(SL_OP_BROADCAST, bytes, size), 0, size, settings).family;
  };
  const GpuSettings settings = WithBudget({});
  EXPECT_EQ(family(128 << 10, 4, settings), &families::kLamportOneShot);
  for (uint32_t size : {3u, 4u}) EXPECT_EQ(family(512 << 10, size, settings), &families::kLamportTwoShot);
  EXPECT_EQ(family(512 << 10, 2, settings), &families::kLamportOneShot) << "nobody is there to hand it on";
  EXPECT_EQ(family(2 << 20, 4, settings), &families::kDirect) << "more than there is room for";
  const sl_op_t op = OpOf(SL_OP_BROADCAST, 512 << 10, 4);
  EXPECT_STREQ(families::kLamportTwoShot.refuses(op, 4, settings), nullptr);
  GpuSettings on_host = settings;
  on_host.on_host = true;
  EXPECT_STREQ(families::kLamportTwoShot.refuses(op, 4, on_host), "one store to host memory serves all peers");
}

TEST(Grid, HoldsAtLeastWhatIsAskedWhereThereIsWork) {
  for (uint32_t least : {6u, 16u, 100u}) {
    ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t bytes) {
      const Choice choice = Choose(op, 0, size, WithBudget({least, 0, 0}));
      EXPECT_LE(choice.blocks, kSms);
      // Shares are whole lines or packets, so that a few blocks may be left without.
      const uint32_t sure = bytes >= 64 << 10 ? std::min(least, kPacketBlocks) - 2 : 1;
      EXPECT_GE(choice.blocks, sure);
    });
  }
}

TEST(Grid, SparesSmsThatAreWorthMoreThanTheTimeTheySave) {
  constexpr uint32_t kWeight = 8;
  bool spares = false;
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
    const Choice quick = Choose(op, 0, size, WithBudget({}));
    const SmBudget budget{0, 0, kWeight};
    const Choice cheap = Choose(op, 0, size, WithBudget(budget));
    EXPECT_LE(cheap.blocks, std::max(quick.blocks, kPacketBlocks));
    EXPECT_LE(Weighed(cheap.time_ns, cheap.blocks, budget), Weighed(quick.time_ns, quick.blocks, budget));
    spares = spares || cheap.blocks < quick.blocks;
  });
  EXPECT_TRUE(spares);
}

TEST(Grid, IsTheCheapestOfAllByTheWeight) {
  const SmBudget budget{2, 0, 20};
  const GridWork work{{5000, 100}, 800000, 16, 12, 3};
  const uint32_t best = BlocksFor(work, 16, budget);
  for (uint32_t blocks = 3; blocks <= 16; ++blocks) {
    EXPECT_LE(Weighed(work.NanosecondsOn(best), best, budget), Weighed(work.NanosecondsOn(blocks), blocks, budget));
  }
  const GridWork idle{{5000, 100}, 0, 16, 12, 3};
  EXPECT_EQ(BlocksFor(idle, 16, {0, 0, 1000}), 3u) << "no fewer than it needs";
}

// GPUs that do not reach each other's memory, whose kernels meet in the host's.
TEST(Grid, HoldsFewSmsWhereTheBusBinds) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.heap_on_host = 1;
  GpuSettings settings = GpuTeam::SettingsOf(kSms).On(shape);
  settings.reaches = false;
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t bytes) {
    const Choice choice = Choose(op, 0, size, settings);
    EXPECT_NE(choice.family, &families::kDirect);
    EXPECT_LE(choice.blocks, kPacketBlocks);
    if (bytes >= 1 << 30) {
      EXPECT_GT(choice.time_ns, 5 * Choose(op, 0, size, WithBudget({})).time_ns);
    }
    for (uint32_t rank = 1; rank < size; ++rank) {
      const Choice other = Choose(op, rank, size, settings);
      EXPECT_EQ(other.family, choice.family);
      EXPECT_EQ(other.blocks, choice.blocks);
    }
  });
  EXPECT_LT(CudaRank::SliceBytes(8, settings), CudaRank::SliceBytes(8, WithBudget({})));
}

TEST(Grid, CutsRoundsAlike) {
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
    const Choice choice = Cut(families::kStaged, op, 0, size, WithBudget({}));
    EXPECT_GE(choice.piece_elements * choice.rounds, choice.share_elements);
    EXPECT_LT(choice.piece_elements * (choice.rounds - 1), choice.share_elements);
    const uint64_t short_of = choice.piece_elements * choice.rounds - choice.share_elements;
    EXPECT_LE(short_of, kernels::kWireLineBytes / 2 * choice.rounds) << "the last one is as long, but for whole lines";
  });
}

// Whatever a block's share: which rank's which unit it is.
TEST(Grid, FindsUnitsWithoutDividing) {
  for (uint32_t size : {2u, 3u, 8u, 31u}) {
    for (const Family* family :
         {&families::kOneShot, &families::kTwoShot, &families::kLamportOneShot, &families::kLamportTwoShot}) {
      for (uint64_t bytes = 2; bytes < 3 << 20; bytes += bytes / 2 + 2) {
        const Choice choice = ChooseOf(*family, OpOf(SL_OP_ALL_REDUCE, bytes, size), 0, size, WithBudget({}));
        if (choice.family != family) continue;
        const uint32_t units = choice.packets.share_units;
        ASSERT_GT(units, 0u);
        for (uint32_t at = 0; at < size * units; ++at) {
          const auto [rank, unit] = choice.packets.TurnOf(at, units);
          ASSERT_EQ(rank * units + unit, at) << units;
          ASSERT_LT(unit, units) << at;
        }
      }
    }
  }
}

TEST(Grid, IsWhatIsLaunched) {
  GpuSettings settings = GpuTeam::SettingsOf(6);  // smaller slices
  settings.budget.most = 4;
  GpuTeam team(2, settings);
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
    if (size != team.size()) return;
    sl_launch_t launch{};
    ASSERT_EQ(team.LaunchOf(0, op, &launch), SL_OK);
    EXPECT_LE(launch.grid[0], 4u);
    sl_estimate_t estimate{};
    ASSERT_EQ(team.Estimate(0, op, &estimate), SL_OK);
    EXPECT_EQ(launch.grid[0], estimate.processors);
  });
}

TEST(Grid, IsLaunchedWhileTheOneBeforeEndsUnlessToldNotTo) {
  for (const bool depends : {true, false}) {
    GpuSettings settings = GpuTeam::SettingsOf(6);
    settings.depends = depends;
    GpuTeam team(2, settings);
    ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
      if (size != team.size()) return;
      sl_launch_t launch{};
      ASSERT_EQ(team.LaunchOf(0, op, &launch), SL_OK);
      EXPECT_EQ((launch.flags & SL_LAUNCH_DEPENDENT) != 0, depends);
    });
  }
}

TEST(Grid, RunsRightWithinABudget) {
  for (uint32_t most : {1u, 3u}) {
    GpuSettings settings = GpuTeam::SettingsOf(4);
    settings.budget.most = most;
    GpuTeam team(3, settings);
    std::mt19937 random(most);
    std::vector<Case> cases;
    cases.reserve(60);
    for (int i = 0; i < 60; ++i) cases.push_back(Case::Random(3, random));
    team.RunAll(cases);
    for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
  }
}

TEST(Grid, SparesNoBlocksWhereResultsBeginAtNoVector) {
  for (const uint32_t size : {3u, 4u, 8u}) {
    sl_op_t op = OpOf(SL_OP_REDUCE_SCATTER, 512 << 20, size);
    op.count = op.count / 8 * 8;
    EXPECT_LT(Choose(op, 0, size, WithBudget({})).blocks, kOddReducingBlocks) << size;
    ++op.count;
    const Choice choice = Choose(op, 0, size, WithBudget({}));
    EXPECT_EQ(choice.family, &families::kDirect) << size;
    EXPECT_EQ(choice.blocks, kOddReducingBlocks) << size;
  }
}

// What is asked of a family that refuses it has a reason to be read in `starling explain`.
TEST(Grid, IsCutWhereNothingIsRefused) {
  const GpuSettings settings = WithBudget({});
  ForEachCollective([&](const sl_op_t& op, uint32_t size, uint64_t) {
    for (const Family* family : kFamilies) {
      if (const char* reason = family->refuses(op, size, settings); reason != nullptr) {
        EXPECT_STRNE(reason, "") << family->name;
        continue;
      }
      const Choice choice = Cut(*family, op, 0, size, settings);
      EXPECT_GE(choice.blocks, 1u) << family->name;
      EXPECT_GT(choice.time_ns, 0u) << family->name;
    }
    EXPECT_STREQ(families::kStaged.refuses(op, size, settings), nullptr) << "it serves all";
  });
}

TEST(SmBudget, IsNotReadFromAShorterShape) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.processors_min = 2;
  shape.processors_max = 6;
  shape.processor_weight = 8;
  EXPECT_EQ(SmBudget::Of(shape).most, 6u);
  shape.struct_size = SL_COMM_SHAPE_SIZE_1_0;
  EXPECT_EQ(SmBudget::Of(shape).most, 0u);
}

}  // namespace
}  // namespace sl::algo_symmetric
