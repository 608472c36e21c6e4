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

// How long messages may be that go as packets, among so many ranks.
uint64_t MailedAmong(uint32_t ranks) { return MailedBytes(LaneLayout::Of(ranks, 1).channels); }

// And as short mail.
uint64_t ShortAmong(uint32_t ranks) {
  return WaysOf(GpuTeam::SettingsOf(1), ranks).short_channels * uint64_t{kShortBytesOfChannel};
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

// The launch of one rank, a thread for each block and for each of its channels.
class RankLaunch {
 public:
  // `may_be_mail`: of the kernel for mail, if it holds nothing else.
  RankLaunch(GpuTeam& team, uint32_t rank, const std::vector<sl_op_t>& ops, bool may_be_mail = true) {
    args_.team = mail_args_.team = team.team(rank);
    P2pGroup group = team.MakeGroup(rank);
    const auto count = static_cast<uint32_t>(ops.size());
    MailGrid grid{};
    is_mail_ = may_be_mail && team.MakeMailGroup(rank).Fill(ops.data(), count, &mail_args_, &grid) == SL_OK;
    uint32_t blocks = grid.blocks;
    if (!is_mail_) {
      EXPECT_EQ(group.Fill(ops.data(), count, &args_, &blocks), SL_OK);
    }
    for (uint32_t block = 0; block < blocks; ++block) {
      threads_.emplace_back([this, block] { is_mail_ ? RunMailBlock(mail_args_, block) : RunChannels(args_, block); });
    }
  }
  ~RankLaunch() {
    for (std::thread& thread : threads_) thread.join();
  }
  RankLaunch(const RankLaunch&) = delete;
  RankLaunch& operator=(const RankLaunch&) = delete;

  bool is_mail() const { return is_mail_; }

 private:
  FewMessages args_{};
  AnyMailArgs mail_args_{};
  bool is_mail_;
  std::vector<std::thread> threads_;
};

// Whether all ranks' launches were of mail.
bool RunGroup(GpuTeam& team, std::vector<Transfer>& transfers, std::mt19937& random) {
  std::vector<std::unique_ptr<RankLaunch>> launches;
  for (uint32_t r = 0; r < team.size(); ++r) {
    launches.push_back(std::make_unique<RankLaunch>(team, r, GroupOf(r, transfers, random)));
  }
  return std::all_of(launches.begin(), launches.end(), [](const auto& launch) { return launch->is_mail(); });
}

bool HasArrived(const Transfer& transfer) {
  const auto skip = static_cast<std::ptrdiff_t>((transfer.sent.size() - 1) % 2);
  return std::equal(transfer.sent.begin() + skip, transfer.sent.end() - 1 + skip, transfer.received.begin() + skip);
}

TEST(GpuP2p, DeliversGroupsOfAnyShape) {
  for (uint32_t size : {2u, 3u, 5u}) {
    const uint64_t mailed = MailedAmong(size);
    const uint64_t kinds[] = {0, 1, 15, 16, 1025, 4097, 16384, 65537, mailed, mailed + 1, 300000, 700001};
    GpuTeam team(size, 1);
    std::mt19937 random(size);
    for (int round = 0; round < 8; ++round) {
      std::vector<Transfer> transfers;
      for (uint32_t i = 0; i < 4 * size; ++i) {
        const uint32_t from = random() % size;
        const uint32_t to = random() % size;  // itself now and then
        transfers.push_back(MakeTransfer(from, to, kinds[random() % std::size(kinds)], random));
      }
      RunGroup(team, transfers, random);
      for (const Transfer& transfer : transfers) {
        ASSERT_TRUE(HasArrived(transfer)) << "size " << size << " round " << round << " from " << transfer.from
                                          << " to " << transfer.to << " bytes " << transfer.sent.size() - 1;
      }
    }
  }
}

// The channels between `rank` and `other`, in one direction.
ChannelCount* Counts(GpuTeam& team, uint64_t LaneLayout::*table, uint32_t rank, uint32_t other) {
  const Team view = team.team(rank);
  return reinterpret_cast<ChannelCount*>(view.At(rank, view.layout.*table)) + other * view.layout.channels;
}
ChannelCount* Sent(GpuTeam& team, uint32_t rank, uint32_t to) { return Counts(team, &LaneLayout::sent, rank, to); }
ChannelCount* Received(GpuTeam& team, uint32_t rank, uint32_t from) {
  return Counts(team, &LaneLayout::received, rank, from);
}

// Long messages go where the receiver says, or through the inbox when it is refused an answer; short ones ask nobody.
TEST(GpuP2p, LandsLongMessagesInReach) {
  constexpr uint32_t kSize = 3;
  const uint64_t mailed = MailedAmong(kSize);
  const uint64_t kinds[] = {mailed, mailed + 16, 2 * mailed + 6, mailed + 400003};
  for (uint32_t refuses_every : {0u, 2u, 1u}) {
    GpuTeam team(kSize, 1);
    for (uint32_t r = 0; r < kSize; ++r) team.reach(r).refuses_every = refuses_every;
    std::mt19937 random(29);
    for (int round = 0; round < 2; ++round) {
      std::vector<Transfer> transfers;
      for (uint32_t i = 0; i < kSize; ++i) {
        for (uint64_t bytes : kinds) transfers.push_back(MakeTransfer(i % kSize, (i + 1) % kSize, bytes, random));
      }
      RunGroup(team, transfers, random);
      for (Transfer& transfer : transfers) {
        if (transfer.sent.size() % 2 == 0) transfer.sent[0] = transfer.received[0];  // skipped: the address is odd
        transfer.sent.back() = transfer.received.back();                             // or not sent
        ASSERT_TRUE(transfer.sent == transfer.received) << transfer.sent.size() - 1 << " bytes, round " << round;
      }
    }
    EXPECT_EQ(Received(team, 1, 0)->offers, 2u * 3);
    EXPECT_EQ(team.reach(1).asked, 2u * 3);  // at odd addresses, too
  }
}

// All channels draw from long ones, two of which follow each other.
TEST(GpuP2p, DrawsPiecesOfLongMessages) {
  GpuTeam team(2, 1);
  std::mt19937 random(47);
  for (int round = 0; round < 2; ++round) {
    std::vector<Transfer> transfers;
    for (const uint64_t bytes : {kDrawnMessageBytes, uint64_t{100}, kDrawnMessageBytes + 70000}) {
      transfers.push_back(MakeTransfer(0, 1, bytes, random));
      transfers.push_back(MakeTransfer(1, 0, bytes, random));
    }
    RunGroup(team, transfers, random);
    for (const Transfer& transfer : transfers) EXPECT_TRUE(HasArrived(transfer)) << transfer.sent.size() - 1;
  }
  const Team view = team.team(0);
  const auto* counters = reinterpret_cast<const uint32_t*>(view.At(0, view.layout.parts));
  EXPECT_TRUE(std::all_of(counters, counters + kMostMessages, [](uint32_t drawn) { return drawn == 0; }));
}

// The number of an offer goes beside the address by its low half, which wraps.
TEST(GpuP2p, LandsMessagesWhenTheLowHalfOfTheirNumberWraps) {
  GpuTeam team(2, 1);
  for (uint32_t channel = 0; channel < team.team(0).layout.channels; ++channel) {
    Received(team, 1, 0)[channel].offers = Sent(team, 0, 1)[channel].offers = UINT32_MAX - 2;
  }
  std::mt19937 random(31);
  std::vector<Transfer> transfers;
  for (int i = 0; i < 6; ++i) transfers.push_back(MakeTransfer(0, 1, MailedAmong(2) + 16, random));
  RunGroup(team, transfers, random);
  for (Transfer& transfer : transfers) {
    transfer.sent.back() = transfer.received.back();
    EXPECT_TRUE(transfer.sent == transfer.received);
  }
  EXPECT_EQ(Received(team, 1, 0)->offers, uint64_t{UINT32_MAX} - 2 + 6);
}

// All orders of events that chance brings about, of long and short messages, landed and not, with numbers that wrap.
TEST(GpuP2p, DeliversUnderHostileTiming) {
  constexpr uint64_t kBytes[] = {1, 4096, 16385, 50000, 400000};
  constexpr uint32_t kSize = 3;
  struct Way {
    const char* name;
    uint64_t mailed_bytes;
    bool reaches;
  };
  for (const Way& way : {Way{"inbox", 0, false}, Way{"buffer", 0, true}, Way{"as it is", UINT64_MAX, true}}) {
    GpuSettings settings = GpuTeam::SettingsOf(1);
    settings.mailed_bytes = way.mailed_bytes;
    settings.reaches = way.reaches;
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
      ASSERT_TRUE(HasArrived(transfer)) << way.name << " from " << transfer.from << " to " << transfer.to << " bytes "
                                        << transfer.sent.size() - 1;
    }
    EXPECT_EQ(team.reach(0).asked != 0, way.reaches);
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
  P2pGroup group(2, nullptr, nullptr, {MailedAmong(2), args->team.layout.channels, false, 0});
  uint32_t blocks = 0;
  EXPECT_EQ(group.Fill(ops.data(), static_cast<uint32_t>(ops.size()), args.get(), &blocks), SL_ERR_LIMIT);
  EXPECT_EQ(group.Fill(ops.data(), static_cast<uint32_t>(ops.size()) - 1, args.get(), &blocks), SL_OK);
  EXPECT_EQ(blocks, 1u);
  sl_op_t other = ops[0];
  other.kind = SL_OP_ALL_REDUCE;
  EXPECT_EQ(group.Fill(&other, 1, args.get(), &blocks), SL_ERR_UNSUPPORTED);
  other = ops[0];
  other.peer = 0;
  EXPECT_EQ(group.Fill(&other, 1, args.get(), &blocks), SL_ERR_UNSUPPORTED) << "to itself, which does not receive";
  FewestMessages fewest{};
  fewest.team = team.team(0);
  EXPECT_EQ(group.Fill(ops.data(), FewestMessages::kMost, &fewest, &blocks), SL_OK);
  EXPECT_EQ(group.Fill(ops.data(), FewestMessages::kMost + 1, &fewest, &blocks), SL_ERR_LIMIT);
  other = ops[0];
  other.count = MailedAmong(2);
  EXPECT_EQ(group.Fill(&other, 1, &fewest, &blocks), SL_OK);
  EXPECT_EQ(blocks, fewest.team.layout.channels / kChannelsOfBlock);
}

// Asking takes locks, and whoever does not fit is filled again into a larger launch.
TEST(GpuP2p, AsksForBuffersOnlyWhenAllFits) {
  static uint32_t asked;
  asked = 0;
  sl_reach_ops_t reach{};
  reach.struct_size = sizeof(reach);
  reach.addresses = [](sl_reach_t*, const void*, uint64_t, uint64_t, uint64_t* out_addresses) -> sl_status_t {
    ++asked;
    out_addresses[0] = 4096;
    return SL_OK;
  };
  GpuTeam team(4, 1);
  P2pGroup group(4, &reach, nullptr, {MailedAmong(4), team.team(3).layout.channels, true, 0});
  std::vector<sl_op_t> ops;
  alignas(16) static uint8_t buffer[16];  // not touched
  for (int i = 0; i < 6; ++i) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = i < 3 ? SL_OP_RECV : SL_OP_SEND;
    op.datatype = SL_UINT8;
    op.count = uint64_t{64} << 20;
    op.peer = i % 3;
    op.recv = op.kind == SL_OP_RECV ? buffer : nullptr;
    op.send = op.kind == SL_OP_SEND ? buffer : nullptr;
    ops.push_back(op);
  }
  uint32_t blocks = 0;
  FewestMessages fewest{};
  fewest.team = team.team(3);
  ASSERT_EQ(group.Fill(ops.data(), 6, &fewest, &blocks), SL_ERR_LIMIT) << "few messages, but on many blocks";
  EXPECT_EQ(asked, 0u);
  auto args = std::make_unique<FewMessages>();
  args->team = team.team(3);
  ASSERT_EQ(group.Fill(ops.data(), 6, args.get(), &blocks), SL_OK);
  EXPECT_EQ(asked, 3u);
  EXPECT_EQ(args->message[0].other, 4096u);
  EXPECT_EQ(args->message[5].other, 0u) << "a send";
}

