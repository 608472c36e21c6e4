// SPDX-License-Identifier: Apache-2.0
//
// The kernel's log. Level and file come from the environment at the first question, the file is opened at the first
// line that is written, so that a process that logs nothing has no descriptor of ours.
//
//   STARLING_LOG=level[:file]   error warn info debug trace; the default is warn, to standard error
//   NCCL_DEBUG=level            VERSION WARN INFO TRACE; looked at when STARLING_LOG is not set
//   NCCL_DEBUG_FILE=file        with NCCL_DEBUG; %h becomes the host name, %p the process id, in either file name
//
// thread: everything here is [any]. No lock is held while a line is written: after fork() the child may still log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sl_host.h"

namespace sl::kernel {

// Replaces what the environment said; for programs that have options of their own, and for tests. `file` is "" for
// standard error, "stdout", "stderr", or a path with %h and %p.
void ConfigureLog(sl_log_level_t level, const std::string& file);

// True when a line of `level` would be written. One relaxed load once the environment has been read.
bool LogEnabled(sl_log_level_t level);

// Writes one line: time, host, process, thread, level, the thread's rank if it has one, text. Never throws.
void Log(sl_log_level_t level, std::string_view text) noexcept;

// As Log, with a format; nothing is formatted when nobody listens.
template <typename... Args>
void Logf(sl_log_level_t level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    if (!LogEnabled(level)) return;  // the first question reads the environment, and may find no memory
    Log(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {
    Log(level, "a log line could not be formatted");
  }
}

// While it lives, lines of this thread carry the rank. Scopes nest.
class LogRankScope {
 public:
  explicit LogRankScope(uint32_t rank) noexcept;
  ~LogRankScope();
  LogRankScope(const LogRankScope&) = delete;
  LogRankScope& operator=(const LogRankScope&) = delete;

 private:
  int64_t before_;
};

// The level a word of STARLING_LOG or NCCL_DEBUG means, any case; -1 when it is none.
int32_t ParseLogLevel(std::string_view word);

// A file name with %h and %p replaced; %% is one %.
std::string ExpandLogFile(std::string_view pattern);

}  // namespace sl::kernel
