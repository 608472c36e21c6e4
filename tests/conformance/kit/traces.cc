// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/traces.h"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace sl::conform {
namespace {

namespace fs = std::filesystem;

constexpr int kLooks = 200;  // joined threads vanish from /proc a little later
constexpr timespec kPause = {0, 5'000'000};

int NumberOf(const fs::path& path) {
  const std::string name = path.filename().string();
  int number = -1;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

Traces Traces::Now() {
  Traces traces;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/task", error)) {
    traces.threads[NumberOf(entry.path())] = FirstLine(entry.path() / "comm");
  }
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    // The listing's own descriptor has vanished when its link is read afterwards.
    traces.descriptors[NumberOf(entry.path())] = "";
  }
  for (auto it = traces.descriptors.begin(); it != traces.descriptors.end();) {
    const fs::path target = fs::read_symlink("/proc/self/fd/" + std::to_string(it->first), error);
    it->second = target.string();
    it = error ? traces.descriptors.erase(it) : std::next(it);
  }
  return traces;
}

void Traces::ExpectNothingNew(Trial& trial, const Traces& before, const std::string& when) {
  Traces now = Now();
  const auto new_threads = [&] {
    size_t count = 0;
    for (const auto& [id, name] : now.threads) count += before.threads.count(id) == 0 ? 1 : 0;
    return count;
  };
  for (int look = 0; look < kLooks && new_threads() > 0; ++look) {
    nanosleep(&kPause, nullptr);
    now = Now();
  }
  for (const auto& [id, name] : now.threads) {
    trial.Expect(before.threads.count(id) != 0, "{}: thread \"{}\" is left", when, name);
  }
  for (const auto& [number, target] : now.descriptors) {
    const auto old = before.descriptors.find(number);
    trial.Expect(old != before.descriptors.end() && old->second == target, "{}: descriptor {} ({}) is left", when,
                 number, target);
  }
  for (const auto& [number, target] : before.descriptors) {
    trial.Expect(now.descriptors.count(number) != 0, "{}: descriptor {} ({}), which is not the module's, is closed",
                 when, number, target);
  }
}

std::set<std::string> MappingsOf(const std::string& path) {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) found.insert(line);
  }
  return found;
}

}  // namespace sl::conform
