// SPDX-License-Identifier: Apache-2.0
// Data types, reduction operators and collectives as nccl-tests names them, and the arithmetic that its table rests on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sl::tools {

// Values are the API's ncclDataType_t.
enum class DataType : int {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  kBf16,
  kE4M3,
  kE5M2
};

// The first five values are the API's ncclRedOp_t; kMulSum is created at run time; kNone marks operations that copy.
enum class RedOp : int { kSum, kProd, kMax, kMin, kAvg, kMulSum, kNone };

enum class Collective : int {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAlltoAll,
  kGather,
  kScatter,
  kSendRecv
};

inline constexpr int kDataTypeCount = 12;
inline constexpr int kRedOpCount = 6;
inline constexpr int kCollectiveCount = 9;

const char* Name(DataType type);
const char* Name(RedOp op);
const char* Name(Collective collective);
size_t SizeOf(DataType type);
bool IsFloat(DataType type);

// Parse one name, or "all". Throw CommandError (usage) listing the names that exist.
std::vector<DataType> ParseDataTypes(const std::string& text);
std::vector<RedOp> ParseRedOps(const std::string& text);
Collective ParseCollective(const std::string& text);

bool Reduces(Collective collective);  // takes an operator
bool HasRoot(Collective collective);  // takes a root
bool AllowsInPlace(Collective collective);

// How many elements each rank's buffers hold for a requested total, and what the table prints as count and size.
struct Shape {
  size_t send_count = 0;   // elements in the send buffer
  size_t recv_count = 0;   // elements in the receive buffer
  size_t param_count = 0;  // the count argument of the call
  size_t bytes = 0;        // the size that bandwidth is computed from
  // Element offsets into one buffer of max(send, recv) elements for the in-place form, times rank.
  size_t in_place_send_stride = 0;
  size_t in_place_recv_stride = 0;
};

// `total_bytes` is what -b..-e walk over. Operations with one block per rank round the block down to 16 bytes, as
// nccl-tests does, but keep at least one element, so that small sizes are measured instead of printed as zero.
Shape ShapeOf(Collective collective, size_t total_bytes, DataType type, int ranks);

// algbw times this is busbw, the bandwidth that a link sees.
double BusFactor(Collective collective, int ranks);

}  // namespace sl::tools
