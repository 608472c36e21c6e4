// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport/suite.h"

#include "sl_transport.h"

namespace sl::conform::transport {

Suite MakeSuite() {
  Suite suite;
  suite.interface = SL_TRANSPORT_ID;
  for (const auto& tests :
       {PortTests(), PutTests(), FlowTests(), EndTests(), DataTests(), MemoryTests(), ShortageTests()}) {
    suite.tests.insert(suite.tests.end(), tests.begin(), tests.end());
  }
  return suite;
}

}  // namespace sl::conform::transport
