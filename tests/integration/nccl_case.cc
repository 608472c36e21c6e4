// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/nccl_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/starling/bench_floats.h"

namespace sl::integration {
namespace {

using tools::Bfloat16;
using tools::Float16;
using tools::Float8E4M3;
using tools::Float8E5M2;

constexpr uint8_t kCanary = 0xa5;
constexpr size_t kGuard = 64;
constexpr const char* kKinds[] = {"all_reduce",     "reduce",     "broadcast", "all_gather",
                                  "reduce_scatter", "all_to_all", "gather",    "scatter"};

template <typename T>
double Load(const void* memory, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const T*>(memory) + index, sizeof(T));
  return static_cast<double>(value);
}

template <typename T>
void Store(void* memory, size_t index, T value) {
  std::memcpy(static_cast<T*>(memory) + index, &value, sizeof(T));
}

template <typename Format>
double LoadSmall(const void* memory, size_t index) {
  typename Format::Bits bits;
  std::memcpy(&bits, static_cast<const typename Format::Bits*>(memory) + index, sizeof(bits));
  return Format::Decode(bits);
}

// Relative error of one rounding; 0 for integers.
double Precision(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return 0x1p-52;
    case ncclFloat32:
      return 0x1p-23;
    case ncclFloat16:
      return 0x1p-10;
    case ncclBfloat16:
      return 0x1p-7;
    case ncclFloat8e4m3:
      return 0x1p-3;
    case ncclFloat8e5m2:
      return 0x1p-2;
    default:
      return 0;
  }
}

bool Sums(const NcclCase& test) {
  return test.reduces() && test.reduction != ncclProd && test.reduction != ncclMax && test.reduction != ncclMin;
}

// In sums of formats with two or three bits one rank of so many contributes to an element, so that more ranks are
// exact.
constexpr int kRanksOfNarrowSum = 4;
bool SumsNarrow(const NcclCase& test) {
  return Sums(test) && (test.type == ncclFloat8e4m3 || test.type == ncclFloat8e5m2);
}

// Products stay small: one rank in three contributes a 2.
double Contribution(const NcclCase& test, int rank, size_t index) {
  const auto at = static_cast<uint32_t>(index) + test.salt;
  const auto turn = at + static_cast<uint32_t>(rank);
  if (test.reduces() && test.reduction == ncclProd) return turn % 3 == 0 ? 2 : 1;
  if (SumsNarrow(test) && turn % kRanksOfNarrowSum != 0) return 0;
  const uint32_t one_or_two = 1 + (at * 5 + at / 7 + static_cast<uint32_t>(rank) * 3) % 4 / 2;
  return one_or_two;
}

// Whole numbers are exact, except means with a fraction, and sums that may need more bits than the format has; then
// every step rounds once.
double Tolerance(const NcclCase& test, int size) {
  if (!Sums(test)) return 0;
  const int contributing = SumsNarrow(test) ? (size + kRanksOfNarrowSum - 1) / kRanksOfNarrowSum : size;
  const double largest = 2.0 * contributing * (test.reduction == kPremulSum ? 2 : 1);
  const bool rounds = test.reduction == ncclAvg || largest * Precision(test.type) > 2;
  return rounds ? (size + 2) * Precision(test.type) : 0;
}

