// SPDX-License-Identifier: Apache-2.0
// Who multiplies and who divides, and what is refused; results of all types are the conformance suite's.
#include <vector>

#include "modules/device-cuda/kernels/reduce.h"
#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

constexpr size_t kCount = 37;

class Reductions : public ::testing::Test {
 protected:
  void SetUp() override {
    const ContextScope scope(*cuda_.device);
    const Result<sl_image_t*> kernels = cuda_.device->Reductions();
    if (kernels.status().code() == SL_ERR_UNSUPPORTED) GTEST_SKIP() << kernels.status().message();
    ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  }

  // The last element of the result of two sources that are all `first` and all `second`.
  template <typename T>
  T Reduce(sl_datatype_t type, sl_reduction_t reduction, const sl_reduce_scale_t& scale, T first, T second) {
    const std::vector<T> a(kCount, first);
    const std::vector<T> b(kCount, second);
    std::vector<T> result(kCount);
    const void* srcs[] = {a.data(), b.data()};
    EXPECT_EQ(cuda_.ops->reduce(cuda_.device, nullptr, result.data(), srcs, 2, kCount, type, reduction, &scale), SL_OK)
        << last_error;
    EXPECT_EQ(cuda_.ops->stream_wait_idle(cuda_.device, nullptr, After(5)), SL_OK);
    return result.back();
  }

  CudaDevice cuda_;
};

TEST_F(Reductions, AverageWhereTheyAreTold) {
  const sl_reduce_scale_t final_step = {0, 4, SL_REDUCE_FINAL, 3};
  EXPECT_EQ(Reduce<float>(SL_FLOAT32, SL_AVG, final_step, 6, 10), 4.f) << "the complete sum, divided once";
  EXPECT_EQ(Reduce<int32_t>(SL_INT32, SL_AVG, final_step, -6, -9), -3) << "truncated toward zero";
  const sl_reduce_scale_t first_step = {0, 4, 0, 1};
  EXPECT_EQ(Reduce<float>(SL_FLOAT32, SL_AVG, first_step, 6, 10), 11.5f) << "the first source's share";
  EXPECT_EQ(Reduce<int32_t>(SL_INT32, SL_AVG, first_step, 6, 10), 16) << "integers wait for the final step";
  const sl_reduce_scale_t alone = {0, 0, SL_REDUCE_FINAL, 0};
  EXPECT_EQ(Reduce<float>(SL_FLOAT32, SL_AVG, alone, 6, 10), 16.f) << "a world of 0 counts as 1";
}

TEST_F(Reductions, MultiplyTheSourcesTheyAreTold) {
  const sl_reduce_scale_t second = {3, 0, 0, 2};
  EXPECT_EQ(Reduce<int64_t>(SL_INT64, SL_PREMUL_SUM, second, 100, 7), 121);
  EXPECT_EQ(Reduce<int64_t>(SL_INT64, SL_SUM, second, 100, 7), 107) << "no factor for a sum";
  EXPECT_EQ(Reduce<int64_t>(SL_INT64, SL_MAX, second, 100, 7), 100);
}

TEST_F(Reductions, RefuseWhatCannotBe) {
  float value = 1;
  std::vector<const void*> srcs(kMostSources + 1, &value);
  const auto reduce = [&](uint32_t n, sl_datatype_t type, sl_reduction_t reduction) {
    return cuda_.ops->reduce(cuda_.device, nullptr, &value, srcs.data(), n, 1, type, reduction, nullptr);
  };
  EXPECT_EQ(reduce(0, SL_FLOAT32, SL_SUM), SL_ERR_INVALID);
  EXPECT_EQ(reduce(1, SL_DATATYPE_COUNT, SL_SUM), SL_ERR_INVALID);
  EXPECT_EQ(reduce(1, SL_FLOAT32, SL_REDUCTION_COUNT), SL_ERR_INVALID);
  EXPECT_EQ(reduce(kMostSources + 1, SL_FLOAT32, SL_SUM), SL_ERR_LIMIT);
  EXPECT_NE(last_error.find("at most 240"), std::string::npos) << last_error;
  EXPECT_EQ(reduce(kMostSources, SL_FLOAT32, SL_SUM), SL_OK) << last_error;
  EXPECT_EQ(value, 240.f);
  EXPECT_EQ(cuda_.ops->reduce_function(cuda_.device, SL_FLOAT32, SL_SUM), nullptr) << "not on the CPU";
}

}  // namespace
}  // namespace sl::device_cuda
