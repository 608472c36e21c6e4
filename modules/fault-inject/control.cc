// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

namespace sl::fault_inject {
namespace {

Status Wrong(size_t line, const std::string& what) {
  return {SL_ERR_CONFIG, "control file line " + std::to_string(line) + ": " + what};
}

template <typename T>
bool ParseNumber(const std::string& text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// "name = value [rank N] [peer N] [lane N]"
Status ParseLine(const std::vector<std::string>& words, size_t line, Override* out) {
  out->setting = FindSetting(words[0]);
  if (out->setting == nullptr || !out->setting->at_run_time) {
    return Wrong(line, words[0] + " cannot be set at run time; README.md lists what can");
  }
  if (words.size() < 3 || words[1] != "=" || words.size() % 2 == 0) {
    return Wrong(line, "write: " + words[0] + " = NUMBER [rank N] [peer N] [lane N]");
  }
  if (!ParseNumber(words[2], &out->value) || static_cast<double>(out->value) > out->setting->maximum) {
    return Wrong(line, words[0] + " is " + words[2] + ", but must be 0 to " +
                           std::to_string(static_cast<uint64_t>(out->setting->maximum)));
  }
  for (size_t i = 3; i < words.size(); i += 2) {
    int64_t* which = words[i] == "rank"   ? &out->rank
                     : words[i] == "peer" ? &out->peer
                     : words[i] == "lane" ? &out->lane
                                          : nullptr;
    if (which == nullptr || !ParseNumber(words[i + 1], which) || *which < 0) {
      return Wrong(line, words[i] + " " + words[i + 1] + " names no rank, peer or lane");
    }
  }
  return {};
}

}  // namespace

Status ParseControl(const std::string& text, std::vector<Override>* out) {
  std::istringstream lines(text);
  std::vector<Override> all;
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    Override one;
    SL_TRY(ParseLine(words, number, &one));
    all.push_back(one);
  }
  *out = std::move(all);
  return {};
}

Settings Apply(const Settings& base, const std::vector<Override>& overrides, int64_t rank, int64_t peer, int64_t lane) {
  Settings settings = base;
  for (const Override& one : overrides) {
    if ((one.rank == -1 || one.rank == rank) && (one.peer == -1 || one.peer == peer) &&
        (one.lane == -1 || one.lane == lane)) {
      settings.*one.setting->value = one.value;
    }
  }
  return settings;
}

Result<bool> ControlFile::Look(uint64_t now_ns) {
  if (path_.empty() || now_ns < next_look_ns_) return false;
  next_look_ns_ = now_ns + kPeriodNs;
  // Never blocks, whatever stands at the path.
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (errno != ENOENT) return Status(SL_ERR_SYSTEM, path_ + ": cannot be read: " + std::strerror(errno));
    const bool changed = !overrides_.empty();
    overrides_.clear();
    bytes_ = -1;
    return changed;
  }
  Result<bool> read = Read(fd);
  close(fd);
  return read;
}

Result<bool> ControlFile::Read(int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return Status(SL_ERR_SYSTEM, path_ + ": cannot be looked at");
  const uint64_t changed_ns =
      static_cast<uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(facts.st_mtim.tv_nsec);
  if (facts.st_ino == inode_ && changed_ns == changed_ns_ && facts.st_size == bytes_) return false;
  // Said once for each state of the file.
  inode_ = facts.st_ino;
  changed_ns_ = changed_ns;
  bytes_ = facts.st_size;
  if (!S_ISREG(facts.st_mode) || facts.st_size > kMaxBytes) {
    return Status(SL_ERR_CONFIG, path_ + ": not a regular file of at most " + std::to_string(kMaxBytes) + " bytes");
  }
  if ((facts.st_uid != 0 && facts.st_uid != geteuid()) || (facts.st_mode & S_IWOTH) != 0) {
    return Status(SL_ERR_DENIED, path_ + ": must belong to root or to this user and not be writable for others");
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  if (Status parsed = ParseControl(text, &overrides_); !parsed.ok()) {
    return Status(parsed.code(), path_ + ": " + parsed.message());
  }
  return true;
}

}  // namespace sl::fault_inject
