// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/module_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "kernel/loader/sha256.h"

namespace sl::kernel {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "say which ELF machine this is"
#endif

constexpr const char* kEntry = "sl_module_query";
constexpr const char* kDescriptors = "/proc/self/fd";

bool IsTrustedOwner(uid_t owner) { return owner == 0 || owner == geteuid(); }

Status CheckOwner(const std::string& path, const char* what, const struct stat& info) {
  if (!IsTrustedOwner(info.st_uid)) {
    return Status(SL_ERR_DENIED, fmt::format("{}: refused: {} belongs to user {}, wanted root or user {}", path, what,
                                             info.st_uid, geteuid()));
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return Status(SL_ERR_DENIED, fmt::format("{}: refused: {} is world-writable (mode {:04o}); run chmod o-w on it",
                                             path, what, info.st_mode & 07777u));
  }
  return Status();
}

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The folder as written, and the one the file really lies in when links lead there.
Status CheckFolders(const std::string& path, int fd) {
  std::string folders[2] = {Folder(path), ""};
  char target[4096];
  const ssize_t length = readlink(fmt::format("{}/{}", kDescriptors, fd).c_str(), target, sizeof(target));
  if (length > 0 && static_cast<size_t>(length) < sizeof(target)) {
    folders[1] = Folder(std::string(target, static_cast<size_t>(length)));
  }
  for (const std::string& folder : folders) {
    struct stat info {};
    if (folder.empty()) continue;
    if (stat(folder.c_str(), &info) != 0) {
      return Status(SL_ERR_SYSTEM, fmt::format("{}: cannot look at {}: {}", path, folder, std::strerror(errno)));
    }
    SL_TRY(CheckOwner(path, fmt::format("its folder {}", folder).c_str(), info));
  }
  return Status();
}

// Whether all of a range is read; false, too, where the file ends before it.
bool ReadAt(int fd, void* out, size_t bytes, uint64_t offset) {
  return offset <= static_cast<uint64_t>(std::numeric_limits<off_t>::max()) &&
         pread(fd, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// The dynamic loader maps what the headers name and reads it: behind the end of a file that is a bus error, without the
// tables of names a null pointer, and either ends the process. So a copy that was interrupted must not come so far.
Status CheckWhole(const std::string& path, int fd, const Elf64_Ehdr& header, uint64_t bytes) {
  constexpr uint32_t kNeeded = 1u << DT_STRTAB | 1u << DT_SYMTAB;
  uint32_t found = 0;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (header.e_phentsize != sizeof(segment) ||
        !ReadAt(fd, &segment, sizeof(segment), header.e_phoff + i * sizeof(segment))) {
      return Status(SL_ERR_UNSUPPORTED, fmt::format("{}: refused: its program headers cannot be read in {} bytes; "
                                                    "it is damaged, copy it again",
                                                    path, bytes));
    }
    if (segment.p_type == PT_NULL) continue;
    if (segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset) {
      return Status(SL_ERR_UNSUPPORTED,
                    fmt::format("{}: refused: it is cut short: it has {} bytes, and a segment of {} begins at {}; copy "
                                "it again",
                                path, bytes, segment.p_filesz, segment.p_offset));
    }
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t offset = 0; offset + sizeof(Elf64_Dyn) <= segment.p_filesz; offset += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry{};
      if (!ReadAt(fd, &entry, sizeof(entry), segment.p_offset + offset) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB || entry.d_tag == DT_SYMTAB) found |= 1u << entry.d_tag;
    }
  }
  if (found == kNeeded) return Status();
  return Status(SL_ERR_UNSUPPORTED,
                fmt::format("{}: refused: it has no tables of symbols and names; it is damaged, copy it again", path));
}

Status CheckElf(const std::string& path, int fd, uint64_t bytes) {
  Elf64_Ehdr header{};
  if (!ReadAt(fd, &header, sizeof(header), 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return Status(SL_ERR_UNSUPPORTED, fmt::format("{}: refused: not an ELF file, wanted a shared library", path));
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine || header.e_type != ET_DYN) {
    return Status(
        SL_ERR_UNSUPPORTED,
        fmt::format("{}: refused: an ELF file of class {}, machine {}, type {}; wanted a shared library for "
                    "this machine: class {}, machine {}, type {}",
                    path, header.e_ident[EI_CLASS], header.e_machine, header.e_type, ELFCLASS64, kMachine, ET_DYN));
  }
  return CheckWhole(path, fd, header, bytes);
}

// The descriptor's name, spelt differently at each call: the dynamic loader remembers names, and a descriptor's number
// comes back for another file. Each bit of the counter is an "/" or an "/.", which mean the same place.
std::string UniqueDescriptorPath(int fd) {
  static std::atomic<uint32_t> counter{0};
  const uint32_t number = counter.fetch_add(1, std::memory_order_relaxed);
  std::string path = kDescriptors;
  for (uint32_t bit = 0; bit < 32; ++bit) path += (number >> bit & 1u) != 0 ? "/." : "/";
  return path + "/" + std::to_string(fd);
}

}  // namespace

struct ModuleFile::Library {
  boost::dll::shared_library handle;
};

ModuleFile::ModuleFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

ModuleFile::~ModuleFile() {
  library_.reset();
  if (fd_ >= 0) close(fd_);
}

Result<std::unique_ptr<ModuleFile>> ModuleFile::Open(const std::string& path) {
  // Not blocking: a FIFO with that name must not stop us.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const sl_status_t code = errno == ENOENT || errno == ENOTDIR ? SL_ERR_NOT_FOUND : SL_ERR_DENIED;
    return Status(code, fmt::format("{}: cannot open the module: {}", path, std::strerror(errno)));
  }
  std::unique_ptr<ModuleFile> file(new ModuleFile(path, fd));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status(SL_ERR_UNSUPPORTED, fmt::format("{}: refused: not a regular file, wanted a shared library", path));
  }
  SL_TRY(CheckOwner(path, "the file", info));
  SL_TRY(CheckFolders(path, fd));
  SL_TRY(CheckElf(path, fd, static_cast<uint64_t>(info.st_size)));
  return file;
}

