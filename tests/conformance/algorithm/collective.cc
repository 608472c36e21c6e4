// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/algorithm/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sdk/datatype.h"

namespace sl::conform::algorithm {
namespace {

constexpr uint8_t kPattern = 0x5a;  // no number that a result is likely to be
constexpr uint64_t kGuardBytes = 128;
constexpr uint64_t kPageBytes = 4096;
// After so many elements inputs repeat, rotated; a prime, so that no block of a power of two falls onto another.
constexpr uint64_t kOraclePeriod = 4099;

// The oracle numbers types and reductions as the ABI does.
static_assert(static_cast<uint32_t>(tools::DataType::kE5M2) == SL_FLOAT8E5M2);
static_assert(static_cast<uint32_t>(tools::DataType::kBf16) == SL_BFLOAT16);
static_assert(static_cast<uint32_t>(tools::RedOp::kMulSum) == SL_PREMUL_SUM);
tools::DataType TypeOf(const Call& call) { return static_cast<tools::DataType>(call.datatype); }

}  // namespace

std::string Call::ToString(uint32_t ranks) const {
  std::string text = fmt::format("{} of {} {}", OpKindName(kind), count, DatatypeName(datatype));
  if (HasReduction(kind)) text += fmt::format(", {}", ReductionName(reduction));
  if (root >= 0) text += fmt::format(", root {}", root);
  return text + fmt::format(", {} ranks, {}, {} elements off", ranks, in_place ? "in place" : "out of place", shift);
}

uint64_t SendCount(const Call& call, uint32_t rank, uint32_t ranks) {
  const bool is_root = call.root == static_cast<int32_t>(rank);
  switch (call.kind) {
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_ALL_TO_ALL:
      return call.count * ranks;
    case SL_OP_SCATTER:
      return is_root ? call.count * ranks : 0;
    case SL_OP_BROADCAST:
      return is_root ? call.count : 0;
    default:
      return call.count;
  }
}

uint64_t RecvCount(const Call& call, uint32_t rank, uint32_t ranks) {
  const bool is_root = call.root == static_cast<int32_t>(rank);
  switch (call.kind) {
    case SL_OP_ALL_GATHER:
    case SL_OP_ALL_TO_ALL:
      return call.count * ranks;
    case SL_OP_GATHER:
      return is_root ? call.count * ranks : 0;
    case SL_OP_REDUCE:
      return is_root ? call.count : 0;
    default:
      return call.count;
  }
}

std::unique_ptr<tools::Oracle> MakeOracle(const Call& call, uint32_t ranks, uint64_t seed) {
  const auto reduction = HasReduction(call.kind) ? static_cast<tools::RedOp>(call.reduction) : tools::RedOp::kNone;
  auto oracle = std::make_unique<tools::Oracle>(TypeOf(call), reduction, static_cast<int>(ranks), seed, kOraclePeriod);
  // Its tables are made when first asked for; ask for all of them before threads share it.
  alignas(8) uint8_t element[8] = {};
  for (uint32_t rank = 0; rank < ranks; ++rank) oracle->Fill(static_cast<int>(rank), 0, 1, element);
  if (reduction != tools::RedOp::kNone) oracle->CheckReduced(0, 1, element);
  return oracle;
}

uint8_t* CallBuffers::Place(std::vector<uint8_t>* memory, uint64_t bytes) const {
  const uint64_t shift = call_.shift * DatatypeBytes(call_.datatype);
  memory->assign(bytes + shift + 2 * kGuardBytes + kPageBytes, kPattern);
  const auto address = reinterpret_cast<uintptr_t>(memory->data()) + kGuardBytes;
  return memory->data() + kGuardBytes + (kPageBytes - address % kPageBytes) % kPageBytes + shift;
}

sl_op_t CallBuffers::Prepare(const Call& call, uint32_t rank, uint32_t ranks, tools::Oracle* oracle) {
  call_ = call;
  rank_ = rank;
  ranks_ = ranks;
  const uint64_t width = DatatypeBytes(call.datatype);
  send_bytes_ = SendCount(call, rank, ranks) * width;
  recv_bytes_ = RecvCount(call, rank, ranks) * width;
  if (call.in_place && send_bytes_ > 0 && recv_bytes_ > 0) {
    recv_ = send_ = Place(&recv_memory_, std::max(send_bytes_, recv_bytes_));
    if (send_bytes_ < recv_bytes_) send_ += rank * call.count * width;
    if (recv_bytes_ < send_bytes_) recv_ += rank * call.count * width;
  } else {
    send_ = Place(&send_memory_, send_bytes_);
    recv_ = Place(&recv_memory_, recv_bytes_);
  }
  oracle->Fill(static_cast<int>(rank), 0, send_bytes_ / width, send_);
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = call.kind;
  op.datatype = call.datatype;
  op.reduction = call.reduction;
  op.root = call.root;
  op.peer = -1;
  op.count = call.count;
  op.send = send_;
  op.recv = recv_;
  tools::MathOf(TypeOf(call)).Scalar(static_cast<int>(rank), &op.scalar_bits);
  return op;
}

bool CallBuffers::IsUntouched(const uint8_t* begin, const uint8_t* end) const {
  return std::all_of(begin, end, [](uint8_t byte) { return byte == kPattern; });
}

std::string CallBuffers::CheckResult(tools::Oracle* oracle) const {
  const uint64_t width = DatatypeBytes(call_.datatype);
  const uint64_t block = call_.count * width;
  size_t wrong = 0;
  switch (call_.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_REDUCE:
      wrong = oracle->CheckReduced(0, recv_bytes_ / width, recv_);
      break;
    case SL_OP_REDUCE_SCATTER:
      wrong = oracle->CheckReduced(rank_ * call_.count, call_.count, recv_);
      break;
    case SL_OP_BROADCAST:
      wrong = oracle->CheckInput(call_.root, 0, call_.count, recv_);
      break;
    case SL_OP_SCATTER:
      wrong = oracle->CheckInput(call_.root, rank_ * call_.count, call_.count, recv_);
      break;
    default:  // a block of every rank
      for (uint32_t from = 0; recv_bytes_ > 0 && from < ranks_; ++from) {
        const uint64_t first = call_.kind == SL_OP_ALL_TO_ALL ? rank_ * call_.count : 0;
        wrong += oracle->CheckInput(static_cast<int>(from), first, call_.count, recv_ + from * block);
      }
  }
  if (wrong == 0) return "";
  return fmt::format("rank {}: {} of {} elements of the result are wrong", rank_, wrong, recv_bytes_ / width);
}

std::string CallBuffers::Check(tools::Oracle* oracle) const {
  std::string wrong = CheckResult(oracle);
  if (!wrong.empty()) return wrong;
  const uint64_t width = DatatypeBytes(call_.datatype);
  const bool shared = call_.in_place && send_bytes_ > 0 && recv_bytes_ > 0;
  if (!shared) {
    if (oracle->CheckInput(static_cast<int>(rank_), 0, send_bytes_ / width, send_) != 0) {
      return fmt::format("rank {}: it changed the send buffer", rank_);
    }
    if (!IsUntouched(recv_ - kGuardBytes, recv_) ||
        !IsUntouched(recv_ + recv_bytes_, recv_ + recv_bytes_ + kGuardBytes) ||
        !IsUntouched(send_ - kGuardBytes, send_) ||
        !IsUntouched(send_ + send_bytes_, send_ + send_bytes_ + kGuardBytes)) {
      return fmt::format("rank {}: it wrote outside the buffers", rank_);
    }
    return "";
  }
  const uint8_t* begin = std::min(send_, recv_);
  const uint8_t* end = std::max(send_ + send_bytes_, recv_ + recv_bytes_);
  if (!IsUntouched(begin - kGuardBytes, begin) || !IsUntouched(end, end + kGuardBytes)) {
    return fmt::format("rank {}: it wrote outside the buffers", rank_);
  }
  return "";
}

std::string CallBuffers::Result() const { return {reinterpret_cast<const char*>(recv_), recv_bytes_}; }

}  // namespace sl::conform::algorithm