TEST(GpuP2p, CopiesWhatStaysUnlessItIsInPlace) {
  GpuTeam team(2, 1);
  std::mt19937 random(1);
  Transfer transfer = MakeTransfer(1, 1, 4 * kMailedBytesOfChannel * kChannelsOfBlock, random);
  std::vector<sl_op_t> ops = {OpOf(transfer, SL_OP_SEND), OpOf(transfer, SL_OP_RECV)};
  FewestMessages args{};
  args.team = team.team(1);
  P2pGroup group(2, nullptr, nullptr, {MailedAmong(2), args.team.layout.channels, false, 0});
  uint32_t blocks = 0;
  ASSERT_EQ(group.Fill(ops.data(), 2, &args, &blocks), SL_OK);
  EXPECT_EQ(blocks, 4u);
  EXPECT_EQ(args.task[3].kind, TaskKind::kCopy);
  ops[1].recv = transfer.sent.data();
  ASSERT_EQ(group.Fill(ops.data(), 2, &args, &blocks), SL_OK);
  EXPECT_EQ(blocks, 1u);
  EXPECT_EQ(args.task[0].count, 0u);
}

// A group in which everybody sends to everybody, itself included.
std::vector<Transfer> Everybody(uint32_t size, uint64_t bytes, std::mt19937& random) {
  std::vector<Transfer> transfers;
  for (uint32_t from = 0; from < size; ++from) {
    for (uint32_t to = 0; to < size; ++to) transfers.push_back(MakeTransfer(from, to, bytes, random));
  }
  return transfers;
}

