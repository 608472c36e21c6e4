// SPDX-License-Identifier: Apache-2.0
//
// Other modules, opened and bound to the requirements of the one under test.
#pragma once

#include <memory>
#include <vector>

#include "tests/conformance/kit/module.h"

namespace sl::conform {

class Bindings {
 public:
  // Opens a companion for every requirement of `module`; skips the test when one that is needed is not here.
  Bindings(Trial& trial, const LoadedModule& module);
  ~Bindings();
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;

  const sl_binding_t* const* pointers() const { return pointers_.data(); }
  uint32_t count() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  struct Bound;
  static std::unique_ptr<Bound> Find(Trial& trial, const LoadedModule& user, const sl_require_t& require);

  std::vector<std::unique_ptr<Bound>> bound_;
  std::vector<const sl_binding_t*> pointers_;
};

}  // namespace sl::conform
