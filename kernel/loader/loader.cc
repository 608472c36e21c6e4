// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>

#include "kernel/events/log.h"
#include "kernel/loader/catalog.h"
#include "kernel/loader/choice.h"
#include "kernel/loader/describe.h"
#include "kernel/loader/opener.h"
#include "kernel/loader/stray_variables.h"
#include "sl_device.h"

namespace sl::kernel {
namespace {

// Unloads what the choice does not use.
void Prune(const ModuleChoice& choice, Catalog* catalog) {
  std::set<const LoadedModule*> used;
  for (const ChosenModule& chosen : choice.modules) used.insert(chosen.module);
  for (const ChosenModule& chosen : choice.layers) used.insert(chosen.module);
  std::erase_if(catalog->modules, [&](const auto& module) { return used.count(module.get()) == 0; });
}

// Loads the tables a profile may use.
Catalog ReadCatalog(const Profile& profile) {
  std::vector<std::string> names;
  const bool listed = WantedNames(profile, &names);
  return Catalog::Read(profile, FindCandidates(profile), listed ? &names : nullptr, false);
}

bool ServesDevice(const sl_provide_t* provide) { return std::string_view(provide->id) == SL_DEVICE_ID; }

bool IsDevice(const ChosenModule& chosen) {
  return std::any_of(chosen.serves.begin(), chosen.serves.end(), ServesDevice);
}

}  // namespace

// Members in the order of their lives: the opener points into the choice, the choice into the catalog.
struct Loader::Impl {
  explicit Impl(const Profile& wanted) : profile(wanted) {}

