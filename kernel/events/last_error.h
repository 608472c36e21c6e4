// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's error text. A fixed buffer, so that an error can be reported when memory has run out; a longer
// text is cut and ends in "...".
#pragma once

#include <string_view>
#include <type_traits>

#include "sdk/float_mode.h"
#include "sdk/status.h"

namespace sl::kernel {

// Keeps a copy of `text` for this thread and returns `status`.   thread: [any]; never blocks or allocates
sl_status_t SetLastError(sl_status_t status, std::string_view text) noexcept;

// Keeps the text of an error and returns its code; leaves the text alone when `status` is good or SL_ERR_AGAIN.
sl_status_t SetLastError(const Status& status) noexcept;

// This thread's text, "" when none; valid until the thread's next SetLastError or ClearLastError.
const char* LastError() noexcept;

void ClearLastError() noexcept;

// What a call of a module has come to: good, or its code with the text that it left.
inline Status StatusOf(sl_status_t status) { return status == SL_OK ? Status() : Status(status, LastError()); }

// What a call of a module that failed has come to, in the words it left since ClearLastError, or in the status's own.
// Who fails with no status of an error, such as SL_ERR_AGAIN, is wrong: SL_ERR_INTERNAL.
Status ModuleFailure(sl_status_t status);

// In a handler: keeps what was thrown in a module's function as this thread's text and returns SL_ERR_EXCEPTION.
sl_status_t SetThrown(const char* function) noexcept;

// Calls a function of a module, named for people, that may throw though it must not: not for the data path. What such
// functions compute, costs above all, decides what all ranks choose alike, so they run in the default floating-point
// mode, whatever the calling thread's is.
template <typename Function, typename... Args>
sl_status_t CallModule(const char* name, Function function, Args... args) noexcept {
  const FloatMode mode;
  try {
    if constexpr (!std::is_void_v<std::invoke_result_t<Function, Args...>>) return function(args...);
    function(args...);
    return SL_OK;
  } catch (...) {
    return SetThrown(name);
  }
}

// The same on the data path, where a function leaves the floating-point mode alone.
template <typename Function, typename... Args>
sl_status_t CallOnDataPath(const char* name, Function function, Args... args) noexcept {
  try {
    return function(args...);
  } catch (...) {
    return SetThrown(name);
  }
}

}  // namespace sl::kernel
