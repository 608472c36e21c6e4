// SPDX-License-Identifier: Apache-2.0
//
// What an operation's arguments become, and how each misuse is answered.
#include <cstring>
#include <functional>
#include <limits>

#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

constexpr size_t kCount = 4;

class Collective : public Fixture {
 protected:
  void SetUp() override {
    Fixture::SetUp();
    comms_ = MakeComms(2);
    Fake().Reset();
  }
  void TearDown() override { DestroyComms(comms_); }

  // The one operation that a call made.
  sl_op_t Issued(ncclResult_t result) {
    EXPECT_EQ(result, ncclSuccess) << Text();
    EXPECT_EQ(Fake().ops.size(), 1u);
    sl_op_t op{};
    if (!Fake().ops.empty()) op = Fake().ops[0];
    Fake().ops.clear();
    return op;
  }

  std::vector<ncclComm_t> comms_;
  float send_[16] = {};
  float recv_[16] = {};
};

TEST_F(Collective, EachBecomesItsOperation) {
  const ncclComm_t comm = comms_[1];
  sl_op_t op = Issued(ncclAllReduce(send_, recv_, kCount, ncclFloat, ncclMax, comm, nullptr));
  EXPECT_EQ(op.struct_size, sizeof(sl_op_t));
  EXPECT_EQ(op.kind, SL_OP_ALL_REDUCE);
  EXPECT_EQ(op.datatype, SL_FLOAT32);
  EXPECT_EQ(op.reduction, SL_MAX);
  EXPECT_EQ(op.root, -1);
  EXPECT_EQ(op.peer, -1);
  EXPECT_EQ(op.count, kCount);
  EXPECT_EQ(op.send, send_);
  EXPECT_EQ(op.recv, recv_);
  EXPECT_EQ(op.seq, 0u);
  op = Issued(ncclReduce(send_, recv_, kCount, ncclBfloat16, ncclAvg, 1, comm, nullptr));
  EXPECT_EQ(op.kind, SL_OP_REDUCE);
  EXPECT_EQ(op.reduction, SL_AVG);
  EXPECT_EQ(op.root, 1);
  EXPECT_EQ(Issued(ncclBroadcast(send_, recv_, kCount, ncclInt8, 0, comm, nullptr)).kind, SL_OP_BROADCAST);
  EXPECT_EQ(Issued(ncclAllGather(send_, recv_, kCount, ncclInt8, comm, nullptr)).kind, SL_OP_ALL_GATHER);
  EXPECT_EQ(Issued(ncclReduceScatter(send_, recv_, kCount, ncclInt8, ncclSum, comm, nullptr)).kind,
            SL_OP_REDUCE_SCATTER);
  EXPECT_EQ(Issued(ncclAlltoAll(send_, recv_, kCount, ncclInt8, comm, nullptr)).kind, SL_OP_ALL_TO_ALL);
  EXPECT_EQ(Issued(ncclGather(send_, recv_, kCount, ncclInt8, 1, comm, nullptr)).kind, SL_OP_GATHER);
  EXPECT_EQ(Issued(ncclScatter(send_, recv_, kCount, ncclInt8, 1, comm, nullptr)).kind, SL_OP_SCATTER);
}

TEST_F(Collective, BcastWorksInPlace) {
  const sl_op_t op = Issued(ncclBcast(recv_, kCount, ncclFloat, 1, comms_[0], nullptr));
  EXPECT_EQ(op.kind, SL_OP_BROADCAST);
  EXPECT_EQ(op.send, recv_);
  EXPECT_EQ(op.recv, recv_);
  EXPECT_EQ(op.root, 1);
}

TEST_F(Collective, MessagesNameTheirPeer) {
  sl_op_t op = Issued(ncclSend(send_, kCount, ncclFloat, 1, comms_[0], nullptr));
  EXPECT_EQ(op.kind, SL_OP_SEND);
  EXPECT_EQ(op.peer, 1);
  EXPECT_EQ(op.root, -1);
  EXPECT_EQ(op.recv, nullptr);
  op = Issued(ncclRecv(recv_, kCount, ncclFloat, 0, comms_[1], nullptr));
  EXPECT_EQ(op.kind, SL_OP_RECV);
  EXPECT_EQ(op.peer, 0);
}

