// SPDX-License-Identifier: Apache-2.0
//
// From the kernel's status to NCCL's result, and the calling thread's last error text. The only place that knows both.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#include "nccl.h"
#include "sl_base.h"

namespace sl::frontend_nccl {

// The release that programs are told where nobody says another one: that of widespread programs, for which 8 is no
// result yet.
constexpr int kDefaultVersion = NCCL_VERSION(2, 28, 9);

// The NCCL release programs are told they run on: STARLING_NCCL_VERSION ("22809" or "2.28.9"), else kDefaultVersion.
// It decides which result codes a program may see.   thread: [any]; the environment is read once
int ReportedVersion() noexcept;

// Reads the form of STARLING_NCCL_VERSION; 0 when it is neither a code nor three numbers.
int ParseVersion(const char* text) noexcept;

// NCCL's result for a kernel status, as a program that expects `version` may see it: before 2.30.3 the number 8 had
// another meaning, so a rank that is late is a remote error there.
ncclResult_t ResultOf(sl_status_t status, int version) noexcept;
ncclResult_t ResultOf(sl_status_t status) noexcept;

const char* ResultName(ncclResult_t result) noexcept;

// Sets the calling thread's last error text, logs it as a warning, returns `result`.
[[gnu::cold, gnu::format(printf, 2, 3)]] ncclResult_t Fail(ncclResult_t result, const char* format, ...) noexcept;

// Sets the last error text without logging: for what the kernel has already logged.
void SetLastError(const char* text) noexcept;

// A failed kernel call: its text, after the name of the function the program called. SL_OK and SL_IN_PROGRESS pass
// without a text.
[[gnu::cold]] ncclResult_t FailWith(const char* function, sl_status_t status) noexcept;

// The calling thread's last text, "" when it never failed.
const char* LastError() noexcept;

// Runs the body of a call that may allocate; exceptions end here.
template <typename Body>
ncclResult_t Guarded(const char* function, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Fail(ncclSystemError, "%s: out of host memory", function);
  } catch (const std::exception& error) {
    return Fail(ncclInternalError, "%s: %s", function, error.what());
  } catch (...) {
    return Fail(ncclInternalError, "%s: an exception that is not a std::exception", function);
  }
}

}  // namespace sl::frontend_nccl

// gcc wants both names of a function to promise the same; clang takes the promise for a part of the type.
#ifdef __clang__
#define SL_NCCL_EXPORT visibility("default")
#else
#define SL_NCCL_EXPORT visibility("default"), nothrow
#endif

// Defines an exported function: pncclX, and ncclX as its weak alias. Code of this library calls neither.
#define SL_NCCL_API(type, name, ...)                                              \
  extern "C" {                                                                    \
  __attribute__((SL_NCCL_EXPORT)) type p##name(__VA_ARGS__);                      \
  __attribute__((SL_NCCL_EXPORT, weak, alias("p" #name))) type name(__VA_ARGS__); \
  }                                                                               \
  type p##name(__VA_ARGS__)
