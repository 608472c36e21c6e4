// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/nccl_api.h"

#include <dlfcn.h>

namespace sl::tools {
namespace {

// Fills one slot; returns false when the library does not export `symbol`.
template <typename Function>
bool Take(void* handle, const char* symbol, Function* slot) {
  *slot = reinterpret_cast<Function>(dlsym(handle, symbol));
  return *slot != nullptr;
}

#define SL_REQUIRED(name) \
  if (!Take(api.handle, "nccl" #name, &api.name)) return "nccl" #name
#define SL_OPTIONAL(name) Take(api.handle, "nccl" #name, &api.name)

// Returns the first required symbol that is missing, or null.
const char* FillTable(NcclApi& api) {
  SL_REQUIRED(GetVersion);
  SL_REQUIRED(GetUniqueId);
  SL_REQUIRED(CommInitRank);
  SL_REQUIRED(CommDestroy);
  SL_REQUIRED(CommAbort);
  SL_REQUIRED(GetErrorString);
  SL_REQUIRED(GroupStart);
  SL_REQUIRED(GroupEnd);
  SL_REQUIRED(AllReduce);
  SL_REQUIRED(Broadcast);
  SL_REQUIRED(Reduce);
  SL_REQUIRED(AllGather);
  SL_REQUIRED(ReduceScatter);
  SL_REQUIRED(Send);
  SL_REQUIRED(Recv);
  SL_OPTIONAL(CommInitRankConfig);
  SL_OPTIONAL(GetLastError);
  SL_OPTIONAL(AlltoAll);
  SL_OPTIONAL(Gather);
  SL_OPTIONAL(Scatter);
  SL_OPTIONAL(RedOpCreatePreMulSum);
  SL_OPTIONAL(RedOpDestroy);
  SL_OPTIONAL(MemAlloc);
  SL_OPTIONAL(MemFree);
  SL_OPTIONAL(CommRegister);
  SL_OPTIONAL(CommDeregister);
  SL_OPTIONAL(CommWindowRegister);
  SL_OPTIONAL(CommWindowDeregister);
  return nullptr;
}

#undef SL_REQUIRED
#undef SL_OPTIONAL

}  // namespace

NcclApi LoadNccl(const std::string& path) {
  NcclApi api;
  api.path = path;
  api.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!api.handle) {
    const char* reason = dlerror();
    throw CommandError(kExitFailure, "cannot load the NCCL library " + path + ": " + (reason ? reason : "no reason") +
                                         "; name another one with --library PATH");
  }
  if (const char* missing = FillTable(api)) {
    throw CommandError(kExitFailure, path + " is not an NCCL library: it does not export " + missing);
  }
  return api;
}

void CheckNccl(const NcclApi& api, int result, const char* what, NcclComm comm) {
  if (result == kNcclSuccess) return;
  std::string message = std::string(what) + " returned " + std::to_string(result);
  if (const char* text = api.GetErrorString(result)) message += std::string(" (") + text + ")";
  const char* last = api.GetLastError ? api.GetLastError(comm) : nullptr;
  if (last && *last) message += std::string(": ") + last;
  throw NcclError(result, message);
}

}  // namespace sl::tools