double Reduced(const NcclCase& test, int size, size_t index) {
  double result = 0;
  for (int rank = 0; rank < size; ++rank) {
    const double value = Contribution(test, rank, index) * (test.reduction == kPremulSum ? PremulScalar(rank) : 1);
    if (rank == 0) {
      result = value;
    } else if (test.reduction == ncclProd) {
      result *= value;
    } else if (test.reduction == ncclMax) {
      result = std::max(result, value);
    } else if (test.reduction == ncclMin) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  if (test.reduction != ncclAvg) return result;
  return Precision(test.type) == 0 ? std::trunc(result / size) : result / size;
}

double Expected(const NcclCase& test, int rank, int size, size_t index) {
  const auto block = static_cast<int>(index / test.count);
  const size_t within = index % test.count;
  const size_t mine = static_cast<size_t>(rank) * test.count;
  switch (test.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return Reduced(test, size, index);
    case Kind::kReduceScatter:
      return Reduced(test, size, mine + index);
    case Kind::kBroadcast:
      return Contribution(test, test.root, index);
    case Kind::kAllToAll:
      return Contribution(test, block, mine + within);
    case Kind::kScatter:
      return Contribution(test, test.root, mine + index);
    default:  // all-gather, gather
      return Contribution(test, block, within);
  }
}

// Elements that a rank sends and receives.
size_t SendCount(const NcclCase& test, int rank, int size) {
  const bool many = test.kind == Kind::kReduceScatter || test.kind == Kind::kAllToAll || test.kind == Kind::kScatter;
  const bool only_root = test.kind == Kind::kBroadcast || test.kind == Kind::kScatter;
  if (only_root && rank != test.root) return 0;
  return many ? test.count * static_cast<size_t>(size) : test.count;
}

size_t RecvCount(const NcclCase& test, int rank, int size) {
  const bool many = test.kind == Kind::kAllGather || test.kind == Kind::kAllToAll || test.kind == Kind::kGather;
  const bool only_root = test.kind == Kind::kReduce || test.kind == Kind::kGather;
  if (only_root && rank != test.root) return 0;
  return many ? test.count * static_cast<size_t>(size) : test.count;
}

uint8_t* Place(std::vector<uint8_t>* memory, size_t bytes) {
  memory->assign(bytes + 2 * kGuard, kCanary);
  return memory->data() + kGuard;
}

bool GuardsHold(const std::vector<uint8_t>& memory) {
  const auto is_canary = [](uint8_t byte) { return byte == kCanary; };
  return memory.empty() || (std::all_of(memory.begin(), memory.begin() + kGuard, is_canary) &&
                            std::all_of(memory.end() - kGuard, memory.end(), is_canary));
}

}  // namespace

bool NcclCase::reduces() const {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

bool NcclCase::has_root() const {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter;
}

std::string NcclCase::ToString() const {
  return std::string(kKinds[static_cast<size_t>(kind)]) + " type " + std::to_string(type) + " op " +
         std::to_string(reduction) + " count " + std::to_string(count) + " root " + std::to_string(root) +
         (in_place ? " in place" : "") + " salt " + std::to_string(salt);
}

double PremulScalar(int rank) { return rank % 2 + 1; }

size_t TypeBytes(ncclDataType_t type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[type];
}

double ReadElement(const void* memory, size_t index, ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return Load<int8_t>(memory, index);
    case ncclUint8:
      return Load<uint8_t>(memory, index);
    case ncclInt32:
      return Load<int32_t>(memory, index);
    case ncclUint32:
      return Load<uint32_t>(memory, index);
    case ncclInt64:
      return Load<int64_t>(memory, index);
    case ncclUint64:
      return Load<uint64_t>(memory, index);
    case ncclFloat16:
      return LoadSmall<Float16>(memory, index);
    case ncclFloat32:
      return Load<float>(memory, index);
    case ncclFloat64:
      return Load<double>(memory, index);
    case ncclBfloat16:
      return LoadSmall<Bfloat16>(memory, index);
    case ncclFloat8e4m3:
      return LoadSmall<Float8E4M3>(memory, index);
    default:
      return LoadSmall<Float8E5M2>(memory, index);
  }
}

void WriteElement(void* memory, size_t index, ncclDataType_t type, double value) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return Store(memory, index, static_cast<uint8_t>(value));
    case ncclInt32:
    case ncclUint32:
      return Store(memory, index, static_cast<uint32_t>(value));
    case ncclInt64:
    case ncclUint64:
      return Store(memory, index, static_cast<uint64_t>(value));
    case ncclFloat16:
      return Store(memory, index, Float16::Encode(value));
    case ncclFloat32:
      return Store(memory, index, static_cast<float>(value));
    case ncclFloat64:
      return Store(memory, index, value);
    case ncclBfloat16:
      return Store(memory, index, Bfloat16::Encode(value));
    case ncclFloat8e4m3:
      return Store(memory, index, Float8E4M3::Encode(value));
    default:
      return Store(memory, index, Float8E5M2::Encode(value));
  }
}

