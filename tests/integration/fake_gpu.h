// SPDX-License-Identifier: Apache-2.0
//
// Ranks on GPUs of the fake CUDA driver (modules/device-cuda/tests/fake_driver.h), whose launches nobody watches.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

#include "modules/device-cuda/tests/fake_driver.h"
#include "tests/integration/team.h"

namespace sl::integration {

// The fake driver, as the program of a rank uses it: the first device's context is this thread's.
class FakeGpu {
 public:
  FakeGpu() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    int device = 0;
    cu::Context* context = nullptr;
    EXPECT_EQ(Call<decltype(cuInit)>("cuInit")(0), cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, device), cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuCtxPushCurrent_v2)>("cuCtxPushCurrent_v2")(context), cu::kSuccess);
  }

  // The default stream; the driver works while it is asked.
  bool IsIdle(cudaStream_t stream = nullptr) const {
    return Call<decltype(cuStreamQuery)>("cuStreamQuery")(reinterpret_cast<cu::Stream*>(stream)) == cu::kSuccess;
  }
  bool Synchronize(double seconds) const {
    return WaitUntil(seconds, [this] { return IsIdle(); });
  }
  cudaStream_t MakeStream() const {
    cu::Stream* stream = nullptr;
    EXPECT_EQ(Call<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, 0), cu::kSuccess);
    return reinterpret_cast<cudaStream_t>(stream);
  }
  // Work of the default stream that does not end before it is opened.
  class Gate {
   public:
    explicit Gate(const FakeGpu& gpu) {
      EXPECT_EQ(gpu.Call<decltype(cuMemHostAlloc)>("cuMemHostAlloc")(&word_, sizeof(uint64_t), cu::kHostAllocDeviceMap),
                cu::kSuccess);
      *static_cast<uint64_t*>(word_) = 0;
      const auto address = reinterpret_cast<cu::Address>(word_);
      EXPECT_EQ(gpu.Call<decltype(cuStreamWaitValue64_v2)>("cuStreamWaitValue64_v2")(nullptr, address, 1,
                                                                                     cu::kStreamWaitValueGeq),
                cu::kSuccess);
    }
    void Open() const { std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word_)).store(1); }

   private:
    void* word_ = nullptr;  // stays: the stream may still look at it
  };
  // What is issued in between becomes a graph. In the mode that forbids what is unsafe to every thread.
  void BeginCapture() const {
    constexpr cu::CaptureMode kGlobal = 0;
    EXPECT_EQ(Call<decltype(cuStreamBeginCapture_v2)>("cuStreamBeginCapture_v2")(nullptr, kGlobal), cu::kSuccess);
  }
  void* EndCapture() const {
    void* graph = nullptr;
    void* exec = nullptr;
    EXPECT_EQ(Call<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(nullptr, &graph), cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags")(&exec, graph, 0),
              cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph), cu::kSuccess);
    return exec;
  }
  void Launch(void* exec) const {
    EXPECT_EQ(Call<decltype(cuGraphLaunch)>("cuGraphLaunch")(exec, nullptr), cu::kSuccess);
  }
  void DestroyGraph(void* exec) const {
    EXPECT_EQ(Call<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(exec), cu::kSuccess);
  }
  uint64_t Calls(const char* call) const { return Call<decltype(sl_fake_cuda_calls)>("sl_fake_cuda_calls")(call); }
  void FailNext(const char* call) const { FailLater(call, 0); }
  // After so many others that succeed.
  void FailLater(const char* call, uint64_t others) const {
    Call<decltype(sl_fake_cuda_fail_later)>("sl_fake_cuda_fail_later")(call, others, cu::kOutOfMemory);
  }

  // Memory mapped by hand: physical memory of `bytes` at each place, with a handle of that type or none.
  static constexpr uint64_t kPiece = 65536;
  cu::Address Reserve(uint64_t pieces) const {
    cu::Address address = 0;
    EXPECT_EQ(Call<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, pieces * kPiece, kPiece, 0, 0),
              cu::kSuccess);
    return address;
  }
  void Map(cu::Address address, cu::HandleType handle) const {
    cu::AllocationProp prop{};
    prop.type = cu::kAllocationPinned;
    prop.requested_handle_types = handle;
    prop.location = {cu::kLocationDevice, 0};
    cu::Memory memory = 0;
    EXPECT_EQ(Call<decltype(cuMemCreate)>("cuMemCreate")(&memory, kPiece, &prop, 0), cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuMemMap)>("cuMemMap")(address, kPiece, 0, memory, 0), cu::kSuccess);
    const cu::AccessDesc access = {{cu::kLocationDevice, 0}, cu::kAccessReadWrite};
    EXPECT_EQ(Call<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, kPiece, &access, 1), cu::kSuccess);
    EXPECT_EQ(Call<decltype(cuMemRelease)>("cuMemRelease")(memory), cu::kSuccess);
  }
  void Unmap(cu::Address address) const {
    EXPECT_EQ(Call<decltype(cuMemUnmap)>("cuMemUnmap")(address, kPiece), cu::kSuccess);
  }

 private:
  template <typename Function>
  Function* Call(const char* name) const {
    auto* function = reinterpret_cast<Function*>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function;
  }
  void* const library_;
};

inline ncclResult_t AsyncError(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

// Read before the first test changes it.
inline const std::string& ModuleFolders() {
  static const std::string folders = std::getenv("STARLING_MODULE_PATH");
  return folders;
}

// No operation of these tests takes a minute: those that want the limit to pass set a short one. The watch over
// launches looks four times within the shorter of the two.
class Unwatched : public testing::Test {
 protected:
  Unwatched() {
    std::ofstream(path_) << "profile_version = 1\n[roles]\ndevice = \"cuda\"\n"
                            "[comm]\noperation_timeout_ms = 60000\nreport_wait_ms = 400\n"
                            "[modules.algo-symmetric]\nenabled = false\n";
  }
  ~Unwatched() override { unlink(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "unwatched-" + std::to_string(getpid()) + ".toml";
  const std::string folders_ = ModuleFolders() + ":" + SL_FAKE_GPU_MODULES;
  const Environment modules_{"STARLING_MODULE_PATH", folders_.c_str()};
  const Environment profile_{"STARLING_PROFILE", path_.c_str()};
};

}  // namespace sl::integration
