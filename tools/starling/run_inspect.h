// SPDX-License-Identifier: Apache-2.0
// Can a preloaded library take effect in a program, and did it? Both are answered from files: the program's own and
// /proc of the running process.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace sl::tools {

// The file that `command` names: itself when it holds a slash, else the first executable in PATH; empty when there is
// none.
std::string FindProgram(const std::string& command);

// Why the loader would ignore LD_PRELOAD for this program: not dynamically linked, set-user-id, file capabilities,
// another word size. Follows "#!" to the interpreter. Empty when nothing speaks against it.
std::string WhyPreloadFails(const std::string& program);

enum class Preload {
  kUnknown,  // the process is gone, may not be read, or has not mapped its libraries yet
  kActive,   // our library is mapped, and no other libnccl
  kAbsent,   // the C library is mapped and ours is not: the loader is done and left it out
  kDoubled,  // ours and another libnccl are both mapped
};

// Looks at /proc/<pid>/maps once. `other` receives the path of a foreign libnccl when there is one.
Preload InspectProcess(pid_t pid, const std::string& library, std::string* other);

// Looks into the files that a process has mapped as code, `library` and other libnccl left out: the first that holds an
// NCCL of its own to which its calls are bound, whatever is preloaded, with what makes it so; "" when there is none. A
// library whose functions are exported and can be taken over is none. Each file is looked into once: `seen` keeps them.
std::string FindNcclInside(pid_t pid, const std::string& library, std::set<std::string>* seen);
// The same of one file. `is_program`: the calls of a program are bound to what itself defines.
std::string WhyNcclInside(const std::string& path, bool is_program);

}  // namespace sl::tools
