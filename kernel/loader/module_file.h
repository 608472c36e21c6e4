// SPDX-License-Identifier: Apache-2.0
//
// One module file. It is opened once; ownership, hash and loading all go through that descriptor, so that the bytes
// that were checked are the bytes that run.
#pragma once

#include <memory>
#include <string>

#include "sdk/status.h"
#include "sl_module.h"

namespace sl::kernel {

class ModuleFile {
 public:
  // Opens `path` and checks it: a regular file that, like its folder, belongs to root or the user and is not writable
  // for others, and a shared library for this machine. Runs none of its code. returns: SL_ERR_NOT_FOUND | SL_ERR_DENIED
  // | SL_ERR_UNSUPPORTED; messages begin with the path
  static Result<std::unique_ptr<ModuleFile>> Open(const std::string& path);

  // Unloads it and closes the descriptor.
  ~ModuleFile();
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  const std::string& path() const { return path_; }

  // SHA-256 of the file, 64 hexadecimal digits; computed once. Call before Load.
  Result<std::string> Hash();
  const std::string& known_hash() const { return hash_; }  // "" when it was never computed

  // Loads it (all symbols resolved, none made visible), closes the descriptor and gives its entry.
  // returns: SL_ERR_UNSUPPORTED with the dynamic loader's own words, or: no entry
  Status Load(sl_module_query_fn* out_query);

 private:
  struct Library;
  ModuleFile(std::string path, int fd);

  const std::string path_;
  int fd_;  // -1 once loaded
  std::string hash_;
  std::unique_ptr<Library> library_;
};

}  // namespace sl::kernel
