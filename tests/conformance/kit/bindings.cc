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

// The table behind `ops`, as long as today's; of an interface the headers do not know, as it is.
struct OverlaidTable {
  const void* table = nullptr;
  std::shared_ptr<const void> storage;  // type-erased: whatever the interface's table is
};

template <typename Ops>
OverlaidTable Overlaid(const void* ops) {
  auto storage = std::make_shared<const Ops>(Overlay<Ops>(ops));
  return {storage.get(), storage};
}

OverlaidTable OverlayById(std::string_view id, const void* ops) {
  if (id == SL_DEVICE_ID) return Overlaid<sl_device_ops_t>(ops);
  if (id == SL_TRANSPORT_ID) return Overlaid<sl_transport_ops_t>(ops);
  if (id == SL_ALGORITHM_ID) return Overlaid<sl_algorithm_ops_t>(ops);
  if (id == SL_FAULT_ID) return Overlaid<sl_fault_ops_t>(ops);
  if (id == SL_OBSERVER_ID) return Overlaid<sl_observer_ops_t>(ops);
  if (id == SL_TOPOLOGY_ID) return Overlaid<sl_topology_ops_t>(ops);
  return {ops, nullptr};
}

}  // namespace

struct Bindings::Bound {
  std::unique_ptr<LoadedModule> module;
  std::unique_ptr<OpenedModule> opened;
  OverlaidTable table;
  sl_binding_t binding{};
};

Bindings::Bindings(Trial& trial, const LoadedModule& module) {
  for (uint32_t i = 0; i < module.table().require_count; ++i) {
    bound_.push_back(Find(trial, module, *module.table().requirements[i]));
    pointers_.push_back(&bound_.back()->binding);
  }
}

// In reverse: a later companion may use nothing of an earlier one, but order costs nothing.
Bindings::~Bindings() {
  while (!bound_.empty()) bound_.pop_back();
}

// The first companion that provides the interface and is no layer itself.
std::unique_ptr<Bindings::Bound> Bindings::Find(Trial& trial, const LoadedModule& user, const sl_require_t& require) {
  auto bound = std::make_unique<Bound>();
  bound->binding.struct_size = sizeof(sl_binding_t);
  bound->binding.id = require.id;
  for (const std::string& path : trial.assignment().companions) {
    if (path == user.path()) continue;
    auto module = std::make_unique<LoadedModule>(trial, path);
    const sl_provide_t* provide = module->Find(require.id, "");
    if (provide == nullptr || (provide->flags & SL_INTERFACE_LAYER) != 0) continue;
    if (provide->revision_min > require.revision_max || provide->revision < require.revision_min) continue;
    bound->opened = std::make_unique<OpenedModule>(trial, *module);
    if (bound->opened->status() < SL_OK) {
      bound->opened.reset();
      continue;
    }
    bound->table = OverlayById(require.id, provide->ops);
    bound->binding.revision = std::min(provide->revision, require.revision_max);
    bound->binding.ops = bound->table.table;
    bound->binding.instance = bound->opened->instance();
    bound->module = std::move(module);
    return bound;
  }
  if ((require.flags & SL_REQUIRE_OPTIONAL) == 0) {
    trial.Skip(fmt::format("it requires {}, which no companion provides here; name one with --with FILE", require.id));
  }
  return bound;
}

}  // namespace sl::conform
