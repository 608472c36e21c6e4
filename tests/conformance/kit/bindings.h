// SPDX-License-Identifier: Apache-2.0
//
// Other modules, opened and bound to the requirements of the one under test, or used by a test itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/kit/module.h"

namespace sl::conform {

// One of the companions, opened with its defaults.
class Companion {
 public:
  // The first one that provides the interface, is no layer and opens; NULL when there is none.
  static std::unique_ptr<Companion> Find(Trial& trial, const std::string& id, uint32_t revision_min,
                                         uint32_t revision_max);

  const LoadedModule& module() const { return *module_; }
  uint32_t revision() const { return revision_; }
  const void* table() const { return table_.get(); }  // no slot is NULL
  sl_instance_t* instance() const { return opened_->instance(); }

 private:
  Companion() = default;

  uint32_t revision_ = 0;
  std::shared_ptr<const void> table_;  // type-erased: whatever the interface's table is
  std::unique_ptr<LoadedModule> module_;
  std::unique_ptr<OpenedModule> opened_;
};

class Bindings {
 public:
  // Finds a companion for every requirement of `module`; skips the test when one that is needed is not here.
  Bindings(Trial& trial, const LoadedModule& module);
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;

  const sl_binding_t* const* pointers() const { return pointers_.data(); }
  uint32_t count() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  std::vector<std::unique_ptr<Companion>> companions_;
  std::vector<sl_binding_t> bindings_;
  std::vector<const sl_binding_t*> pointers_;
};

}  // namespace sl::conform
