// SPDX-License-Identifier: Apache-2.0
// Each transport, fault policy and observer that is wrong in one way fails the test that is about it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

struct Broken {
  const char* kind;   // also the name of the module and of its provider
  const char* test;   // without folder and provider
  const char* words;  // part of a message of it
};

std::string FolderOf(const std::string& kind) { return kind.substr(0, kind.find('_')); }

KitRun RunOn(const std::string& kind, std::vector<std::string> arguments) {
  const char* build = std::getenv("SL_TEST_BUILD_DIR");
  arguments.push_back("--with");
  arguments.push_back(std::string(build) + "/lib/starling/transport-shm.so");
  return RunKit(BrokenModule(kind), arguments);
}

class BrokenProviderTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenProviderTest, FailsTheTestThatIsAboutIt) {
  const Broken& broken = GetParam();
  const std::string test = FolderOf(broken.kind) + "/" + broken.kind + "/" + broken.test;
  const KitRun run = RunOn(broken.kind, {"--filter", test});
  EXPECT_EQ(1, run.exit_code) << run.text;
  const nlohmann::json entry = EntryOf(run, test);
  ASSERT_FALSE(entry.is_null()) << run.text;
  EXPECT_EQ("failed", entry["verdict"]);
  EXPECT_NE(entry["messages"].dump().find(broken.words), std::string::npos) << entry["messages"].dump();
}

std::string NameOf(const ::testing::TestParamInfo<Broken>& broken) { return broken.param.kind; }

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
        Broken{"transport_swallows", "Pressure.IsSaidAndPasses", "accepted puts completed"},
        Broken{"transport_completes_twice", "Put.CompletesEachCookieOnce", "completed twice"},
        Broken{"transport_wrong_connection", "Put.CompletesEachCookieOnce", "names another connection"},
        Broken{"transport_loses_completions", "Put.CompletesEachCookieOnce", "puts that asked for it completed"},
        Broken{"transport_never_rings", "Sleep.EndsWithNotify", "was not woken"},
        Broken{"transport_never_ends", "End.RetireSaysGoodbye", "still in state 1"},
        Broken{"transport_all_down", "End.CloseRetiresEverything", "the peer left in good order, but the state is 2"},
        Broken{"transport_all_closed", "End.OfTheProcessIsSeen", "a peer that was killed did not close"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Policies, BrokenProviderTest,
    ::testing::Values(Broken{"fault_all_zero", "Weights.AreNeverAllZeroWhileOneIsHealthy",
                             "weights are 0, though a connection"},
                      Broken{"fault_unwritten", "Weights.AreWrittenForEveryConnection", "leaves a weight unwritten"},
                      Broken{"fault_overrun", "Weights.AreWrittenForEveryConnection", "behind the last connection's"},
                      Broken{"fault_sticks", "Weights.ReactWithinTheDeclaredTime", "it still has weight 1"},
                      Broken{"fault_shared_past", "Policy.IsDeterministic", "decide differently"},
                      Broken{"fault_probes", "Weights.GoToWhoComesBack", "it probes 0xffffffff"},
                      Broken{"fault_past", "Weights.GoToWhoComesBack", "it wants its next look"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Observers, BrokenProviderTest,
    ::testing::Values(Broken{"observer_keeps", "Batch.IsNotKept", "crashed: signal 11"},
                      Broken{"observer_writes", "Batch.IsTakenAndLeftAlone", "it changed records"},
                      Broken{"observer_trusts", "Batch.MayBeOdd", "crashed: signal 11"},
                      Broken{"observer_empty", "Batch.MayBeEmpty", "an empty batch was answered with"},
                      Broken{"observer_counts", "Batch.IsTakenAndLeftAlone", "statuses are SL_OK or negative"},
                      Broken{"observer_shares", "Observer.IsOneOfSeveral", "after another one was destroyed"}),
    NameOf);

class SoundProviderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SoundProviderTest, Passes) {
  const std::string kind = GetParam();
  const KitRun run = RunOn(kind, {"--strict", "--filter", FolderOf(kind) + "/*"});
  EXPECT_EQ(0, run.exit_code) << run.text;
  ASSERT_FALSE(run.json.is_null());
  EXPECT_GT(run.json["counts"]["passed"], 4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SoundProviderTest,
                         ::testing::Values("transport_nothing", "fault_nothing", "observer_nothing"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace sl::conform
