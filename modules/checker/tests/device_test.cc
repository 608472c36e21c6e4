// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "modules/checker/tests/fixture.h"
#include "sl_device.h"

namespace sl::checker {
namespace {

struct Fake {
  uint32_t max_argument_bytes = 4096;
  void* memory = nullptr;
  uint32_t capture_state = 0;
  sl_reduce_fn reduce = nullptr;
  sl_image_t* launched = nullptr;
  uint32_t batch = 0;
  void (*callback)(void* ctx) = nullptr;
  void* callback_ctx = nullptr;
  sl_stream_t* stream = nullptr;
};
Fake* g_fake = nullptr;

void MakeObjects(sl_device_ops_t* ops) {
  ops->stream_create = [](sl_device_t*, sl_stream_t** out) {
    *out = Below<sl_stream_t>(2);
    return SL_OK;
  };
  ops->stream_destroy = [](sl_device_t*, sl_stream_t*) { return SL_OK; };
  ops->event_create = [](sl_device_t*, sl_event_t** out) {
    *out = Below<sl_event_t>(3);
    return SL_OK;
  };
  ops->event_destroy = [](sl_device_t*, sl_event_t*) { return SL_OK; };
  ops->image_load = [](sl_device_t*, const sl_image_desc_t*, sl_image_t** out) {
    *out = Below<sl_image_t>(4);
    return SL_OK;
  };
  ops->image_unload = [](sl_device_t*, sl_image_t*) { return SL_OK; };
}

sl_device_ops_t FakeOps() {
  sl_device_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.open = [](sl_instance_t*, uint32_t, sl_device_t** out) {
    *out = Below<sl_device_t>(1);
    return SL_OK;
  };
  ops.close = [](sl_device_t*) {};
  ops.info = [](sl_device_t*, sl_device_info_t* out) {
    out->max_argument_bytes = g_fake->max_argument_bytes;
    out->capabilities = SL_DEVICE_MEMORY_IS_HOST;
    return SL_OK;
  };
  ops.allocate = [](sl_device_t*, uint32_t, uint64_t, void** out) {
    *out = g_fake->memory;
    return SL_OK;
  };
  ops.release = [](sl_device_t*, void*) { return SL_OK; };
  ops.event_record = [](sl_device_t*, sl_event_t*, sl_stream_t* stream) {
    g_fake->stream = stream;
    return SL_OK;
  };
  ops.stream_write_value = [](sl_device_t*, sl_stream_t*, uint64_t*, uint64_t) { return SL_OK; };
  ops.stream_batch_values = [](sl_device_t*, sl_stream_t*, uint32_t, const sl_stream_value_t*) { return SL_OK; };
  ops.stream_callback = [](sl_device_t*, sl_stream_t*, void (*run)(void*), void* ctx) {
    g_fake->callback = run;
    g_fake->callback_ctx = ctx;
    return SL_OK;
  };
  ops.copy = [](sl_device_t*, sl_stream_t*, void*, const void*, uint64_t) { return SL_OK; };
  ops.reduce = [](sl_device_t*, sl_stream_t*, void*, const void* const*, uint32_t, uint64_t, sl_datatype_t,
                  sl_reduction_t, const sl_reduce_scale_t*) { return SL_OK; };
  ops.capture_state = [](sl_device_t*, sl_stream_t*, uint32_t* out, uint64_t*) {
    *out = g_fake->capture_state;
    return SL_OK;
  };
  ops.launch = [](sl_device_t*, sl_stream_t*, const sl_launch_t* launch) {
    g_fake->launched = launch->image;
    return SL_OK;
  };
  ops.launch_batch = [](sl_device_t*, uint32_t count, sl_stream_t* const* streams, const sl_launch_t* const* launches) {
    for (uint32_t i = 0; i < count; ++i) {
      g_fake->batch += streams[i] == Below<sl_stream_t>(2) && launches[i]->image == Below<sl_image_t>(4);
    }
    return SL_OK;
  };
  ops.reduce_function = [](sl_device_t*, sl_datatype_t, sl_reduction_t) { return g_fake->reduce; };
  MakeObjects(&ops);
  return ops;
}

class Device : public CheckerTest {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    fake_.memory = memory_;
    below_ = FakeOps();
    Wrap(SL_DEVICE_ID, &below_);
    ASSERT_EQ(d()->open(instance_, 0, &device_), SL_OK);
    ASSERT_EQ(d()->stream_create(device_, &stream_), SL_OK);
    image_ = Load(16);
  }
  void TearDown() override {
    if (instance_ != nullptr) {
      EXPECT_EQ(d()->stream_destroy(device_, stream_), SL_OK);
      if (image_ != nullptr) {
        EXPECT_EQ(d()->image_unload(device_, image_), SL_OK);
      }
      d()->close(device_);
    }
    CheckerTest::TearDown();
  }