  const Profile profile;
  Catalog catalog;
  ModuleChoice choice;
  std::unique_ptr<Opener> opener;
  std::vector<const Provider*> providers;
  std::atomic<State> state{State::kActive};
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Loader::~Loader() {
  impl_->opener.reset();
  while (!impl_->catalog.modules.empty()) impl_->catalog.modules.pop_back();
}

Result<std::unique_ptr<Loader>> Loader::Open(const Profile& profile) {
  auto impl = std::make_unique<Impl>(profile);
  impl->catalog = ReadCatalog(impl->profile);
  for (const std::string& ignored : impl->profile.ignored()) Log(SL_LOG_WARN, ignored);
  for (const std::string& stray : StrayVariables(impl->catalog)) Log(SL_LOG_WARN, stray);
  SL_TRY(ChooseModules(impl->profile, impl->catalog, &impl->choice));
  for (const std::string& warning : impl->choice.warnings) Log(SL_LOG_WARN, warning);
  Prune(impl->choice, &impl->catalog);
  impl->opener = std::make_unique<Opener>(impl->profile, impl->choice);
  SL_TRY(impl->opener->OpenAll());
  for (const auto& slot : impl->opener->slots()) {
    if (slot->state == ProviderSlot::State::kOpen) impl->providers.push_back(&slot->provider);
  }
  return std::unique_ptr<Loader>(new Loader(std::move(impl)));
}

std::vector<Provider> Loader::Providers(std::string_view id) const {
  std::vector<Provider> found;
  for (const Provider* provider : impl_->providers) {
    if (provider->id == id) found.push_back(*provider);
  }
  return found;
}

const Provider* Loader::Find(std::string_view id, std::string_view name) const {
  for (const Provider* provider : impl_->providers) {
    if (provider->id == id && provider->name == name) return provider;
  }
  return nullptr;
}

void Loader::CloseObservers() { impl_->opener->CloseObservers(); }

Status Loader::Quiesce(uint64_t deadline_ns) {
  impl_->state.store(State::kQuiescing, std::memory_order_relaxed);
  return impl_->opener->Quiesce(deadline_ns);
}

Loader::State Loader::state() const { return impl_->state.load(std::memory_order_relaxed); }

std::string Loader::Describe() const {
  const char* active = state() == State::kActive ? "active" : "quiescing";
  std::vector<std::string> modules;
  const auto add = [&](const ChosenModule& chosen, bool layer) {
    const Status* status = layer ? nullptr : impl_->opener->StateOf(chosen);
    const bool failed = status != nullptr && !status->ok();
    modules.push_back(
        DescribeModule(*chosen.module, &chosen.options, failed ? "left out" : active, failed ? status->message() : ""));
  };
  for (const ChosenModule& chosen : impl_->choice.modules) add(chosen, false);
  for (const ChosenModule& chosen : impl_->choice.layers) add(chosen, true);
  std::vector<std::string> refusals;
  for (const Refusal& refusal : impl_->catalog.refusals) refusals.push_back(DescribeRefusal(refusal));
  return DescribeAll(modules, refusals, Status());
}

std::string Loader::SharedText(const std::vector<std::string>& devices) const {
  const auto is_spare_device = [&](const ChosenModule& chosen) {
    return IsDevice(chosen) &&
           std::all_of(chosen.serves.begin(), chosen.serves.end(), [&](const sl_provide_t* provide) {
             return ServesDevice(provide) && std::find(devices.begin(), devices.end(), provide->name) == devices.end();
           });
  };
  std::string out;
  const auto add = [&](const ChosenModule& chosen) {
    const Status* status = impl_->opener->StateOf(chosen);
    if (status != nullptr && !status->ok()) return;
    const sl_module_t& table = chosen.module->table();
    if (!chosen.module->has_own_name()) out += chosen.module->name() + " is ";
    out += fmt::format("{} {}\n", table.name, table.version);
    for (uint32_t i = 0; i < table.option_count; ++i) {
      out += fmt::format("{} = {}\n", table.options[i]->name, ToToml(chosen.options[i]));
    }
  };
  for (const ChosenModule& chosen : impl_->choice.modules) {
    if (!is_spare_device(chosen)) add(chosen);
  }
  for (const ChosenModule& chosen : impl_->choice.layers) add(chosen);
  return out;
}

Status ProfileText(const char* profile, std::string* out) {
  SL_ASSIGN(const Profile wanted, Profile::Load(profile == nullptr ? "" : profile));
  const Catalog catalog = ReadCatalog(wanted);
  ModuleChoice choice;
  SL_TRY(ChooseModules(wanted, catalog, &choice));
  *out = wanted.ToToml();
  for (const std::vector<ChosenModule>* list : {&choice.modules, &choice.layers}) {
    for (const ChosenModule& chosen : *list) {
      *out += OptionsToToml(chosen, wanted.FindModule(chosen.module->name()));
    }
  }
  for (const auto& [name, entry] : wanted.modules()) {
    if (!entry.enabled) *out += DisabledToToml(entry);
  }
  if (const std::string why = WhyNoHostDevice(wanted); !why.empty()) choice.warnings.push_back(why);
  for (const std::string& warning : choice.warnings) *out += fmt::format("\n# warning: {}\n", warning);
  return Status();
}

Status ModulesText(const char* profile, std::string* out) {
  SL_ASSIGN(const Profile wanted, Profile::Load(profile == nullptr ? "" : profile));
  const Catalog catalog = Catalog::Read(wanted, FindCandidates(wanted), nullptr, true);
  ModuleChoice choice;
  Status status = ChooseModules(wanted, catalog, &choice);
  // Whether their hardware is here and their options are good, modules say when they are opened; it uses none of it.
  Opener opener(wanted, choice);
  if (status.ok()) {
    const std::vector<std::string> complaints = opener.Complaints();
    if (!complaints.empty()) status = Status(SL_ERR_CONFIG, fmt::format("{}", fmt::join(complaints, "\n")));
  }
  std::vector<std::string> modules;
  for (const auto& module : catalog.modules) {
    const ChosenModule* used = nullptr;
    for (const ChosenModule& chosen : choice.modules) used = chosen.module == module.get() ? &chosen : used;
    for (const ChosenModule& chosen : choice.layers) used = chosen.module == module.get() ? &chosen : used;
    const bool has_options = used != nullptr && used->options.size() == module->table().option_count;
    std::string state = "in use";
    std::string reason;
    if (used == nullptr) {
      state = "available";
      reason = module->is_layer()        ? "a layer that the profile does not name"
               : module->is_on_request() ? "waits for the profile to name it"
                                         : "the profile leaves it out";
    } else if (const Status* opened = opener.StateOf(*used); opened != nullptr && !opened->ok()) {
      state = "left out";
      reason = opened->message();
    }
    modules.push_back(DescribeModule(*module, has_options ? &used->options : nullptr, state, reason));
  }
  std::vector<std::string> refusals;
  for (const Refusal& refusal : catalog.refusals) refusals.push_back(DescribeRefusal(refusal));
  *out = DescribeAll(modules, refusals, status);
  return Status();
}

}  // namespace sl::kernel
