// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/status.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/thread.h"
#include "sdk/status.h"

namespace sl::frontend_nccl {
namespace {

constexpr int kFirstVersionWithTimeout = 23003;

constinit std::atomic<int> g_version{0};

}  // namespace

int ParseVersion(const char* text) noexcept {
  int numbers[3] = {0, 0, 0};
  const char* at = text;
  int count = 0;
  while (count < 3) {
    char* end = nullptr;
    if (*at < '0' || *at > '9') return 0;
    const long number = std::strtol(at, &end, 10);
    if (number < 0 || number > 99999) return 0;
    numbers[count++] = static_cast<int>(number);
    at = end;
    if (*at != '.') break;
    ++at;
  }
  if (*at != '\0' || count == 2) return 0;
  if (count == 1) return numbers[0] >= 2000 ? numbers[0] : 0;
  if (numbers[0] < 2 || numbers[0] > 9 || numbers[1] > 99 || numbers[2] > 99) return 0;
  return NCCL_VERSION(numbers[0], numbers[1], numbers[2]);
}

int ReportedVersion() noexcept {
  int version = g_version.load(std::memory_order_relaxed);
  if (version != 0) return version;
  const char* text = secure_getenv("STARLING_NCCL_VERSION");
  version = text != nullptr ? ParseVersion(text) : kDefaultVersion;
  const bool bad = version == 0;
  if (bad) version = kDefaultVersion;
  g_version.store(version, std::memory_order_relaxed);
  if (bad) {
    char line[256];
    std::snprintf(line, sizeof(line),
                  "STARLING_NCCL_VERSION is \"%.64s\", neither a code such as 22809 nor a release such as 2.28.9; "
                  "reporting %d",
                  text, version);
    Log(SL_LOG_WARN, line);
  }
  return version;
}

ncclResult_t ResultOf(sl_status_t status, int version) noexcept {
  switch (status) {
    case SL_OK:
      return ncclSuccess;
    case SL_IN_PROGRESS:
      return ncclInProgress;
    case SL_ERR_INVALID:
      return ncclInvalidArgument;
    case SL_ERR_TIMEOUT:
      return version >= kFirstVersionWithTimeout ? ncclTimeout : ncclRemoteError;
    case SL_ERR_ABORTED:
      return ncclInvalidUsage;
    default:
      break;
  }
  // The rest goes by range, so that a code added to a range later is right already.
  if (SL_IS_USAGE_ERROR(status)) return ncclInvalidUsage;
  if (SL_IS_RESOURCE_ERROR(status)) return ncclSystemError;
  if (SL_IS_LINK_ERROR(status) || SL_IS_PEER_ERROR(status)) return ncclRemoteError;
  if (SL_IS_DEVICE_ERROR(status)) return ncclUnhandledCudaError;
  return ncclInternalError;
}

ncclResult_t ResultOf(sl_status_t status) noexcept { return ResultOf(status, ReportedVersion()); }

const char* ResultName(ncclResult_t result) noexcept {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled device error (the last error text and NCCL_DEBUG=INFO say more)";
    case ncclSystemError:
      return "unhandled system error (the last error text and NCCL_DEBUG=INFO say more)";
    case ncclInternalError:
      return "internal error (please report it with the output of NCCL_DEBUG=INFO)";
    case ncclInvalidArgument:
      return "invalid argument (the last error text names it)";
    case ncclInvalidUsage:
      return "invalid usage (the last error text says how the call is meant)";
    case ncclRemoteError:
      return "remote process exited, is late, or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    case ncclTimeout:
      return "timeout";
    default:
      return "unknown result code";
  }
}

void SetLastError(const char* text) noexcept {
  if (ThreadState* state = MyState(); state != nullptr) {
    std::snprintf(state->error_text, sizeof(state->error_text), "%s", text);
  }
}

ncclResult_t Fail(ncclResult_t result, const char* format, ...) noexcept {
  char text[sizeof(ThreadState::error_text)];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  SetLastError(text);
  Log(SL_LOG_WARN, text);
  return result;
}

ncclResult_t FailWith(const char* function, sl_status_t status) noexcept {
  if (status >= SL_OK) return ResultOf(status);
  const char* why = LoadedRuntime().last_error();
  if (why == nullptr || *why == '\0') why = StatusName(status);
  if (ThreadState* state = MyState(); state != nullptr) {
    std::snprintf(state->error_text, sizeof(state->error_text), "%s: %s", function, why);
  }
  return ResultOf(status);
}

const char* LastError() noexcept {
  const ThreadState* state = MyState();
  return state != nullptr ? state->error_text : "";
}

}  // namespace sl::frontend_nccl
