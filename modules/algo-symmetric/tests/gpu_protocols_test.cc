// SPDX-License-Identifier: Apache-2.0
//
// The protocols of the GPU kernels against a plain oracle, threads standing for GPUs. ThreadSanitizer watches.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "modules/algo-symmetric/tests/gpu_team.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {
namespace {

TEST(GpuProtocols, AgreeWithTheOracleWhenRanksAreThreads) {
  for (uint32_t size : {1u, 2u, 3u, 5u, 9u}) {
    GpuTeam team(size, 2);
    std::mt19937 random(size);
    std::vector<Case> cases;
    cases.reserve(150);
    for (int i = 0; i < 150; ++i) cases.push_back(Case::Random(size, random));
    team.RunAll(cases);
    for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
  }
}

// The smallest operations, which one rank's buffers keep from the kernels that the others take.
TEST(GpuProtocols, GoTogetherWhereOneRankTakesAnotherKernel) {
  constexpr sl_datatype_t kTypes[] = {SL_INT8, SL_BFLOAT16, SL_FLOAT32};
  constexpr uint64_t kCounts[] = {1, 2, 4, 8, 24, 64, 160};
  for (uint32_t size : {2u, 3u, 4u, 7u, 9u}) {
    GpuTeam team(size, 2);
    std::mt19937 random(size);
    std::vector<Case> cases;
    uint32_t mixed = 0;
    for (uint32_t i = 0; i < 8 * std::size(kTypes) * std::size(kCounts); ++i) {
      Case one = Case::Random(size, random);
      one.op.kind = i % 8;
      one.op.datatype = kTypes[i / 8 % std::size(kTypes)];
      one.op.count = kCounts[i / 8 / std::size(kTypes)];
      one.in_place = random() % 2 == 0 && one.op.kind != SL_OP_REDUCE_SCATTER && one.op.kind != SL_OP_SCATTER;
      one.offset = 0;
      one.askew = static_cast<int32_t>(random() % (size + 1)) - 1;
      one.family = &families::kOneShot;
      one.Fill();
      uint32_t prompt = 0;
      for (uint32_t r = 0; r < size; ++r) prompt += team.IsPromptOn(r, one.For(r)) ? 1 : 0;
      mixed += prompt != 0 && prompt != size ? 1 : 0;
      cases.push_back(one);
    }
    EXPECT_GT(mixed, cases.size() / 4) << "of " << size;
    team.RunAll(cases);
    for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
  }
}

TEST(GpuProtocols, TakeKernelsOfLittleCodeWhereTheyServe) {
  GpuTeam team(2, 24);
  team.LoadKernels();
  alignas(16) static uint8_t buffers[2][4096];
  const auto kernel_of = [&](sl_op_kind_t kind, uint64_t count, uint32_t offset, sl_reduction_t reduction = SL_SUM) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = kind;
    op.datatype = SL_BFLOAT16;
    op.reduction = reduction;
    op.count = count;
    op.send = buffers[0] + offset;
    op.recv = buffers[1];
    sl_launch_t launch{};
    EXPECT_EQ(team.LaunchOf(0, op, &launch), SL_OK);
    return KernelOf(launch);
  };
  EXPECT_EQ(kernel_of(SL_OP_ALL_GATHER, 32, 0), "prompt_move");
  EXPECT_EQ(kernel_of(SL_OP_ALL_GATHER, 1, 2), "prompt_move") << "a part of a word";
  EXPECT_EQ(kernel_of(SL_OP_ALL_GATHER, 32, 2), "one_shot_move") << "not aligned";
  EXPECT_EQ(kernel_of(SL_OP_ALL_GATHER, 33, 0), "one_shot_move") << "no whole packets";
  EXPECT_EQ(kernel_of(SL_OP_ALL_REDUCE, 32, 0), "prompt_bfloat16");
  EXPECT_EQ(kernel_of(SL_OP_ALL_REDUCE, 32, 0, SL_PREMUL_SUM), "one_shot_bfloat16");
  EXPECT_EQ(kernel_of(SL_OP_ALL_GATHER, 1 << 20, 0).find("prompt"), std::string::npos) << "more than a packet a thread";
}

