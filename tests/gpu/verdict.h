// SPDX-License-Identifier: Apache-2.0
//
// What a program of checks says of each: a line "right: …" or "WRONG: …". The first wrong one is said again at the end,
// where whoever sums up several programs looks, and which is often all that is kept.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace sl::gpu_test {

class Verdicts {
 public:
  // printf's words without the end of the line. For one thread.
  [[gnu::format(printf, 3, 4)]] void Say(bool right, const char* format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    std::printf("%s: %s\n", right ? "right" : "WRONG", what);
    std::fflush(stdout);
    if (!right && first_wrong_.empty()) first_wrong_ = what;
  }
  // Empty: nothing was.
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  std::string first_wrong_;
};

}  // namespace sl::gpu_test
