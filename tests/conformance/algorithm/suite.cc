// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/algorithm/suite.h"

#include "sl_algorithm.h"

namespace sl::conform::algorithm {

Suite MakeSuite() {
  Suite suite{SL_ALGORITHM_ID, {}};
  for (const auto& tests :
       {EstimateTests(), PlanTests(), LaunchTests(), CopiesTests(), PartsTests(), ShortageTests(), ResultTests()}) {
    suite.tests.insert(suite.tests.end(), tests.begin(), tests.end());
  }
  return suite;
}

}  // namespace sl::conform::algorithm