  sl_image_t* Load(uint32_t frame_bytes) {
    const sl_host_kernel_t kernels[] = {{"first", nullptr, frame_bytes, 0}, {"second", nullptr, 0, 0}};
    const sl_image_desc_t desc = {sizeof desc, 2, kernels, nullptr, 0, nullptr};
    sl_image_t* image = nullptr;
    d()->image_load(device_, &desc, &image);
    return image;
  }

  sl_launch_t SomeLaunch() const {
    sl_launch_t launch = {};
    launch.struct_size = sizeof launch;
    launch.image = image_;
    return launch;
  }

  const sl_device_ops_t* d() const { return ops<sl_device_ops_t>(); }

  Fake fake_;
  alignas(4096) unsigned char memory_[4096] = {};
  sl_device_ops_t below_ = {};
  sl_device_t* device_ = nullptr;
  sl_stream_t* stream_ = nullptr;
  sl_image_t* image_ = nullptr;
};

TEST_F(Device, PassesHandlesOnAsTheModuleBelowKnowsThem) {
  const sl_launch_t launch = SomeLaunch();
  EXPECT_EQ(d()->launch(device_, stream_, &launch), SL_OK);
  EXPECT_EQ(fake_.launched, Below<sl_image_t>(4));
  EXPECT_EQ(launch.image, image_) << "the caller's own is left alone";
  for (const uint32_t count : {3u, 100u}) {
    fake_.batch = 0;
    const std::vector<sl_stream_t*> streams(count, stream_);
    const std::vector<const sl_launch_t*> launches(count, &launch);
    EXPECT_EQ(d()->launch_batch(device_, count, streams.data(), launches.data()), SL_OK);
    EXPECT_EQ(fake_.batch, count);
  }
  sl_event_t* event = nullptr;
  ASSERT_EQ(d()->event_create(device_, &event), SL_OK);
  EXPECT_EQ(d()->event_record(device_, event, stream_), SL_OK);
  EXPECT_EQ(fake_.stream, Below<sl_stream_t>(2));
  EXPECT_EQ(d()->event_record(device_, event, Below<sl_stream_t>(9)), SL_OK) << "a native stream";
  EXPECT_EQ(fake_.stream, Below<sl_stream_t>(9));
  EXPECT_EQ(d()->event_record(device_, event, nullptr), SL_OK);
  EXPECT_EQ(d()->event_record(device_, Below<sl_event_t>(10), stream_), SL_OK) << "one of the program's";
  EXPECT_EQ(d()->event_destroy(device_, event), SL_OK);
  EXPECT_EQ(d()->event_record(device_, event, nullptr), SL_ERR_STATE);
  ExpectBroken("used-after-end");
}

TEST_F(Device, LooksAtLaunches) {
  sl_launch_t launch = SomeLaunch();
  launch.kernel = 2;
  EXPECT_EQ(d()->launch(device_, stream_, &launch), SL_ERR_INVALID);
  ExpectBroken("kernel-range");
  launch = SomeLaunch();
  launch.args_bytes = 4097;
  EXPECT_EQ(d()->launch(device_, stream_, &launch), SL_ERR_INVALID);
  ExpectBroken("argument-limit");
  EXPECT_EQ(Load(1025), nullptr);
  ExpectBroken("frame-limit");
  sl_image_t* gone = image_;
  EXPECT_EQ(d()->image_unload(device_, image_), SL_OK);
  image_ = nullptr;
  launch = SomeLaunch();
  launch.image = gone;
  EXPECT_EQ(d()->launch(device_, stream_, &launch), SL_ERR_STATE);
  ExpectBroken("used-after-end");
}

TEST_F(Device, RefusesLaunchesThatAreNot) {
  const sl_launch_t launch = SomeLaunch();
  for (const uint32_t count : {2u, 100u}) {
    const std::vector<sl_stream_t*> streams(count, stream_);
    std::vector<const sl_launch_t*> launches(count, &launch);
    launches[1] = nullptr;
    EXPECT_EQ(d()->launch_batch(device_, count, streams.data(), launches.data()), SL_ERR_INVALID);
    ExpectBroken("struct-size");
  }
  EXPECT_EQ(fake_.batch, 0u) << "the module below is not to find out";
}

TEST_F(Device, LooksAtMemory) {
  void* memory = nullptr;
  ASSERT_EQ(d()->allocate(device_, SL_MEMORY_EXPORTABLE, 64, &memory), SL_OK);
  EXPECT_EQ(d()->release(device_, memory), SL_OK);
  EXPECT_EQ(d()->release(device_, memory), SL_ERR_INVALID);
  ExpectBroken("release-unknown");
  fake_.memory = memory_ + 64;
  EXPECT_EQ(d()->allocate(device_, SL_MEMORY_PLAIN, 64, &memory), SL_OK);
  EXPECT_EQ(d()->release(device_, memory), SL_OK);
  EXPECT_EQ(d()->allocate(device_, SL_MEMORY_EXPORTABLE, 64, &memory), SL_ERR_INTERNAL);
  ExpectBroken("memory-aligned");
  memory_[70] = 1;
  EXPECT_EQ(d()->allocate(device_, SL_MEMORY_PLAIN, 64, &memory), SL_ERR_INTERNAL);
  ExpectBroken("memory-zeroed");
  EXPECT_EQ(d()->release(device_, memory), SL_OK);
}

TEST_F(Device, SeesCallsFromCallbacks) {
  std::function<void()> body = [this] { EXPECT_EQ(d()->copy(device_, stream_, nullptr, nullptr, 0), SL_ERR_STATE); };
  const auto run = [](void* ctx) { (*static_cast<std::function<void()>*>(ctx))(); };
  ASSERT_EQ(d()->stream_callback(device_, stream_, run, &body), SL_OK);
  fake_.callback(fake_.callback_ctx);
  ExpectBroken("callback-calls");
  EXPECT_EQ(d()->copy(device_, stream_, nullptr, nullptr, 0), SL_OK) << "the callback is over";
}

TEST_F(Device, LooksAtArguments) {
  uint64_t words[2] = {};
  EXPECT_EQ(d()->stream_write_value(device_, stream_, words, 1), SL_OK);
  auto* odd = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(words) + 1);
  EXPECT_EQ(d()->stream_write_value(device_, stream_, odd, 1), SL_ERR_INVALID);
  ExpectBroken("word-aligned");
  sl_stream_value_t values[] = {{words, 1, SL_VALUE_WRITE, 0}, {words + 1, 1, SL_VALUE_WAIT, 0}};
  EXPECT_EQ(d()->stream_batch_values(device_, stream_, 2, values), SL_OK);
  values[1].word = odd;
  EXPECT_EQ(d()->stream_batch_values(device_, stream_, 2, values), SL_ERR_INVALID);
  ExpectBroken("word-aligned");
  EXPECT_EQ(d()->copy(device_, stream_, memory_, memory_ + 32, 32), SL_OK);
  EXPECT_EQ(d()->copy(device_, stream_, memory_, memory_ + 31, 32), SL_ERR_INVALID);
  ExpectBroken("copy-overlap");
  const void* sources[] = {memory_};
  EXPECT_EQ(d()->reduce(device_, stream_, memory_, sources, 1, 8, SL_DATATYPE_COUNT, SL_SUM, nullptr), SL_ERR_INVALID);
  ExpectBroken("type-range");
  EXPECT_EQ(d()->reduce(device_, stream_, memory_, sources, 0, 8, SL_INT8, SL_SUM, nullptr), SL_ERR_INVALID);
  ExpectBroken("reduce-sources");
}

