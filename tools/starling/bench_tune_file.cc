// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_tune_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

constexpr char kNewProfile[] =
    "# For whom: programs on the machine named below.\n"
    "# Measured on: see below, what choices go by.\n"
    "# Changed: see below\n"
    "profile_version = 1\n\n";

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw CommandError(kExitFailure, path + ": cannot be written; is its folder there, and writable?");
}

// Behind links: they are to lead to what was tuned, and not to be replaced by it.
std::string Resolved(const std::string& profile) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(profile, error);
  return error ? profile : path.string();
}

}  // namespace

std::string ProfileText(const std::string& profile) {
  if (!std::filesystem::exists(profile)) return kNewProfile;
  if (!std::filesystem::is_regular_file(profile)) {
    throw CommandError(kExitUsage, profile + ": not a regular file; give a profile in TOML");
  }
  std::ifstream file(profile);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw CommandError(kExitUsage, profile + ": cannot be read");
  return text.str();
}

std::string Today() {
  char date[16] = {};
  const time_t now = time(nullptr);
  tm parts{};
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &parts));
  return date;
}

Scratch::Scratch(const std::string& profile)
    : profile_(profile), prefix_(profile + ".tune-" + std::to_string(getpid()) + "-") {}

Scratch::~Scratch() {
  for (const std::string& path : paths_) unlink(path.c_str());
}

std::string Scratch::Add(const std::string& name, const std::string& text) {
  paths_.push_back(prefix_ + name);
  WriteText(paths_.back(), text);
  return paths_.back();
}

void Scratch::Replace(const std::string& rest, const std::string& section) {
  const std::string separator = rest.empty() || rest.ends_with("\n\n") ? "" : rest.ends_with('\n') ? "\n" : "\n\n";
  const std::string target = Resolved(profile_);
  const std::string fresh = target + ".tune-" + std::to_string(getpid()) + "-new.toml";
  paths_.push_back(fresh);
  WriteText(fresh, rest + separator + section);
  struct stat old {};
  if (stat(target.c_str(), &old) == 0) chmod(fresh.c_str(), old.st_mode & 07777);
  if (rename(fresh.c_str(), target.c_str()) != 0) {
    throw CommandError(kExitFailure, profile_ + ": cannot be written");
  }
}

}  // namespace sl::tools
