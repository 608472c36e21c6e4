// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "sdk/system.h"

namespace sl::transport_shm {
namespace {

// A peer must not be able to pull pages from under us: that would be a SIGBUS here.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<Fd> MakeSegment(const char* name, uint64_t bytes) {
  return MakeSharedMemory("shared memory", name, bytes, kSeals);
}

Result<std::unique_ptr<Mapping>> Mapping::Map(int fd, uint64_t bytes, bool huge_pages) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return SystemError("shared memory", "fstat", errno);
  const int seals = fcntl(fd, F_GET_SEALS);
  if (!S_ISREG(info.st_mode) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(SL_ERR_LINK_CORRUPT, "shared memory: the peer sent a descriptor that is not a sealed segment");
  }
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) != bytes) {
    return Status(SL_ERR_LINK_CORRUPT, "shared memory: the peer's segment has " + std::to_string(info.st_size) +
                                           " bytes, " + std::to_string(bytes) + " expected");
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return SystemError("shared memory of " + std::to_string(bytes) + " bytes", "mmap", errno);
  // A forked child must not write to our peers. Huge pages are a wish; the system may not grant it.
  madvise(data, bytes, MADV_DONTFORK);
  if (huge_pages) madvise(data, bytes, MADV_HUGEPAGE);
  return std::unique_ptr<Mapping>(new Mapping(data, bytes));
}

Mapping::~Mapping() { munmap(data_, bytes_); }

}  // namespace sl::transport_shm
