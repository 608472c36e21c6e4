// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives of GPUs, a thread standing for each block. ThreadSanitizer watches.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "modules/algo-symmetric/p2p_group.h"
#include "modules/algo-symmetric/tests/gpu_team.h"

namespace sl::algo_symmetric {
namespace {

struct Transfer {
  uint32_t from;
  uint32_t to;
  std::vector<uint8_t> sent;
  std::vector<uint8_t> received;
};

Transfer MakeTransfer(uint32_t from, uint32_t to, uint64_t bytes, std::mt19937& random) {
  Transfer transfer{from, to, std::vector<uint8_t>(bytes + 1), std::vector<uint8_t>(bytes + 1, 0)};
  for (uint8_t& byte : transfer.sent) byte = static_cast<uint8_t>(random());
  return transfer;
}

sl_op_t OpOf(Transfer& transfer, sl_op_kind_t kind) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_INT8;
  op.count = transfer.sent.size() - 1;
  op.peer = static_cast<int32_t>(kind == SL_OP_SEND ? transfer.to : transfer.from);
  // Odd addresses now and then.
  const uint64_t skip = op.count % 2;
  op.send = transfer.sent.data() + skip;
  op.recv = transfer.received.data() + skip;
  return op;
}

// The part of a group that one rank calls; transfers between two ranks keep their order, everything else is shuffled.
std::vector<sl_op_t> GroupOf(uint32_t rank, std::vector<Transfer>& transfers, std::mt19937& random) {
  std::vector<std::vector<sl_op_t>> queues(2 * 16);
  for (Transfer& transfer : transfers) {
    if (transfer.from == rank) queues[transfer.to].push_back(OpOf(transfer, SL_OP_SEND));
    if (transfer.to == rank) queues[16 + transfer.from].push_back(OpOf(transfer, SL_OP_RECV));
  }
  std::vector<sl_op_t> ops;
  std::vector<size_t> taken(queues.size());
  for (size_t left = 1; left != 0;) {
    left = 0;
    for (size_t q = 0; q < queues.size(); ++q) {
      while (taken[q] < queues[q].size() && random() % 3 != 0) ops.push_back(queues[q][taken[q]++]);
      left += queues[q].size() - taken[q];
    }
  }
  return ops;
}

void RunGroup(GpuTeam& team, std::vector<Transfer>& transfers, std::mt19937& random) {
  std::vector<std::unique_ptr<FewMessages>> args;
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < team.size(); ++r) {
    args.push_back(std::make_unique<FewMessages>());
    args.back()->team = team.team(r);
    const std::vector<sl_op_t> ops = GroupOf(r, transfers, random);
    P2pGroup group = team.MakeGroup(r);
    uint32_t blocks = 0;
    ASSERT_EQ(group.Fill(ops.data(), static_cast<uint32_t>(ops.size()), args.back().get(), &blocks), SL_OK);
    for (uint32_t i = 0; i < blocks * kChannelsOfBlock; ++i) {
      threads.emplace_back([mine = args.back().get(), i] {
        uint32_t told[kOfferWords];
        P2pChannel(*mine, dev::Block::Whole(i / kChannelsOfBlock), i % kChannelsOfBlock, told).Run();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GpuP2p, DeliversGroupsOfAnyShape) {
  constexpr uint64_t kBytes[] = {0, 1, 15, 16, 4097, 16384, 16385, 65537, 300000, 300001};
  for (uint32_t size : {2u, 3u, 5u}) {
    GpuTeam team(size, 1);
    std::mt19937 random(size);
    for (int round = 0; round < 12; ++round) {
      std::vector<Transfer> transfers;
      for (uint32_t i = 0; i < 4 * size; ++i) {
        const uint32_t from = random() % size;
        const uint32_t to = (from + 1 + random() % (size - 1)) % size;
        transfers.push_back(MakeTransfer(from, to, kBytes[random() % std::size(kBytes)], random));
      }
      RunGroup(team, transfers, random);
      for (const Transfer& transfer : transfers) {
        const size_t skip = (transfer.sent.size() - 1) % 2;
        ASSERT_TRUE(std::equal(transfer.sent.begin() + static_cast<std::ptrdiff_t>(skip),
                               transfer.sent.end() - 1 + static_cast<std::ptrdiff_t>(skip),
                               transfer.received.begin() + static_cast<std::ptrdiff_t>(skip)))
            << "size " << size << " round " << round << " from " << transfer.from << " to " << transfer.to << " bytes "
            << transfer.sent.size() - 1;
      }
    }
  }
}

uint64_t* Answered(GpuTeam& team, uint32_t rank, uint32_t from) {
  const Team view = team.team(rank);
  return reinterpret_cast<uint64_t*>(view.At(rank, view.layout.answered)) + from * view.layout.channels;
}

// Long messages go where the receiver says, or through the inbox when it is refused an answer; short ones ask nobody.
TEST(GpuP2p, LandsLongMessagesInReach) {
  constexpr uint64_t kBytes[] = {kOfferedBytes - 16, kOfferedBytes, 2 * kOfferedBytes + 6, 400003};
  constexpr uint32_t kSize = 3;
  for (uint32_t refuses_every : {0u, 2u, 1u}) {
    GpuTeam team(kSize, 1);
    for (uint32_t r = 0; r < kSize; ++r) team.reach(r).refuses_every = refuses_every;
    std::mt19937 random(29);
    for (int round = 0; round < 2; ++round) {
      std::vector<Transfer> transfers;
      for (uint32_t i = 0; i < kSize; ++i) {
        for (uint64_t bytes : kBytes) transfers.push_back(MakeTransfer(i % kSize, (i + 1) % kSize, bytes, random));
      }
      RunGroup(team, transfers, random);
      for (Transfer& transfer : transfers) {
        if (transfer.sent.size() % 2 == 0) transfer.sent[0] = transfer.received[0];  // skipped: the address is odd
        transfer.sent.back() = transfer.received.back();                             // or not sent
        ASSERT_TRUE(transfer.sent == transfer.received) << transfer.sent.size() - 1 << " bytes, round " << round;
      }
    }
    EXPECT_EQ(*Answered(team, 1, 0), 2u * 3);
    EXPECT_EQ(team.reach(1).asked, 2u * 2);  // one of the long messages goes to an odd address
  }
}

// The number of an offer goes beside the address by its low half, which wraps.
TEST(GpuP2p, LandsMessagesWhenTheLowHalfOfTheirNumberWraps) {
  GpuTeam team(2, 1);
  const LaneLayout& layout = team.team(0).layout;
  for (uint32_t channel = 0; channel < layout.channels; ++channel) {
    Answered(team, 1, 0)[channel] = UINT32_MAX - 2;
    const Team sender = team.team(0);
    reinterpret_cast<uint64_t*>(sender.At(0, layout.offered))[layout.channels + channel] = UINT32_MAX - 2;
  }
  std::mt19937 random(31);
  std::vector<Transfer> transfers;
  for (int i = 0; i < 6; ++i) transfers.push_back(MakeTransfer(0, 1, kOfferedBytes, random));
  RunGroup(team, transfers, random);
  for (Transfer& transfer : transfers) {
    transfer.sent.back() = transfer.received.back();
    EXPECT_TRUE(transfer.sent == transfer.received);
  }
  EXPECT_EQ(*Answered(team, 1, 0), uint64_t{UINT32_MAX} - 2 + 6);
}

// All orders of events that chance brings about, of long and short messages, landed and not, with numbers that wrap.
TEST(GpuP2p, DeliversUnderHostileTiming) {
  constexpr uint64_t kBytes[] = {1, 4096, 16385, 50000, 300000};
  constexpr uint32_t kSize = 3;
  for (Family family : {Family::kStaged, Family::kDirect}) {
    GpuSettings settings = GpuTeam::SettingsOf(1);
    settings.forced = true;
    settings.family = family;
    settings.dawdle_ns = 20000;
    settings.first_epoch = UINT32_MAX - 3;
    GpuTeam team(kSize, settings);
    for (uint32_t r = 0; r < kSize; ++r) team.reach(r).refuses_every = 3 + r;
    std::mt19937 random(37);
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; i < 30; ++i) {
      transfers.push_back(MakeTransfer(i % kSize, (i + 1 + i / kSize % 2) % kSize, kBytes[i % 5], random));
    }
    RunGroup(team, transfers, random);
    for (const Transfer& transfer : transfers) {
      const auto skip = static_cast<std::ptrdiff_t>((transfer.sent.size() - 1) % 2);
      ASSERT_TRUE(
          std::equal(transfer.sent.begin() + skip, transfer.sent.end() - 1 + skip, transfer.received.begin() + skip))
          << FamilyName(family) << " from " << transfer.from << " to " << transfer.to << " bytes "
          << transfer.sent.size() - 1;
    }
    EXPECT_EQ(team.reach(0).asked != 0, family == Family::kDirect);
  }
}

// More chunks than slots on every channel, both ways at once.
TEST(GpuP2p, ExchangesMoreThanTheInboxesHold) {
  GpuTeam team(2, 1);
  std::mt19937 random(1);
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < 2; ++r) team.reach(r).refuses_every = 1;
  const uint64_t bytes = 3 * kInboxSlots * kChunkBytes * team.team(0).layout.channels + 5;
  for (uint32_t from = 0; from < 2; ++from) transfers.push_back(MakeTransfer(from, 1 - from, bytes, random));
  RunGroup(team, transfers, random);
  for (Transfer& transfer : transfers) {
    transfer.sent[0] = transfer.received[0];  // skipped: the address is odd
    EXPECT_TRUE(transfer.sent == transfer.received);
  }
}

TEST(GpuP2p, RefusesWhatDoesNotFit) {
  GpuTeam team(2, 1);
  std::mt19937 random(1);
  Transfer transfer = MakeTransfer(0, 1, 1, random);
  const std::vector<sl_op_t> ops(sizeof(FewMessages::message) / sizeof(Message) + 1, OpOf(transfer, SL_OP_SEND));
  auto args = std::make_unique<FewMessages>();
  args->team = team.team(0);
  P2pGroup group(2, nullptr, nullptr, UINT64_MAX);
  uint32_t blocks = 0;
  EXPECT_EQ(group.Fill(ops.data(), static_cast<uint32_t>(ops.size()), args.get(), &blocks), SL_ERR_LIMIT);
  EXPECT_EQ(group.Fill(ops.data(), static_cast<uint32_t>(ops.size()) - 1, args.get(), &blocks), SL_OK);
  EXPECT_EQ(blocks, 1u);
  sl_op_t other = ops[0];
  other.kind = SL_OP_ALL_REDUCE;
  EXPECT_EQ(group.Fill(&other, 1, args.get(), &blocks), SL_ERR_UNSUPPORTED);
}

TEST(GpuP2p, GivesUpAndNamesThePeerWhenAborted) {
  GpuTeam team(3, 1);
  std::mt19937 random(1);
  Transfer transfer = MakeTransfer(2, 0, 100, random);
  FewMessages args{};
  args.team = team.team(0);
  const sl_op_t op = OpOf(transfer, SL_OP_RECV);
  P2pGroup group = team.MakeGroup(0);
  uint32_t blocks = 0;
  ASSERT_EQ(group.Fill(&op, 1, &args, &blocks), SL_OK);
  std::thread waiting([&] {
    uint32_t told[kOfferWords];
    P2pChannel(args, dev::Block::Whole(0), 0, told).Run();
  });
  std::atomic_ref<int32_t>(team.control(0).abort).store(SL_ERR_ABORTED, std::memory_order_release);
  waiting.join();
  EXPECT_EQ(team.control(0).fault, 1u);
  EXPECT_EQ(team.control(0).peer, 2);
  EXPECT_EQ(team.control(0).step, kStepArrived);
}

}  // namespace
}  // namespace sl::algo_symmetric
