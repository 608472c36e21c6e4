// SPDX-License-Identifier: Apache-2.0
// Each fault policy and observer that is wrong in one way fails the test that is about it.
#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

// A kind is also the name of its module and provider; it begins with the folder of its suite.
std::string FolderOf(const std::string& kind) { return kind.substr(0, kind.find('_')); }

class BrokenProviderTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenProviderTest, FailsTheTestThatIsAboutIt) {
  const std::string kind = GetParam().kind;
  ExpectCaught(GetParam(), FolderOf(kind) + "/" + kind);
}

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
                      Broken{"fault_sleeps", "Data.EvaluateNeitherBlocksNorAllocatesNorLogs",
                             "evaluate() is [data] and never blocks, but slept or waited in"},
                      Broken{"fault_loses", "Shortage.OfMemoryFailsCleanly", "1 blocks of memory are lost"}),
    NameOfBroken);

INSTANTIATE_TEST_SUITE_P(
    Observers, BrokenProviderTest,
    ::testing::Values(
        Broken{"observer_keeps", "Batch.IsNotKept", "crashed: signal 11 (Segmentation fault) in consume(), call "},
        Broken{"observer_writes", "Batch.IsTakenAndLeftAlone", "it changed records"},
        Broken{"observer_trusts", "Batch.MayBeOdd", "crashed: signal 11 (Segmentation fault) in consume(), call "},
        Broken{"observer_empty", "Batch.MayBeEmpty", "an empty batch was answered with"},
        Broken{"observer_counts", "Batch.IsTakenAndLeftAlone", "statuses are SL_OK or negative"},
        Broken{"observer_shares", "Observer.IsOneOfSeveral", "after another one was destroyed"},
        Broken{"observer_throws", "Shortage.OfMemoryFailsCleanly", "an exception left create(): std::bad_alloc"}),
    NameOfBroken);

class SoundProviderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SoundProviderTest, Passes) { ExpectSound(GetParam(), FolderOf(GetParam()) + "/*"); }

INSTANTIATE_TEST_SUITE_P(Kinds, SoundProviderTest, ::testing::Values("fault_nothing", "observer_nothing"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace sl::conform
