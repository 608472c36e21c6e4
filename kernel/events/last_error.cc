// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/last_error.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

namespace sl::kernel {
namespace {

constexpr size_t kCapacity = 4096;  // a profile's errors are reported together
constexpr std::string_view kCut = "...";
thread_local char t_text[kCapacity];

}  // namespace

sl_status_t SetLastError(sl_status_t status, std::string_view text) noexcept {
  const size_t kept = std::min(text.size(), kCapacity - 1);
  // The text may lie in the buffer itself: a caller passing on what LastError() gave.
  std::memmove(t_text, text.data(), kept);
  t_text[kept] = '\0';
  if (kept < text.size()) std::memcpy(t_text + kept - kCut.size(), kCut.data(), kCut.size());
  return status;
}

sl_status_t SetLastError(const Status& status) noexcept {
  if (status.ok() || status.code() == SL_ERR_AGAIN) return status.code();
  try {
    const std::string text = status.message();
    return SetLastError(status.code(), text.empty() ? std::string_view(StatusName(status.code())) : text);
  } catch (...) {
    return SetLastError(status.code(), StatusName(status.code()));
  }
}

const char* LastError() noexcept { return t_text; }

void ClearLastError() noexcept { t_text[0] = '\0'; }

Status ModuleFailure(sl_status_t status) {
  const bool is_error = status < SL_OK && status != SL_ERR_AGAIN;
  const std::string words = t_text[0] != '\0' ? t_text : "status " + std::to_string(status) + ", " + StatusName(status);
  return {is_error ? status : SL_ERR_INTERNAL, words};
}

sl_status_t SetThrown(const char* function) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& error) {
      return SetLastError(SL_ERR_EXCEPTION, std::string("it threw in ") + function + ": " + error.what());
    } catch (...) {
      return SetLastError(SL_ERR_EXCEPTION, std::string("it threw in ") + function);
    }
  } catch (...) {
    return SetLastError(SL_ERR_EXCEPTION, function);  // no memory for more
  }
}

}  // namespace sl::kernel
