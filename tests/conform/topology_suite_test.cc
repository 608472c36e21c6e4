// SPDX-License-Identifier: Apache-2.0
// Topologies that break one promise each fail the test that is about it; the same without the mistake passes.
#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

class BrokenTopologyTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenTopologyTest, FailsTheTestThatIsAboutIt) {
  ExpectCaught(GetParam(), std::string("topology/") + GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenTopologyTest,
    ::testing::Values(Broken{"orphan", "Graph.HangsTogether", "lies in socket-9, which is not reported"},
                      Broken{"twin", "Graph.HangsTogether", "node nic-0: is reported twice"},
                      Broken{"fickle", "Graph.IsTheSameAgain", "asked twice, it reports other nodes"},
                      Broken{"deaf_to_sink", "Graph.PassesTheSinksErrorsOn", "refused report 1, and discover gave ok"},
                      Broken{"endless_rate", "Graph.HangsTogether", "its rate is 18446744073709550616 bytes/s"},
                      Broken{"endless_graph", "Graph.HangsTogether", "it reports more than 65536 nodes or edges"},
                      Broken{"lost_port", "Placement.LeadsToReportedPorts", "leads to port nic-2"},
                      Broken{"loses_nodes", "Shortage.OfMemoryFailsCleanly", "1 blocks of memory are lost"}),
    NameOfBroken);

TEST(TopologySuite, PassesASoundTopology) { ExpectSound("sound_topology", "topology/*"); }

}  // namespace
}  // namespace sl::conform
