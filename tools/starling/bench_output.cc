// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/starling/bench_error.h"

namespace sl::tools {

void CheckWritable(const std::string& path, const std::string& option, int exit_code) {
  if (path.empty()) return;
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  int error = 0;
  if (exists && S_ISDIR(status.st_mode)) {
    error = EISDIR;
  } else if (exists ? access(path.c_str(), W_OK) != 0 : access(folder.c_str(), W_OK | X_OK) != 0) {
    error = errno;
  }
  if (error != 0) throw CommandError(exit_code, "cannot write " + path + " (" + option + "): " + strerror(error));
}

}  // namespace sl::tools