// Nothing is done, but the kernel sees that this rank has called it, and the others with what count.
TEST_F(Collective, EmptyOnesArePassedOn) {
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(Fake().Count("enqueue all_reduce"), 1);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, static_cast<ncclRedOp_t>(9), comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(Fake().Count("enqueue"), 1);
  EXPECT_EQ(ncclSend(nullptr, 0, ncclFloat, 1, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(Fake().Count("enqueue send"), 1);
}

TEST_F(Collective, EachMisuseIsNamed) {
  const ncclComm_t comm = comms_[0];
  const auto bad_type = static_cast<ncclDataType_t>(12);
  const auto negative_type = static_cast<ncclDataType_t>(-1);
  const auto bad_op = static_cast<ncclRedOp_t>(5);
  const auto negative_op = static_cast<ncclRedOp_t>(-1);
  const struct {
    std::function<ncclResult_t()> call;
    const char* text;
  } cases[] = {
      {[&] { return ncclAllReduce(send_, recv_, 1, ncclFloat, ncclSum, nullptr, nullptr); }, "argument comm is NULL"},
      {[&] { return ncclAllReduce(send_, recv_, 1, bad_type, ncclSum, comm, nullptr); }, "argument datatype is 12"},
      {[&] { return ncclAllReduce(send_, recv_, 1, negative_type, ncclSum, comm, nullptr); },
       "argument datatype is -1"},
      {[&] { return ncclAllReduce(send_, recv_, 1, ncclFloat, bad_op, comm, nullptr); }, "argument op is 5"},
      {[&] { return ncclAllReduce(send_, recv_, 1, ncclFloat, negative_op, comm, nullptr); }, "argument op is -1"},
      {[&] { return ncclAllReduce(nullptr, recv_, 1, ncclFloat, ncclSum, comm, nullptr); },
       "argument sendbuff is NULL"},
      {[&] { return ncclAllReduce(send_, nullptr, 1, ncclFloat, ncclSum, comm, nullptr); },
       "argument recvbuff is NULL"},
      {[&] { return ncclReduce(send_, recv_, 1, ncclFloat, ncclSum, 2, comm, nullptr); },
       "argument root is 2, must be"},
      {[&] { return ncclBroadcast(send_, recv_, 1, ncclFloat, -1, comm, nullptr); }, "argument root is -1"},
      {[&] { return ncclSend(send_, 1, ncclFloat, 2, comm, nullptr); }, "argument peer is 2"},
      {[&] { return ncclRecv(nullptr, 1, ncclFloat, 1, comm, nullptr); }, "argument recvbuff is NULL"},
      {[&] { return ncclAllGather(send_, recv_, SIZE_MAX / 4, ncclFloat, comm, nullptr); },
       "more than memory can hold"},
      {[&] { return ncclSend(send_, SIZE_MAX / 8 + 1, ncclDouble, 1, comm, nullptr); }, "more than memory can hold"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(one.call(), ncclInvalidArgument) << one.text;
    EXPECT_TRUE(TextHas(one.text)) << Text();
  }
  EXPECT_EQ(Fake().Count("enqueue"), 0);
}

TEST_F(Collective, OnlyTheRanksThatUseABufferNeedIt) {
  EXPECT_EQ(ncclReduce(send_, nullptr, 1, ncclFloat, ncclSum, 1, comms_[0], nullptr), ncclSuccess) << Text();
  EXPECT_EQ(ncclReduce(send_, nullptr, 1, ncclFloat, ncclSum, 1, comms_[1], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(nullptr, recv_, 1, ncclFloat, 1, comms_[0], nullptr), ncclSuccess) << Text();
  EXPECT_EQ(ncclBroadcast(nullptr, recv_, 1, ncclFloat, 1, comms_[1], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGather(send_, nullptr, 1, ncclFloat, 1, comms_[0], nullptr), ncclSuccess) << Text();
  EXPECT_EQ(ncclScatter(nullptr, recv_, 1, ncclFloat, 1, comms_[0], nullptr), ncclSuccess) << Text();
  EXPECT_EQ(ncclScatter(nullptr, recv_, 1, ncclFloat, 0, comms_[0], nullptr), ncclInvalidArgument);
}

TEST_F(Collective, KernelFailureBecomesItsResultAndText) {
  Fake().enqueue_status = SL_ERR_PEER_LOST;
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclFloat, ncclSum, comms_[0], nullptr), ncclRemoteError);
  EXPECT_EQ(Text(), "ncclAllReduce: the fake said so");
}

TEST_F(Collective, NonBlockingCommunicatorIsAskedOnceMore) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclFloat, ncclSum, comm, nullptr), ncclSuccess) << Text();
  DestroyComms({comm});
}

TEST_F(Collective, PreMultiplyingOperatorCarriesItsScalar) {
  float scalar = 0.5f;
  ncclRedOp_t op{};
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comms_[0]), ncclSuccess);
  scalar = 3.0f;
  sl_op_t issued = Issued(ncclAllReduce(send_, recv_, 1, ncclFloat, op, comms_[0], nullptr));
  const float half = 0.5f;
  EXPECT_EQ(issued.reduction, SL_PREMUL_SUM);
  EXPECT_EQ(std::memcmp(&issued.scalar_bits, &half, sizeof(half)), 0);
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclDouble, op, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("was created for float32, but datatype is float64")) << Text();
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclFloat, op, comms_[1], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclFloat, op, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(ncclSum, comms_[0]), ncclInvalidArgument);
}

TEST_F(Collective, DeviceScalarIsPassedOn) {
  double scalar = 0.5;
  ncclRedOp_t op{};
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclDouble, ncclScalarDevice, comms_[0]), ncclSuccess);
  sl_op_t issued = Issued(ncclAllReduce(send_, recv_, 1, ncclDouble, op, comms_[0], nullptr));
  EXPECT_EQ(issued.scalar, &scalar);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(send_, recv_, 1, ncclDouble, op, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(op, comms_[0]), ncclSuccess);  // as programs do: its use is already noted
  issued = Issued(ncclGroupEnd());
  EXPECT_EQ(issued.scalar, &scalar);
}

TEST_F(Collective, OperatorsAreMadeOfGoodArgumentsOnly) {
  float scalar = 1;
  ncclRedOp_t op{};
  const auto bad_type = static_cast<ncclDataType_t>(99);
  const auto bad_residence = static_cast<ncclScalarResidence_t>(2);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(nullptr, &scalar, ncclFloat, ncclScalarDevice, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarDevice, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, bad_type, ncclScalarDevice, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, bad_residence, comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarDevice, nullptr), ncclInvalidArgument);
}

}  // namespace
}  // namespace sl::frontend_nccl
