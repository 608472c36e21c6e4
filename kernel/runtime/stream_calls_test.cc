// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/stream_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel/loader/stubs.h"

namespace sl::kernel {
namespace {

// A device that writes down what it is asked for.
std::vector<std::string> g_asked;
uint64_t g_words[2];

std::string Step(const char* what, const uint64_t* word, uint64_t value) {
  return what + std::to_string(word - g_words) + "=" + std::to_string(value);
}

sl_status_t Write(sl_device_t*, sl_stream_t*, uint64_t* word, uint64_t value) {
  g_asked.push_back(Step("write ", word, value));
  return SL_OK;
}
sl_status_t Wait(sl_device_t*, sl_stream_t*, uint64_t* word, uint64_t value) {
  g_asked.push_back(Step("wait ", word, value));
  return value < 7 ? SL_OK : SL_ERR_DEVICE;
}
sl_status_t Batch(sl_device_t*, sl_stream_t*, uint32_t count, const sl_stream_value_t* values) {
  std::string batch = "batch";
  for (uint32_t i = 0; i < count; ++i) {
    batch += Step(values[i].action == SL_VALUE_WRITE ? ", write " : ", wait ", values[i].word, values[i].value);
  }
  g_asked.push_back(batch);
  return SL_OK;
}

class StreamCallsTest : public testing::Test {
 protected:
  StreamCallsTest() { g_asked.clear(); }

  // As a module of this revision has it, seen by today's kernel.
  Status Issue(bool is_old, const StreamValues& values) {
    sl_device_ops_t ops{};
    ops.struct_size = is_old ? SL_DEVICE_OPS_SIZE_1_0 : SL_DEVICE_OPS_SIZE_1_1;
    ops.stream_write_value = Write;
    ops.stream_wait_value = Wait;
    ops.stream_batch_values = Batch;
    const OverlaidTable table = OverlayTable(*FindInterface(SL_DEVICE_ID), &ops);
    Device device;
    device.ops = reinterpret_cast<const sl_device_ops_t*>(table.data());
    ClearLastError();
    return StreamCalls(device, nullptr).Issue(values);
  }
};

TEST_F(StreamCallsTest, AsksOnceForAllWords) {
  StreamValues values;
  values.Write(g_words, 3);
  values.AwaitAtLeast(g_words + 1, 4);
  EXPECT_TRUE(Issue(false, values).ok());
  EXPECT_EQ(g_asked, std::vector<std::string>{"batch, write 0=3, wait 1=4"});
}

TEST_F(StreamCallsTest, AsksNobodyForNothing) {
  EXPECT_TRUE(Issue(false, {}).ok());
  EXPECT_TRUE(Issue(true, {}).ok());
  EXPECT_TRUE(g_asked.empty());
}

TEST_F(StreamCallsTest, AsksForOneWordAfterTheOtherOfADeviceOfRevision1) {
  StreamValues values;
  values.AwaitAtLeast(g_words + 1, 4);
  values.Write(g_words, 3);
  EXPECT_TRUE(Issue(true, values).ok());
  EXPECT_EQ(std::string(LastError()), "") << "that it knows no batches is no error";
  g_asked.clear();
  values.AwaitAtLeast(g_words, 7);
  values.Write(g_words, 8);
  EXPECT_EQ(Issue(true, values).code(), SL_ERR_DEVICE);
  EXPECT_EQ(g_asked, (std::vector<std::string>{"wait 1=4", "write 0=3", "wait 0=7"})) << "up to the failure";
}

}  // namespace
}  // namespace sl::kernel
