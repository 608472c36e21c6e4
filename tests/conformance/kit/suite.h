// SPDX-License-Identifier: Apache-2.0
//
// A suite: the tests of one interface. Every folder of tests/conformance/ with a suite.cc is one, and CMake finds it;
// README.md says how to write one. A suite knows no module by name and sees only abi/ and sdk/.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/kit/trial.h"

namespace sl::conform {

struct Test {
  std::string name;   // Noun.DoesXWhenY
  std::string about;  // one line for people who look at a failure: what the header promises
  std::function<void(Trial&)> run;
  uint32_t seconds = 10;   // then it is killed and has failed; 15 times as much in a full run
  bool full_only = false;  // run only when everything is
};

struct Suite {
  std::string interface;  // "sl.device/1"; "": for every module
  std::vector<Test> tests;
};

// All suites of the tree; made by CMake from the folders. The name of a suite's tests begins with its folder.
struct NamedSuite {
  std::string folder;
  Suite suite;
};
std::vector<NamedSuite> AllSuites();

}  // namespace sl::conform