// Every data type with every reduction, in every family.
TEST(GpuProtocols, ReduceEveryTypeByEveryOperation) {
  for (uint32_t size : {2u, 3u, 6u}) {
    GpuTeam team(size, 2);
    std::mt19937 random(7);
    std::vector<Case> cases;
    for (uint32_t i = 0; i < SL_DATATYPE_COUNT * SL_REDUCTION_COUNT * kFamilies.size(); ++i) {
      Case one = Case::Random(size, random);
      one.op.kind = SL_OP_ALL_REDUCE;
      one.op.datatype = i % SL_DATATYPE_COUNT;
      one.op.reduction = i / SL_DATATYPE_COUNT % SL_REDUCTION_COUNT;
      one.family = kFamilies[i / SL_DATATYPE_COUNT / SL_REDUCTION_COUNT];
      one.op.count = 201;
      one.Fill();
      cases.push_back(one);
    }
    team.RunAll(cases);
    for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
  }
}

// Long enough for a broadcast that scatters first, for many rounds, and for a short last round; by choice, and since
// one rank's buffers are out of reach.
TEST(GpuProtocols, StageLongMessages) {
  constexpr uint32_t kSize = 3;
  GpuTeam team(kSize, 2);
  team.reach(1).refuses_every = 1;
  std::mt19937 random(3);
  std::vector<Case> cases;
  for (sl_op_kind_t i = 0; i < 16; ++i) {
    const sl_op_kind_t kind = i % 8;
    Case one = Case::Random(kSize, random);
    one.op.kind = kind;
    one.op.root = 1;
    one.op.datatype = SL_INT32;
    one.op.reduction = SL_SUM;
    one.op.count = 150001;
    one.in_place = kind % 2 == 0 && kind != SL_OP_REDUCE_SCATTER;
    one.family = i < 8 ? &families::kStaged : &families::kDirect;
    one.Fill();
    cases.push_back(one);
  }
  team.RunAll(cases);
  for (Case& one : cases) EXPECT_EQ(one.Wrong(), "");
}

// Every collective from buffer to buffer: in place and not, aligned and not, stored to the peers and loaded from them.
TEST(GpuProtocols, ReachIntoBuffersWhereTheyLie) {
  constexpr uint64_t kCounts[] = {1, 5, 64, 1000, 4096, 20001};
  struct Way {
    const Family* family;
    bool pushes;
  };
  constexpr Way kWays[] = {
      {&families::kDirect, true}, {&families::kDirect, false}, {&families::kBulk, true}, {&families::kPush, true}};
  for (uint32_t size : {2u, 3u, 5u}) {
    GpuTeam team(size, 3);
    std::mt19937 random(size);
    uint64_t meetings = 0;
    for (const auto& [family, pushes] : kWays) {
      team.SetPushes(pushes);
      std::vector<Case> cases;
      for (uint32_t i = 0; i < 8 * std::size(kCounts) * 2; ++i) {
        Case one = Case::Random(size, random);
        one.op.kind = i % 8;
        one.op.count = kCounts[i / 8 % std::size(kCounts)];
        one.in_place =
            i / 8 / std::size(kCounts) == 1 && one.op.kind != SL_OP_REDUCE_SCATTER && one.op.kind != SL_OP_SCATTER;
        if (one.op.reduction == SL_PREMUL_SUM) one.op.reduction = SL_AVG;
        one.family = family;
        if (family == &families::kPush ? one.op.kind == SL_OP_REDUCE_SCATTER
                                       : family == &families::kDirect || !HasReduction(one.op.kind)) {
          ++meetings;
        }
        one.Fill();
        cases.push_back(one);
      }
      team.RunAll(cases);
      for (Case& one : cases) ASSERT_EQ(one.Wrong(), "") << family->words << (pushes ? ", stored" : ", loaded");
    }
    EXPECT_EQ(team.control(0).fault, 0u);
    EXPECT_NE(team.reach(0).asked, 0u);
    EXPECT_EQ(*Meeting::Count(team.team(size - 1), dev::Block::Whole(0)), meetings);
  }
}

