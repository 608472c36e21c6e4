// SPDX-License-Identifier: Apache-2.0
// Devices that break one promise each fail the test that is about it; the same without the mistake passes.
#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

class BrokenDeviceTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenDeviceTest, FailsTheTestThatIsAboutIt) {
  ExpectCaught(GetParam(), std::string("device/") + GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenDeviceTest,
    ::testing::Values(Broken{"dirty_memory", "Memory.IsZeroedAndAligned", "not zeroed"},
                      Broken{"stale_pointers", "Pointer.GenerationsNeverRepeat", "as an earlier one had"},
                      Broken{"greedy_info", "Info.FillsWhatTheCallerHas", "wrote behind a struct of 8 bytes"},
                      Broken{"trusting_import", "Share.RefusesBadHandles",
                             "a handle that says twice its bytes gave ok"},
                      Broken{"early_event", "Event.OrdersStreams", "an event ahead counts as reached"},
                      Broken{"early_idle", "Stream.SaysWhenItIsIdle", "must be SL_ERR_AGAIN"},
                      Broken{"short_copy", "Copy.MovesEveryByteOnce", "other bytes arrived"},
                      Broken{"hasty_values", "Value.GoesInBatches", "did not wait for a word in its middle"},
                      Broken{"swapped_reduce", "Reduce.IsRightOnStreams", "max of 2 x"},
                      Broken{"twice_done", "Launch.HasRunOnTheDefaultStream", "done() was called 2 times"},
                      Broken{"serial_batch", "Batch.ProgressesTogether", "did not end within"}),
    NameOfBroken);

TEST(DeviceSuite, PassesASoundDevice) { ExpectSound("sound_device", "device/*"); }

}  // namespace
}  // namespace sl::conform
