// SPDX-License-Identifier: Apache-2.0
//
// What a module is, as far as choosing its tests needs it, and the tests that are for it.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/kit/suite.h"

namespace sl::conform {

struct Provided {
  std::string id;
  std::string name;
};

// What a module says about itself; read by a process that may die of it.
struct ModuleFacts {
  std::string name;
  std::string version;
  std::vector<Provided> provides;
};

// One test of one provider.
struct Case {
  std::string name;      // "device/host/Stream.RunsInOrder", "module/Query.IsPure"
  std::string provider;  // "" for the suite of every module
  Test test;
};

// The tests for a module, in the order of their names' folders. A provider of an interface without a suite has none.
std::vector<Case> CasesFor(const ModuleFacts& facts);

// What the module provides and no suite tests.
std::vector<Provided> Untested(const ModuleFacts& facts);

// True when `pattern`, in which * stands for any characters, is the whole `name`.
bool Matches(const std::string& pattern, const std::string& name);

}  // namespace sl::conform