TEST_F(Device, LooksAtWhatADeviceSays) {
  sl_device_info_t info = {};
  info.struct_size = sizeof info;
  fake_.max_argument_bytes = 4095;
  EXPECT_EQ(d()->info(device_, &info), SL_ERR_INTERNAL);
  ExpectBroken("device-facts");
  uint32_t state = 0;
  uint64_t id = 0;
  fake_.capture_state = 2;
  EXPECT_EQ(d()->capture_state(device_, stream_, &state, &id), SL_ERR_INTERNAL);
  ExpectBroken("capture-facts");
  EXPECT_EQ(d()->reduce_function(device_, SL_INT8, SL_SUM), nullptr);
  fake_.reduce = [](void*, void*, const void* const*, uint32_t, size_t, const sl_reduce_scale_t*) {};
  EXPECT_EQ(d()->reduce_function(device_, SL_INT8, SL_SUM), fake_.reduce);
  ExpectBroken("reduce-constant");
}

TEST_F(Device, NamesWhatIsLeftWhenItCloses) {
  EXPECT_EQ(d()->image_unload(device_, image_), SL_OK);
  d()->close(device_);
  ExpectBroken("device-left");
  EXPECT_EQ(d()->stream_destroy(device_, stream_), SL_OK);
  d()->close(device_);
  Close();
  ASSERT_EQ(lines_.size(), 1u) << "the summary";
  lines_.clear();
}

}  // namespace
}  // namespace sl::checker
