// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/module/suite.h"

namespace sl::conform::module {

Suite MakeSuite() {
  Suite suite;
  for (const auto& tests : {QueryTests(), DescriptionTests(), LifeTests(), ShortageTests()}) {
    suite.tests.insert(suite.tests.end(), tests.begin(), tests.end());
  }
  return suite;
}

}  // namespace sl::conform::module
