// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/log.h"
#include "sdk/environment.h"

#include <fcntl.h>
#include <signal.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>

// The words of STARLING_LOG, as spdlog 1.10 wants them.
#define SPDLOG_LEVEL_NAMES \
  { "trace", "debug", "info", "warn", "error", "error", "off" }
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>

namespace sl::kernel {
namespace {

constexpr int32_t kUnknown = -1;
constexpr int kNotOpen = -1;

// Trivially constructible and never destroyed: loading the library runs no code for it.
std::atomic<int32_t> g_level{kUnknown};
std::atomic<int> g_descriptor{kNotOpen};
thread_local int64_t t_rank = -1;

// Configuration, read at the first question. Leaked on purpose: lines may be written while the process exits.
struct Target {
  std::mutex mutex;
  std::string file;  // guarded by mutex
};

Target& TheTarget() {
  static Target* target = new Target;
  return *target;
}

struct EnvironmentChoice {
  int32_t level = SL_LOG_WARN;
  std::string file;
  std::string complaint;
};

EnvironmentChoice ReadEnvironment() {
  EnvironmentChoice choice;
  if (const char* text = secure_getenv("STARLING_LOG"); text != nullptr && *text != '\0') {
    std::string_view value(text);
    const size_t split = value.find_first_of(":,");
    const int32_t level = ParseLogLevel(value.substr(0, split));
    if (level >= 0) choice.level = level;
    if (level < 0)
      choice.complaint = fmt::format(
          "STARLING_LOG: unknown level '{}' in '{}'; use error, warn, info, debug or trace, and :file behind it for a "
          "file",
          value.substr(0, split), value);
    // What begins with a colon is of another form, and no file is made of its rest.
    if (split != 0 && split != std::string_view::npos) choice.file = value.substr(split + 1);
    return choice;
  }
  const char* text = SettingText("NCCL_DEBUG");
  if (text == nullptr || *text == '\0') return choice;
  const int32_t level = ParseLogLevel(text);
  if (level >= 0) choice.level = level;
  if (level < 0) choice.complaint = fmt::format("NCCL_DEBUG: unknown level {}; use VERSION, WARN, INFO or TRACE", text);
  if (const char* file = SettingText("NCCL_DEBUG_FILE"); file != nullptr) choice.file = file;
  return choice;
}

// Reads the environment once; racing threads agree on the first result.
int32_t LevelFromEnvironment() {
  EnvironmentChoice choice = ReadEnvironment();
  {
    Target& target = TheTarget();
    std::lock_guard lock(target.mutex);
    if (g_level.load(std::memory_order_relaxed) != kUnknown) return g_level.load(std::memory_order_relaxed);
    target.file = choice.file;
    g_level.store(choice.level, std::memory_order_release);
  }
  if (!choice.complaint.empty()) Log(SL_LOG_WARN, choice.complaint);
  return choice.level;
}

// Writing raises no signal meanwhile: a pipe whose reader has ended and a file at its limit are errors of the log, and
// must not end the program.
class NoSignals {
 public:
  NoSignals() {
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGPIPE);
    sigaddset(&ours_, SIGXFSZ);
    sigpending(&pending_);
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  }
  // Those that have come meanwhile are taken, those that waited before stay.
  ~NoSignals() {
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending_, signal) != 0) continue;
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      const timespec now{0, 0};
      while (sigtimedwait(&one, nullptr, &now) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t ours_;
  sigset_t pending_;
  sigset_t before_;
};

// A program that has closed its standard streams must not find the log in their place.
int AboveStandard(int fd) {
  if (fd > STDERR_FILENO) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return above;
}

// The descriptor to write to, opened at the first line. A file that cannot be opened is said once, on standard error.
int Descriptor() {
  int fd = g_descriptor.load(std::memory_order_acquire);
  if (fd != kNotOpen) return fd;
  Target& target = TheTarget();
  std::lock_guard lock(target.mutex);
  fd = g_descriptor.load(std::memory_order_relaxed);
  if (fd != kNotOpen) return fd;
  if (target.file.empty() || target.file == "stderr") {
    fd = STDERR_FILENO;
  } else if (target.file == "stdout") {
    fd = STDOUT_FILENO;
  } else {
    const std::string path = ExpandLogFile(target.file);
    // Not blocking: a pipe that nobody reads, or nobody reads any more, must not stop the program.
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd >= 0) fd = AboveStandard(fd);
    if (fd < 0) {
      dprintf(STDERR_FILENO, "starling: cannot write the log file %s: %m; writing here instead\n", path.c_str());
      fd = STDERR_FILENO;
    }
  }
  g_descriptor.store(fd, std::memory_order_release);
  return fd;
}

