// SPDX-License-Identifier: Apache-2.0
// Each transport, fault policy and observer that is wrong in one way fails the test that is about it.
#include <cstdlib>

#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

// A kind is also the name of its module and provider; it begins with the folder of its suite.
std::string FolderOf(const std::string& kind) { return kind.substr(0, kind.find('_')); }

// What the transports here are wrapped around.
std::vector<std::string> WithTransport() {
  return {"--with", std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/starling/transport-shm.so"};
}

class BrokenProviderTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenProviderTest, FailsTheTestThatIsAboutIt) {
  const std::string kind = GetParam().kind;
  ExpectCaught(GetParam(), FolderOf(kind) + "/" + kind, WithTransport());
}

INSTANTIATE_TEST_SUITE_P(
    Transports, BrokenProviderTest,
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
        Broken{"transport_never_rings", "Sleep.EndsWithNotify", "was not woken"},
        Broken{"transport_never_ends", "End.RetireSaysGoodbye", "still in state 1"},
        Broken{"transport_all_down", "End.CloseRetiresEverything", "the peer left in good order, but the state is 2"},
        Broken{"transport_mute", "Shortage.OfMemoryFailsCleanly", "without a text"},
        Broken{"transport_all_closed", "End.OfTheProcessIsSeen", "a peer that was killed did not close"},
        Broken{"transport_all_closed", "End.MayComeInTheMiddle", "a peer that was killed did not close"}),
    NameOfBroken);

INSTANTIATE_TEST_SUITE_P(
    Policies, BrokenProviderTest,
    ::testing::Values(Broken{"fault_all_zero", "Weights.AreNeverAllZeroWhileOneIsHealthy",
                             "weights are 0, though a connection"},
                      Broken{"fault_unwritten", "Weights.AreWrittenForEveryConnection", "leaves a weight unwritten"},
                      Broken{"fault_overrun", "Weights.AreWrittenForEveryConnection", "behind the last connection's"},
                      Broken{"fault_sticks", "Weights.ReactWithinTheDeclaredTime", "it still has weight 1"},
                      Broken{"fault_shared_past", "Policy.IsDeterministic", "decide differently"},
                      Broken{"fault_probes", "Weights.GoToWhoComesBack", "it probes 0xffffffff"},
                      Broken{"fault_past", "Weights.GoToWhoComesBack", "it wants its next look"},
                      Broken{"fault_loses", "Shortage.OfMemoryFailsCleanly", "1 blocks of memory are lost"}),
    NameOfBroken);

INSTANTIATE_TEST_SUITE_P(
    Observers, BrokenProviderTest,
    ::testing::Values(Broken{"observer_keeps", "Batch.IsNotKept", "crashed: signal 11"},
                      Broken{"observer_writes", "Batch.IsTakenAndLeftAlone", "it changed records"},
                      Broken{"observer_trusts", "Batch.MayBeOdd", "crashed: signal 11"},
                      Broken{"observer_empty", "Batch.MayBeEmpty", "an empty batch was answered with"},
                      Broken{"observer_counts", "Batch.IsTakenAndLeftAlone", "statuses are SL_OK or negative"},
                      Broken{"observer_shares", "Observer.IsOneOfSeveral", "after another one was destroyed"},
                      Broken{"observer_throws", "Shortage.OfMemoryFailsCleanly", "crashed: signal"}),
    NameOfBroken);

class SoundProviderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SoundProviderTest, Passes) { ExpectSound(GetParam(), FolderOf(GetParam()) + "/*", WithTransport()); }

INSTANTIATE_TEST_SUITE_P(Kinds, SoundProviderTest,
                         ::testing::Values("transport_nothing", "fault_nothing", "observer_nothing"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace sl::conform
