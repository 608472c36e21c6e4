// SPDX-License-Identifier: Apache-2.0
// The part of the NCCL API that a benchmark calls, as function pointers taken from a library at run time, so that one
// executable measures any library which exports it. Nothing is loaded before LoadNccl().
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "tools/starling/bench_error.h"

namespace sl::tools {

using NcclComm = void*;
using NcclWindow = void*;
using NcclStream = void*;  // nullptr: on host memory a call has finished when it returns

struct NcclUniqueId {
  char internal[128];
};

// ncclConfig_t as 2.17 had it, and behind that what 2.27 added; a library adds what has come since. What is undefined
// is the library's choice.
inline constexpr int kNcclUndefined = INT_MIN;
struct NcclConfig {
  size_t size = 40;
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
  int traffic_class = kNcclUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kNcclUndefined;
  int cta_policy = kNcclUndefined;
  int shrink_share = kNcclUndefined;
  int nvls_ctas = kNcclUndefined;

  // Asks for collectives that hold no SMs.
  void SetPolicyZero() {
    size = sizeof(NcclConfig);
    version = 22700;
    cta_policy = 2;  // NCCL_CTA_POLICY_ZERO
  }
};
static_assert(offsetof(NcclConfig, split_share) == 40);

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInvalidArgument = 4;
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclOpCount = 5;              // sum, prod, max, min, avg are 0..4
inline constexpr int kNcclScalarHostImmediate = 1;  // residence of a premul-sum scalar
inline constexpr int kNcclWindowCollSymmetric = 1;  // flag of CommWindowRegister
inline constexpr int kNcclHeadersVersion = 22809;   // the API revision that this table was written against

// Every pointer is set except those marked optional, which older releases lack.
struct NcclApi {
  void* handle = nullptr;  // of dlopen; never closed, such libraries do not unload
  std::string path;

  int (*GetVersion)(int*) = nullptr;
  int (*GetUniqueId)(NcclUniqueId*) = nullptr;
  int (*CommInitRank)(NcclComm*, int, NcclUniqueId, int) = nullptr;
  int (*CommInitRankConfig)(NcclComm*, int, NcclUniqueId, int, NcclConfig*) = nullptr;  // optional (2.14)
  int (*CommDestroy)(NcclComm) = nullptr;
  int (*CommAbort)(NcclComm) = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
  const char* (*GetLastError)(NcclComm) = nullptr;  // optional (2.13)
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  int (*AllReduce)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*Broadcast)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*Reduce)(const void*, void*, size_t, int, int, int, NcclComm, NcclStream) = nullptr;
  int (*AllGather)(const void*, void*, size_t, int, NcclComm, NcclStream) = nullptr;
  int (*ReduceScatter)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*Send)(const void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*Recv)(void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*AlltoAll)(const void*, void*, size_t, int, NcclComm, NcclStream) = nullptr;      // optional (2.28)
  int (*Gather)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;   // optional (2.28)
  int (*Scatter)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;  // optional (2.28)
  int (*RedOpCreatePreMulSum)(int*, void*, int, int, NcclComm) = nullptr;                // optional (2.11)
  int (*RedOpDestroy)(int, NcclComm) = nullptr;                                          // optional (2.11)
  int (*MemAlloc)(void**, size_t) = nullptr;                                             // optional (2.19)
  int (*MemFree)(void*) = nullptr;                                                       // optional (2.19)
  int (*CommRegister)(NcclComm, void*, size_t, void**) = nullptr;                        // optional (2.19)
  int (*CommDeregister)(NcclComm, void*) = nullptr;                                      // optional (2.19)
  int (*CommWindowRegister)(NcclComm, void*, size_t, NcclWindow*, int) = nullptr;        // optional (2.27)
  int (*CommWindowDeregister)(NcclComm, NcclWindow) = nullptr;                           // optional (2.27)
};

// Loads `path` and fills the table. Throws CommandError (failure) naming the file and what is wrong with it.
NcclApi LoadNccl(const std::string& path);

// A call that the library answered with something else than success.
class NcclError : public CommandError {
 public:
  NcclError(int result, const std::string& message) : CommandError(kExitFailure, message), result_(result) {}
  int result() const { return result_; }

 private:
  int result_;
};

// Throws NcclError with the library's own words when `result` is not success. `comm` may be null.
void CheckNccl(const NcclApi& api, int result, const char* what, NcclComm comm);

}  // namespace sl::tools
