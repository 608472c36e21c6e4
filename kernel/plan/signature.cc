// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/signature.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/profile/profile.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kNoReduction = 15;
constexpr uint32_t kWithSettings = 6;  // what is added to the reduction
constexpr uint32_t kNoReductionWithSettings = 14;
static_assert(SL_REDUCTION_COUNT <= kWithSettings);
constexpr uint32_t kSettingsShift = 24;
constexpr uint64_t kLargeCount = uint64_t{1} << 23;
constexpr uint32_t kNoRoot = 0xffff;

uint64_t Times(uint64_t count, uint64_t factor) {
  uint64_t product = 0;
  return __builtin_mul_overflow(count, factor, &product) ? UINT64_MAX : product;
}

bool HasRoot(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

// The multiplier of Fibonacci hashing (Knuth, TAOCP 3, 6.4), whose upper bits are the mixed ones.
uint64_t Mixed(uint64_t value) { return value * 0x9e3779b97f4a7c15u; }

// 36 bits.
uint64_t CountAndSettings(uint64_t count, uint32_t settings) {
  const uint64_t low = count < kLargeCount ? count : kLargeCount | Mixed(count) >> (64 - 23);
  return (Mixed(settings) >> (64 - 12)) << kSettingsShift | low;
}

}  // namespace

uint64_t EncodeSignature(const sl_op_t& op) {
  const uint64_t kind = op.kind == SL_OP_RECV ? SL_OP_SEND : op.kind;
  uint64_t reduction = HasReduction(op.kind) ? op.reduction : kNoReduction;
  uint64_t count = std::min(op.count, kSignatureMaxCount);
  if (op.settings != 0) [[unlikely]] {
    reduction = HasReduction(op.kind) ? op.reduction + kWithSettings : kNoReductionWithSettings;
    count = CountAndSettings(count, op.settings);
  }
  const uint64_t root = HasRoot(op.kind) ? static_cast<uint32_t>(op.root) & 0xffffu : kNoRoot;
  return (kind & 15) << 60 | uint64_t{op.datatype & 15} << 56 | (reduction & 15) << 52 | root << 36 | count;
}

std::string DescribeSignature(uint64_t signature) {
  const auto kind = static_cast<uint32_t>(signature >> 60);
  const auto datatype = static_cast<uint32_t>(signature >> 56 & 15);
  auto reduction = static_cast<uint32_t>(signature >> 52 & 15);
  const auto root = static_cast<uint32_t>(signature >> 36 & 0xffff);
  uint64_t count = signature & kSignatureMaxCount;
  bool is_least = count == kSignatureMaxCount;
  const bool has_settings = reduction >= kWithSettings && reduction != kNoReduction;
  if (has_settings) {
    is_least = (count & kLargeCount) != 0;
    count = is_least ? kLargeCount : count & (kLargeCount - 1);
    reduction = reduction == kNoReductionWithSettings ? kNoReduction : reduction - kWithSettings;
  }
  const char* name = kind == SL_OP_SEND ? "send or recv" : OpKindName(kind);
  std::string text = fmt::format("{} of {}{} {}", name, is_least ? "at least " : "", count, DatatypeName(datatype));
  if (reduction != kNoReduction) text += fmt::format(", {}", ReductionName(reduction));
  if (root != kNoRoot) text += fmt::format(", root {}", root);
  if (has_settings) text += fmt::format(", with settings {:03x}", signature >> kSettingsShift & 0xfff);
  return text;
}

std::string DescribeMismatch(uint32_t rank, uint64_t own, uint32_t peer, uint64_t theirs) {
  return fmt::format("the calls of two ranks do not match: rank {} called {}; rank {} called {}", rank,
                     DescribeSignature(own), peer, DescribeSignature(theirs));
}

uint32_t AlgorithmTag(std::string_view name) {
  if (name.empty()) return 0;
  const auto tag = static_cast<uint32_t>(HashText(name));
  return tag != 0 ? tag : 1;
}

std::string DescribeChoices(const RankChoice& one, const RankChoice& other) {
  return fmt::format(
      "two ranks have chosen different algorithms: {} {}, {} {}; one of them estimates differently on different ranks: "
      "forbid it in the profile's [[select]], and report it to its author; or a buffer lies in a symmetric window on "
      "one of them only",
      one.rank, one.algorithm, other.rank, other.algorithm);
}

uint64_t SendElements(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const bool is_root = op.root >= 0 && static_cast<uint32_t>(op.root) == rank;
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE:
    case SL_OP_GATHER:
    case SL_OP_SEND:
      return op.count;
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_ALL_TO_ALL:
      return Times(op.count, size);
    case SL_OP_BROADCAST:
      return is_root ? op.count : 0;
    case SL_OP_SCATTER:
      return is_root ? Times(op.count, size) : 0;
    default:
      return 0;
  }
}

uint64_t RecvElements(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const bool is_root = op.root >= 0 && static_cast<uint32_t>(op.root) == rank;
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_BROADCAST:
    case SL_OP_SCATTER:
    case SL_OP_RECV:
      return op.count;
    case SL_OP_ALL_GATHER:
    case SL_OP_ALL_TO_ALL:
      return Times(op.count, size);
    case SL_OP_REDUCE:
      return is_root ? op.count : 0;
    case SL_OP_GATHER:
      return is_root ? Times(op.count, size) : 0;
    default:
      return 0;
  }
}

uint64_t OpBytes(const sl_op_t& op, uint32_t size) {
  uint64_t elements = op.count;
  switch (op.kind) {
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_ALL_TO_ALL:
    case SL_OP_GATHER:
    case SL_OP_SCATTER:
      elements = Times(op.count, size);
      break;
    default:
      break;
  }
  return Times(elements, DatatypeBytes(op.datatype));
}

}  // namespace sl::kernel
