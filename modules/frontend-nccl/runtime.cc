// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/runtime.h"

#include <strings.h>
#include <unistd.h>

#include <cstdio>

#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {

constinit std::atomic<const sl_runtime_ops_t*> g_runtime{nullptr};

namespace {

constinit std::atomic<bool> g_greeted{false};

void Greet() {
  char line[160];
  const int version = ReportedVersion();
  const int thousands = version < 10000 ? 1000 : 10000;  // codes up to 2.8 have four digits
  std::snprintf(line, sizeof(line), "NCCL version %d.%d.%d, served by starling", version / thousands,
                version % thousands / 100, version % 100);
  // The one word of NCCL_DEBUG that asks for a line on standard output and not for a level.
  const char* debug = VariableText("NCCL_DEBUG");
  if (debug != nullptr && strcasecmp(debug, "VERSION") == 0) {
    dprintf(STDOUT_FILENO, "%s\n", line);
  } else {
    Log(SL_LOG_INFO, line);
  }
  ReportVariables();
}

}  // namespace

const sl_runtime_ops_t* AskForRuntime() noexcept {
  const sl_runtime_ops_t* ops = nullptr;
  const sl_status_t status = sl_runtime_query(SL_RUNTIME_REVISION, &ops);
  if (status != SL_OK || ops == nullptr || ops->struct_size < sizeof(sl_runtime_ops_t)) {
    Fail(ncclInternalError,
         "libstarling.so does not offer %s revision %u, which this libnccl.so.2 needs; install both from one build",
         SL_RUNTIME_ID, SL_RUNTIME_REVISION);
    return nullptr;
  }
  g_runtime.store(ops, std::memory_order_release);
  return ops;
}

ncclResult_t EnsureRuntime() noexcept {
  if (Runtime() == nullptr) return ncclInternalError;
  if (!g_greeted.load(std::memory_order_relaxed) && !g_greeted.exchange(true)) Greet();
  return ncclSuccess;
}

void Log(sl_log_level_t level, const char* text) noexcept {
  const sl_runtime_ops_t* ops = g_runtime.load(std::memory_order_acquire);
  if (ops != nullptr) ops->log(level, text);
}

}  // namespace sl::frontend_nccl
