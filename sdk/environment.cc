// SPDX-License-Identifier: Apache-2.0
#include "sdk/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "sdk/system.h"

namespace sl {
namespace {

constexpr const char* kSiteFile = "/etc/nccl.conf";
constexpr size_t kMaxBytes = 1 << 16;

struct File {
  std::string path;
  std::vector<Setting> settings;
};

// Leaked on purpose: what it has said stays valid.
struct Files {
  std::mutex mutex;
  const std::vector<File>* read = nullptr;  // guarded by mutex
};
Files* TheFiles() {
  static auto* files = new Files;
  return files;
}

// Not blocking: a FIFO with that name must not stop the program.
std::string ReadRegularFile(const std::string& path) {
  const Fd fd = MakeFd([&path] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  struct stat info {};
  std::string text;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return text;
  char buffer[4096];
  ssize_t got = 0;
  while (text.size() < kMaxBytes && (got = read(fd.get(), buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::string UsersFile() {
  const char* given = secure_getenv("NCCL_CONF_FILE");
  if (given != nullptr && *given != '\0') return given;
  const char* home = secure_getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.nccl.conf" : std::string();
}

const std::vector<File>& ReadOnce() {
  Files* const files = TheFiles();
  const std::lock_guard lock(files->mutex);
  if (files->read == nullptr) {
    auto* const found = new std::vector<File>;
    for (const std::string& path : {UsersFile(), std::string(kSiteFile)}) {
      std::vector<Setting> settings = path.empty() ? std::vector<Setting>() : ParseSettings(ReadRegularFile(path));
      if (!settings.empty()) found->push_back({path, std::move(settings)});
    }
    files->read = found;
  }
  return *files->read;
}

}  // namespace

std::vector<Setting> ParseSettings(std::string_view text) {
  std::vector<Setting> settings;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == 0 || equals == std::string_view::npos) continue;
    settings.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
  }
  return settings;
}

const char* SettingText(const char* name) {
  if (const char* text = secure_getenv(name); text != nullptr) return text;
  for (const File& file : ReadOnce()) {
    for (const Setting& setting : file.settings) {
      if (setting.name == name) return setting.value.c_str();
    }
  }
  return nullptr;
}

std::vector<std::string> SettingFiles() {
  std::vector<std::string> texts;
  for (const File& file : ReadOnce()) {
    std::string names;
    for (const Setting& setting : file.settings) names += (names.empty() ? "" : ", ") + setting.name;
    texts.push_back(file.path + " (" + names + ")");
  }
  return texts;
}

void ForgetSettingFiles() {
  Files* const files = TheFiles();
  const std::lock_guard lock(files->mutex);
  delete std::exchange(files->read, nullptr);
}

}  // namespace sl
