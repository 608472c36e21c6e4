// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/trial.h"

#include <cstring>

namespace sl::conform {
namespace {

// A test that fails everywhere shall not drown its own first words.
constexpr size_t kMaxFailures = 12;

thread_local std::vector<std::string> t_scopes;

// "tests/conformance/device/memory.cc", whatever the build folder is.
const char* Shorten(const char* path) {
  const char* root = std::strstr(path, "tests/conformance/");
  return root != nullptr ? root : path;
}

}  // namespace

void Trial::AddFailure(const std::string& text, const Place& place) {
  std::string message;
  for (const std::string& scope : t_scopes) message += scope + ": ";
  message += text + fmt::format(" [{}:{}]", Shorten(place.file), place.line);
  const std::lock_guard lock(mutex_);
  if (failures_.size() < kMaxFailures) {
    failures_.push_back(std::move(message));
  } else {
    ++unlisted_;
  }
}

void Trial::Skip(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    skip_reason_ = reason;
  }
  throw TrialEnd();
}

Outcome Trial::outcome() const {
  const std::lock_guard lock(mutex_);
  if (!failures_.empty()) return Outcome::kFailed;
  return skip_reason_.empty() ? Outcome::kPassed : Outcome::kSkipped;
}

std::vector<std::string> Trial::messages() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all = failures_;
  if (unlisted_ > 0) all.push_back(fmt::format("and {} more failures", unlisted_));
  if (all.empty() && !skip_reason_.empty()) all.push_back(skip_reason_);
  return all;
}

Scope::Scope(std::string what) { t_scopes.push_back(std::move(what)); }
Scope::~Scope() { t_scopes.pop_back(); }

}  // namespace sl::conform
