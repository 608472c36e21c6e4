// SPDX-License-Identifier: Apache-2.0
//
// The module opened as the kernel opens it, over the fake driver (which CMakeLists.txt puts on LD_LIBRARY_PATH).
#ifndef STARLING_MODULES_DEVICE_CUDA_TESTS_FIXTURE_H_
#define STARLING_MODULES_DEVICE_CUDA_TESTS_FIXTURE_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "modules/device-cuda/device.h"
#include "modules/device-cuda/tests/fake_driver.h"
#include "modules/device-cuda/wait.h"

namespace sl::device_cuda {

inline thread_local std::string last_error;

// Keeps what the module says.
struct TestHost {
  sl_host_t table{};
  std::vector<std::pair<sl_log_level_t, std::string>> lines;

  TestHost() {
    table.struct_size = sizeof(table);
    table.ctx = this;
    table.log_enabled = [](void*, sl_log_level_t) -> int32_t { return 1; };
    table.log = [](void* ctx, sl_log_level_t level, const char* text) {
      static_cast<TestHost*>(ctx)->lines.emplace_back(level, text);
    };
    table.set_error = [](void*, sl_status_t status, const char* text) {
      last_error = text;
      return status;
    };
    table.now_ns = [](void*) { return NowNs(); };
  }
};

// A function of the fake driver for tests.
template <typename Function>
Function* FakeControl(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr) << "the module has not opened its driver";
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  EXPECT_NE(function, nullptr) << "this is not the fake driver";
  dlclose(library);
  return function;
}
inline void FailNext(const char* call, cu::Code code) {
  FakeControl<decltype(sl_fake_cuda_fail)>("sl_fake_cuda_fail")(call, code);
}
inline int RetainedOf(int device) {
  return FakeControl<decltype(sl_fake_cuda_retained)>("sl_fake_cuda_retained")(device);
}

class CudaModule {
 public:
  explicit CudaModule(int64_t drain_timeout_ms = 10000) {
    sl_hello_t hello{};
    hello.struct_size = sizeof(hello);
    hello.magic = SL_MODULE_MAGIC;
    hello.container_min = hello.container_max = SL_CONTAINER_VERSION;
    EXPECT_EQ(sl_module_query(&hello, &module_), SL_OK);
    const sl_option_value_t drain = {sizeof(drain), SL_OPTION_INT, drain_timeout_ms, 0, ""};
    const sl_option_value_t* options[] = {&drain};
    sl_open_args_t args{};
    args.struct_size = sizeof(args);
    args.option_count = 1;
    args.options = options;
    status = module_->open(&host.table, &args, &instance);
    ops = static_cast<const sl_device_ops_t*>(module_->provides[0]->ops);
  }
  ~CudaModule() {
    if (instance != nullptr) module_->close(instance);
  }
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  sl_status_t Quiesce(uint64_t deadline_ns) { return module_->quiesce(instance, deadline_ns); }
  const Calls& calls() const { return instance->driver->calls(); }

  TestHost host;
  sl_status_t status = SL_OK;
  sl_instance_t* instance = nullptr;
  const sl_device_ops_t* ops = nullptr;

 private:
  const sl_module_t* module_ = nullptr;
};

// Device 0 of it, open.
class CudaDevice : public CudaModule {
 public:
  explicit CudaDevice(int64_t drain_timeout_ms = 10000) : CudaModule(drain_timeout_ms) {
    EXPECT_EQ(status, SL_OK) << last_error;
    EXPECT_EQ(ops->open(instance, 0, &device), SL_OK) << last_error;
  }
  ~CudaDevice() { ops->close(device); }

  void* Allocate(uint32_t kind, uint64_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(ops->allocate(device, kind, bytes, &memory), SL_OK) << last_error;
    return memory;
  }
  sl_stream_t* NewStream() {
    sl_stream_t* stream = nullptr;
    EXPECT_EQ(ops->stream_create(device, &stream), SL_OK) << last_error;
    return stream;
  }
  sl_pointer_info_t InfoOf(const void* pointer) {
    sl_pointer_info_t info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(ops->pointer_info(device, pointer, &info), SL_OK) << last_error;
    return info;
  }

  sl_device_t* device = nullptr;
};

// Between the two, what is issued to `stream` becomes part of a graph, which the caller destroys. In the strictest
// mode, which forbids what is unsafe to every thread.
inline void BeginCapture(sl_stream_t* stream) {
  constexpr cu::CaptureMode kGlobal = 0;
  const auto begin = FakeControl<decltype(cuStreamBeginCapture_v2)>("cuStreamBeginCapture_v2");
  EXPECT_EQ(begin(reinterpret_cast<cu::Stream*>(stream), kGlobal), cu::kSuccess);
}
inline void* EndCapture(sl_stream_t* stream) {
  void* graph = nullptr;
  const auto end = FakeControl<decltype(cuStreamEndCapture)>("cuStreamEndCapture");
  EXPECT_EQ(end(reinterpret_cast<cu::Stream*>(stream), &graph), cu::kSuccess);
  return graph;
}
inline void DestroyGraph(void* graph) {
  EXPECT_EQ(FakeControl<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph), cu::kSuccess);
}

inline uint64_t After(uint64_t seconds) { return NowNs() + seconds * 1'000'000'000; }

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_TESTS_FIXTURE_H_
