// SPDX-License-Identifier: Apache-2.0
//
// A launch that begins late: its peer has told where its buffers lie, has given up, has taken back what it told, and
// uses the buffers for something else. The late launch waits for its peer, until its abort word ends it, and touches
// nothing of the peer.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "modules/algo-symmetric/p2p_group.h"
#include "modules/algo-symmetric/tests/gpu_team.h"

namespace sl::algo_symmetric {
namespace {

void End(GpuTeam& team, uint32_t rank) {
  std::atomic_ref<int32_t>(team.control(rank).abort).store(SL_ERR_ABORTED, std::memory_order_release);
}

TEST(GpuLate, CollectiveLeavesMemoryOfPeersThatGaveUpAlone) {
  struct Way {
    const Family* family;
    sl_op_kind_t kind;
  };
  for (const auto [family, kind] :
       {Way{&families::kDirect, SL_OP_ALL_REDUCE}, Way{&families::kDirect, SL_OP_ALL_GATHER},
        Way{&families::kBulk, SL_OP_ALL_GATHER}}) {
    GpuTeam team(2, 1);
    std::mt19937 random(1);
    Case one = Case::Random(2, random);
    one.op.kind = kind;
    one.op.datatype = SL_INT32;
    one.op.reduction = SL_SUM;
    one.op.count = 4096;
    one.in_place = false;
    one.Fill();
    ASSERT_EQ(team.ChoiceFor(1, one.For(1), family).family, family);
    std::thread early([&] { team.Run(0, one.For(0), family); });
    End(team, 0);
    early.join();
    EXPECT_EQ(team.control(0).fault, 1u);
    EXPECT_TRUE(team.Retract(0).ok());
    End(team, 1);
    const Image reused = one.recv[0];
    team.Run(1, one.For(1), family);
    EXPECT_EQ(std::memcmp(one.recv[0].data(), reused.lines[0].bytes, reused.size()), 0) << family->name;
    EXPECT_EQ(team.control(1).fault, 1u);
    EXPECT_EQ(team.control(1).peer, 0);
    EXPECT_EQ(team.control(1).step, kStepMet);
  }
}

// A message that goes straight into the receiver's buffer.
void RunMessage(GpuTeam& team, uint32_t rank, std::vector<uint8_t>* memory) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = rank == 1 ? SL_OP_SEND : SL_OP_RECV;
  op.datatype = SL_INT8;
  op.count = memory->size();
  op.peer = static_cast<int32_t>(1 - rank);
  op.send = op.recv = memory->data();
  FewMessages args{};
  args.team = team.team(rank);
  uint32_t blocks = 0;
  ASSERT_EQ(team.MakeGroup(rank).Fill(&op, 1, &args, &blocks), SL_OK);
  std::vector<std::thread> threads;
  for (uint32_t block = 0; block < blocks; ++block) threads.emplace_back([&, block] { RunChannels(args, block); });
  for (std::thread& thread : threads) thread.join();
}

TEST(GpuLate, SendLeavesMemoryOfAReceiverThatGaveUpAlone) {
  GpuTeam team(2, 1);
  const size_t bytes = MailedBytes(LaneLayout::Of(2, 1).channels) + 17;  // too long for packets
  std::vector<uint8_t> sent(bytes, 7);
  std::vector<uint8_t> received(bytes, 0);
  std::thread early([&] { RunMessage(team, 0, &received); });
  End(team, 0);
  early.join();
  EXPECT_EQ(team.control(0).fault, 1u);
  EXPECT_EQ(team.control(0).step, kStepLanded);
  EXPECT_TRUE(team.Retract(0).ok());
  End(team, 1);
  RunMessage(team, 1, &sent);
  EXPECT_EQ(received, std::vector<uint8_t>(bytes, 0));
  EXPECT_EQ(team.control(1).fault, 1u);
  EXPECT_EQ(team.control(1).step, kStepOffer);
}

}  // namespace
}  // namespace sl::algo_symmetric
