// SPDX-License-Identifier: Apache-2.0
//
// What lies on the search path: modules whose tables passed every check, and files that were refused, with the reason.
// Tables are read here; nothing is opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/loader/module_file.h"
#include "kernel/loader/version.h"
#include "kernel/profile/profile.h"
#include "sdk/status.h"
#include "sl_module.h"

namespace sl::kernel {

// A module whose file is loaded and whose description is sound. Unloads with its destruction.
//
// Several versions of a module, or several instances of one version, are used side by side under different names: each
// has options of its own, and what it provides is called "<name>.<provider>".
class LoadedModule {
 public:
  // Loads the file and checks what it says about itself. Messages begin with the path and say "refused", what the
  // module offers and what was wanted. `name` is what the profile calls it.
  // returns: SL_ERR_UNSUPPORTED | SL_ERR_EXCEPTION
  static Result<std::unique_ptr<LoadedModule>> Load(std::unique_ptr<ModuleFile> file, const std::string& name);

  const sl_module_t& table() const { return *table_; }
  const std::string& name() const { return name_; }
  bool has_own_name() const { return name_ == table_->name; }
  // What the profile calls something it provides.
  std::string NameOf(const sl_provide_t& provide) const;
  const Version& version() const { return version_; }
  const std::string& path() const { return file_->path(); }
  const std::string& hash() const { return file_->known_hash(); }  // "" when nobody asked for it
  bool Requires(std::string_view id) const;
  bool is_layer() const;       // it wraps others, and is used where the profile's layers say so
  bool is_on_request() const;  // everything it provides waits for the profile to name the module

 private:
  LoadedModule(std::unique_ptr<ModuleFile> file, std::string name, const sl_module_t* table, Version version);

  std::unique_ptr<ModuleFile> file_;
  const std::string name_;
  const sl_module_t* table_;
  Version version_;
};

// A file that may be a module, by its name.
struct ModuleCandidate {
  std::string name;    // what the profile calls it; that of the module unless an entry says otherwise
  std::string module;  // "transport-shm" of transport-shm.so and of transport-shm-1.2.0.so
  std::string path;
};

struct Refusal {
  std::string name;
  std::string path;
  Status status;
};

// The folders that are searched: STARLING_MODULE_PATH, colon-separated, else starling/ beside libstarling.so.
std::vector<std::string> ModuleFolders();

// All *.so of the folders, in folder order, then by name, once for each name that the profile has for the module; and
// files that the profile names by path.
std::vector<ModuleCandidate> FindCandidates(const Profile& profile);

// "transport-shm" of "transport-shm-1.2.0.so"; "" when it is no such name.
std::string ModuleNameOfFile(std::string_view file_name);

class Catalog {
 public:
  // Loads the candidates whose name is among `wanted` (NULL: all) and checks hashes that the profile pins. Other files
  // are hashed only when `hash_all` says so, since that takes milliseconds each.
  static Catalog Read(const Profile& profile, const std::vector<ModuleCandidate>& candidates,
                      const std::vector<std::string>* wanted, bool hash_all);

  std::vector<std::unique_ptr<LoadedModule>> modules;
  std::vector<Refusal> refusals;
  std::vector<std::string> unread;  // names of files that were found and not wanted
};

}  // namespace sl::kernel
