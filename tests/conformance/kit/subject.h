// SPDX-License-Identifier: Apache-2.0
//
// The provider under test, opened with default options: what most tests of an interface begin with.
//
//   Subject<sl_device_ops_t> subject(trial, SL_DEVICE_ID);
//   subject.ops.count(subject.instance(), &count);
#pragma once

#include "tests/conformance/kit/calls.h"
#include "tests/conformance/kit/module.h"
#include "tests/conformance/kit/overlay.h"

namespace sl::conform {

template <typename Ops>
class Subject {
 public:
  // Skips the test when the module's hardware is absent.
  Subject(Trial& trial, const char* interface, const OptionValues* options = nullptr)
      : module_(trial, trial.assignment().module_path), opened_(trial, module_, options) {
    opened_.RequireOpen();
    const sl_provide_t* provide = module_.Find(interface, trial.assignment().provider);
    trial.Require(provide != nullptr, "the module provides no {} called {}", interface, trial.assignment().provider);
    table = provide->ops;
    ops = Traced<Ops>::Wrap(Overlay<Ops>(table));
  }

  Ops ops;                      // traced, no slot is NULL: what the module lacks returns SL_ERR_UNSUPPORTED
  const void* table = nullptr;  // the module's own
  const LoadedModule& module() const { return module_; }
  sl_instance_t* instance() const { return opened_.instance(); }
  Host& host() { return opened_.host(); }
  void Close() { opened_.Close(); }

 private:
  LoadedModule module_;
  OpenedModule opened_;
};

}  // namespace sl::conform
