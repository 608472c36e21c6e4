// SPDX-License-Identifier: Apache-2.0
// Each transport that is wrong in one way fails the test that is about it.
#include <cstdlib>

#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

// What the transports here, which are layers, are wrapped around.
std::vector<std::string> WithTransport() {
  return {"--with", std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/starling/transport-shm.so"};
}

class BrokenTransportTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenTransportTest, FailsTheTestThatIsAboutIt) {
  ExpectCaught(GetParam(), std::string("transport/") + GetParam().kind, WithTransport());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenTransportTest,
    ::testing::Values(
        Broken{"transport_name", "Port.HasLegalFacts", "its name is empty or has no end"},
        Broken{"transport_any_secret", "Connection.NeedsTheSecret", "does not know the job's secret was accepted"},
        Broken{"transport_wrong_peer", "Connection.CarriesWhatConnectSaid", "accept names rank 2"},
        Broken{"transport_writes_anyway", "Connection.IsNotAcceptedFromNobody", "accept wrote an output"},
        Broken{"transport_stale_window", "Connection.HasFreshWindows", "of a fresh window is 1"},
        Broken{"transport_short", "Put.MovesEverySize", "is wrong though the signal is there"},
        Broken{"transport_long", "Put.LeavesTheRestAlone", "changed other bytes"},
        Broken{"transport_empty", "Put.OfNothingSignals", "signal word 0 is 0x0"},
        Broken{"transport_no_bounds", "Put.RefusesWhatIsOutside", "gave ok"},
        Broken{"transport_signal_first", "Order.SignalsFollowTheirBytes", "is not there when its signal is"},
        Broken{"transport_signal_first", "Order.HoldsBetweenProcesses", "is not there when its signal is"},
        Broken{"transport_swallows", "Pressure.IsSaidAndPasses", "accepted puts completed"},
        Broken{"transport_completes_twice", "Put.CompletesEachCookieOnce", "completed twice"},
        Broken{"transport_wrong_connection", "Put.CompletesEachCookieOnce", "names another connection"},
        Broken{"transport_loses_completions", "Put.CompletesEachCookieOnce", "puts that asked for it completed"},
        Broken{"transport_refuses", "Put.WithoutASignalSignalsNothing",
               "put 2 of the test, of 0 bytes, gave link down"},
        Broken{"transport_early_signal", "Order.HoldsForLargePuts", "of it is not there when its signal is"},
        Broken{"transport_late", "End.NothingLandsAfterIt", "landed in another's window"},
        Broken{"transport_sleeps", "Data.SlotsNeitherBlockNorAllocateNorLog", "put() is [data] and never blocks, but"},
        Broken{"transport_allocates", "Data.SlotsNeitherBlockNorAllocateNorLog",
               "put() is [data], but asked for memory"},
        Broken{"transport_logs", "Data.SlotsNeitherBlockNorAllocateNorLog", "put() is [data], but logged"},
        Broken{"transport_too_fast", "Port.HasLegalFacts", "its speed is 18446744073709550616 bytes/s"},
        Broken{"transport_never_rings", "Sleep.EndsWithNotify", "was not woken"},
        Broken{"transport_never_ends", "End.RetireSaysGoodbye", "still in state 1"},
        Broken{"transport_all_down", "End.CloseRetiresEverything", "the peer left in good order, but the state is 2"},
        Broken{"transport_mute", "Shortage.OfMemoryFailsCleanly", "without a text"},
        Broken{"transport_all_closed", "End.OfTheProcessIsSeen", "a peer that was killed did not close"},
        Broken{"transport_all_closed", "End.MayComeInTheMiddle", "a peer that was killed did not close"}),
    NameOfBroken);

TEST(TransportSuite, PassesASoundTransport) { ExpectSound("transport_nothing", "transport/*", WithTransport()); }

// The source of a queued put without a cookie is the transport's until the peer has shown that it has the put, and
// flush() may say that a connection is down.
TEST(TransportSuite, PassesATransportThatReadsSourcesLateAndFlushesNothingThatIsDown) {
  ExpectSound("transport_lazy", "transport/*", WithTransport());
}

}  // namespace
}  // namespace sl::conform
