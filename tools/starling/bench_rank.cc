// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_rank.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_oracle.h"

namespace sl::tools {
namespace {

constexpr size_t kAlignment = 2u << 20;  // a huge page: first-touch noise stays out of the measurement

}  // namespace

void Rank::Init(const NcclUniqueId& id) {
  CheckNccl(api_, api_.CommInitRank(&comm_, ranks_, id, rank_), "ncclCommInitRank", nullptr);
}

void Rank::AllocateOne(RankBuffer& buffer, size_t bytes) {
  buffer.bytes = (bytes + 4095) & ~size_t{4095};
  void* memory = nullptr;
  if (from_library_) {
    CheckNccl(api_, api_.MemAlloc(&memory, buffer.bytes), "ncclMemAlloc", comm_);
  } else if (posix_memalign(&memory, buffer.bytes >= kAlignment ? kAlignment : 4096, buffer.bytes) != 0) {
    throw CommandError(kExitFailure, "no memory for a buffer of " + std::to_string(buffer.bytes) + " bytes; lower -e");
  }
  buffer.base = buffer.data = static_cast<char*>(memory);
  std::memset(memory, 0xa5, buffer.bytes);
}

void Rank::Allocate(size_t bytes, bool from_library) {
  if (from_library && !(api_.MemAlloc && api_.MemFree && api_.CommWindowRegister && api_.CommWindowDeregister)) {
    throw CommandError(kExitFailure, api_.path + " has no ncclMemAlloc or windows; use -R 0");
  }
  from_library_ = from_library;
  AllocateOne(send_, bytes);
  AllocateOne(recv_, bytes);
}

void Rank::Shift(size_t bytes) {
  for (RankBuffer* buffer : {&send_, &recv_}) buffer->data = buffer->base + bytes;
}

void Rank::Register(int local_register) {
  for (RankBuffer* buffer : {&send_, &recv_}) {
    if (local_register == 1) {
      if (!api_.CommRegister) throw CommandError(kExitFailure, api_.path + " has no ncclCommRegister; use -R 0");
      CheckNccl(api_, api_.CommRegister(comm_, buffer->base, buffer->bytes, &buffer->registration), "ncclCommRegister",
                comm_);
    } else if (local_register == 2) {
      CheckNccl(api_,
                api_.CommWindowRegister(comm_, buffer->base, buffer->bytes, &buffer->window, kNcclWindowCollSymmetric),
                "ncclCommWindowRegister", comm_);
    }
  }
}

void Rank::CloseOne(RankBuffer& buffer) {
  if (buffer.window)
    CheckNccl(api_, api_.CommWindowDeregister(comm_, buffer.window), "ncclCommWindowDeregister", comm_);
  if (buffer.registration) {
    CheckNccl(api_, api_.CommDeregister(comm_, buffer.registration), "ncclCommDeregister", comm_);
  }
  if (from_library_) {
    CheckNccl(api_, api_.MemFree(buffer.base), "ncclMemFree", comm_);
  } else {
    std::free(buffer.base);
  }
  buffer = {};
}

void Rank::Close() {
  for (const auto& [type, op] : mulsum_) CheckNccl(api_, api_.RedOpDestroy(op, comm_), "ncclRedOpDestroy", comm_);
  mulsum_.clear();
  CloseOne(send_);
  CloseOne(recv_);
  CheckNccl(api_, api_.CommDestroy(comm_), "ncclCommDestroy", nullptr);
  comm_ = nullptr;
}

char* Rank::SendBuffer(const Call& call) const {
  if (!call.in_place) return send_.data;
  // Of a gather, only the root's input lies in its output.
  if (call.collective == Collective::kGather && rank_ != call.root) return send_.data;
  return recv_.data + static_cast<size_t>(rank_) * call.shape.in_place_send_stride * SizeOf(call.type);
}

char* Rank::RecvBuffer(const Call& call) const {
  if (!call.in_place || (call.collective == Collective::kScatter && rank_ != call.root)) return recv_.data;
  return recv_.data + static_cast<size_t>(rank_) * call.shape.in_place_recv_stride * SizeOf(call.type);
}

int Rank::OpNumber(RedOp op, DataType type) {
  if (op != RedOp::kMulSum) return op == RedOp::kNone ? 0 : static_cast<int>(op);
  auto known = mulsum_.find(type);
  if (known != mulsum_.end()) return known->second;
  if (!api_.RedOpCreatePreMulSum || !api_.RedOpDestroy) {
    throw CommandError(kExitFailure, api_.path + " has no ncclRedOpCreatePreMulSum; leave -o mulsum out");
  }
  alignas(8) unsigned char scalar[8] = {};
  MathOf(type).Scalar(rank_, scalar);
  int number = 0;
  CheckNccl(api_, api_.RedOpCreatePreMulSum(&number, scalar, static_cast<int>(type), kNcclScalarHostImmediate, comm_),
            "ncclRedOpCreatePreMulSum", comm_);
  return mulsum_[type] = number;
}

// Operations that are groups of sends and receives: sendrecv always, the others where the library has no call for them.
int Rank::RunGrouped(const Call& call, const char* send, char* recv) {
  const size_t count = call.shape.param_count;
  const size_t block = count * SizeOf(call.type);
  const int type = static_cast<int>(call.type);
  if (int result = api_.GroupStart()) return result;
  int result = kNcclSuccess;
  if (call.collective == Collective::kSendRecv) {
    result = api_.Send(send, count, type, (rank_ + 1) % ranks_, comm_, nullptr);
    if (!result) result = api_.Recv(recv, count, type, (rank_ + ranks_ - 1) % ranks_, comm_, nullptr);
  }
  const bool sends_all =
      call.collective == Collective::kAlltoAll || (call.collective == Collective::kScatter && rank_ == call.root);
  const bool recvs_all =
      call.collective == Collective::kAlltoAll || (call.collective == Collective::kGather && rank_ == call.root);
  for (int peer = 0; peer < ranks_ && !result; ++peer) {
    const size_t offset = static_cast<size_t>(peer) * block;
    if (sends_all) result = api_.Send(send + offset, count, type, peer, comm_, nullptr);
    if (recvs_all && !result) result = api_.Recv(recv + offset, count, type, peer, comm_, nullptr);
  }
  if (call.collective == Collective::kGather && !result) {
    result = api_.Send(send, count, type, call.root, comm_, nullptr);
  }
  if (call.collective == Collective::kScatter && !result) {
    result = api_.Recv(recv, count, type, call.root, comm_, nullptr);
  }
  const int ended = api_.GroupEnd();
  return result ? result : ended;
}

void Rank::Run(const Call& call) {
  const char* send = SendBuffer(call);
  char* recv = RecvBuffer(call);
  const size_t count = call.shape.param_count;
  const int type = static_cast<int>(call.type);
  const int op = OpNumber(call.op, call.type);
  int result = kNcclSuccess;
  switch (call.collective) {
    case Collective::kAllReduce:
      result = api_.AllReduce(send, recv, count, type, op, comm_, nullptr);
      break;
    case Collective::kAllGather:
      result = api_.AllGather(send, recv, count, type, comm_, nullptr);
      break;
    case Collective::kReduceScatter:
      result = api_.ReduceScatter(send, recv, count, type, op, comm_, nullptr);
      break;
    case Collective::kBroadcast:
      result = api_.Broadcast(send, recv, count, type, call.root, comm_, nullptr);
      break;
    case Collective::kReduce:
      result = api_.Reduce(send, recv, count, type, op, call.root, comm_, nullptr);
      break;
    case Collective::kAlltoAll:
      result = api_.AlltoAll ? api_.AlltoAll(send, recv, count, type, comm_, nullptr) : RunGrouped(call, send, recv);
      break;
    case Collective::kGather:
      result =
          api_.Gather ? api_.Gather(send, recv, count, type, call.root, comm_, nullptr) : RunGrouped(call, send, recv);
      break;
    case Collective::kScatter:
      result = api_.Scatter ? api_.Scatter(send, recv, count, type, call.root, comm_, nullptr)
                            : RunGrouped(call, send, recv);
      break;
    case Collective::kSendRecv:
      result = RunGrouped(call, send, recv);
      break;
  }
  if (result != kNcclSuccess) CheckNccl(api_, result, Name(call.collective), comm_);
}

}  // namespace sl::tools
