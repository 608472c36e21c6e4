// SPDX-License-Identifier: Apache-2.0
//
// From a catalog and a profile to the modules that are used: versions picked, conflicts settled, options checked.
// Nothing is opened here, so that `starling profile check` can do all of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel/loader/catalog.h"
#include "kernel/profile/profile.h"
#include "sdk/status.h"

namespace sl::kernel {

struct ChosenModule {
  LoadedModule* module = nullptr;
  bool asked = false;                       // the profile names it: trouble with it is an error
  std::vector<OptionValue> options;         // effective, in the order of the module's table
  std::vector<const sl_provide_t*> serves;  // what of its provided interfaces is used
};

struct ModuleChoice {
  std::vector<ChosenModule> modules;  // not layers; by name
  std::vector<ChosenModule> layers;   // in calling order
  std::vector<std::string> warnings;  // one line each
};

// Whether the profile asks for the module by name.
bool IsAskedFor(const Profile& profile, const std::string& name);

// How the profile keeps device-host out, which lies on the search path, and what to do about it; "" when it does not.
std::string WhyNoHostDevice(const Profile& profile);

// The module names to load at all; false when there is no list and everything found is looked at.
bool WantedNames(const Profile& profile, std::vector<std::string>* out_names);

// All problems are reported together, one a line, each beginning with file:line:column where the profile asked.
// returns: SL_ERR_CONFIG
Status ChooseModules(const Profile& profile, const Catalog& catalog, ModuleChoice* out_choice);

// The effective options of one module: default, profile, environment. Appends what is wrong to `problems`.
std::vector<OptionValue> EffectiveOptions(const Profile& profile, const LoadedModule& module,
                                          std::vector<std::string>* problems);

}  // namespace sl::kernel
