// SPDX-License-Identifier: Apache-2.0
//
// The loader: finds modules, checks them, opens them in the order of their requirements and hands out what they
// provide. Life of a module: loaded -> bound -> active -> quiescing -> unloaded.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/profile/profile.h"
#include "sdk/status.h"
#include "sl_module.h"

namespace sl::kernel {

class LoadedModule;  // catalog.h

// Something a module offers, ready to be called: its table is as long as the kernel's and has no NULL slot.
struct Provider {
  std::string name;           // what a profile calls it, e.g. "ring"
  std::string id;             // e.g. "sl.algorithm/1"
  uint32_t revision = 0;      // negotiated: the highest both sides speak
  const void* ops = nullptr;  // layers included
  sl_instance_t* instance = nullptr;
  const LoadedModule* module = nullptr;  // the one at the bottom, not a layer
};

class Loader {
 public:
  enum class State { kActive, kQuiescing, kUnloaded };

  // Loads what the profile asks for. A module that is refused or cannot be opened is an error when the profile names
  // it; otherwise one warning, and it is left out.
  // returns: SL_ERR_CONFIG with file:line:column | SL_ERR_NOT_FOUND | SL_ERR_DENIED | SL_ERR_UNSUPPORTED | what open
  // said
  static Result<std::unique_ptr<Loader>> Open(const Profile& profile);

  // Closes and unloads in reverse order of opening; nothing of the modules stays mapped.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // All providers of an interface, in a fixed order: the preferred one of the profile first, then by name. They live
  // as long as the loader.
  std::vector<Provider> Providers(std::string_view id) const;
  // The provider of that name; NULL when there is none.
  const Provider* Find(std::string_view id, std::string_view name) const;

  // Closes the modules that serve observers and nothing else: at the end of the process, after their last batch.
  void CloseObservers();

  // Asks every module, users before those they use, to come to rest.   blocking: until `deadline_ns`
  // returns: SL_OK | SL_ERR_TIMEOUT with the module named
  Status Quiesce(uint64_t deadline_ns);
  State state() const;

  // Modules in use and refused, as JSON, for `starling modules`.
  std::string Describe() const;
  // The effective options of all modules in use, canonical; ranks compare it beside Profile::SharedText. Of modules
  // that offer nothing but devices, those of the providers named only: hosts differ in what hardware they have, and
  // what a rank does not use need not be on the others.
  std::string SharedText(const std::vector<std::string>& devices) const;

 private:
  struct Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Texts for tools; `profile` is as for Profile::Load, NULL like "".
// The effective set as TOML, options of modules included; SL_ERR_CONFIG with one file:line:column message a line.
// Loads the modules' tables, opens none.
Status ProfileText(const char* profile, std::string* out);
// Every module found on the search path as JSON: name, version, path, hash, interfaces, options, or why it is refused;
// and what the profile asks for in vain.   returns: SL_OK | SL_ERR_CONFIG the profile itself cannot be read
Status ModulesText(const char* profile, std::string* out);

}  // namespace sl::kernel
