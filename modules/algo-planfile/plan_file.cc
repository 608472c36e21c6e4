// SPDX-License-Identifier: Apache-2.0
#include "plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace sl::algo_planfile {
namespace {

Status SystemError(const std::string& path, const char* what) {
  const sl_status_t code = errno == ENOENT ? SL_ERR_NOT_FOUND : SL_ERR_SYSTEM;
  return {code, path + ": cannot " + what + ": " + std::strerror(errno)};
}

// Closes a descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// The whole of a regular file; O_NONBLOCK so that a pipe of that name is refused and not waited for.
Result<std::string> ReadFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return SystemError(path, "open it");
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return SystemError(path, "look at it");
  if (!S_ISREG(facts.st_mode)) return Status(SL_ERR_CONFIG, path + ": is no regular file");
  if (static_cast<uint64_t>(facts.st_size) > kMaxFileBytes) {
    return Status(SL_ERR_CONFIG, path + ": is larger than " + std::to_string(kMaxFileBytes >> 20) +
                                     " MiB; write what repeats as a repeat");
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = read(file.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, "read it");
    if (count == 0) break;  // it became shorter meanwhile
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

// The files that a path stands for.
Result<std::vector<std::string>> Expand(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".plan") files.push_back(it->path().string());
  }
  if (error) return Status(SL_ERR_SYSTEM, path + ": cannot list it: " + error.message());
  if (files.empty()) return Status(SL_ERR_NOT_FOUND, path + ": there is no *.plan in this folder");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

uint64_t SendBlocks(const PlanFile& plan, uint32_t rank) {
  const bool is_root = plan.root == static_cast<int32_t>(rank);
  switch (plan.kind) {
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_ALL_TO_ALL:
      return plan.ranks;
    case SL_OP_BROADCAST:
      return is_root ? plan.blocks : 0;
    case SL_OP_SCATTER:
      return is_root ? plan.ranks : 0;
    default:
      return plan.blocks;
  }
}

uint64_t RecvBlocks(const PlanFile& plan, uint32_t rank) {
  const bool is_root = plan.root == static_cast<int32_t>(rank);
  switch (plan.kind) {
    case SL_OP_ALL_GATHER:
    case SL_OP_ALL_TO_ALL:
      return plan.ranks;
    case SL_OP_REDUCE:
      return is_root ? plan.blocks : 0;
    case SL_OP_GATHER:
      return is_root ? plan.ranks : 0;
    default:
      return plan.blocks;
  }
}

Result<std::vector<PlanFile>> LoadPlans(const std::string& paths) {
  std::vector<PlanFile> plans;
  size_t begin = 0;
  while (begin < paths.size()) {
    const size_t end = std::min(paths.find(':', begin), paths.size());
    const std::string path = paths.substr(begin, end - begin);
    begin = end + 1;
    if (path.empty()) continue;
    SL_ASSIGN(const std::vector<std::string> files, Expand(path));
    for (const std::string& file : files) {
      SL_ASSIGN(const std::string text, ReadFile(file));
      SL_ASSIGN(PlanFile plan, ParsePlan(text, file));
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

}  // namespace sl::algo_planfile