NcclBuffers::NcclBuffers(const NcclCase& test, int rank, int size) : test_(test), rank_(rank), size_(size) {
  const size_t bytes = TypeBytes(test.type);
  const size_t send_count = SendCount(test, rank, size);
  const size_t recv_count = RecvCount(test, rank, size);
  if (test.in_place && send_count != 0 && recv_count != 0) {
    send_ = recv_ = Place(&recv_memory_, std::max(send_count, recv_count) * bytes);
    if (send_count < recv_count) send_ += static_cast<size_t>(rank) * test.count * bytes;
    if (recv_count < send_count) recv_ += static_cast<size_t>(rank) * test.count * bytes;
  } else {
    send_ = Place(&send_memory_, send_count * bytes);
    recv_ = Place(&recv_memory_, recv_count * bytes);
  }
  for (size_t i = 0; i < send_count; ++i) WriteElement(send_, i, test.type, Contribution(test, rank, i));
  given_send_ = send_;
  given_recv_ = recv_;
}

void NcclBuffers::UseCopies(uint8_t* send_memory, uint8_t* recv_memory) {
  const bool in_place = send_memory_.empty();
  given_recv_ = recv_memory + (recv_ - recv_memory_.data());
  given_send_ = in_place ? recv_memory + (send_ - recv_memory_.data()) : send_memory + (send_ - send_memory_.data());
}

ncclResult_t NcclBuffers::IssueReduction(ncclComm_t comm, ncclRedOp_t op, cudaStream_t stream) {
  switch (test_.kind) {
    case Kind::kAllReduce:
      return ncclAllReduce(given_send_, given_recv_, test_.count, test_.type, op, comm, stream);
    case Kind::kReduce:
      return ncclReduce(given_send_, given_recv_, test_.count, test_.type, op, test_.root, comm, stream);
    default:
      return ncclReduceScatter(given_send_, given_recv_, test_.count, test_.type, op, comm, stream);
  }
}

ncclResult_t NcclBuffers::Issue(ncclComm_t comm, cudaStream_t stream) {
  if (test_.reduces() && test_.reduction == kPremulSum) {
    alignas(8) uint8_t scalar[8] = {};
    WriteElement(scalar, 0, test_.type, PremulScalar(rank_));
    ncclRedOp_t op{};
    ncclResult_t result = ncclRedOpCreatePreMulSum(&op, scalar, test_.type, ncclScalarHostImmediate, comm);
    if (result != ncclSuccess) return result;
    result = IssueReduction(comm, op, stream);
    const ncclResult_t destroyed = ncclRedOpDestroy(op, comm);
    return result == ncclSuccess ? destroyed : result;
  }
  if (test_.reduces()) return IssueReduction(comm, static_cast<ncclRedOp_t>(test_.reduction), stream);
  switch (test_.kind) {
    case Kind::kBroadcast:
      return ncclBroadcast(given_send_, given_recv_, test_.count, test_.type, test_.root, comm, stream);
    case Kind::kAllGather:
      return ncclAllGather(given_send_, given_recv_, test_.count, test_.type, comm, stream);
    case Kind::kAllToAll:
      return ncclAlltoAll(given_send_, given_recv_, test_.count, test_.type, comm, stream);
    case Kind::kGather:
      return ncclGather(given_send_, given_recv_, test_.count, test_.type, test_.root, comm, stream);
    default:
      return ncclScatter(given_send_, given_recv_, test_.count, test_.type, test_.root, comm, stream);
  }
}

std::string NcclBuffers::Check() const {
  const std::string who = test_.ToString() + ", rank " + std::to_string(rank_) + " of " + std::to_string(size_);
  if (!GuardsHold(send_memory_) || !GuardsHold(recv_memory_)) return who + ": wrote outside its buffers";
  if (!send_memory_.empty()) {
    for (size_t i = 0; i < SendCount(test_, rank_, size_); ++i) {
      if (ReadElement(send_, i, test_.type) != Contribution(test_, rank_, i)) return who + ": changed its send buffer";
    }
  }
  const double tolerance = Tolerance(test_, size_);
  for (size_t i = 0; i < RecvCount(test_, rank_, size_); ++i) {
    const double expected = Expected(test_, rank_, size_, i);
    const double actual = ReadElement(recv_, i, test_.type);
    if (std::fabs(actual - expected) <= tolerance * expected) continue;
    return who + ": element " + std::to_string(i) + " is " + std::to_string(actual) + ", not " +
           std::to_string(expected);
  }
  return "";
}

uint64_t NcclBuffers::Hash() const {
  uint64_t hash = 1469598103934665603u;
  const size_t bytes = RecvCount(test_, rank_, size_) * TypeBytes(test_.type);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ recv_[i]) * 1099511628211u;
  return hash;
}

}  // namespace sl::integration