TEST(GpuP2p, HoldsNoMoreBlocksThanItsBudgetAllows) {
  for (uint32_t size : {2u, 3u, 4u, 8u}) {
    for (uint32_t budget : {0u, 1u, 2u, 4u, 6u, 16u, 24u}) {
      SCOPED_TRACE(testing::Message() << size << " ranks within " << budget);
      GpuSettings settings = GpuTeam::SettingsOf(1);
      settings.budget.most = budget;
      GpuTeam team(size, settings);
      std::vector<sl_op_t> ops;
      alignas(16) uint8_t memory[32] = {};  // nothing is moved
      for (uint32_t peer = 0; peer < size; ++peer) {
        sl_op_t op{};
        op.datatype = SL_INT8;
        op.count = 4 << 20;
        op.peer = static_cast<int32_t>(peer);
        op.send = memory;
        op.recv = memory + 16;
        for (sl_op_kind_t kind : {SL_OP_SEND, SL_OP_RECV}) {
          op.kind = kind;
          ops.push_back(op);
        }
      }
      auto args = std::make_unique<FewMessages>();
      args->team = team.team(0);
      uint32_t blocks = 0;
      ASSERT_EQ(team.MakeGroup(0).Fill(ops.data(), static_cast<uint32_t>(ops.size()), args.get(), &blocks), SL_OK);
      const uint32_t queues = 2 * (size - 1);
      const uint32_t most = std::min(args->team.layout.channels, kEnoughChannels) / kChannelsOfBlock * (queues + 1);
      // Every queue has a block, and what stays has one, too.
      EXPECT_LE(blocks, budget == 0 ? most : std::max(budget, queues) + 1);
      EXPECT_EQ(blocks == most, budget == 0);
      ASSERT_EQ(team.MakeGroup(0).Fill(ops.data() + 2, 2 * size - 2, args.get(), &blocks), SL_OK);
      EXPECT_LE(blocks, budget == 0 ? most : std::max(budget, queues)) << "without what stays";
      // Packets go on the channels that there are.
      EXPECT_EQ(team.MakeGroup(0).ways().mailed_bytes, MailedBytes(team.MakeGroup(0).ways().channels));
      // And a message by itself, as it is estimated.
      sl_estimate_t estimate{};
      ASSERT_EQ(team.Estimate(0, ops[2], &estimate), SL_OK);
      EXPECT_LE(estimate.processors, budget == 0 ? most : std::max(budget / 2, 1u));
    }
  }
}

