// SPDX-License-Identifier: Apache-2.0
//
// The parts of a group, on communicators that have no peers: who is in it, what ranks send themselves, and how sends
// and receives are joined into launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <memory_resource>
#include <new>
#include <vector>

#include "kernel/loader/stubs.h"
#include "kernel/plan/select.h"
#include "kernel/runtime/members.h"
#include "kernel/runtime/self_pairs.h"
#include "kernel/runtime/transfer_join.h"

namespace sl::kernel {
namespace {

int g_copies;
uint32_t g_most;                   // transfers that a launch takes
std::vector<uint32_t> g_launched;  // of each launch that was filled

sl_status_t Copy(sl_device_t*, sl_stream_t*, void*, const void*, uint64_t) {
  ++g_copies;
  return SL_OK;
}

sl_status_t LaunchGroup(sl_algorithm_t*, const sl_op_t*, uint32_t count, void*, uint32_t, sl_launch_t*) {
  if (count > g_most) return SL_ERR_LIMIT;
  g_launched.push_back(count);
  return SL_OK;
}

class GroupParts : public testing::Test {
 protected:
  GroupParts() {
    device_ops_.copy = Copy;
    device_.ops = &device_ops_;
    device_.info.max_argument_bytes = sizeof(Pending::args);
    g_copies = 0;
    g_launched.clear();
    for (uint32_t rank = 0; rank < 2; ++rank) handles_.push_back(MakeRank(rank));
  }

  std::unique_ptr<sl_comm_t> MakeRank(uint32_t rank) {
    CommConfig config;
    config.device = &device_;
    config.rank = rank;
    config.size = 4;
    auto handle = std::make_unique<sl_comm_t>(nullptr, config, nullptr);
    handle->comm.state.store(Communicator::State::kReady);
    return handle;
  }

  sl_group_entry_t Entry(uint32_t rank, sl_op_kind_t kind, uint32_t peer, uint64_t count) {
    auto op = std::make_unique<sl_op_t>();
    op->kind = kind;
    op->datatype = SL_FLOAT32;
    op->peer = static_cast<int32_t>(peer);
    op->count = count;
    op->send = kind == SL_OP_SEND ? &buffers_[0] : nullptr;
    op->recv = kind == SL_OP_SEND ? nullptr : &buffers_[1];
    ops_.push_back(std::move(op));
    return {handles_[rank].get(), ops_.back().get(), nullptr, 0, nullptr};
  }

  bool IsMarked(uint32_t rank) const { return handles_[rank]->in_call().load() != 0; }

  // The n-th send of each rank and its n-th receive, all admitted.
  Status Pair(const std::vector<sl_group_entry_t>& entries) {
    Members members(std::pmr::get_default_resource());
    SelfPairs pairs(std::pmr::get_default_resource());
    for (const sl_group_entry_t& entry : entries) {
      SL_TRY(members.Admit(entry));
      EXPECT_TRUE(IsToSelf(entry));
      pairs.Add(entry);
    }
    SL_TRY(pairs.Pair());
    for (size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(pairs.send(i).comm, pairs.receive(i).comm);
      SL_TRY(CopyPair(pairs.send(i), pairs.receive(i)));
    }
    return {};
  }

