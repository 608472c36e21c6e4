// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "sdk/fd.h"

namespace sl::fault_inject {
namespace {

// A file may be written again, and a number of a file given out again, without its time of change telling: the system's
// clock for it moves on so seldom. Two of its steps at 100 Hz.
constexpr uint64_t kTickNs = 20'000'000;

Status Wrong(size_t line, const std::string& what) {
  return {SL_ERR_CONFIG, "control file line " + std::to_string(line) + ": " + what};
}

// What stands before `separator`, which goes with it; all of the rest where there is none.
std::string_view TakeUntil(std::string_view* rest, char separator) {
  const size_t at = rest->find(separator);
  const std::string_view taken = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size() : at + 1);
  return taken;
}

std::vector<std::string> WordsOf(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  std::vector<std::string> words;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
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

std::string TextOf(int fd, size_t bytes) {
  std::string text(bytes, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

uint64_t NsOf(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

// Without streams, which take what there is no memory for as the end of the text.
Status ParseControl(const std::string& text, std::vector<Override>* out) {
  std::vector<Override> all;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeUntil(&rest, '\n');
    const std::vector<std::string> words = WordsOf(TakeUntil(&line, '#'));
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
  const Fd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.valid()) return Read(fd.get());
  if (errno != ENOENT) return Status(SL_ERR_SYSTEM, path_ + ": cannot be read: " + std::strerror(errno));
  const bool changed = !overrides_.empty();
  overrides_.clear();
  read_ = {};
  return changed;
}

// A state of the file is said once, and remembered once all of it has been read: what there is no memory for now is
// read at the next look.
Result<bool> ControlFile::Read(int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return Status(SL_ERR_SYSTEM, path_ + ": cannot be looked at");
  Seen seen{facts.st_ino, NsOf(facts.st_mtim), facts.st_size, false, {}};
  const bool is_known = seen.inode == read_.inode && seen.changed_ns == read_.changed_ns && seen.bytes == read_.bytes;
  if (is_known && read_.is_settled) return false;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  seen.is_settled = NsOf(now) >= seen.changed_ns + kTickNs;
  Status read = Judge(facts);
  std::vector<Override> overrides;
  if (read.ok()) {
    seen.text = TextOf(fd, static_cast<size_t>(facts.st_size));
    read = ParseControl(seen.text, &overrides);
  }
  const bool is_news = !is_known || seen.text != read_.text;
  if (!read.ok()) read = Status(read.code(), path_ + ": " + read.message());
  read_ = std::move(seen);
  if (!is_news) return false;
  if (!read.ok()) return read;
  overrides_ = std::move(overrides);
  return true;
}

Status ControlFile::Judge(const struct stat& facts) {
  if (!S_ISREG(facts.st_mode) || facts.st_size > kMaxBytes) {
    return {SL_ERR_CONFIG, "not a regular file of at most " + std::to_string(kMaxBytes) + " bytes"};
  }
  if ((facts.st_uid != 0 && facts.st_uid != geteuid()) || (facts.st_mode & S_IWOTH) != 0) {
    return {SL_ERR_DENIED, "must belong to root or to this user and not be writable for others"};
  }
  return {};
}

}  // namespace sl::fault_inject