Result<std::string> ModuleFile::Hash() {
  if (!hash_.empty()) return hash_;
  Sha256 sha;
  char buffer[65536];
  off_t offset = 0;
  while (true) {
    const ssize_t got = pread(fd_, buffer, sizeof(buffer), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status(SL_ERR_SYSTEM, fmt::format("{}: cannot be read: {}", path_, std::strerror(errno)));
    if (got == 0) break;
    sha.Update(buffer, static_cast<size_t>(got));
    offset += got;
  }
  hash_ = sha.Finish();
  return hash_;
}

Status ModuleFile::Load(sl_module_query_fn* out_query) {
  library_ = std::make_unique<Library>();
  std::error_code error;
  namespace load_mode = boost::dll::load_mode;
  const std::string by_descriptor = UniqueDescriptorPath(fd_);
  library_->handle.load(by_descriptor, error, load_mode::rtld_now | load_mode::rtld_local);
  if (error) {
    const char* words = dlerror();
    if (access(kDescriptors, F_OK) != 0) {
      return Status(
          SL_ERR_SYSTEM,
          fmt::format("{}: cannot be loaded: there is no {}, by which a module is opened as the very file that "
                      "was checked; mount /proc (mount -t proc proc /proc)",
                      path_, kDescriptors));
    }
    std::string why = words == nullptr ? error.message() : words;
    if (why.starts_with(by_descriptor + ": ")) why.erase(0, by_descriptor.size() + 2);
    return Status(SL_ERR_UNSUPPORTED, fmt::format("{}: refused: cannot be loaded: {}", path_, why));
  }
  close(fd_);
  fd_ = -1;
  if (!library_->handle.has(kEntry)) {
    return Status(SL_ERR_UNSUPPORTED,
                  fmt::format("{}: refused: it has no entry {}; build it with sl_module() or export that function",
                              path_, kEntry));
  }
  *out_query = &library_->handle.get<std::remove_pointer_t<sl_module_query_fn>>(kEntry);
  return Status();
}

}  // namespace sl::kernel