TEST(GpuP2p, DeliversWithinABudget) {
  constexpr uint32_t kSize = 3;
  for (uint32_t budget : {1u, 6u, 13u}) {
    GpuSettings settings = GpuTeam::SettingsOf(1);
    settings.budget.most = budget;
    GpuTeam team(kSize, settings);
    team.reach(1).refuses_every = 2;
    std::mt19937 random(budget);
    for (const uint64_t bytes : {uint64_t{4097}, MailedAmong(kSize), 3 * MailedAmong(kSize)}) {
      std::vector<Transfer> transfers = Everybody(kSize, bytes, random);
      RunGroup(team, transfers, random);
      for (const Transfer& transfer : transfers) {
        ASSERT_TRUE(HasArrived(transfer)) << bytes << " bytes within " << budget;
      }
    }
  }
}

// Data that looks like packets that have not come, and messages of all lengths that make batches begin elsewhere in the
// ring, many times round it.
TEST(GpuP2p, MailsWhatLooksBlank) {
  GpuTeam team(2, 1);
  std::mt19937 random(37);
  const uint32_t channels = team.team(0).layout.channels;
  for (int round = 0; round < 10; ++round) {
    std::vector<Transfer> transfers;
    for (int i = 0; i < 4; ++i) {
      transfers.push_back(MakeTransfer(i % 2, 1 - i % 2, 1 + random() % (channels * kMailBatchBytes), random));
      std::vector<uint8_t>& sent = transfers.back().sent;
      for (uint64_t at = sent.size() % 2 == 0 ? 1 : 0; at + 8 <= sent.size(); at += 8) {
        if (random() % 4 == 0) std::memcpy(&sent[at], &dev::kLamportMask, 8);
      }
    }
    RunGroup(team, transfers, random);
    for (const Transfer& transfer : transfers) ASSERT_TRUE(HasArrived(transfer)) << transfer.sent.size() - 1;
  }
  EXPECT_GT(Received(team, 1, 0)->mail.units, 4 * kMailUnits);
  EXPECT_EQ(Received(team, 1, 0)->mail.units, Sent(team, 0, 1)->mail.units);
}

