// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/catalog.h"

#include <fnmatch.h>

#include <algorithm>

namespace sl::conform {

std::vector<Case> CasesFor(const ModuleFacts& facts) {
  std::vector<Case> cases;
  const std::vector<NamedSuite> suites = AllSuites();
  for (const NamedSuite& named : suites) {
    if (!named.suite.interface.empty()) continue;
    for (const Test& test : named.suite.tests) cases.push_back({named.folder + "/" + test.name, "", test});
  }
  for (const Provided& provided : facts.provides) {
    for (const NamedSuite& named : suites) {
      if (named.suite.interface != provided.id) continue;
      for (const Test& test : named.suite.tests) {
        cases.push_back({named.folder + "/" + provided.name + "/" + test.name, provided.name, test});
      }
    }
  }
  return cases;
}

std::vector<Provided> Untested(const ModuleFacts& facts) {
  std::vector<Provided> untested = facts.provides;
  const std::vector<NamedSuite> suites = AllSuites();
  std::erase_if(untested, [&](const Provided& provided) {
    return std::any_of(suites.begin(), suites.end(),
                       [&](const NamedSuite& named) { return named.suite.interface == provided.id; });
  });
  return untested;
}

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace sl::conform
