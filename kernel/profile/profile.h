// SPDX-License-Identifier: Apache-2.0
//
// A profile: which modules, with which options, limits and preferences. Read from TOML (or built in, `auto`), then
// overlaid by the environment. Precedence: API > environment > profile > default. A Profile is plain data; options of
// modules are checked by the loader, which knows their tables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/profile/measured.h"
#include "kernel/profile/settings.h"
#include "kernel/profile/value.h"
#include "sdk/status.h"

namespace sl::kernel {

// [modules.<name>] and what it says about a module, or about one more instance of a module.
struct ModuleEntry {
  std::string name;
  std::string module;  // what it is an instance of; `name` unless it says otherwise
  bool enabled = true;
  std::string version;  // constraint such as ">=1.2, <2"; "": any
  std::string path;     // file to load instead of a search; "": search
  std::string sha256;   // of the file, lower case hex; "": not pinned
  std::map<std::string, RawValue> options;
  std::map<std::string, std::string> option_key_places;  // where each option's key stands
  std::string place;                                     // of the table
  std::string version_place;                             // of the version
};

// A name in a list, and where it stands.
struct NamedPlace {
  std::string name;
  std::string place;
};

class Profile {
 public:
  // Reads a profile: "" is STARLING_PROFILE, or `auto` when that is not set; a name is searched for (SearchFolders);
  // a text with '/' or ending in ".toml" is a file. All errors of the file are reported together, one a line, each
  // "file:line:column: …".   returns: SL_ERR_CONFIG | SL_ERR_NOT_FOUND with the folders searched
  static Result<Profile> Load(const std::string& name_or_path);

  // The same from text; `file` names it in messages.
  static Result<Profile> Parse(std::string_view toml, const std::string& file);

  // Where profiles are searched for by name: STARLING_PROFILE_PATH (colon-separated); the installation's
  // share/starling/configs; the source tree's configs/; /etc/starling.
  static std::vector<std::string> SearchFolders();

  const std::string& name() const { return name_; }
  const std::string& file() const { return file_; }  // "" for the built-in one
  const Settings& settings() const { return settings_; }
  const std::vector<SelectRule>& select() const { return select_; }
  const Measured& measured() const { return measured_; }

  // Layers in calling order: a call passes through the first one first.
  const std::vector<NamedPlace>& layers() const { return layers_; }
  // Modules to use; `lists_modules()` false: all that are found and do not wait to be asked for.
  bool lists_modules() const { return lists_modules_; }
  const std::vector<NamedPlace>& enable() const { return enable_; }
  const std::map<std::string, ModuleEntry>& modules() const { return modules_; }
  // NULL when the profile has no [modules.<name>].
  const ModuleEntry* FindModule(std::string_view name) const;
  // Where the profile first asks for a module, as a module or as a layer; "" when it does not.
  std::string PlaceOf(std::string_view module) const;

  // Variables of NCCL that mean nothing, each in words. They are ignored, as all of NCCL's that cannot be followed.
  const std::vector<std::string>& ignored() const { return ignored_; }

  // The effective value of a key of the kernel, e.g. "comm.bootstrap_timeout_ms"; NULL: no such key.
  const OptionValue* Find(std::string_view key) const;

  // Sets a key from the program, above environment and profile.   returns: SL_OK | SL_ERR_CONFIG
  Status Set(std::string_view key, std::string_view text);

  // The kernel's part of the effective set as TOML, each value with where it comes from; sections of modules are the
  // loader's.
  std::string ToToml() const;
  // What all ranks must share of it: keys that are not per rank, rules, measured costs, layers. Equal texts, equal
  // selection.
  std::string SharedText() const;
  // FNV-1a of SharedText().
  uint64_t SharedHash() const;

 private:
  friend class ProfileReader;
  Profile() = default;
  Status ApplyDefaults();
  Status ApplyEnvironment();
  void ApplyLayers(const std::string& text);
  void Store();

  std::string name_;
  std::string file_;
  Settings settings_;
  std::map<std::string, OptionValue, std::less<>> values_;
  std::vector<SelectRule> select_;
  Measured measured_;
  std::vector<NamedPlace> layers_;
  bool lists_modules_ = false;
  std::vector<NamedPlace> enable_;
  std::map<std::string, ModuleEntry> modules_;
  std::vector<std::string> ignored_;
};

// The folder of the library (or program) this code is linked into; "" when it cannot be found.
std::string LibraryFolder();

// 64-bit FNV-1a.
uint64_t HashText(std::string_view text);

}  // namespace sl::kernel