// Messages that fill a ring to its last place need nobody who receives; the next one does.
TEST(GpuP2p, MailsAheadOfTheReceiverAsLongAsThereIsRoom) {
  GpuTeam team(2, 1);
  constexpr uint64_t kFit = 2;  // batches in a ring
  std::mt19937 random(41);
  std::vector<Transfer> transfers;
  for (uint64_t i = 0; i < 3 * kFit; ++i) transfers.push_back(MakeTransfer(0, 1, MailedAmong(2), random));
  const auto ops = [&](sl_op_kind_t kind, uint64_t first, uint64_t end) {
    std::vector<sl_op_t> some;
    for (uint64_t i = first; i < end; ++i) some.push_back(OpOf(transfers[i], kind));
    return some;
  };
  const Team view = team.team(0);
  uint64_t* room = reinterpret_cast<uint64_t*>(view.At(0, view.layout.room)) + view.layout.channels;
  RankLaunch(team, 0, ops(SL_OP_SEND, 0, kFit));  // ends
  EXPECT_EQ(Sent(team, 0, 1)->mail.units, kMailUnits);
  {
    const RankLaunch sends(team, 0, ops(SL_OP_SEND, kFit, 3 * kFit));
    RankLaunch(team, 1, ops(SL_OP_RECV, 0, kFit));
    EXPECT_EQ(*room, kMailUnits / 2) << "nothing is told behind the last batch";
    RankLaunch(team, 1, ops(SL_OP_RECV, kFit, 3 * kFit));
  }
  for (const Transfer& transfer : transfers) ASSERT_TRUE(HasArrived(transfer));
  EXPECT_EQ(*room, 3 * kMailUnits - kMailUnits / 2);
}

TEST(GpuP2p, GivesUpForWantOfRoomWhenAborted) {
  GpuTeam team(2, 1);
  std::mt19937 random(43);
  Transfer transfer = MakeTransfer(0, 1, ShortAmong(2) + 1, random);
  for (uint32_t channel = 0; channel < team.team(0).layout.channels; ++channel) {
    Sent(team, 0, 1)[channel].mail.units = kMailUnits;
  }
  {
    const RankLaunch sends(team, 0, {OpOf(transfer, SL_OP_SEND)}, false);
    std::atomic_ref<int32_t>(team.control(0).abort).store(SL_ERR_ABORTED, std::memory_order_release);
  }
  EXPECT_EQ(team.control(0).fault, 1u);
  EXPECT_EQ(team.control(0).peer, 1);
  EXPECT_EQ(team.control(0).step, kStepRoom);
  EXPECT_EQ(team.control(0).wanted, 32u);
  EXPECT_EQ(Sent(team, 0, 1)->mail.units, kEnded) << "later launches leave at once";
  EXPECT_EQ(Sent(team, 0, 1)->chunks, kEnded);
  RankLaunch(team, 0, {OpOf(transfer, SL_OP_SEND)});
}

TEST(GpuP2p, GivesUpAndNamesThePeerWhenAborted) {
  for (const uint64_t bytes : {uint64_t{100}, MailedAmong(3) + 16}) {
    GpuTeam team(3, 1);
    team.reach(0).refuses_every = 1;
    std::mt19937 random(1);
    Transfer transfer = MakeTransfer(2, 0, bytes, random);
    {
      const RankLaunch receives(team, 0, {OpOf(transfer, SL_OP_RECV)});
      std::atomic_ref<int32_t>(team.control(0).abort).store(SL_ERR_ABORTED, std::memory_order_release);
    }
    EXPECT_EQ(team.control(0).fault, 1u);
    EXPECT_EQ(team.control(0).peer, 2);
    EXPECT_EQ(team.control(0).step, bytes <= MailedAmong(3) ? kStepMail : kStepArrived);
  }
}

