// SPDX-License-Identifier: Apache-2.0
// Streams that end badly, streams of others, launches.
#include <cstring>
#include <mutex>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

TEST(Stream, IsDestroyedWithWorkThatDoesNotEnd) {
  CudaDevice cuda(1);
  auto* word = static_cast<uint64_t*>(cuda.Allocate(SL_MEMORY_HOST, 64));
  sl_stream_t* stream = cuda.NewStream();
  ASSERT_EQ(cuda.ops->stream_wait_value(cuda.device, stream, word, 1), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, stream, 0), SL_ERR_AGAIN);
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, stream, NowNs() + 2'000'000), SL_ERR_TIMEOUT);
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, stream), SL_OK) << last_error;
  ASSERT_EQ(cuda.host.lines.size(), 1u);
  EXPECT_EQ(cuda.host.lines[0].first, SL_LOG_WARN);
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, stream), SL_ERR_INVALID) << "destroyed already";
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, nullptr), SL_ERR_INVALID) << "the default stream";
  // The wait lives on, and ends here.
  *word = 1;
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, nullptr, After(5)), SL_OK);
  EXPECT_EQ(cuda.ops->release(cuda.device, word), SL_OK);
}

TEST(Stream, OfTheProgramIsAcceptedAndNotDestroyed) {
  CudaDevice cuda;
  const ContextScope scope(*cuda.device);
  cu::Stream* native = nullptr;
  ASSERT_EQ(cuda.calls().StreamCreate(&native, 0), cu::kSuccess);
  auto* stream = reinterpret_cast<sl_stream_t*>(native);
  auto* word = static_cast<uint64_t*>(cuda.Allocate(SL_MEMORY_HOST, 64));
  EXPECT_EQ(cuda.ops->stream_write_value(cuda.device, stream, word, 3), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, stream, After(5)), SL_OK) << last_error;
  EXPECT_EQ(*word, 3u);
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, stream), SL_ERR_INVALID);
  cuda.calls().StreamDestroy(native);
  EXPECT_EQ(cuda.ops->release(cuda.device, word), SL_OK);
}

// cudaStreamLegacy.
TEST(Stream, OfNullHasAnotherName) {
  CudaDevice cuda;
  auto* const legacy = reinterpret_cast<sl_stream_t*>(1);
  auto* word = static_cast<uint64_t*>(cuda.Allocate(SL_MEMORY_HOST, 64));
  EXPECT_EQ(cuda.ops->stream_write_value(cuda.device, legacy, word, 3), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, nullptr, After(5)), SL_OK) << last_error;
  EXPECT_EQ(*word, 3u);
  EXPECT_EQ(cuda.ops->release(cuda.device, word), SL_OK);
}

TEST(Stream, TakesWordsOfHostMemoryOnly) {
  CudaDevice cuda;
  auto* plain = static_cast<uint64_t*>(cuda.Allocate(SL_MEMORY_PLAIN, 64));
  EXPECT_EQ(cuda.ops->stream_write_value(cuda.device, nullptr, plain, 3), SL_ERR_INVALID);
  EXPECT_NE(last_error.find("cuStreamWriteValue64"), std::string::npos) << last_error;
  EXPECT_EQ(cuda.ops->stream_wait_value(cuda.device, nullptr, nullptr, 3), SL_ERR_INVALID);
  EXPECT_EQ(cuda.ops->release(cuda.device, plain), SL_OK);
}

struct Args {
  uint64_t* out;
  uint64_t value;
};
bool Store(const void* args, size_t bytes) {
  Args own{};
  if (bytes >= sizeof(own)) memcpy(&own, args, sizeof(own));
  if (own.out != nullptr) *own.out += own.value;
  return true;
}
constexpr FakeKernel kKernels[] = {{"store", Store}, {"also", Store}, {nullptr, nullptr}};
constexpr FakeImage kImage = {kFakeImageMagic, 90, kKernels};
constexpr const char* kNames[] = {"also", "store"};

sl_image_desc_t Describe(const FakeImage& image) {
  return {sizeof(sl_image_desc_t), 2, nullptr, &image, sizeof(image), kNames};
}