// Ranks that are refused now and then, each at other times: all go through rounds then, in the same launch.
TEST(GpuProtocols, GoOnInRoundsWhenABufferIsOutOfReach) {
  constexpr uint32_t kSize = 3;
  GpuTeam team(kSize, 2);
  for (uint32_t r = 0; r < kSize; ++r) team.reach(r).refuses_every = 3 + r;
  std::mt19937 random(17);
  std::vector<Case> cases;
  for (int i = 0; i < 120; ++i) {
    cases.push_back(Case::Random(kSize, random));
    cases.back().family = &families::kDirect;
    cases.back().Fill();
  }
  team.RunAll(cases);
  for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
}

// The number of a meeting goes beside addresses by its low half, which wraps.
TEST(GpuProtocols, MeetWhenTheLowHalfOfTheirNumberWraps) {
  constexpr uint32_t kSize = 3;
  GpuTeam team(kSize, 2);
  for (uint32_t r = 0; r < kSize; ++r) {
    for (uint32_t b = 0; b < 2; ++b) *Meeting::Count(team.team(r), dev::Block::Whole(b)) = UINT32_MAX - 6 - b;
  }
  std::mt19937 random(23);
  std::vector<Case> cases;
  for (int i = 0; i < 40; ++i) {
    cases.push_back(Case::Random(kSize, random));
    cases.back().family = &families::kDirect;
    cases.back().op.kind = SL_OP_ALL_REDUCE;
    cases.back().op.reduction = SL_SUM;
    cases.back().Fill();
  }
  team.RunAll(cases);
  for (Case& one : cases) EXPECT_EQ(one.Wrong(), "");
  EXPECT_EQ(*Meeting::Count(team.team(0), dev::Block::Whole(0)), uint64_t{UINT32_MAX} - 6 + 40);
}