// One message, or none, for each queue of all ranks, and for what each keeps.
std::vector<Transfer> MailOfAll(uint32_t size, std::mt19937& random) {
  const uint64_t most = ShortAmong(size);
  const uint64_t mailed = MailedAmong(size);
  const uint64_t kinds[] = {0, 1, 7, 8, 9, 12, 100, 1025, 2048, most - 1, most, most + 1, 40000, mailed};
  std::vector<Transfer> transfers;
  for (uint32_t from = 0; from < size; ++from) {
    for (uint32_t to = 0; to < size; ++to) {
      if (random() % 5 != 0) {
        transfers.push_back(MakeTransfer(from, to, kinds[random() % std::size(kinds)], random));
      }
    }
  }
  return transfers;
}

// The channels of short messages between `rank` and `other`, in one direction.
MailCount* ShortCounts(GpuTeam& team, uint64_t LaneLayout::*table, uint32_t rank, uint32_t other) {
  const Team view = team.team(rank);
  return reinterpret_cast<MailCount*>(view.At(rank, view.layout.*table)) + other * view.layout.short_channels;
}

// Many times round the rings, with flags that wrap, in order and out of order.
TEST(GpuMail, DeliversGroupsOfMail) {
  for (uint32_t size : {2u, 3u, 4u}) {
    for (uint32_t dawdle_ns : {0u, 5000u}) {
      GpuSettings settings = GpuTeam::SettingsOf(1);
      settings.dawdle_ns = dawdle_ns;
      GpuTeam team(size, settings);
      const uint64_t first = (uint64_t{UINT32_MAX} - 1) * kShortPackets;  // flags 2^32 - 1, 0, 1
      for (uint32_t rank = 0; rank < size; ++rank) {
        for (uint32_t other = 0; other < size; ++other) {
          std::fill_n(ShortCounts(team, &LaneLayout::short_sent, rank, other), ShortChannelsOf(size),
                      MailCount{first, first});
          std::fill_n(ShortCounts(team, &LaneLayout::short_received, rank, other), ShortChannelsOf(size),
                      MailCount{first, first});
        }
      }
      std::mt19937 random(size);
      for (int round = 0; round < (dawdle_ns == 0 ? 90 : 10); ++round) {
        std::vector<Transfer> transfers = MailOfAll(size, random);
        ASSERT_TRUE(RunGroup(team, transfers, random));
        for (const Transfer& transfer : transfers) {
          ASSERT_TRUE(HasArrived(transfer)) << "round " << round << " from " << transfer.from << " to " << transfer.to
                                            << " bytes " << transfer.sent.size() - 1;
        }
      }
      const MailCount sent = *ShortCounts(team, &LaneLayout::short_sent, 0, 1);
      EXPECT_GT(sent.units - first, (dawdle_ns == 0 ? 3 : 0) * kShortPackets);
      EXPECT_EQ(sent.units, ShortCounts(team, &LaneLayout::short_received, 1, 0)->units);
    }
  }
}

// How one end groups its messages is nothing to the other.
TEST(GpuMail, MeetsGroupsThatHoldOthersToo) {
  const uint64_t most = MailedAmong(2);
  const uint64_t kinds[] = {100, ShortAmong(2), ShortAmong(2) + 1, 3, 200000, most, most + 1, 4000, 0, 8};
  for (const bool sender_splits : {true, false}) {
    GpuTeam team(2, 1);
    std::mt19937 random(3);
    for (int round = 0; round < 3; ++round) {
      std::vector<Transfer> transfers;
      for (const uint64_t bytes : kinds) transfers.push_back(MakeTransfer(0, 1, bytes, random));
      std::vector<sl_op_t> sends;
      std::vector<sl_op_t> receives;
      for (Transfer& transfer : transfers) {
        sends.push_back(OpOf(transfer, SL_OP_SEND));
        receives.push_back(OpOf(transfer, SL_OP_RECV));
      }
      {
        const RankLaunch all(team, sender_splits ? 1 : 0, sender_splits ? receives : sends);
        EXPECT_FALSE(all.is_mail());
        for (const sl_op_t& op : sender_splits ? sends : receives) {
          const RankLaunch one(team, sender_splits ? 0 : 1, {op});
          EXPECT_EQ(one.is_mail(), op.count <= most);
        }
      }
      for (const Transfer& transfer : transfers) ASSERT_TRUE(HasArrived(transfer)) << transfer.sent.size() - 1;
    }
  }
}

