// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/bindings.h"

#include <algorithm>
#include <string_view>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"
#include "tests/conformance/kit/overlay.h"

namespace sl::conform {
namespace {

template <typename Ops>
std::shared_ptr<const void> Overlaid(const void* ops) {
  return std::make_shared<const Ops>(Overlay<Ops>(ops));
}

// A table as long as today's; of an interface the headers do not know, as it is and owned by its module.
std::shared_ptr<const void> OverlayById(std::string_view id, const void* ops) {
  if (id == SL_DEVICE_ID) return Overlaid<sl_device_ops_t>(ops);
  if (id == SL_TRANSPORT_ID) return Overlaid<sl_transport_ops_t>(ops);
  if (id == SL_ALGORITHM_ID) return Overlaid<sl_algorithm_ops_t>(ops);
  if (id == SL_FAULT_ID) return Overlaid<sl_fault_ops_t>(ops);
  if (id == SL_OBSERVER_ID) return Overlaid<sl_observer_ops_t>(ops);
  if (id == SL_TOPOLOGY_ID) return Overlaid<sl_topology_ops_t>(ops);
  return {std::shared_ptr<void>(), ops};
}

// As the kernel chooses: the host, or what this process uses already. Opening another kind of device is no trifle.
bool IsUsed(const void* table, sl_instance_t* instance) {
  uint32_t ordinal = 0;
  return static_cast<const sl_device_ops_t*>(table)->current(instance, &ordinal) == SL_OK;
}

}  // namespace

std::unique_ptr<Companion> Companion::Find(Trial& trial, const std::string& id, uint32_t revision_min,
                                           uint32_t revision_max) {
  for (const std::string& path : trial.assignment().companions) {
    if (path == trial.assignment().module_path) continue;
    auto module = std::make_unique<LoadedModule>(trial, path);
    const sl_provide_t* provide = module->Find(id, "");
    if (provide == nullptr || (provide->flags & SL_INTERFACE_LAYER) != 0) continue;
    if (provide->revision_min > revision_max || provide->revision < revision_min) continue;
    auto opened = std::make_unique<OpenedModule>(trial, *module);
    if (opened->status() < SL_OK) continue;
    std::unique_ptr<Companion> companion(new Companion);
    companion->revision_ = std::min(provide->revision, revision_max);
    companion->table_ = OverlayById(id, provide->ops);
    if (id == SL_DEVICE_ID && !IsUsed(companion->table(), opened->instance())) continue;
    companion->module_ = std::move(module);
    companion->opened_ = std::move(opened);
    return companion;
  }
  return nullptr;
}

Bindings::Bindings(Trial& trial, const LoadedModule& module) {
  const sl_module_t& table = module.table();
  bindings_.resize(table.require_count);
  for (uint32_t i = 0; i < table.require_count; ++i) {
    const sl_require_t& require = *table.requirements[i];
    auto companion = Companion::Find(trial, require.id, require.revision_min, require.revision_max);
    if (companion == nullptr && (require.flags & SL_REQUIRE_OPTIONAL) == 0) {
      trial.Skip(
          fmt::format("it requires {}, which no companion provides here; name one with --with FILE", require.id));
    }
    bindings_[i] = {sizeof(sl_binding_t), 0, require.id, nullptr, nullptr};
    if (companion != nullptr) {
      bindings_[i].revision = companion->revision();
      bindings_[i].ops = companion->table();
      bindings_[i].instance = companion->instance();
    }
    pointers_.push_back(&bindings_[i]);
    companions_.push_back(std::move(companion));
  }
}

}  // namespace sl::conform
