// SPDX-License-Identifier: Apache-2.0
// Each module that is wrong in one way fails the test that is about it, in words that name the mistake.
#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

class BrokenModuleTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenModuleTest, FailsTheTestThatIsAboutIt) { ExpectCaught(GetParam(), "module"); }

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenModuleTest,
    ::testing::Values(
        Broken{"exports_more", "Symbols.AreOnlyTheEntry", "it exports leaked_helper"},
        Broken{"thread_at_load", "Query.HasNoEffectWhenLoaded", "is left"},
        Broken{"other_answer", "Query.IsPure", "gave another table"},
        Broken{"any_magic", "Query.RefusesAWrongMagic", "a wrong magic was answered with ok"},
        Broken{"writes_refused", "Query.RefusesAWrongMagic", "the output was written"},
        Broken{"any_range", "Query.RefusesRangesThatDoNotMeet", "a kernel of newer containers only was answered"},
        Broken{"exact_range", "Query.AnswersAWiderRange", "was answered with unsupported"},
        Broken{"exact_hello", "Query.AnswersALongerHello", "was answered with invalid"},
        Broken{"magic", "Description.SaysWhoItIs", "its magic is 0x0000000000001234"},
        Broken{"version", "Description.SaysWhoItIs", "must be like 1.2.0"},
        Broken{"stem", "Description.SaysWhoItIs", "it says it is somebody-else"},
        Broken{"default", "Description.OptionsAreLegal", "is not of its type or range"},
        Broken{"option_name", "Description.OptionsAreLegal", "is not snake_case"},
        Broken{"no_create", "Description.ProvidedTablesAreLegal", "has no create, which is mandatory"},
        Broken{"misspelt", "Description.InterfacesAreKnown",
               "it provides sl.algoritm/1, which no kernel of this release knows; did you mean sl.algorithm/1?"},
        Broken{"to_come", "Description.InterfacesAreKnown", "it provides sl.algorithm/2, which no kernel of this"},
        Broken{"layer", "Description.RequirementsAreLegal", "is a layer of sl.algorithm/1 but does not require it"},
        Broken{"build_id", "Description.BuildIdFitsDrafts", "was built with the draft headers 1999-01-draft-0"},
        Broken{"opens_once", "Life.OpensAgain", "round 2: open gave wrong state: it was open already"},
        Broken{"shared_instance", "Life.InstancesInterleave", "two opens gave one instance"},
        Broken{"leaks_thread", "Life.LeavesNoThreadOrDescriptor", "is left"},
        Broken{"leaks_descriptor", "Life.LeavesNoThreadOrDescriptor", "(/dev/null) is left"},
        Broken{"pinned", "Life.LeavesNothingMapped", "still mapped after unloading"},
        Broken{"prints", "Life.PrintsNothing", "it printed"},
        Broken{"busy", "Life.QuiescesAtRest", "quiesce gave timeout with nothing in use: graph 7 still holds it"},
        Broken{"exact_host", "Host.MayBeLonger", "an odd host"},
        Broken{"two_lines", "Life.OpensAndCloses", "logged several lines at once"},
        Broken{"borrows_text", "Options.BoundsOpenOrAreRefused", "crashed: signal 6"},
        Broken{"crashes", "Life.OpensAndCloses", "crashed: signal 6 (Aborted) in crashes: open(), call "},
        Broken{"hangs", "Life.OpensAndCloses", "did not end within 5 s and was killed in hangs: open(), call "},
        Broken{"leaves_process", "Life.OpensAndCloses", "left a process running"},
        Broken{"reads_behind_host", "Host.MayHaveEveryPastSize", "crashed: signal 11"},
        Broken{"leaks_memory", "Memory.IsGivenBack", "8 times opened and closed, 8 blocks of memory are lost"},
        Broken{"loses_memory", "Memory.MayBeShort", "memory request 1 of the module is refused: 1 blocks"},
        Broken{"trusts_memory", "Memory.MayBeShort", "crashed: signal 11"},
        Broken{"mute_in_shortage", "Resources.MayBeShort", "without a text"}),
    NameOfBroken);

TEST(ModuleSuite, PassesASoundModule) { ExpectSound("nothing", "module/*"); }

// Today's interface is tested, the other is said to be untested.
TEST(ModuleSuite, SaysWhichInterfacesItDoesNotTest) {
  const KitRun run = RunKit(BrokenModule("of_two_majors"), {"--filter", "module/Description.*"});
  EXPECT_EQ(0, run.exit_code) << run.text;
  EXPECT_NE(run.text.find("not tested: sl.algorithm/2 of_two_majors, for which this release has no suite"),
            std::string::npos)
      << run.text;
  ASSERT_EQ(1u, run.json["untested"].size());
  EXPECT_EQ("sl.algorithm/2", run.json["untested"][0]["id"]);
}

TEST(ModuleSuite, NamesAModuleThatCrashesWhenLoaded) {
  const KitRun run = RunKit(BrokenModule("crashes_at_load"), {});
  EXPECT_EQ(1, run.exit_code);
  EXPECT_NE(
      run.text.find("crashes_at_load.so: loading it and asking what it is crashed: signal 6 (Aborted) in dlopen of "),
      std::string::npos)
      << run.text;
}

}  // namespace
}  // namespace sl::conform
