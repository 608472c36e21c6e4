// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/run_inspect.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace sl::tools {
namespace {

bool IsProgram(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Raised rights make the loader drop LD_PRELOAD paths with slashes.
std::string WhyRaised(const std::string& program) {
  struct stat status;
  if (stat(program.c_str(), &status) != 0) return "";
  if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
    return "it is set-user-id: the loader ignores LD_PRELOAD";
  if ((status.st_mode & S_ISGID) && status.st_gid != getgid())
    return "it is set-group-id: the loader ignores LD_PRELOAD";
  if (getuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0) {
    return "it has file capabilities: the loader ignores LD_PRELOAD";
  }
  return "";
}

std::string WhyElf(std::ifstream& file) {
  Elf64_Ehdr header = {};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file) return "it is cut short";
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is a 32-bit program and the library has 64 bits";
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return "";
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + static_cast<Elf64_Off>(i) * sizeof segment));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!file) return "it is cut short";
    if (segment.p_type == PT_INTERP) return "";
  }
  return "it is statically linked: there is no loader to preload anything";
}

std::string Inspect(const std::string& program, int depth) {
  std::ifstream file(program, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  if (!file) return "";
  if (std::memcmp(magic, ELFMAG, SELFMAG) == 0) {
    const std::string raised = WhyRaised(program);
    return raised.empty() ? WhyElf(file) : raised;
  }
  if (magic[0] != '#' || magic[1] != '!' || depth == 0) return "";
  file.seekg(2);
  std::string line, interpreter;
  std::getline(file, line);
  std::istringstream(line) >> interpreter;
  const std::string why = interpreter.empty() ? "" : Inspect(interpreter, depth - 1);
  return why.empty() ? "" : "its interpreter " + interpreter + ": " + why;
}

bool StartsWith(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

}  // namespace

std::string FindProgram(const std::string& command) {
  if (command.find('/') != std::string::npos) return IsProgram(command) ? command : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + command;
    if (IsProgram(candidate)) return candidate;
  }
  return "";
}

std::string WhyPreloadFails(const std::string& program) { return Inspect(program, 4); }

Preload InspectProcess(pid_t pid, const std::string& library, std::string* other) {
  struct stat ours;
  if (stat(library.c_str(), &ours) != 0) return Preload::kUnknown;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  bool active = false, doubled = false, libc = false;
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');  // anonymous mappings have no path
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (StartsWith(name, "libc.so") || StartsWith(name, "libc-2") || StartsWith(name, "ld-musl")) libc = true;
    if (!StartsWith(name, "libnccl.so")) continue;
    // The same file may be reached by several paths.
    struct stat theirs;
    const bool same = path == library || (stat(path.c_str(), &theirs) == 0 && theirs.st_dev == ours.st_dev &&
                                          theirs.st_ino == ours.st_ino);
    if (same) {
      active = true;
    } else {
      doubled = true;
      *other = path;
    }
  }
  if (active) return doubled ? Preload::kDoubled : Preload::kActive;
  return libc ? Preload::kAbsent : Preload::kUnknown;
}

}  // namespace sl::tools
