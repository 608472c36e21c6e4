// SPDX-License-Identifier: Apache-2.0
//
// The buffers of one NcclCase on a GPU: an image of the host's, guards included, at any alignment of the element type.
#pragma once

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "tests/integration/nccl_case.h"
#include "tools/gpu/cuda_api.h"

namespace sl::gpu {

class GpuBuffers {
 public:
  // `shift` elements behind the start of an allocation.
  GpuBuffers(const integration::NcclCase& test, int rank, int size, size_t shift) : host_(test, rank, size) {
    const size_t offset = shift * integration::TypeBytes(test.type);
    send_ = Copy(host_.send_memory(), offset);
    recv_ = Copy(host_.recv_memory(), offset);
    host_.UseCopies(send_ + offset, recv_ + offset);
    offset_ = offset;
  }
  ~GpuBuffers() {
    if (registration_ != nullptr) {
      EXPECT_EQ(ncclCommDeregister(comm_, registration_), ncclSuccess);
    }
    Free(send_);
    Free(recv_);
  }
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  ncclResult_t Issue(ncclComm_t comm, CudaStream stream) {
    return host_.Issue(comm, reinterpret_cast<cudaStream_t>(stream));
  }
  // Makes the receive buffer known to the communicator, which outlives this.
  ncclResult_t Register(ncclComm_t comm) {
    comm_ = comm;
    return ncclCommRegister(comm, recv_, offset_ + host_.recv_memory().size(), &registration_);
  }
  // After the stream is idle.
  std::string Check() {
    if (!host_.send_memory().empty()) {
      FromDevice(host_.send_memory().data(), send_ + offset_, host_.send_memory().size());
    }
    FromDevice(host_.recv_memory().data(), recv_ + offset_, host_.recv_memory().size());
    return host_.Check();
  }
  uint64_t Hash() const { return host_.Hash(); }

 private:
  static uint8_t* Copy(const std::vector<uint8_t>& memory, size_t offset) {
    auto* image = static_cast<uint8_t*>(Allocate(offset + memory.size() + 16));
    if (!memory.empty()) ToDevice(image + offset, memory.data(), memory.size());
    return image;
  }

  integration::NcclBuffers host_;
  uint8_t* send_ = nullptr;
  uint8_t* recv_ = nullptr;
  size_t offset_ = 0;
  ncclComm_t comm_ = nullptr;
  void* registration_ = nullptr;  // with comm_
};

// How often the driver of device-cuda's tests was called so; others do not count.
inline uint64_t CallsOf(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto calls = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(driver, "sl_fake_cuda_calls"));
  return calls != nullptr ? calls(name) : 0;
}

// The call that follows `others` of the same name fails, CUDA being out of memory. False with any other driver.
inline bool FailCall(const char* name, uint64_t others) {
  constexpr int kOutOfMemory = 2;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto fail = reinterpret_cast<void (*)(const char*, uint64_t, int)>(dlsym(driver, "sl_fake_cuda_fail_later"));
  if (fail != nullptr) fail(name, others, kOutOfMemory);
  return fail != nullptr;
}

}  // namespace sl::gpu
