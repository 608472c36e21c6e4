// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/device/suite.h"

#include "sl_device.h"

namespace sl::conform::device {

Suite MakeSuite() {
  Suite suite{SL_DEVICE_ID, {}};
  for (const auto& tests :
       {MemoryTests(), ShareTests(), StreamTests(), ReduceTests(), LaunchTests(), ShortageTests()}) {
    suite.tests.insert(suite.tests.end(), tests.begin(), tests.end());
  }
  return suite;
}

}  // namespace sl::conform::device
