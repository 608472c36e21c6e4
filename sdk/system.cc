// SPDX-License-Identifier: Apache-2.0
#include "sdk/system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

namespace sl {

std::string RemedyOf(const char* call, int error) {
  const bool is_thread = std::strcmp(call, "pthread_create") == 0;
  switch (error) {
    case EMFILE:
      return "raise the limit on descriptors (ulimit -n)";
    case ENFILE:
      return "the whole system has no descriptor left: raise fs.file-max";
    case ENOMEM:
      return "memory is used up or limited (ulimit -v, memory.max of the control group" +
             std::string(std::strcmp(call, "mmap") == 0 ? ", vm.max_map_count)" : ")");
    case EAGAIN:
      return is_thread ? "raise the limit on threads (ulimit -u, pids.max of the control group)" : "";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f), which counts for shared memory, too";
    case ENOSPC:
      return "no room is left for it: a quota, or a limit of the control group or the file system";
    case EPERM:
    case EACCES: {
      const std::string name = is_thread ? "clone3, by which threads are started," : call;
      return "a sandbox or container (seccomp, a security module) forbids " + name + "; allow it there";
    }
    case ENOSYS:
      return std::string("this system has no ") + call + ", or a sandbox (seccomp) hides it";
    default:
      return {};
  }
}

std::string WithRemedy(const std::string& text, const char* call, int error) {
  const std::string remedy = RemedyOf(call, error);
  return remedy.empty() ? text : text + "; " + remedy;
}

Status SystemError(const std::string& what, const char* call, int error) {
  const std::string text = (what.empty() ? what : what + ": ") + call + ": " + std::strerror(error);
  const bool is_limit = error == EMFILE || error == ENFILE || error == EFBIG || error == ENOSPC ||
                        (error == EAGAIN && std::strcmp(call, "pthread_create") == 0);
  const sl_status_t code = is_limit ? SL_ERR_LIMIT : error == ENOMEM ? SL_ERR_MEMORY : SL_ERR_SYSTEM;
  return {code, WithRemedy(text, call, error)};
}

bool RaiseDescriptorLimit(uint64_t* out_before) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  if (out_before != nullptr) *out_before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

namespace {

// The bytes as `read` gives them; 0, or the errno of what fails.
template <typename Read>
int Fill(std::span<uint8_t> bytes, Read read) {
  while (!bytes.empty()) {
    const ssize_t got = read(bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return 0;
}

}  // namespace

Status FillRandom(std::span<uint8_t> bytes) {
  const int error = Fill(bytes, [](void* to, size_t size) { return getrandom(to, size, 0); });
  if (error == 0) return {};
  const Fd file = MakeFd([] { return open("/dev/urandom", O_RDONLY | O_CLOEXEC | O_NOCTTY); });
  const auto from_file = [&file](void* to, size_t size) { return read(file.get(), to, size); };
  if (file.valid() && Fill(bytes, from_file) == 0) return {};
  return SystemError("random numbers (/dev/urandom gives none either)", "getrandom", error);
}

// A size above the limit on files would raise SIGXFSZ, which ends a program that does not expect it.
Result<Fd> MakeSharedMemory(const std::string& what, const char* name, uint64_t bytes, int seals) {
  Fd fd = MakeFd([name] { return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!fd.valid()) return SystemError(what, "memfd_create", errno);
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    return SystemError(what, "ftruncate", EFBIG);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return SystemError(what, "ftruncate", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return SystemError(what, "fcntl", errno);
  return fd;
}

}  // namespace sl
