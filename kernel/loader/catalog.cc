// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/catalog.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "kernel/loader/stubs.h"
#include "kernel/loader/table_check.h"

#ifndef SL_VERSION
#define SL_VERSION "0.0.0"
#endif

namespace sl::kernel {
namespace {

Status Refuse(const std::string& path, const std::string& why) {
  return Status(SL_ERR_UNSUPPORTED, fmt::format("{}: refused: {}", path, why));
}

Result<const sl_module_t*> Query(const std::string& path, sl_module_query_fn query) {
  sl_hello_t hello{};
  hello.struct_size = sizeof(hello);
  hello.magic = SL_MODULE_MAGIC;
  hello.container_min = SL_CONTAINER_VERSION;
  hello.container_max = SL_CONTAINER_VERSION;
  hello.kernel_version = SL_VERSION;
  hello.kernel_build_id = SL_ABI_BUILD_ID;
  const sl_module_t* table = nullptr;
  sl_status_t status = SL_OK;
  try {
    status = query(&hello, &table);
  } catch (...) {
    return Status(SL_ERR_EXCEPTION, fmt::format("{}: refused: its sl_module_query threw", path));
  }
  if (status != SL_OK) {
    return Refuse(path,
                  fmt::format("it does not work with this kernel ({}), which speaks container {} and is version {}",
                              StatusName(status), SL_CONTAINER_VERSION, SL_VERSION));
  }
  if (table == nullptr) return Refuse(path, "its sl_module_query gave no table");
  return table;
}

bool Accepts(const std::vector<std::string>* wanted, const std::string& name) {
  return wanted == nullptr || std::find(wanted->begin(), wanted->end(), name) != wanted->end();
}

Status CheckPin(const Profile& profile, const std::string& name, ModuleFile& file) {
  const ModuleEntry* entry = profile.FindModule(name);
  if (entry == nullptr || entry->sha256.empty()) return Status();
  SL_ASSIGN(const std::string hash, file.Hash());
  if (hash == entry->sha256) return Status();
  return Status(SL_ERR_DENIED,
                fmt::format("{}: refused: its SHA-256 is {}, wanted {}", file.path(), hash, entry->sha256));
}

Result<std::unique_ptr<LoadedModule>> LoadCandidate(const Profile& profile, const ModuleCandidate& candidate,
                                                    bool hash) {
  SL_ASSIGN(std::unique_ptr<ModuleFile> file, ModuleFile::Open(candidate.path));
  if (hash) {
    if (Result<std::string> known = file->Hash(); !known.ok()) return known.status();
  }
  SL_TRY(CheckPin(profile, candidate.name, *file));
  SL_ASSIGN(std::unique_ptr<LoadedModule> module, LoadedModule::Load(std::move(file), candidate.name));
  if (candidate.module != module->table().name) {
    return Refuse(candidate.path, fmt::format("it says that it is {}, wanted {} as the file is named",
                                              module->table().name, candidate.module));
  }
  return module;
}

std::string PathBeside(const std::string& profile_file, const std::string& path) {
  if (path.empty() || path.front() == '/' || profile_file.empty()) return path;
  return (std::filesystem::path(profile_file).parent_path() / path).string();
}

}  // namespace

LoadedModule::LoadedModule(std::unique_ptr<ModuleFile> file, std::string name, const sl_module_t* table,
                           Version version)
    : file_(std::move(file)), name_(std::move(name)), table_(table), version_(std::move(version)) {}

std::string LoadedModule::NameOf(const sl_provide_t& provide) const {
  return has_own_name() ? provide.name : name_ + "." + provide.name;
}

Result<std::unique_ptr<LoadedModule>> LoadedModule::Load(std::unique_ptr<ModuleFile> file, const std::string& name) {
  sl_module_query_fn query = nullptr;
  SL_TRY(file->Load(&query));
  SL_ASSIGN(const sl_module_t* table, Query(file->path(), query));
  SL_TRY(CheckDescription(file->path(), table));
  Result<Version> version = Version::Parse(table->version);
  if (!version.ok()) return Refuse(file->path(), version.status().message());
  return std::unique_ptr<LoadedModule>(new LoadedModule(std::move(file), name, table, version.Take()));
}

bool LoadedModule::Requires(std::string_view id) const {
  for (uint32_t i = 0; i < table_->require_count; ++i) {
    if (id == table_->requirements[i]->id) return true;
  }
  return false;
}

bool LoadedModule::is_layer() const {
  for (uint32_t i = 0; i < table_->provide_count; ++i) {
    if ((table_->provides[i]->flags & SL_INTERFACE_LAYER) != 0) return true;
  }
  return false;
}

bool LoadedModule::is_on_request() const {
  for (uint32_t i = 0; i < table_->provide_count; ++i) {
    if ((table_->provides[i]->flags & SL_INTERFACE_ON_REQUEST) == 0) return false;
  }
  return table_->provide_count > 0;
}

std::vector<std::string> ModuleFolders() {
  const char* path = secure_getenv("STARLING_MODULE_PATH");
  std::vector<std::string> folders = SplitList(path == nullptr ? "" : path, ':');
  if (folders.empty()) folders.push_back(LibraryFolder() + "/starling");
  return folders;
}

std::string ModuleNameOfFile(std::string_view file_name) {
  if (!file_name.ends_with(".so") || file_name.size() <= 3) return "";
  std::string_view stem = file_name.substr(0, file_name.size() - 3);
  // The version begins at the first dash that a digit follows, if what stands there is one.
  for (size_t dash = stem.find('-'); dash != std::string_view::npos; dash = stem.find('-', dash + 1)) {
    const std::string_view rest = stem.substr(dash + 1);
    if (rest.find('.') != std::string_view::npos && Version::Parse(rest).ok()) return std::string(stem.substr(0, dash));
  }
  return std::string(stem);
}

std::vector<ModuleCandidate> FindCandidates(const Profile& profile) {
  std::vector<ModuleCandidate> found;
  std::set<std::string> settled;                              // names that are not looked for as modules
  std::multimap<std::string, std::string> further_instances;  // names by module
  for (const auto& [name, entry] : profile.modules()) {
    if (!entry.path.empty()) {
      found.push_back({name, entry.module, PathBeside(profile.file(), entry.path)});
    } else if (entry.module != name) {
      further_instances.emplace(entry.module, name);
    } else {
      continue;
    }
    settled.insert(name);
  }
  // A folder may be named twice, and a link beside its file: one file under one name is one candidate, the first.
  std::set<std::tuple<std::string, dev_t, ino_t>> files;
  const auto add = [&](const std::string& name, const std::string& module, const std::string& path) {
    struct stat info {};
    const bool seen = stat(path.c_str(), &info) == 0 && !files.emplace(name, info.st_dev, info.st_ino).second;
    if (!seen) found.push_back({name, module, path});
  };
  for (const std::string& folder : ModuleFolders()) {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    for (const std::string& file : names) {
      const std::string module = ModuleNameOfFile(file);
      if (module.empty()) continue;
      if (settled.count(module) == 0) add(module, module, folder + "/" + file);
      const auto [begin, end] = further_instances.equal_range(module);
      for (auto it = begin; it != end; ++it) add(it->second, module, folder + "/" + file);
    }
  }
  return found;
}

Catalog Catalog::Read(const Profile& profile, const std::vector<ModuleCandidate>& candidates,
                      const std::vector<std::string>* wanted, bool hash_all) {
  Catalog catalog;
  for (const ModuleCandidate& candidate : candidates) {
    if (!Accepts(wanted, candidate.name)) {
      catalog.unread.push_back(candidate.name);
      continue;
    }
    Result<std::unique_ptr<LoadedModule>> module = LoadCandidate(profile, candidate, hash_all);
    if (module.ok()) {
      catalog.modules.push_back(module.Take());
    } else {
      catalog.refusals.push_back({candidate.name, candidate.path, module.status()});
    }
  }
  return catalog;
}

}  // namespace sl::kernel
