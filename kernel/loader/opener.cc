// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/opener.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "sdk/clock.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"

namespace sl::kernel {
namespace {

uint32_t NegotiatedRevision(const sl_provide_t& provide) {
  const InterfaceInfo* interface = FindInterface(provide.id);
  return interface == nullptr ? provide.revision : std::min(provide.revision, interface->revision);
}

const sl_provide_t* ProvideOf(const ChosenModule& chosen, std::string_view id) {
  for (const sl_provide_t* provide : chosen.serves) {
    if (id == provide->id) return provide;
  }
  return nullptr;
}

// Where the environment sets options of a module; "": nowhere.
std::string VariablesOf(const ChosenModule& chosen) {
  std::string places;
  for (const OptionValue& option : chosen.options) {
    if (option.origin == Origin::kEnvironment) places += (places.empty() ? "" : ", ") + option.place;
  }
  return places;
}

// The table of a provided interface as others see it: overlaid when the kernel knows the interface.
const void* TableOf(const sl_provide_t& provide, std::vector<OverlaidTable>* storage) {
  const InterfaceInfo* interface = FindInterface(provide.id);
  if (interface == nullptr) return provide.ops;
  storage->push_back(OverlayTable(*interface, provide.ops));
  return storage->back().data();
}

}  // namespace

Opener::Opener(const Profile& profile, const ModuleChoice& choice) : profile_(profile), choice_(choice) {
  for (const ChosenModule& chosen : choice_.modules) {
    for (const sl_provide_t* provide : chosen.serves) {
      auto slot = std::make_unique<ProviderSlot>();
      slot->chosen = &chosen;
      slot->provide = provide;
      slot->tables.reserve(1 + choice_.layers.size());  // tables must not move: bindings point at them
      slot->provider.name = chosen.module->NameOf(*provide);
      slot->provider.id = provide->id;
      slot->provider.module = chosen.module;
      slots_.push_back(std::move(slot));
    }
  }
  std::sort(slots_.begin(), slots_.end(), [this](const auto& a, const auto& b) {
    if (IsPreferred(*a) != IsPreferred(*b)) return IsPreferred(*a);
    if (a->provider.id != b->provider.id) return a->provider.id < b->provider.id;
    return a->provider.name < b->provider.name;
  });
}

bool Opener::IsPreferred(const ProviderSlot& slot) const {
  const Settings::Roles& roles = profile_.settings().roles;
  if (slot.provider.id == SL_DEVICE_ID) return slot.provider.name == roles.device;
  return slot.provider.id == SL_FAULT_ID && slot.provider.name == roles.fault;
}

Status Opener::OpenAll() {
  for (const ChosenModule& chosen : choice_.modules) {
    const Status status = OpenModule(chosen);
    if (!layer_failure_.ok()) return layer_failure_;
    if (status.ok()) continue;
    // Whoever sets an option of a module is not to work without it because the module cannot read that.
    const std::string variables = status.code() == SL_ERR_CONFIG ? VariablesOf(chosen) : "";
    if (chosen.asked || !variables.empty()) {
      const std::string place = variables.empty() ? profile_.PlaceOf(chosen.module->name()) : variables;
      return Status(status.code(), place.empty() ? status.message() : place + ": " + status.message());
    }
    // Absent hardware is no news: the module is for other machines.
    Logf(status.code() == SL_ERR_NOT_FOUND ? SL_LOG_INFO : SL_LOG_WARN, "module {} is left out: {}",
         chosen.module->name(), status.message());
  }
  for (const auto& slot : slots_) {
    if (IsPreferred(*slot) && slot->state == ProviderSlot::State::kFailed) {
      return Status(slot->failure.code(), fmt::format("{} {} is wanted by the profile, but {}", slot->provider.id,
                                                      slot->provider.name, slot->failure.message()));
    }
  }
  return Status();
}

std::vector<std::string> Opener::Complaints() {
  std::vector<std::string> complaints;
  for (const ChosenModule& chosen : choice_.modules) {
    const Status status = OpenModule(chosen);
    if (status.ok() || status.code() == SL_ERR_NOT_FOUND) continue;
    const std::string variables = VariablesOf(chosen);
    if (!chosen.asked && variables.empty()) continue;
    const std::string place = variables.empty() ? profile_.PlaceOf(chosen.module->name()) : variables;
    complaints.push_back(place.empty() ? status.message() : place + ": " + status.message());
  }
  return complaints;
}

Status Opener::OpenModule(const ChosenModule& chosen) {
  const std::string name = chosen.module->name();
  if (const auto known = states_.find(&chosen); known != states_.end()) {
    if (known->second.progress != Progress::kOpening) return known->second.failure;
    return Status(SL_ERR_CONFIG, fmt::format("{}: its requirements form a cycle: {} -> {}", chosen.module->path(),
                                             fmt::join(opening_, " -> "), name));
  }
  states_[&chosen] = {};
  opening_.push_back(name);
  sl_instance_t* handle = nullptr;
  Status status = OpenInstance(chosen, nullptr, &handle);
  opening_.pop_back();
  ModuleState& state = states_[&chosen];
  state.handle = handle;
  state.progress = status.ok() ? Progress::kOpen : Progress::kFailed;
  state.failure = status;
  for (const auto& slot : slots_) {
    if (slot->chosen != &chosen) continue;
    Status wrapped = status.ok() ? OpenSlot(slot.get()) : status;
    if (!wrapped.ok() && slot->state == ProviderSlot::State::kClosed) {
      slot->state = ProviderSlot::State::kFailed;
      slot->failure = wrapped;
    }
    if (status.ok() && !wrapped.ok()) return wrapped;
  }
  return status;
}

// Brings a provider up: its module, then the layers around it.
Status Opener::OpenSlot(ProviderSlot* slot) {
  if (slot->state == ProviderSlot::State::kOpen) return Status();
  if (slot->state == ProviderSlot::State::kFailed) return slot->failure;
  const auto known = states_.find(slot->chosen);
  if (known == states_.end() || known->second.progress == Progress::kOpening) {
    SL_TRY(OpenModule(*slot->chosen));
    return slot->state == ProviderSlot::State::kOpen ? Status() : slot->failure;
  }
  if (known->second.progress == Progress::kFailed) return known->second.failure;
  if (slot->state == ProviderSlot::State::kOpening) {
    return Status(SL_ERR_CONFIG, fmt::format("{}: the layers around {} need {} themselves, which is a cycle",
                                             slot->chosen->module->path(), slot->provider.name, slot->provider.name));
  }
  slot->state = ProviderSlot::State::kOpening;
  slot->provider.instance = known->second.handle;
  slot->provider.revision = NegotiatedRevision(*slot->provide);
  slot->provider.ops = TableOf(*slot->provide, &slot->tables);
  Status status = WrapSlot(slot);
  slot->state = status.ok() ? ProviderSlot::State::kOpen : ProviderSlot::State::kFailed;
  slot->failure = status;
  return status;
}

// Innermost first: the last layer of the profile's list stands next to the provider.
Status Opener::WrapSlot(ProviderSlot* slot) {
  for (auto layer = choice_.layers.rbegin(); layer != choice_.layers.rend(); ++layer) {
    const sl_provide_t* provide = ProvideOf(*layer, slot->provider.id);
    if (provide == nullptr) continue;
    sl_instance_t* handle = nullptr;
    if (Status status = OpenInstance(*layer, slot, &handle); !status.ok()) {
      if (layer_failure_.ok()) layer_failure_ = status;
      return status;
    }
    slot->provider.instance = handle;
    slot->provider.ops = TableOf(*provide, &slot->tables);
    slot->provider.revision = std::min(slot->provider.revision, NegotiatedRevision(*provide));
  }
  return Status();
}

Status Opener::OpenInstance(const ChosenModule& chosen, const ProviderSlot* inner, sl_instance_t** out_handle) {
  std::vector<sl_binding_t> bindings;
  SL_TRY(Bind(chosen, inner, &bindings));
  std::vector<sl_option_value_t> options;
  options.reserve(chosen.options.size());
  for (const OptionValue& value : chosen.options) {
    options.push_back({sizeof(sl_option_value_t), value.type, value.integer, value.real, value.text.c_str()});
  }
  std::vector<const sl_binding_t*> binding_pointers;
  binding_pointers.reserve(bindings.size());
  for (const sl_binding_t& binding : bindings) binding_pointers.push_back(&binding);
  std::vector<const sl_option_value_t*> option_pointers;
  option_pointers.reserve(options.size());
  for (const sl_option_value_t& option : options) option_pointers.push_back(&option);
  sl_open_args_t args{};
  args.struct_size = sizeof(args);
  args.option_count = static_cast<uint32_t>(options.size());
  args.options = option_pointers.data();
  args.binding_count = static_cast<uint32_t>(bindings.size());
  args.bindings = binding_pointers.data();
  Instance instance;
  instance.chosen = &chosen;
  instance.host = std::make_unique<HostTable>(chosen.module->name());
  instances_.reserve(instances_.size() + 1);  // an opened module must not be lost to a failing push_back
  SL_TRY(CallOpen(instance, args, &instance.handle));
  *out_handle = instance.handle;
  instances_.push_back(std::move(instance));
  Logf(SL_LOG_DEBUG, "module {} {} is active, from {}", chosen.module->name(), chosen.module->table().version,
       chosen.module->path());
  return Status();
}

Status Opener::CallOpen(const Instance& instance, const sl_open_args_t& args, sl_instance_t** out_handle) {
  const LoadedModule& module = *instance.chosen->module;
  ClearLastError();
  const sl_status_t status = CallModule("open", module.table().open, instance.host->table(), &args, out_handle);
  if (status == SL_OK && *out_handle != nullptr) return Status();
  if (status == SL_OK) {
    return Status(SL_ERR_INTERNAL, fmt::format("{}: refused: its open said SL_OK and made no instance", module.path()));
  }
  const Status failure = ModuleFailure(status);
  return Status(failure.code(), fmt::format("{}: cannot be opened: {}", module.path(), failure.message()));
}

Status Opener::Bind(const ChosenModule& chosen, const ProviderSlot* inner, std::vector<sl_binding_t>* out_bindings) {
  const sl_module_t& table = chosen.module->table();
  for (uint32_t i = 0; i < table.require_count; ++i) {
    const sl_require_t& require = *table.requirements[i];
    sl_binding_t binding{sizeof(sl_binding_t), 0, require.id, nullptr, nullptr};
    if (inner != nullptr && inner->provider.id == require.id) {
      binding.ops = inner->provider.ops;
      binding.instance = inner->provider.instance;
      binding.revision = std::min(inner->provider.revision, require.revision_max);
    } else if (inner != nullptr && ProvideOf(chosen, require.id) != nullptr) {
      // A layer of several interfaces, used for another one here: nothing to wrap.
      binding.ops = nullptr;
    } else {
      SL_TRY(BindOne(chosen, require, &binding));
    }
    out_bindings->push_back(binding);
  }
  return Status();
}

// The first provider that fits and opens; trying the next one is what makes hardware optional.
Status Opener::BindOne(const ChosenModule& chosen, const sl_require_t& require, sl_binding_t* out_binding) {
  std::string tried;
  sl_status_t code = SL_ERR_NOT_FOUND;
  for (const auto& slot : slots_) {
    if (slot->provider.id != require.id || slot->chosen == &chosen) continue;
    const uint32_t highest = std::min(NegotiatedRevision(*slot->provide), require.revision_max);
    if (highest < std::max(slot->provide->revision_min, require.revision_min)) {
      tried += fmt::format("; {} offers revisions {} to {}", slot->provider.name, slot->provide->revision_min,
                           slot->provide->revision);
      continue;
    }
    const Status status = OpenSlot(slot.get());
    if (!status.ok()) {
      tried += "; " + status.message();
      if (status.code() != SL_ERR_NOT_FOUND) code = status.code();
      continue;
    }
    out_binding->ops = slot->provider.ops;
    out_binding->instance = slot->provider.instance;
    out_binding->revision = std::min(slot->provider.revision, require.revision_max);
    return Status();
  }
  if ((require.flags & SL_REQUIRE_OPTIONAL) != 0) return Status();
  return Status(code,
                fmt::format("{}: it requires {} in revisions {} to {}, which no module in use provides{}",
                            chosen.module->path(), require.id, require.revision_min, require.revision_max, tried));
}

const Status* Opener::StateOf(const ChosenModule& chosen) const {
  const auto known = states_.find(&chosen);
  return known == states_.end() ? nullptr : &known->second.failure;
}

namespace {

void CloseInstance(const Instance& instance) {
  const LoadedModule& module = *instance.chosen->module;
  if (CallModule("close", module.table().close, instance.handle) != SL_OK) {
    Logf(SL_LOG_ERROR, "module {}: {}", module.name(), LastError());
  }
}

}  // namespace

Status Opener::Quiesce(uint64_t deadline_ns) {
  Status first;
  for (auto instance = instances_.rbegin(); instance != instances_.rend(); ++instance) {
    const LoadedModule& module = *instance->chosen->module;
    if (module.table().quiesce == nullptr) continue;
    ClearLastError();
    const sl_status_t status = CallModule("quiesce", module.table().quiesce, instance->handle, deadline_ns);
    if (status < SL_OK && first.ok()) {
      first = Status(status, fmt::format("module {} does not come to rest: {}: {}", module.name(), StatusName(status),
                                         LastError()));
    }
  }
  return first;
}

void Opener::CloseObservers() {
  for (size_t i = instances_.size(); i-- > 0;) {
    const sl_module_t& table = instances_[i].chosen->module->table();
    const bool only_observes =
        std::all_of(table.provides, table.provides + table.provide_count, [](const sl_provide_t* provide) {
          return std::string_view(provide->id) == SL_OBSERVER_ID && (provide->flags & SL_INTERFACE_LAYER) == 0;
        });
    if (table.provide_count == 0 || !only_observes) continue;
    const Instance instance = std::move(instances_[i]);
    instances_.erase(instances_.begin() + static_cast<std::ptrdiff_t>(i));
    if (table.quiesce != nullptr) CallModule("quiesce", table.quiesce, instance.handle, NowNs());
    CloseInstance(instance);
  }
}

void Opener::CloseAll() {
  while (!instances_.empty()) {
    const Instance instance = std::move(instances_.back());
    instances_.pop_back();
    CloseInstance(instance);
  }
  slots_.clear();
  states_.clear();
}

}  // namespace sl::kernel
