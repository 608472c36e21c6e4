// SPDX-License-Identifier: Apache-2.0
//
// Opens chosen modules in the order of their requirements, wraps providers in layers, and takes everything down again.
// Private to this floor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel/loader/choice.h"
#include "kernel/loader/host_table.h"
#include "kernel/loader/loader.h"
#include "kernel/loader/stubs.h"

namespace sl::kernel {

// One opened module; a layer has one for each provider it wraps.
struct Instance {
  const ChosenModule* chosen = nullptr;
  std::unique_ptr<HostTable> host;
  sl_instance_t* handle = nullptr;
};

// A provided interface on its way up: the module's own table, then a table for each layer around it.
struct ProviderSlot {
  enum class State { kClosed, kOpening, kOpen, kFailed };
  const ChosenModule* chosen = nullptr;
  const sl_provide_t* provide = nullptr;
  State state = State::kClosed;
  Status failure;
  std::vector<OverlaidTable> tables;
  Provider provider;
};

class Opener {
 public:
  Opener(const Profile& profile, const ModuleChoice& choice);
  ~Opener() { CloseAll(); }

  // Opens everything chosen. A module that was not asked for and fails is left out with a line in the log.
  Status OpenAll();
  // Opens everything, too, and goes on after failures: what modules say against what the profile or the environment
  // makes of them, a line each with its place. Absent hardware is nothing: a profile is for several machines.
  std::vector<std::string> Complaints();
  // Users before those they use.
  Status Quiesce(uint64_t deadline_ns);
  void CloseAll();
  // Closes the modules that serve observers and nothing else. The pump has ended.
  void CloseObservers();

  const std::vector<std::unique_ptr<ProviderSlot>>& slots() const { return slots_; }
  // Whether the module was opened, and why not.
  const Status* StateOf(const ChosenModule& chosen) const;

 private:
  enum class Progress { kOpening, kOpen, kFailed };
  struct ModuleState {
    Progress progress = Progress::kOpening;
    Status failure;
    sl_instance_t* handle = nullptr;
  };

  Status OpenModule(const ChosenModule& chosen);
  Status OpenSlot(ProviderSlot* slot);
  Status WrapSlot(ProviderSlot* slot);
  // Opens one instance; `inner` is what a layer wraps, NULL for other modules.
  Status OpenInstance(const ChosenModule& chosen, const ProviderSlot* inner, sl_instance_t** out_handle);
  Status Bind(const ChosenModule& chosen, const ProviderSlot* inner, std::vector<sl_binding_t>* out_bindings);
  Status BindOne(const ChosenModule& chosen, const sl_require_t& require, sl_binding_t* out_binding);
  Status CallOpen(const Instance& instance, const sl_open_args_t& args, sl_instance_t** out_handle);
  bool IsPreferred(const ProviderSlot& slot) const;

  const Profile& profile_;
  const ModuleChoice& choice_;
  std::vector<std::unique_ptr<ProviderSlot>> slots_;  // preferred first, then by name
  std::map<const ChosenModule*, ModuleState> states_;
  std::vector<Instance> instances_;   // in the order of opening
  Status layer_failure_;              // layers are always asked for
  std::vector<std::string> opening_;  // names on the way down, for cycles
};

}  // namespace sl::kernel
