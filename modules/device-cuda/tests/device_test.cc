// SPDX-License-Identifier: Apache-2.0
// Devices, their contexts, and what becomes of the driver's errors.
#include <cstring>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

TEST(Module, KnowsTheDeviceThatTheProcessUses) {
  CudaModule module;
  uint32_t count = 0;
  ASSERT_EQ(module.ops->count(module.instance, &count), SL_OK);
  const Calls& calls = module.calls();
  cu::Context* context = nullptr;
  ASSERT_EQ(calls.DevicePrimaryCtxRetain(&context, 1), cu::kSuccess);
  uint32_t ordinal = 77;
  EXPECT_EQ(module.ops->current(module.instance, &ordinal), SL_OK) << last_error;
  EXPECT_EQ(ordinal, 0u) << "used, but by no context of this thread";
  ASSERT_EQ(calls.CtxPushCurrent(context), cu::kSuccess);
  EXPECT_EQ(module.ops->current(module.instance, &ordinal), SL_OK) << last_error;
  EXPECT_EQ(ordinal, 1u);
  calls.CtxPopCurrent(&context);
  calls.DevicePrimaryCtxRelease(1);
}

TEST(Module, CountsNothingWhereTheDriverFindsNothing) {
  for (const auto& [code, level] :
       {std::pair{cu::kNoDevice, SL_LOG_DEBUG}, std::pair{cu::kSystemDriverMismatch, SL_LOG_WARN}}) {
    CudaModule module;
    FailNext("cuInit", code);
    uint32_t count = 7;
    EXPECT_EQ(module.ops->count(module.instance, &count), SL_OK);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(module.ops->count(module.instance, &count), SL_OK);
    ASSERT_EQ(module.host.lines.size(), 1u) << "told once";
    EXPECT_EQ(module.host.lines[0].first, level) << module.host.lines[0].second;
    sl_device_t* device = nullptr;
    EXPECT_LT(module.ops->open(module.instance, 0, &device), SL_OK);
    EXPECT_NE(last_error.find("cuInit: CUDA_ERROR_"), std::string::npos) << last_error;
  }
}

TEST(Device, SaysWhatItIs) {
  CudaDevice cuda;
  sl_device_info_t info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(cuda.ops->info(cuda.device, &info), SL_OK);
  EXPECT_EQ(info.kind, SL_DEVICE_CUDA);
  EXPECT_EQ(info.capabilities, SL_DEVICE_CAN_EXPORT | SL_DEVICE_CAN_WRITE_VALUE | SL_DEVICE_CAN_CAPTURE);
  EXPECT_STREQ(info.name, "Fake GPU 0");
  EXPECT_STREQ(info.pci_path, "0000:A0:00.0");
  EXPECT_EQ(info.numa_node, -1);
  EXPECT_EQ(info.processors, 132u);
  EXPECT_EQ(info.max_argument_bytes, 32764u);
  EXPECT_EQ(info.export_granularity, 65536u);
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda.ops->open(cuda.instance, 1, &other), SL_OK);
  EXPECT_EQ(memcmp(info.domain, other->info.domain, sizeof(info.domain)), 0) << "GPUs of one host";
  cuda.ops->close(other);
}

TEST(Device, SharesThePrimaryContextAndGivesItBack) {
  CudaModule module;
  sl_device_t* devices[2] = {};
  for (sl_device_t*& device : devices) ASSERT_EQ(module.ops->open(module.instance, 0, &device), SL_OK);
  EXPECT_EQ(devices[0]->context, devices[1]->context);
  EXPECT_EQ(RetainedOf(0), 2);
  for (sl_device_t* device : devices) module.ops->close(device);
  EXPECT_EQ(RetainedOf(0), 0);
  sl_device_t* none = nullptr;
  EXPECT_EQ(module.ops->open(module.instance, 2, &none), SL_ERR_NOT_FOUND);
  EXPECT_NE(last_error.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << last_error;
}

TEST(Device, LeavesTheCallersContextAsItWas) {
  CudaDevice cuda;
  const Calls& calls = cuda.calls();
  cu::Context* other = nullptr;
  ASSERT_EQ(calls.DevicePrimaryCtxRetain(&other, 1), cu::kSuccess);
  ASSERT_EQ(calls.CtxPushCurrent(other), cu::kSuccess);
  void* memory = cuda.Allocate(SL_MEMORY_PLAIN, 4096);
  sl_stream_t* stream = cuda.NewStream();
  EXPECT_EQ(cuda.ops->copy(cuda.device, stream, memory, static_cast<char*>(memory) + 2048, 16), SL_OK) << last_error;
  cu::Context* now = nullptr;
  calls.CtxGetCurrent(&now);
  EXPECT_EQ(now, other);
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, stream), SL_OK);
  EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
  calls.CtxPopCurrent(&now);
  calls.DevicePrimaryCtxRelease(1);
}

struct Error {
  cu::Code code;
  sl_status_t status;
  const char* words;
};

TEST(Device, NamesCallErrorDeviceAndRemedy) {
  CudaDevice cuda;
  for (const Error& error :
       {Error{cu::kOutOfMemory, SL_ERR_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (out of memory); use smaller"},
        Error{cu::kIllegalAddress, SL_ERR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS; the device's context"},
        Error{cu::kInvalidContext, SL_ERR_STATE, "was the device reset?"},
        Error{cu::kNotPermitted, SL_ERR_DENIED, "CUDA error 800; check the rights"},
        Error{4242, SL_ERR_DEVICE, "CUDA error 4242; see nvidia-smi"}}) {
    FailNext("cuMemAlloc", error.code);
    void* memory = nullptr;
    EXPECT_EQ(cuda.ops->allocate(cuda.device, SL_MEMORY_PLAIN, 4096, &memory), error.status);
    EXPECT_EQ(last_error.find("device-cuda: device 0: cuMemAlloc: "), 0u) << last_error;
    EXPECT_NE(last_error.find(error.words), std::string::npos) << last_error;
    EXPECT_EQ(memory, nullptr);
  }
}

TEST(Module, QuiescesWhenNothingIsHeld) {
  CudaModule module;
  sl_device_t* device = nullptr;
  ASSERT_EQ(module.ops->open(module.instance, 0, &device), SL_OK);
  void* memory = nullptr;
  ASSERT_EQ(module.ops->allocate(device, SL_MEMORY_PLAIN, 64, &memory), SL_OK);
  EXPECT_EQ(module.Quiesce(0), SL_ERR_TIMEOUT);
  EXPECT_NE(last_error.find("1 openings"), std::string::npos) << last_error;
  sl_device_t* late = nullptr;
  EXPECT_EQ(module.ops->open(module.instance, 0, &late), SL_ERR_STATE);
  EXPECT_EQ(module.ops->release(device, memory), SL_OK);
  module.ops->close(device);
  EXPECT_EQ(module.Quiesce(SL_NO_DEADLINE), SL_OK) << last_error;
}

}  // namespace
}  // namespace sl::device_cuda