// Every message follows the others, whichever launch it is in.
TEST(GpuMail, KeepsTheOrderOfAQueue) {
  GpuTeam team(2, 1);
  std::mt19937 random(5);
  std::vector<Transfer> transfers;
  transfers.reserve(40);
  for (int i = 0; i < 40; ++i) transfers.push_back(MakeTransfer(0, 1, 1 + random() % ShortAmong(2), random));
  {
    std::vector<sl_op_t> receives;
    receives.reserve(transfers.size());
    for (Transfer& transfer : transfers) receives.push_back(OpOf(transfer, SL_OP_RECV));
    const RankLaunch all(team, 1, receives);
    for (Transfer& transfer : transfers) RankLaunch(team, 0, {OpOf(transfer, SL_OP_SEND)}, random() % 2 == 0);
  }
  for (const Transfer& transfer : transfers) ASSERT_TRUE(HasArrived(transfer)) << transfer.sent.size() - 1;
}

// Messages that fill a ring to its last place need nobody who receives; the next one does.
TEST(GpuMail, IsSentAheadOfTheReceiverAsLongAsThereIsRoom) {
  GpuTeam team(2, 1);
  constexpr uint32_t kFit = kShortPackets / (kShortBytesOfChannel / 8);
  std::mt19937 random(7);
  std::vector<Transfer> transfers;
  for (uint32_t i = 0; i < kFit + 1; ++i) transfers.push_back(MakeTransfer(0, 1, ShortAmong(2), random));
  const Team view = team.team(0);
  const uint64_t* room = reinterpret_cast<uint64_t*>(view.At(0, view.layout.short_room)) + view.layout.short_channels;
  for (uint32_t i = 0; i < kFit; ++i) RankLaunch(team, 0, {OpOf(transfers[i], SL_OP_SEND)});  // ends
  EXPECT_EQ(ShortCounts(team, &LaneLayout::short_sent, 0, 1)->units, kShortPackets);
  {
    const RankLaunch waits(team, 0, {OpOf(transfers[kFit], SL_OP_SEND)});
    for (Transfer& transfer : transfers) RankLaunch(team, 1, {OpOf(transfer, SL_OP_RECV)});
  }
  for (const Transfer& transfer : transfers) ASSERT_TRUE(HasArrived(transfer));
  EXPECT_EQ(*room, kShortPackets) << "told at half a ring and at a whole one, and of nothing behind the last message";
}

TEST(GpuMail, GivesUpAndNamesThePeerWhenAborted) {
  for (const bool may_be_mail : {true, false}) {
    for (const sl_op_kind_t kind : {SL_OP_SEND, SL_OP_RECV}) {
      GpuTeam team(3, 1);
      std::mt19937 random(1);
      Transfer transfer = kind == SL_OP_SEND ? MakeTransfer(0, 2, 100, random) : MakeTransfer(2, 0, 100, random);
      MailCount* sent = ShortCounts(team, &LaneLayout::short_sent, 0, 2);
      MailCount* received = ShortCounts(team, &LaneLayout::short_received, 0, 2);
      sent->units = kShortPackets;
      {
        const RankLaunch waits(team, 0, {OpOf(transfer, kind)}, may_be_mail);
        std::atomic_ref<int32_t>(team.control(0).abort).store(SL_ERR_ABORTED, std::memory_order_release);
      }
      EXPECT_EQ(team.control(0).fault, 1u);
      EXPECT_EQ(team.control(0).peer, 2);
      EXPECT_EQ(team.control(0).step, kind == SL_OP_SEND ? kStepRoom : kStepMail);
      EXPECT_EQ(team.control(0).wanted, kind == SL_OP_SEND ? 13u : 0u);
      EXPECT_EQ((kind == SL_OP_SEND ? sent : received)->units, kEnded) << "later launches leave at once";
      RankLaunch(team, 0, {OpOf(transfer, kind)}, may_be_mail);
    }
  }
}