spdlog::level::level_enum SpdlogLevel(sl_log_level_t level) {
  constexpr std::array kLevels = {spdlog::level::err, spdlog::level::warn, spdlog::level::info, spdlog::level::debug,
                                  spdlog::level::trace};
  return kLevels[level < kLevels.size() ? level : kLevels.size() - 1];
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

// A full disk, a reader that has ended: from now on lines go to standard error, which is said there once. The file
// stays open, since other threads may be writing to it. Takes no lock, like all that writes lines.
int GiveUpFile(int fd) {
  const int error = errno;
  if (g_descriptor.compare_exchange_strong(fd, STDERR_FILENO, std::memory_order_acq_rel)) {
    dprintf(
        STDERR_FILENO,
        "starling: cannot write to the log file: %s; %s, or name another file in STARLING_LOG; writing here instead\n",
        strerror(error), error == EPIPE ? "let somebody read the pipe" : "make room there");
  }
  return STDERR_FILENO;
}

void TellLost() {
  static std::atomic<bool> is_told{false};
  if (is_told.exchange(true)) return;
  dprintf(STDERR_FILENO, "starling: the log is a pipe that is not read: it is full, and lines are lost\n");
}

// One write(2) per line: lines of several threads and processes do not mix in a file opened for appending.
void WriteLine(sl_log_level_t level, std::string_view text) {
  spdlog::pattern_formatter formatter("%Y-%m-%d %H:%M:%S.%f %n:%P:%t %l %v", spdlog::pattern_time_type::local, "\n");
  const std::string host = HostName();
  std::string line;
  if (t_rank >= 0) line = fmt::format("rank {} ", t_rank);
  line += text;
  const spdlog::details::log_msg message(spdlog::string_view_t(host.data(), host.size()), SpdlogLevel(level),
                                         spdlog::string_view_t(line.data(), line.size()));
  spdlog::memory_buf_t buffer;
  formatter.format(message, buffer);
  const NoSignals no_signals;
  int fd = Descriptor();
  const char* data = buffer.data();
  size_t left = buffer.size();
  while (left > 0) {
    const ssize_t written = write(fd, data, left);
    if (written < 0 && errno == EINTR) continue;
    // A pipe that is full: the line is lost, not the time of whoever writes it.
    if (written < 0 && errno == EAGAIN && fd > STDERR_FILENO) return TellLost();
    if (written <= 0) {
      if (fd <= STDERR_FILENO) return;  // there is nowhere to say that the log cannot be written
      fd = GiveUpFile(fd);
      continue;
    }
    data += written;
    left -= static_cast<size_t>(written);
  }
}

}  // namespace

void ConfigureLog(sl_log_level_t level, const std::string& file) {
  Target& target = TheTarget();
  std::lock_guard lock(target.mutex);
  target.file = file;
  g_level.store(static_cast<int32_t>(level), std::memory_order_release);
  const int before = g_descriptor.exchange(kNotOpen, std::memory_order_acq_rel);
  if (before > STDERR_FILENO) close(before);
}

bool LogEnabled(sl_log_level_t level) {
  int32_t current = g_level.load(std::memory_order_relaxed);
  if (current == kUnknown) [[unlikely]]
    current = LevelFromEnvironment();
  return static_cast<int32_t>(level) <= current;
}

void Log(sl_log_level_t level, std::string_view text) noexcept {
  const int saved = errno;
  try {
    if (LogEnabled(level)) WriteLine(level, text);
  } catch (...) {
    // Out of memory while logging: the line is lost, the caller goes on.
  }
  errno = saved;
}

LogRankScope::LogRankScope(uint32_t rank) noexcept : before_(t_rank) { t_rank = rank; }
LogRankScope::~LogRankScope() { t_rank = before_; }

int32_t ParseLogLevel(std::string_view word) {
  struct Name {
    const char* word;
    sl_log_level_t level;
  };
  // VERSION asks NCCL for its version line only, ABORT for warnings; NONE, like error, leaves what ends the process.
  constexpr Name kNames[] = {{"error", SL_LOG_ERROR}, {"warn", SL_LOG_WARN},     {"warning", SL_LOG_WARN},
                             {"info", SL_LOG_INFO},   {"debug", SL_LOG_DEBUG},   {"trace", SL_LOG_TRACE},
                             {"none", SL_LOG_ERROR},  {"version", SL_LOG_ERROR}, {"abort", SL_LOG_WARN}};
  const std::string text(word);
  for (const Name& name : kNames) {
    if (strcasecmp(name.word, text.c_str()) == 0) return static_cast<int32_t>(name.level);
  }
  return -1;
}

std::string ExpandLogFile(std::string_view pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += HostName();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

}  // namespace sl::kernel
