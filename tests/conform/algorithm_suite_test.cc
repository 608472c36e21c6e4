// SPDX-License-Identifier: Apache-2.0
// Algorithms that break one promise each fail the tests that are about it; the same without the mistake passes.
#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

class BrokenAlgorithmTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenAlgorithmTest, FailsTheTestThatIsAboutIt) {
  ExpectCaught(GetParam(), std::string("algorithm/") + GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenAlgorithmTest,
    ::testing::Values(Broken{"rank_estimate", "Estimate.IsEqualOnAllRanks", "rank 1 says"},
                      Broken{"pointer_estimate", "Estimate.IsPure", "before it said"},
                      Broken{"flat_estimate", "Estimate.GrowsWithTheOperation", "4 bytes are to take 1000 ns"},
                      Broken{"no_reason", "Estimate.IsLegal", "comes without a reason"},
                      Broken{"odd_run", "Estimate.IsLegal", "run is 7"},
                      Broken{"unasked_device", "Algorithm.UsesNoDeviceUnasked",
                             "crashed: signal 11 (Segmentation fault) in create()"},
                      Broken{"deaf", "Plan.PassesTheBuildersErrorsOn",
                             "the builder refused call 1, and plan() gave ok"},
                      Broken{"own_twice", "Plan.IsProved.all_reduce", "all_reduce of 1 int8, sum"},
                      Broken{"own_twice", "Result.IsRight.all_reduce", "elements of the result are wrong"},
                      Broken{"no_release", "Plan.IsProved.all_reduce", "all_reduce of 1 int8, sum"},
                      Broken{"own_first", "Plan.IsProved.all_reduce", "all_reduce of 1 float32, sum"},
                      Broken{"copy_short", "Copies.MoveWhatTheOperationSays", "elements of the result are wrong"},
                      Broken{"copy_stray", "Copies.AreLegal", "it reaches out of a buffer"},
                      Broken{"copy_phases", "Copies.AreLegal", "ends in phase 0, rank 0 in phase 1"},
                      Broken{"part_short", "Parts.ComeToTheOperation", "elements of the result are wrong"},
                      Broken{"part_stray", "Parts.AreLegal", "it reaches out of a buffer"},
                      Broken{"part_ranks", "Parts.AreLegal", "is another operation"},
                      Broken{"own_first", "Result.KeepsTheDeclaredClass", "has other bits than rank 0"}),
    NameOfBroken);

TEST(AlgorithmSuite, PassesASoundAlgorithm) { ExpectSound("sound_algorithm", "algorithm/*"); }

}  // namespace
}  // namespace sl::conform