// A thread for every block of every rank.
void RunEveryBlock(GpuTeam& team, Case& one) {
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < team.size(); ++r) {
    const sl_op_t op = one.For(r);
    const Choice choice = team.ChoiceFor(r, op, one.family);
    const LongArgs args = team.ArgsOf(r, op, choice);
    for (uint32_t b = 0; b < choice.blocks; ++b) {
      threads.emplace_back([op, choice, args, b] { RunBlock(choice, op.datatype, args, b); });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GpuProtocols, KeepBlocksApart) {
  GpuTeam team(2, 3);
  std::mt19937 random(11);
  for (int i = 0; i < 30; ++i) {
    Case one = Case::Random(team.size(), random);
    one.op.count = 6000;
    one.Fill();
    RunEveryBlock(team, one);
    ASSERT_EQ(one.Wrong(), "");
  }
}

// Every collective, in place and not, whose blocks draw pieces of their rank's work.
TEST(GpuProtocols, DrawLongWork) {
  for (uint32_t size : {2u, 3u}) {
    GpuTeam team(size, 4);
    team.SetDrawnBytes(1);
    std::mt19937 random(size);
    for (uint32_t i = 0; i < 8 * 4; ++i) {
      team.SetPushes(i / 8 % 2 == 0);
      Case one = Case::Random(size, random);
      one.op.kind = i % 8;
      one.op.count = 20001 + 9000 * (i % 3) + (i % 5 == 0 ? 7 : 0);
      one.in_place = i / 16 == 1 && one.op.kind != SL_OP_REDUCE_SCATTER && one.op.kind != SL_OP_SCATTER;
      if (one.op.reduction == SL_PREMUL_SUM) one.op.reduction = SL_AVG;
      one.family = &families::kDirect;
      one.Fill();
      RunEveryBlock(team, one);
      ASSERT_EQ(one.Wrong(), "");
      for (uint32_t r = 0; r < size; ++r) {
        const Team view = team.team(r);
        ASSERT_EQ(*reinterpret_cast<uint32_t*>(view.At(r, view.layout.drawn)), 0u) << "for the next launch";
      }
    }
  }
}

// Reduce-scatters whose contributions go round their slots, on all blocks at once and on one after the other.
TEST(GpuProtocols, PushMoreThanThereAreSlots) {
  for (uint32_t size : {2u, 3u, 5u}) {
    GpuTeam team(size, 3);
    const LaneLayout& layout = team.team(0).layout;
    const uint32_t slots = layout.unit_slots;
    std::mt19937 random(size);
    uint64_t units = 0;
    for (uint32_t i = 0; i < 6; ++i) {
      Case one = Case::Random(size, random);
      one.op.kind = SL_OP_REDUCE_SCATTER;
      one.op.datatype = i % 2 == 0 ? SL_BFLOAT16 : SL_INT8;
      one.op.reduction = i % 3 == 0 ? SL_AVG : SL_SUM;
      // Ends with a whole unit, with half of one, and with less.
      const uint64_t bytes =
          uint64_t{i < 2 ? 2 * slots : 5} * UnitBytesOf(size) + (i % 3 == 0   ? 0
                                                                 : i % 3 == 1 ? UnitBytesOf(size) / kUnitParts
                                                                              : 6);
      one.op.count = bytes / DatatypeBytes(one.op.datatype);
      one.in_place = false;
      one.family = &families::kPush;
      one.Fill();
      std::vector<Case> cases;
      cases.push_back(std::move(one));  // its buffers stay where they lie
      uint64_t skew = 0;
      for (uint32_t r = 0; r < size; ++r) {
        skew = std::max(skew, reinterpret_cast<uintptr_t>(cases[0].For(r).recv) % kWireLineBytes);
      }
      units += DivideUp(bytes + skew, UnitBytesOf(size));
      if (i % 2 == 0) {
        RunEveryBlock(team, cases[0]);
      } else {
        team.RunAll(cases);
      }
      ASSERT_EQ(cases[0].Wrong(), "") << size << " ranks, " << i;
    }
    for (uint32_t r = 0; r < size; ++r) {
      const auto* counts = reinterpret_cast<const UnitCounts*>(team.team(r).At(r, layout.units));
      EXPECT_EQ(counts->pushed, units);
      EXPECT_EQ(counts->reduced, units);
      EXPECT_EQ(counts->pushes_drawn + counts->parts_drawn, 0u) << "for the next launch";
    }
  }
}

uint32_t* Epochs(GpuTeam& team, uint32_t rank) {
  const Team view = team.team(rank);
  return reinterpret_cast<uint32_t*>(view.At(rank, view.layout.epochs));
}

TEST(GpuProtocols, StayRightWhenEpochsWrap) {
  constexpr uint32_t kSize = 3;
  GpuTeam team(kSize, 2);
  for (uint32_t r = 0; r < kSize; ++r) {
    for (uint32_t b = 0; b < kPacketBlocks; ++b) Epochs(team, r)[b] = UINT32_MAX - 20 - b;
  }
  std::mt19937 random(5);
  std::vector<Case> cases;
  for (int i = 0; i < 60; ++i) {
    cases.push_back(Case::Random(kSize, random));
    constexpr const Family* kByPackets[] = {&families::kOneShot, &families::kTwoShot, &families::kLamportOneShot,
                                            &families::kLamportTwoShot};
    cases.back().family = kByPackets[i % 4];
    if (i % 2 != 0) cases.back().op.kind = SL_OP_ALL_REDUCE;
    cases.back().Fill();
  }
  team.RunAll(cases);
  for (Case& one : cases) EXPECT_EQ(one.Wrong(), "");
  EXPECT_LT(Epochs(team, 0)[0], 100u);
}

// Numbers that a packet cannot carry as they are: what looks blank on the way, and what travels in its stead.
uint64_t Awkward(std::mt19937& random) {
  constexpr uint64_t kNumbers[] = {dev::kLamportMask, dev::kLamportMask ^ dev::kLamportStandIn, 0, 1, UINT64_MAX, 77};
  return kNumbers[random() % std::size(kNumbers)];
}

// One collective of 64-bit numbers whose results are awkward ones: sums of one rank's with what the others add.
class AwkwardCase {
 public:
  AwkwardCase(sl_op_kind_t kind, uint32_t size, uint64_t count, std::mt19937& random) : size_(size) {
    op_.struct_size = sizeof(op_);
    op_.kind = kind;
    op_.datatype = SL_UINT64;
    op_.reduction = SL_SUM;
    op_.count = count;
    const uint64_t in = count * (Case::ManyIn(kind) ? size : 1);
    wanted_.resize(in);
    for (uint64_t& number : wanted_) number = Awkward(random);
    send_.assign(size, std::vector<uint64_t>(in));
    recv_.assign(size, std::vector<uint64_t>(count * (Case::ManyOut(kind) ? size : 1)));
    for (uint64_t i = 0; i < in; ++i) {
      uint64_t sum = 0;
      for (uint32_t r = 0; r + 1 < size; ++r) sum += send_[r][i] = Awkward(random);
      send_[size - 1][i] = Reduces() ? wanted_[i] - sum : Awkward(random);
    }
  }
  sl_op_t For(uint32_t rank) {
    sl_op_t op = op_;
    op.send = send_[rank].data();
    op.recv = recv_[rank].data();
    return op;
  }
  bool IsRight() const {
    for (uint32_t r = 0; r < size_; ++r) {
      for (uint64_t i = 0; i < recv_[r].size(); ++i) {
        if (recv_[r][i] != Wanted(r, i)) return false;
      }
    }
    return true;
  }

 private:
  bool Reduces() const { return op_.kind == SL_OP_ALL_REDUCE || op_.kind == SL_OP_REDUCE_SCATTER; }
  uint64_t Wanted(uint32_t rank, uint64_t i) const {
    const uint64_t n = op_.count;
    if (op_.kind == SL_OP_ALL_REDUCE) return wanted_[i];
    if (op_.kind == SL_OP_REDUCE_SCATTER) return wanted_[rank * n + i];
    return send_[i / n][(op_.kind == SL_OP_ALL_TO_ALL ? rank * n : 0) + i % n];
  }

  sl_op_t op_{};
  uint32_t size_;
  std::vector<uint64_t> wanted_;  // sums
  std::vector<std::vector<uint64_t>> send_, recv_;
};

// Packets that are all data carry any data; those of many chunks of shared memory, too.
TEST(GpuProtocols, SendWhatLooksBlankAndWhatTravelsInItsStead) {
  for (uint32_t size : {2u, 3u, 5u}) {
    GpuTeam team(size, 2);
    std::mt19937 random(size);
    for (sl_op_kind_t kind : {SL_OP_ALL_REDUCE, SL_OP_REDUCE_SCATTER, SL_OP_ALL_GATHER, SL_OP_ALL_TO_ALL}) {
      for (const Family* family : {&families::kLamportOneShot, &families::kLamportTwoShot}) {
        if (family->protocol == Protocol::kTwoShot && kind != SL_OP_ALL_REDUCE) continue;
        for (uint64_t count : {1, 2, 63, 64, 65, 1000, 8001}) {
          AwkwardCase one(kind, size, count, random);
          ASSERT_EQ(team.ChoiceFor(0, one.For(0), family).family, family);
          std::vector<std::thread> threads;
          for (uint32_t r = 0; r < size; ++r) {
            threads.emplace_back([&team, &one, family, r] { team.Run(r, one.For(r), family); });
          }
          for (std::thread& thread : threads) thread.join();
          ASSERT_TRUE(one.IsRight()) << kind << " of " << count << " over " << size;
        }
      }
    }
  }
}

// From any root, amid operations that use one shot alone.
TEST(GpuProtocols, HandBroadcastsOnInTwoShots) {
  for (uint32_t size : {3u, 4u, 8u}) {
    GpuTeam team(size, 2);
    std::mt19937 random(size);
    std::vector<Case> cases;
    for (int i = 0; i < 80; ++i) {
      cases.push_back(Case::Random(size, random));
      if (i % 4 != 0) {
        cases.back().op.kind = SL_OP_BROADCAST;
        cases.back().family = i % 2 != 0 ? &families::kTwoShot : &families::kLamportTwoShot;
        ASSERT_EQ(team.ChoiceFor(0, cases.back().op, cases.back().family).family, cases.back().family);
      }
      cases.back().Fill();
    }
    team.RunAll(cases);
    for (Case& one : cases) EXPECT_EQ(one.Wrong(), "") << size;
  }
}

// No flag outlives 2 * packets_per_block epochs, so none can be mistaken for one of 2^32 epochs later.
TEST(GpuProtocols, StampEveryPacketNowAndThen) {
  constexpr uint32_t kSize = 3;
  GpuTeam team(kSize, 1);
  std::mt19937 random(5);
  Case one = Case::Random(kSize, random);
  one.op.kind = SL_OP_ALL_REDUCE;
  one.op.count = 1;
  one.family = &families::kOneShot;
  one.Fill();
  const Team view = team.team(0);
  const uint32_t per_block = view.layout.packets_per_block;
  const uint32_t epochs = kPacketSlots * kShots * kSize * per_block + 1;
  std::vector<Case> cases(epochs, one);
  team.RunAll(cases);
  ASSERT_EQ(Epochs(team, 0)[0], epochs);
  for (uint32_t place = 0; place < kShots * kPacketSlots * kSize; ++place) {
    const dev::LlPacket* packets = view.Packets(0, place / (kPacketSlots * kSize), place / kSize, 0, place % kSize);
    for (uint32_t i = 0; i < per_block; ++i) {
      EXPECT_GE(packets[i].half[1] >> 32, 1u) << "place " << place << " packet " << i;
    }
  }
}

TEST(GpuProtocols, GiveUpAndNameThePeerWhenAborted) {
  for (uint32_t family = 0; family < kFamilies.size(); ++family) {
    GpuTeam team(2, 1);
    std::mt19937 random(1);
    Case one = Case::Random(2, random);
    one.op.kind = SL_OP_ALL_REDUCE;
    one.op.count = 100;
    one.Fill();
    std::thread waiting([&] { team.Run(0, one.For(0), kFamilies[family]); });
    std::atomic_ref<int32_t>(team.control(0).abort).store(SL_ERR_ABORTED, std::memory_order_release);
    waiting.join();
    EXPECT_EQ(team.control(0).fault, 1u);
    EXPECT_EQ(team.control(0).peer, 1);
    EXPECT_EQ(team.control(0).seen, 0u);
    EXPECT_EQ(team.control(0).wanted, 1u);
    constexpr uint32_t kSteps[kFamilies.size()] = {kStepPacket, kStepPacket, kStepStaged, kStepMet,
                                                   kStepPacket, kStepPacket, kStepStaged, kStepStaged};
    EXPECT_EQ(team.control(0).step, kSteps[family]);
    EXPECT_EQ(team.control(1).fault, 0u);
  }
}

TEST(GpuProtocols, SayWhatTheyWaitForWhenAskedAndWaitOn) {
  for (uint32_t family = 0; family < kFamilies.size(); ++family) {
    GpuTeam team(2, 1);
    std::mt19937 random(1);
    Case one = Case::Random(2, random);
    one.op.kind = SL_OP_ALL_REDUCE;
    one.op.count = 100;
    one.Fill();
    std::thread waiting([&] { team.Run(0, one.For(0), kFamilies[family]); });
    sl_control_t& control = team.control(0);
    for (uint32_t question = 1; question <= 3; ++question) {
      std::atomic_ref<uint32_t>(control.asked).store(question, std::memory_order_release);
      while (std::atomic_ref<uint32_t>(control.answered).load(std::memory_order_acquire) != question) {
        std::this_thread::yield();
      }
      EXPECT_EQ(control.peer, 1);
      EXPECT_EQ(control.seen, 0u);
      EXPECT_EQ(control.wanted, 1u);
    }
    EXPECT_EQ(std::atomic_ref<uint32_t>(control.fault).load(), 0u);
    team.Run(1, one.For(1), kFamilies[family]);
    waiting.join();
    EXPECT_EQ(control.fault, 0u) << "it has gone on";
  }
}

GpuTeam HostileTeam(uint32_t size, uint32_t first_epoch) {
  GpuSettings settings = GpuTeam::SettingsOf(2);
  settings.dawdle_ns = 20000;
  settings.first_epoch = first_epoch;
  return {size, settings};
}

// Orders of events that chance brings about, in every family, of all sizes back to back, while numbers wrap and buffers
// are out of reach now and then.
TEST(GpuProtocols, StayRightUnderHostileTiming) {
  for (uint32_t size : {2u, 3u}) {
    for (uint32_t family = 0; family < kFamilies.size(); ++family) {
      GpuTeam team = HostileTeam(size, UINT32_MAX - 20);
      for (uint32_t r = 0; r < size; ++r) team.reach(r).refuses_every = 5 + r;
      std::mt19937 random(size + family);
      std::vector<Case> cases;
      for (int i = 0; i < 40; ++i) {
        cases.push_back(Case::Random(size, random));
        cases.back().family = kFamilies[family];
        if (cases.back().family->protocol == Protocol::kTwoShot) cases.back().op.kind = SL_OP_ALL_REDUCE;
        cases.back().Fill();
      }
      team.RunAll(cases);
      for (Case& one : cases) ASSERT_EQ(one.Wrong(), "");
    }
  }
}

// Rank 0 gives up before rank 1 begins. What rank 1 leaves for it then is of the first operation, and must not serve
// the second one.
TEST(GpuProtocols, LeaveAtOnceOnceTheyHaveGivenUp) {
  for (uint32_t family = 0; family < kFamilies.size(); ++family) {
    GpuTeam team(2, 1);
    std::mt19937 random(1);
    Case first = Case::Random(2, random);
    first.op.kind = SL_OP_ALL_REDUCE;
    first.op.datatype = SL_INT32;
    first.op.reduction = SL_SUM;
    first.op.count = 100;
    first.in_place = false;
    first.Fill();
    Case second = first;
    second.op.count = 200;
    second.Fill();
    for (uint32_t r = 0; r < 2; ++r) {
      team.control(r).abort = SL_ERR_ABORTED;
      team.Run(r, first.For(r), kFamilies[family]);
    }
    const Image left = first.recv[1];
    const Image untouched = second.recv[0];
    team.Run(0, second.For(0), kFamilies[family]);
    EXPECT_EQ(std::memcmp(first.recv[1].data(), left.lines[0].bytes, left.size()), 0) << family;
    EXPECT_EQ(std::memcmp(second.recv[0].data(), untouched.lines[0].bytes, untouched.size()), 0) << family;
  }
}

// Wherever they are when told to: all ranks, in the middle of operations of all sizes. The first launch of who lags may
// find everything there and end as if nothing had happened, so no rank has to record a fault.
TEST(GpuProtocols, GiveUpInAnyPhase) {
  constexpr uint32_t kSize = 3;
  for (uint32_t round = 0; round < 3 * kFamilies.size(); ++round) {
    GpuTeam team = HostileTeam(kSize, 0);
    std::mt19937 random(round);
    std::vector<Case> cases;
    for (int i = 0; i < 30; ++i) {
      cases.push_back(Case::Random(kSize, random));
      cases.back().family = kFamilies[round % kFamilies.size()];
      cases.back().Fill();
    }
    std::thread running([&] { team.RunAll(cases); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 20000);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    for (uint32_t r = 0; r < kSize; ++r) {
      std::atomic_ref<int32_t>(team.control(r).abort).store(SL_ERR_ABORTED, std::memory_order_release);
    }
    running.join();
    for (uint32_t r = 0; r < kSize; ++r) {
      const sl_control_t& control = team.control(r);
      if (control.fault == 0) continue;
      EXPECT_LT(static_cast<uint32_t>(control.peer), kSize);
      EXPECT_NE(static_cast<uint32_t>(control.peer), r);
      EXPECT_GE(control.step, kStepSlot);
      EXPECT_LE(control.step, kStepFreed);
    }
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