sl_launch_t LaunchOf(sl_image_t* image, const Args* args) {
  sl_launch_t launch{};
  launch.struct_size = sizeof(launch);
  launch.image = image;
  launch.kernel = 1;
  for (int i = 0; i < 3; ++i) launch.grid[i] = launch.block[i] = 1;
  launch.args = args;
  launch.args_bytes = sizeof(*args);
  return launch;
}

class Launches : public ::testing::Test {
 protected:
  void SetUp() override {
    const sl_image_desc_t desc = Describe(kImage);
    ASSERT_EQ(cuda_.ops->image_load(cuda_.device, &desc, &image_), SL_OK) << last_error;
    stream_ = cuda_.NewStream();
  }
  void TearDown() override {
    EXPECT_EQ(cuda_.ops->stream_destroy(cuda_.device, stream_), SL_OK);
    EXPECT_EQ(cuda_.ops->image_unload(cuda_.device, image_), SL_OK);
  }
  cu::LaunchConfig LastLaunch() {
    return FakeControl<decltype(sl_fake_cuda_last_launch)>("sl_fake_cuda_last_launch")(attributes_);
  }

  CudaDevice cuda_;
  sl_image_t* image_ = nullptr;
  sl_stream_t* stream_ = nullptr;
  cu::LaunchAttribute attributes_[8];
};

TEST_F(Launches, CopyTheirArguments) {
  auto* word = static_cast<uint64_t*>(cuda_.Allocate(SL_MEMORY_HOST, 64));
  uint64_t sum = 0;
  ASSERT_EQ(cuda_.ops->stream_wait_value(cuda_.device, stream_, word, 1), SL_OK);
  for (uint64_t value = 1; value <= 10; ++value) {
    const Args args{&sum, value};
    const sl_launch_t launch = LaunchOf(image_, &args);
    ASSERT_EQ(cuda_.ops->launch(cuda_.device, stream_, &launch), SL_OK) << last_error;
  }
  EXPECT_EQ(sum, 0u);
  *word = 1;
  EXPECT_EQ(cuda_.ops->stream_wait_idle(cuda_.device, stream_, After(5)), SL_OK);
  EXPECT_EQ(sum, 55u);
  EXPECT_EQ(cuda_.ops->release(cuda_.device, word), SL_OK);
}