TEST(GpuMail, LeavesOtherGroupsToOtherKernels) {
  std::mt19937 random(1);
  MailGroup group(0, 2, WaysOf(GpuTeam::SettingsOf(1), 2));
  ShortArgs args{};
  AnyMailArgs any{};
  MailGrid grid{};
  const auto fill = [&](const std::vector<sl_op_t>& ops, auto* args_of) {
    return group.Fill(ops.data(), static_cast<uint32_t>(ops.size()), args_of, &grid);
  };
  Transfer sent = MakeTransfer(0, 1, ShortAmong(2), random);
  Transfer received = MakeTransfer(1, 0, 9, random);
  Transfer own = MakeTransfer(0, 0, ShortAmong(2), random);
  ASSERT_EQ(fill({OpOf(received, SL_OP_RECV)}, &args), SL_OK);
  EXPECT_EQ(grid.blocks, 1u);
  EXPECT_EQ(grid.threads, 32u);
  const std::vector<sl_op_t> ops = {OpOf(sent, SL_OP_SEND), OpOf(received, SL_OP_RECV), OpOf(own, SL_OP_RECV),
                                    OpOf(own, SL_OP_SEND)};
  ASSERT_EQ(fill(ops, &args), SL_OK);
  EXPECT_EQ(grid.blocks, ShortChannelsOf(2) + 1 + 4);
  EXPECT_EQ(grid.threads, kThreads);
  EXPECT_EQ(args.task[ShortChannelsOf(2) + 1].kind, TaskKind::kCopy);
  EXPECT_EQ(fill({ops[0], ops[0]}, &any), SL_ERR_LIMIT) << "two of a queue";
  EXPECT_EQ(fill({ops[3]}, &any), SL_ERR_UNSUPPORTED) << "to itself, which does not receive";
  sl_op_t op = ops[0];
  op.count = ShortAmong(2) + 1;
  EXPECT_EQ(fill({op}, &args), SL_ERR_LIMIT);
  ASSERT_EQ(fill({ops[1], op}, &any), SL_OK);
  EXPECT_EQ(any.waiting, 5u) << "of four channels each, in front";
  EXPECT_EQ(any.task[5].kind, TaskKind::kReceive);
  op.count = MailedAmong(2) + 1;
  EXPECT_EQ(fill({op}, &any), SL_ERR_LIMIT);
  op.kind = SL_OP_BROADCAST;
  EXPECT_EQ(fill({op}, &any), SL_ERR_UNSUPPORTED);
}

TEST(GpuMail, HoldsAsManyBlocksAsFit) {
  const uint32_t ranks = AnyMailArgs::kMost + 2;
  MailGroup group(0, ranks, WaysOf(GpuTeam::SettingsOf(1), ranks));
  std::mt19937 random(1);
  Transfer transfer = MakeTransfer(0, 1, 8, random);
  std::vector<sl_op_t> ops;
  for (uint32_t peer = 1; peer < ranks; ++peer) {
    ops.push_back(OpOf(transfer, SL_OP_SEND));
    ops.back().peer = static_cast<int32_t>(peer);
  }
  AnyMailArgs args{};
  MailGrid grid{};
  EXPECT_EQ(group.Fill(ops.data(), AnyMailArgs::kMost + 1, &args, &grid), SL_ERR_LIMIT);
  EXPECT_EQ(group.Fill(ops.data(), AnyMailArgs::kMost, &args, &grid), SL_OK);
  EXPECT_EQ(grid.blocks, AnyMailArgs::kMost);
}

TEST(GpuMail, IsAsLongAsTheSettingsAllow) {
  std::mt19937 random(1);
  for (const uint64_t most : {0, 8, 5000, 100000}) {
    GpuSettings settings = GpuTeam::SettingsOf(1);
    settings.mailed_bytes = most;
    MailGroup group(0, 2, WaysOf(settings, 2));
    for (const uint64_t bytes : {8, 5000, 100000, 200000}) {
      Transfer transfer = MakeTransfer(0, 1, bytes, random);
      const sl_op_t op = OpOf(transfer, SL_OP_SEND);
      AnyMailArgs args{};
      MailGrid grid{};
      EXPECT_EQ(group.Fill(&op, 1, &args, &grid), bytes <= most ? SL_OK : SL_ERR_LIMIT) << bytes << " of " << most;
    }
  }
}

// What stays is copied by as many blocks as are worth it, within the budget.
TEST(GpuMail, CopiesOnSeveralBlocks) {
  for (const uint32_t budget : {0u, 4u}) {
    GpuSettings settings = GpuTeam::SettingsOf(1);
    settings.budget.most = budget;
    GpuTeam team(2, settings);
    std::mt19937 random(11);
    Transfer own = MakeTransfer(0, 0, 100001, random);
    AnyMailArgs args{};
    args.team = team.team(0);
    MailGrid grid{};
    const std::vector<sl_op_t> ops = {OpOf(own, SL_OP_SEND), OpOf(own, SL_OP_RECV)};
    ASSERT_EQ(team.MakeMailGroup(0).Fill(ops.data(), 2, &args, &grid), SL_OK);
    EXPECT_EQ(grid.blocks, budget == 0 ? 13u : budget);
    EXPECT_EQ(grid.threads, kThreads);
    for (uint32_t block = 0; block < grid.blocks; ++block) RunMailBlock(args, block);
    EXPECT_TRUE(HasArrived(own));
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
