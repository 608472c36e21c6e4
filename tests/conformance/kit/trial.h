// SPDX-License-Identifier: Apache-2.0
//
// One run of one test, in a process of its own: what it is given, and how it says what it found.
//
//   trial.Expect(status == SL_OK, "create returned {}", StatusName(status));   // notes a failure and goes on
//   trial.Require(ops != nullptr, "no table");                                 // notes it and ends the test
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sdk/status.h"

namespace sl::conform {

// What the runner says to a test.
struct Assignment {
  std::string module_path;              // absolute
  std::string provider;                 // which provider of the suite's interface; "" in the suite of every module
  std::vector<std::string> companions;  // modules that may meet the requirements of the one under test
  std::vector<std::pair<std::string, std::string>> options;  // of the module under test: name, text of the value
  uint64_t seed = 1;                                         // of everything a test does at random
  bool full = false;                                         // longer: more sizes, more seeds
};

enum class Outcome { kPassed, kFailed, kSkipped };

// Ends a test early; its reason is in the Trial already.
struct TrialEnd {};

// Where in the kit a message stands.
struct Place {
  const char* file;
  int line;
};

// A message, checked against its arguments when compiled, and its place.
template <typename... Args>
struct Words {
  template <typename Text>
  FMT_CONSTEVAL Words(const Text& text,  // NOLINT(google-explicit-constructor)
                      const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : format(text), place{file, line} {}
  fmt::format_string<Args...> format;
  Place place;
};

class Trial {
 public:
  explicit Trial(Assignment assignment) : assignment_(std::move(assignment)) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const Assignment& assignment() const { return assignment_; }
  uint64_t seed() const { return assignment_.seed; }
  bool full() const { return assignment_.full; }

  // Any thread may call these two. Returns `holds`.
  template <typename... Args>
  bool Expect(bool holds, std::type_identity_t<Words<Args...>> words, Args&&... args) {
    if (!holds) AddFailure(fmt::format(words.format, std::forward<Args>(args)...), words.place);
    return holds;
  }
  // Throws TrialEnd unless `holds`; on the test's own thread only.
  template <typename... Args>
  void Require(bool holds, std::type_identity_t<Words<Args...>> words, Args&&... args) {
    if (holds) return;
    AddFailure(fmt::format(words.format, std::forward<Args>(args)...), words.place);
    throw TrialEnd();
  }
  // Ends the test as skipped: what it needs is not here, or the module does not offer it.
  [[noreturn]] void Skip(const std::string& reason);

  Outcome outcome() const;
  std::vector<std::string> messages() const;  // of failures, or the reason for skipping

 private:
  friend class Scope;
  void AddFailure(const std::string& text, const Place& place);

  const Assignment assignment_;
  mutable std::mutex mutex_;
  std::vector<std::string> failures_;
  size_t unlisted_ = 0;  // failures beyond those that are kept
  std::string skip_reason_;
};

// Says what a stretch of a test is about; put before every failure noted meanwhile by the same thread.
class Scope {
 public:
  explicit Scope(std::string what);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace sl::conform