TEST_F(Launches, SayWhatTheyNeed) {
  const Args args{};
  sl_launch_t launch = LaunchOf(image_, &args);
  launch.grid[0] = 24;
  launch.block[0] = 512;
  launch.shared_bytes = 200'000;
  launch.cluster[0] = 4;
  launch.cluster[1] = launch.cluster[2] = 1;
  launch.flags = SL_LAUNCH_COOPERATIVE | SL_LAUNCH_DEPENDENT;
  ASSERT_EQ(cuda_.ops->launch(cuda_.device, stream_, &launch), SL_OK) << last_error;
  const cu::LaunchConfig config = LastLaunch();
  EXPECT_EQ(config.grid[0], 24u);
  EXPECT_EQ(config.block[0], 512u);
  EXPECT_EQ(config.shared_bytes, 200'000u);
  ASSERT_EQ(config.attribute_count, 3u);
  EXPECT_EQ(attributes_[0].id, cu::kLaunchCooperative);
  EXPECT_EQ(attributes_[1].id, cu::kLaunchProgrammaticStreamSerialization);
  EXPECT_EQ(attributes_[2].id, cu::kLaunchClusterDimension);
  EXPECT_EQ(attributes_[2].value.cluster[0], 4u);
  launch = LaunchOf(image_, &args);
  ASSERT_EQ(cuda_.ops->launch(cuda_.device, stream_, &launch), SL_OK) << last_error;
  EXPECT_EQ(LastLaunch().attribute_count, 0u);
}

// Kernels that were compiled for older GPUs cannot wait for the grids before them.
TEST_F(Launches, DependOnNothingWhereKernelsCannotWait) {
  const FakeImage old = {kFakeImageMagic, 80, kKernels};
  const sl_image_desc_t desc = Describe(old);
  sl_image_t* image = nullptr;
  ASSERT_EQ(cuda_.ops->image_load(cuda_.device, &desc, &image), SL_OK) << last_error;
  const Args args{};
  for (const auto& [of, attributes] : {std::pair{image, 0u}, std::pair{image_, 1u}}) {
    sl_launch_t launch = LaunchOf(of, &args);
    launch.flags = SL_LAUNCH_DEPENDENT;
    ASSERT_EQ(cuda_.ops->launch(cuda_.device, stream_, &launch), SL_OK) << last_error;
    EXPECT_EQ(LastLaunch().attribute_count, attributes);
  }
  EXPECT_EQ(cuda_.ops->image_unload(cuda_.device, image), SL_OK);
}

TEST_F(Launches, AreRefusedWithWords) {
  const Args args{};
  const auto refused = [&](const sl_launch_t& launch) { return cuda_.ops->launch(cuda_.device, stream_, &launch); };
  sl_launch_t launch = LaunchOf(image_, &args);
  launch.kernel = 2;
  EXPECT_EQ(refused(launch), SL_ERR_INVALID);
  launch = LaunchOf(nullptr, &args);
  EXPECT_EQ(refused(launch), SL_ERR_INVALID);
  launch = LaunchOf(image_, &args);
  launch.args_bytes = 32765;
  EXPECT_EQ(refused(launch), SL_ERR_INVALID);
  launch = LaunchOf(image_, &args);
  launch.block[0] = 0;
  EXPECT_EQ(refused(launch), SL_ERR_INVALID);
  EXPECT_NE(last_error.find("cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE"), std::string::npos) << last_error;
}

TEST_F(Launches, OfABatchGoEachToItsDevice) {
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda_.ops->open(cuda_.instance, 1, &other), SL_OK);
  const sl_image_desc_t desc = Describe(kImage);
  sl_image_t* image = nullptr;
  ASSERT_EQ(cuda_.ops->image_load(other, &desc, &image), SL_OK);
  uint64_t sums[2] = {};
  const Args args[] = {{&sums[0], 1}, {&sums[1], 2}};
  const sl_launch_t launches[] = {LaunchOf(image_, &args[0]), LaunchOf(image, &args[1])};
  const sl_launch_t* const pointers[] = {&launches[0], &launches[1]};
  sl_stream_t* const streams[] = {nullptr, nullptr};
  EXPECT_EQ(cuda_.ops->launch_batch(cuda_.device, 2, streams, pointers), SL_OK) << last_error;
  EXPECT_EQ(sums[0], 1u);
  EXPECT_EQ(sums[1], 2u);
  // The second fails, and is named; a batch that cannot be is refused whole.
  sl_stream_t* const wrong[] = {nullptr, stream_};
  EXPECT_LT(cuda_.ops->launch_batch(cuda_.device, 2, wrong, pointers), SL_OK);
  EXPECT_NE(last_error.find("device 1: cuLaunchKernelEx"), std::string::npos) << last_error;
  EXPECT_NE(last_error.find("launch 2 of a batch of 2"), std::string::npos) << last_error;
  EXPECT_EQ(cuda_.ops->image_unload(other, image), SL_OK);
  cuda_.ops->close(other);
}

TEST(Image, NamesWhatItLacks) {
  CudaDevice cuda;
  sl_image_t* image = nullptr;
  const FakeImage foreign = {kFakeImageMagic, 100, kKernels};
  sl_image_desc_t desc = Describe(foreign);
  EXPECT_EQ(cuda.ops->image_load(cuda.device, &desc, &image), SL_ERR_UNSUPPORTED);
  EXPECT_NE(last_error.find("compute capability is 9.0"), std::string::npos) << last_error;
  desc = Describe(kImage);
  constexpr const char* kUnknown[] = {"store", "nowhere"};
  desc.kernel_names = kUnknown;
  EXPECT_EQ(cuda.ops->image_load(cuda.device, &desc, &image), SL_ERR_NOT_FOUND);
  EXPECT_NE(last_error.find("no kernel called nowhere"), std::string::npos) << last_error;
  desc.kernel_count = 0;
  EXPECT_EQ(cuda.ops->image_load(cuda.device, &desc, &image), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(image, nullptr);
}

}  // namespace
}  // namespace sl::device_cuda
