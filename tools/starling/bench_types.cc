// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_types.h"

#include <algorithm>
#include <array>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

struct TypeRow {
  const char* name;
  size_t size;
  std::array<const char*, 2> aliases;
};

// Indexed by DataType.
constexpr TypeRow kTypes[kDataTypeCount] = {{"int8", 1, {"char", ""}},
                                            {"uint8", 1, {"", ""}},
                                            {"int32", 4, {"int", ""}},
                                            {"uint32", 4, {"", ""}},
                                            {"int64", 8, {"", ""}},
                                            {"uint64", 8, {"", ""}},
                                            {"half", 2, {"fp16", "float16"}},
                                            {"float", 4, {"fp32", "float32"}},
                                            {"double", 8, {"fp64", "float64"}},
                                            {"bfloat16", 2, {"bf16", ""}},
                                            {"f8e4m3", 1, {"fp8e4m3", "fp8_e4m3"}},
                                            {"f8e5m2", 1, {"fp8e5m2", "fp8_e5m2"}}};

constexpr const char* kOps[kRedOpCount] = {"sum", "prod", "max", "min", "avg", "mulsum"};

constexpr const char* kCollectives[kCollectiveCount] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv"};

template <size_t kCount, typename NameOf>
std::string Names(NameOf name_of) {
  std::string list;
  for (size_t i = 0; i < kCount; ++i) list += (i ? ", " : "") + std::string(name_of(i));
  return list;
}

}  // namespace

const char* Name(DataType type) { return kTypes[static_cast<int>(type)].name; }
const char* Name(RedOp op) { return op == RedOp::kNone ? "none" : kOps[static_cast<int>(op)]; }
const char* Name(Collective collective) { return kCollectives[static_cast<int>(collective)]; }
size_t SizeOf(DataType type) { return kTypes[static_cast<int>(type)].size; }
bool IsFloat(DataType type) { return type >= DataType::kHalf; }

std::vector<DataType> ParseDataTypes(const std::string& text) {
  std::vector<DataType> found;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const TypeRow& row = kTypes[i];
    bool alias = !text.empty() && (text == row.aliases[0] || text == row.aliases[1]);
    if (text == "all" || text == row.name || alias) found.push_back(static_cast<DataType>(i));
  }
  if (!found.empty()) return found;
  throw CommandError(kExitUsage, "-d " + text + ": no such data type; there are " +
                                     Names<kDataTypeCount>([](size_t i) { return kTypes[i].name; }) + " and all");
}

std::vector<RedOp> ParseRedOps(const std::string& text) {
  std::vector<RedOp> found;
  for (int i = 0; i < kRedOpCount; ++i) {
    if (text == "all" || text == kOps[i]) found.push_back(static_cast<RedOp>(i));
  }
  if (!found.empty()) return found;
  throw CommandError(kExitUsage, "-o " + text + ": no such operator; there are " +
                                     Names<kRedOpCount>([](size_t i) { return kOps[i]; }) + " and all");
}

Collective ParseCollective(const std::string& text) {
  if (text == "all_to_all") return Collective::kAlltoAll;  // as profiles call it
  for (int i = 0; i < kCollectiveCount; ++i) {
    if (text == kCollectives[i] || text == std::string(kCollectives[i]) + "_perf") return static_cast<Collective>(i);
  }
  throw CommandError(kExitUsage, "'" + text + "' is no collective; there are " +
                                     Names<kCollectiveCount>([](size_t i) { return kCollectives[i]; }));
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

bool AllowsInPlace(Collective collective) {
  return collective != Collective::kAlltoAll && collective != Collective::kSendRecv;
}

Shape ShapeOf(Collective collective, size_t total_bytes, DataType type, int ranks) {
  const size_t width = SizeOf(type);
  const size_t n = static_cast<size_t>(ranks);
  const size_t count = std::max<size_t>(total_bytes / width, 1);
  const size_t per_16_bytes = 16 / width;
  size_t block = count / n;
  if (block >= per_16_bytes) block -= block % per_16_bytes;
  block = std::max<size_t>(block, 1);
  const size_t whole = block * n;
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return {count, count, count, count * width, 0, 0};
    case Collective::kAllGather:
    case Collective::kGather:
      return {block, whole, block, whole * width, block, 0};
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {whole, block, block, whole * width, 0, block};
    case Collective::kAlltoAll:
      return {whole, whole, block, whole * width, 0, 0};
  }
  return {};
}

double BusFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return 1;
    default:
      return (n - 1) / n;
  }
}

}  // namespace sl::tools