  sl_device_ops_t device_ops_{};
  Device device_;
  float buffers_[2] = {};
  std::vector<std::unique_ptr<sl_op_t>> ops_;
  std::vector<std::unique_ptr<sl_comm_t>> handles_;
};

TEST_F(GroupParts, MarkEachCommunicatorForAsLongAsTheGroupIsIssued) {
  {
    Members members(std::pmr::get_default_resource());
    for (const uint32_t rank : {0u, 1u, 0u}) EXPECT_TRUE(members.Admit(Entry(rank, SL_OP_SEND, 2, 1)).ok());
    EXPECT_EQ(members.all().size(), 2u);
    EXPECT_EQ(members.Of(handles_[1].get()).handle, handles_[1].get());
    EXPECT_TRUE(IsMarked(0) && IsMarked(1));
    EXPECT_EQ(handles_[0]->calls.load(), 1u);
  }
  EXPECT_FALSE(IsMarked(0) || IsMarked(1));
}

TEST_F(GroupParts, LeaveTheMarkOfAnotherCallAlone) {
  handles_[1]->in_call().store(1);
  {
    Members members(std::pmr::get_default_resource());
    EXPECT_TRUE(members.Admit(Entry(0, SL_OP_SEND, 2, 1)).ok());
    const Status refused = members.Admit(Entry(1, SL_OP_SEND, 2, 1));
    EXPECT_EQ(refused.code(), SL_ERR_STATE);
    EXPECT_EQ(members.all().size(), 1u);
  }
  EXPECT_FALSE(IsMarked(0));
  EXPECT_TRUE(IsMarked(1)) << "it is that of the other thread";
}

TEST_F(GroupParts, MarkNothingThatThereIsNoMemoryToRemember) {
  {
    std::pmr::monotonic_buffer_resource full(&device_, 0, std::pmr::null_memory_resource());
    Members members(&full);
    EXPECT_THROW(static_cast<void>(members.Admit(Entry(0, SL_OP_SEND, 2, 1))), std::bad_alloc);
  }
  EXPECT_FALSE(IsMarked(0)) << "nobody would take the mark back";
}

TEST_F(GroupParts, AdmitNothingWithBadArguments) {
  Members members(std::pmr::get_default_resource());
  const Status refused = members.Admit(Entry(0, SL_OP_SEND, 4, 1));
  EXPECT_EQ(refused.message(), "send: peer 4 is not a rank; ranks are 0 to 3");
  handles_[1]->comm.Revoke();
  EXPECT_EQ(members.Admit(Entry(1, SL_OP_SEND, 2, 1)).code(), SL_ERR_ABORTED);
}

TEST_F(GroupParts, PairTheNthSendWithTheNthReceive) {
  EXPECT_TRUE(Pair({Entry(0, SL_OP_SEND, 0, 3), Entry(1, SL_OP_RECV, 1, 5), Entry(0, SL_OP_RECV, 0, 3),
                    Entry(1, SL_OP_SEND, 1, 5)})
                  .ok());
  EXPECT_EQ(g_copies, 2);
}

TEST_F(GroupParts, CopyNothingThatIsEmptyOrInPlace) {
  const sl_group_entry_t send = Entry(0, SL_OP_SEND, 0, 3);
  const sl_group_entry_t receive = Entry(0, SL_OP_RECV, 0, 3);
  const_cast<sl_op_t*>(receive.op)->recv = &buffers_[0];
  EXPECT_TRUE(Pair({send, receive, Entry(1, SL_OP_SEND, 1, 0), Entry(1, SL_OP_RECV, 1, 0)}).ok());
  EXPECT_EQ(g_copies, 0);
}

TEST_F(GroupParts, SayWhoSendsItselfWhatNobodyReceives) {
  EXPECT_EQ(Pair({Entry(0, SL_OP_SEND, 0, 1), Entry(0, SL_OP_RECV, 0, 1), Entry(1, SL_OP_SEND, 1, 1)}).message(),
            "rank 1 sends itself 1 messages and receives 0 from itself in one group");
  EXPECT_EQ(Pair({Entry(1, SL_OP_SEND, 1, 1), Entry(0, SL_OP_RECV, 0, 1)}).message(),
            "rank 1 sends itself 1 messages and receives 0 from itself in one group");
  EXPECT_EQ(Pair({Entry(0, SL_OP_SEND, 0, 1), Entry(0, SL_OP_RECV, 0, 2)}).message(),
            "rank 0 sends 1 float32 to itself but receives 2 float32");
  EXPECT_EQ(g_copies, 0) << "all are checked before the first is moved";
}

// Sends and receives of rank 0, to and from three others in turn.
class Joining : public GroupParts {
 protected:
  Status Join(uint32_t count) {
    ops_.clear();
    std::pmr::vector<sl_op_t> ops;
    for (uint32_t i = 0; i < count; ++i) {
      ops.push_back(*Entry(0, i % 2 == 0 ? SL_OP_SEND : SL_OP_RECV, 1 + i / 2 % 3, 1).op);
    }
    algorithm_ops_.launch_group = LaunchGroup;
    choice_.name = "test";
    choice_.ops = &algorithm_ops_;
    choice_.run = SL_RUN_LAUNCH;
    Member member{.handle = handles_[0].get()};
    std::pmr::monotonic_buffer_resource arena;
    Items items(&arena);
    Status joined = JoinTransfers(&member, choice_, ops, &items);
    launches_ = items.size();
    may_fill_queue_ = !items.empty() && items.front().may_fill_queue;
    for (const Item& item : items) EXPECT_EQ(item.route, &kLaunchRoute);
    return joined;
  }

  sl_algorithm_ops_t algorithm_ops_{};
  Choice choice_;
  size_t launches_ = 0;
  bool may_fill_queue_ = false;
};

TEST_F(Joining, IsOneLaunchWhereOneTakesAll) {
  g_most = 12;
  EXPECT_TRUE(Join(12).ok());
  EXPECT_EQ(launches_, 1u);
  EXPECT_EQ(g_launched, std::vector<uint32_t>{12});
  EXPECT_FALSE(may_fill_queue_);
}

TEST_F(Joining, IsCutWhereOneLaunchDoesNotTakeAll) {
  g_most = 5;
  EXPECT_TRUE(Join(30).ok());
  EXPECT_EQ(launches_, g_launched.size());
  EXPECT_GT(launches_, 1u);
  uint32_t launched = 0;
  for (const uint32_t count : g_launched) {
    launched += count;
    EXPECT_LE(count, g_most);
  }
  EXPECT_EQ(launched, 30u) << "each transfer is in one launch";
  EXPECT_TRUE(may_fill_queue_);
}

TEST_F(Joining, GivesBackAllItTookWhenNoLaunchIsPossible) {
  g_most = 0;
  EXPECT_EQ(Join(12).code(), SL_ERR_LIMIT);
  EXPECT_EQ(handles_[0]->pending.outstanding(), 0u);
}

}  // namespace
}  // namespace sl::kernel
