// SPDX-License-Identifier: Apache-2.0
// What the conformance suite does not ask: memory of others, handles of every type, and failures half way.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

constexpr uint64_t kBytes = 65536;

sl_memory_handle_t Export(CudaDevice& cuda, void* memory, uint32_t type) {
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  EXPECT_EQ(cuda.ops->export_memory(cuda.device, memory, type, &handle), SL_OK) << last_error;
  EXPECT_EQ(handle.type, type);
  return handle;
}

// Physical memory of the program's own, mapped by hand as PyTorch's expandable segments are.
class Segment {
 public:
  explicit Segment(CudaDevice& cuda) : calls_(cuda.calls()), scope_(*cuda.device) {
    EXPECT_EQ(calls_.MemAddressReserve(&address_, kBytes, kBytes, 0, 0), cu::kSuccess);
  }
  ~Segment() {
    Unmap();
    EXPECT_EQ(calls_.MemAddressFree(address_, kBytes), cu::kSuccess);
  }
  void Map(cu::HandleType types) {
    cu::AllocationProp prop{};
    prop.type = cu::kAllocationPinned;
    prop.requested_handle_types = types;
    prop.location = {cu::kLocationDevice, 0};
    cu::Memory memory = 0;
    ASSERT_EQ(calls_.MemCreate(&memory, kBytes, &prop, 0), cu::kSuccess);
    ASSERT_EQ(calls_.MemMap(address_, kBytes, 0, memory, 0), cu::kSuccess);
    const cu::AccessDesc access = {{cu::kLocationDevice, 0}, cu::kAccessReadWrite};
    ASSERT_EQ(calls_.MemSetAccess(address_, kBytes, &access, 1), cu::kSuccess);
    calls_.MemRelease(memory);
    is_mapped_ = true;
  }
  void Unmap() {
    if (is_mapped_) calls_.MemUnmap(address_, kBytes);
    is_mapped_ = false;
  }
  void* get() const { return reinterpret_cast<void*>(address_); }

 private:
  const Calls& calls_;
  const ContextScope scope_;
  cu::Address address_ = 0;
  bool is_mapped_ = false;
};

TEST(Memory, OfTheHostHasOneAddress) {
  CudaDevice cuda;
  auto* word = static_cast<uint64_t*>(cuda.Allocate(SL_MEMORY_HOST, 64));
  EXPECT_EQ(*word, 0u) << "not zeroed";
  ASSERT_EQ(cuda.ops->stream_write_value(cuda.device, nullptr, word, 5), SL_OK) << last_error;
  EXPECT_EQ(*word, 5u);
  EXPECT_NE(cuda.InfoOf(word).allocation_id, 0u);
  EXPECT_EQ(cuda.InfoOf(word).exportable, 0u);
  EXPECT_EQ(cuda.ops->release(cuda.device, word), SL_OK);
}

TEST(Memory, IsGivenBackWhenZeroingFails) {
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE}) {
    CudaDevice cuda;
    FailNext("cuMemsetD8Async", cu::kIllegalAddress);
    void* memory = nullptr;
    EXPECT_EQ(cuda.ops->allocate(cuda.device, kind, kBytes, &memory), SL_ERR_DEVICE);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(cuda.instance->allocations.Count(), 0u);
  }
  CudaDevice cuda;
  for (const char* call : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    if (strcmp(call, "cuMemCreate") == 0) cuda.ops->release(cuda.device, cuda.Allocate(SL_MEMORY_EXPORTABLE, 1));
    FailNext(call, cu::kOutOfMemory);
    void* memory = nullptr;
    EXPECT_EQ(cuda.ops->allocate(cuda.device, SL_MEMORY_EXPORTABLE, kBytes, &memory), SL_ERR_DEVICE_MEMORY) << call;
    EXPECT_NE(last_error.find(call), std::string::npos) << last_error;
  }
}

TEST(Memory, IsOpenToEveryGpuThatReachesIt) {
  for (const char* peers : {"0", "1"}) {
    setenv("SL_FAKE_CUDA_PEERS", peers, 1);
    CudaDevice cuda;
    const auto grants = FakeControl<decltype(sl_fake_cuda_calls)>("sl_fake_cuda_calls");
    const uint64_t before = grants("cuMemSetAccess");
    void* memory = cuda.Allocate(SL_MEMORY_EXPORTABLE, kBytes);
    EXPECT_EQ(grants("cuMemSetAccess") - before, *peers == '0' ? 1u : 2u) << "of two GPUs";
    EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
  }
  unsetenv("SL_FAKE_CUDA_PEERS");
}

TEST(Memory, IsNotMappedByHandWhereTheDeviceCannot) {
  setenv("SL_FAKE_CUDA_VMM", "0", 1);
  {
    CudaDevice cuda;
    EXPECT_EQ(cuda.device->info.capabilities & SL_DEVICE_CAN_EXPORT, 0u);
    void* memory = nullptr;
    EXPECT_EQ(cuda.ops->allocate(cuda.device, SL_MEMORY_EXPORTABLE, kBytes, &memory), SL_ERR_UNSUPPORTED);
    EXPECT_NE(last_error.find("cannot map memory by hand"), std::string::npos) << last_error;
    EXPECT_EQ(cuda.ops->reserve(cuda.device, kBytes, &memory), SL_ERR_UNSUPPORTED);
    EXPECT_EQ(cuda.ops->unreserve(cuda.device, &memory, kBytes), SL_ERR_INVALID);
    EXPECT_EQ(cuda.ops->release(cuda.device, cuda.Allocate(SL_MEMORY_PLAIN, kBytes)), SL_OK);
  }
  unsetenv("SL_FAKE_CUDA_VMM");
}

TEST(Memory, IsAllocatedBesideACapture) {
  CudaDevice cuda;
  sl_stream_t* stream = cuda.NewStream();
  const ContextScope scope(*cuda.device);
  BeginCapture(stream);
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE, SL_MEMORY_HOST}) {
    EXPECT_EQ(cuda.ops->release(cuda.device, cuda.Allocate(kind, 4096)), SL_OK) << last_error;
  }
  uint32_t state = 0;
  uint64_t id = 0;
  EXPECT_EQ(cuda.ops->capture_state(cuda.device, stream, &state, &id), SL_OK);
  EXPECT_EQ(state, 1u);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, stream, 0), SL_ERR_STATE);
  DestroyGraph(EndCapture(stream));
  EXPECT_EQ(cuda.ops->stream_destroy(cuda.device, stream), SL_OK);
}

TEST(Pointer, ChangesGenerationWhenAnAddressIsMappedAnew) {
  CudaDevice cuda;
  Segment segment(cuda);
  segment.Map(cu::kHandlePosixFd);
  const sl_pointer_info_t first = cuda.InfoOf(static_cast<char*>(segment.get()) + 100);
  EXPECT_EQ(first.base, segment.get());
  EXPECT_EQ(first.bytes, kBytes);
  EXPECT_EQ(first.exportable, 1u);
  segment.Unmap();
  EXPECT_EQ(cuda.InfoOf(segment.get()).allocation_id, 0u);
  segment.Map(0);
  const sl_pointer_info_t second = cuda.InfoOf(segment.get());
  EXPECT_EQ(second.exportable, 0u) << "made without a type of handle";
  EXPECT_NE(second.generation, first.generation);
}

// Nobody would notice that other memory lies at the same address.
TEST(Pointer, IsNotExportableWhereTheDriverDoesNotTellWhatIsMappedAnew) {
  setenv("SL_FAKE_CUDA_OLD", "1", 1);
  {
    CudaDevice cuda;
    Segment segment(cuda);
    segment.Map(cu::kHandlePosixFd);
    const sl_pointer_info_t first = cuda.InfoOf(segment.get());
    EXPECT_EQ(first.base, segment.get());
    EXPECT_EQ(first.bytes, kBytes);
    segment.Unmap();
    segment.Map(cu::kHandlePosixFd);
    const sl_pointer_info_t second = cuda.InfoOf(segment.get());
    EXPECT_EQ(second.generation, first.generation) << "this driver tells; then it could be exported";
    EXPECT_EQ(second.exportable, 0u);
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    for (const uint32_t type : {SL_HANDLE_LOCAL, SL_HANDLE_FD}) {
      EXPECT_EQ(cuda.ops->export_memory(cuda.device, segment.get(), type, &handle), SL_ERR_INVALID);
      EXPECT_NE(last_error.find("does not tell when other memory is mapped there"), std::string::npos) << last_error;
    }
  }
  unsetenv("SL_FAKE_CUDA_OLD");
}

// Of its own memory the module knows it.
TEST(Pointer, ChangesGenerationOfExportableMemoryWithOldDriversToo) {
  setenv("SL_FAKE_CUDA_OLD", "1", 1);
  {
    CudaDevice cuda;
    uint64_t last = 0;
    for (int i = 0; i < 3; ++i) {
      void* memory = cuda.Allocate(SL_MEMORY_EXPORTABLE, kBytes);
      const sl_pointer_info_t info = cuda.InfoOf(memory);
      EXPECT_EQ(info.exportable, 1u);
      EXPECT_NE(info.generation, last) << "at " << memory;
      last = info.generation;
      EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
    }
  }
  unsetenv("SL_FAKE_CUDA_OLD");
}

TEST(Pointer, IsKnownToOldDriversToo) {
  setenv("SL_FAKE_CUDA_OLD", "1", 1);
  {
    CudaDevice cuda;
    EXPECT_EQ(cuda.device->info.max_argument_bytes, 4096u);
    auto* memory = static_cast<char*>(cuda.Allocate(SL_MEMORY_EXPORTABLE, kBytes));
    const sl_pointer_info_t info = cuda.InfoOf(memory + 5);
    EXPECT_EQ(info.base, memory);
    EXPECT_EQ(info.bytes, kBytes);
    EXPECT_EQ(info.exportable, 1u);
    EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
  }
  unsetenv("SL_FAKE_CUDA_OLD");
}

TEST(Handle, IsMadeOfForeignMemoryToo) {
  CudaDevice cuda;
  Segment segment(cuda);
  segment.Map(cu::kHandlePosixFd);
  static_cast<char*>(segment.get())[7] = 42;
  const sl_memory_handle_t handle = Export(cuda, segment.get(), SL_HANDLE_FD);
  EXPECT_EQ(handle.bytes, kBytes);
  EXPECT_EQ(fcntl(handle.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  ASSERT_EQ(cuda.ops->import_memory(cuda.device, &handle, nullptr, &mapping, &address), SL_OK) << last_error;
  EXPECT_EQ(static_cast<char*>(address)[7], 42);
  close(handle.fd);
  EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_OK);
}

TEST(Handle, GoesToTheFabricWhereItCan) {
  CudaDevice cuda;
  void* memory = cuda.Allocate(SL_MEMORY_EXPORTABLE, kBytes);
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  EXPECT_EQ(cuda.ops->export_memory(cuda.device, memory, SL_HANDLE_FABRIC, &handle), SL_ERR_UNSUPPORTED);
  EXPECT_NE(last_error.find("to the fabric"), std::string::npos) << last_error;
  EXPECT_EQ(cuda.ops->export_memory(cuda.device, memory, 9, &handle), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
  setenv("SL_FAKE_CUDA_FABRIC", "1", 1);
  {
    CudaDevice fresh;
    void* shared = fresh.Allocate(SL_MEMORY_EXPORTABLE, kBytes);
    static_cast<char*>(shared)[1] = 3;
    const sl_memory_handle_t fabric = Export(fresh, shared, SL_HANDLE_FABRIC);
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    ASSERT_EQ(fresh.ops->import_memory(fresh.device, &fabric, nullptr, &mapping, &address), SL_OK) << last_error;
    EXPECT_EQ(static_cast<char*>(address)[1], 3);
    EXPECT_EQ(fresh.ops->unmap(fresh.device, mapping), SL_OK);
    EXPECT_EQ(fresh.ops->release(fresh.device, shared), SL_OK);
  }
  unsetenv("SL_FAKE_CUDA_FABRIC");
}

TEST(Handle, LetsAnotherDeviceOfTheProcessIn) {
  {
    CudaDevice cuda;
    sl_device_t* other = nullptr;
    ASSERT_EQ(cuda.ops->open(cuda.instance, 1, &other), SL_OK) << last_error;
    for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE, SL_MEMORY_PLAIN}) {
      void* memory = cuda.Allocate(kind, kBytes);
      const sl_memory_handle_t handle = Export(cuda, memory, SL_HANDLE_LOCAL);
      for (sl_device_t* device : {cuda.device, other}) {
        sl_mapping_t* mapping = nullptr;
        void* address = nullptr;
        ASSERT_EQ(cuda.ops->import_memory(device, &handle, nullptr, &mapping, &address), SL_OK) << last_error;
        EXPECT_EQ(address == memory, kind == SL_MEMORY_PLAIN) << "where the owner unmaps it";
        static_cast<char*>(address)[5] = 7;
        EXPECT_EQ(static_cast<char*>(memory)[5], 7);
        EXPECT_EQ(cuda.ops->unmap(device, mapping), SL_OK) << last_error;
      }
      static_cast<char*>(memory)[5] = 1;  // still there
      EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK) << last_error;
    }
    cuda.ops->close(other);
  }
}

// A handle would let peers at the wrong one. Of what is mapped by hand anybody makes one.
TEST(Handle, IsMadeByTheDeviceThatTheMemoryLiesOn) {
  CudaDevice cuda;
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda.ops->open(cuda.instance, 1, &other), SL_OK) << last_error;
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE}) {
    void* memory = nullptr;
    ASSERT_EQ(cuda.ops->allocate(other, kind, kBytes, &memory), SL_OK) << last_error;
    const sl_pointer_info_t info = cuda.InfoOf(memory);
    EXPECT_NE(info.allocation_id, 0u);
    const bool mapped_by_hand = kind == SL_MEMORY_EXPORTABLE;
    EXPECT_EQ(info.exportable, mapped_by_hand ? 1u : 0u);
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    for (const uint32_t type : {SL_HANDLE_LOCAL, SL_HANDLE_IPC, SL_HANDLE_FD}) {
      if (mapped_by_hand) break;
      EXPECT_EQ(cuda.ops->export_memory(cuda.device, memory, type, &handle), SL_ERR_INVALID);
      EXPECT_NE(last_error.find("lies on another device than 0"), std::string::npos) << last_error;
    }
    ASSERT_EQ(cuda.ops->export_memory(other, memory, SL_HANDLE_LOCAL, &handle), SL_OK) << last_error;
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    ASSERT_EQ(cuda.ops->import_memory(cuda.device, &handle, nullptr, &mapping, &address), SL_OK) << last_error;
    EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_OK) << last_error;
    EXPECT_EQ(cuda.ops->release(other, memory), SL_OK) << last_error;
  }
  cuda.ops->close(other);
}

TEST(Handle, IsNotMadeOfMemoryThatCannotBeShared) {
  CudaDevice cuda;
  void* memory = cuda.Allocate(SL_MEMORY_HOST, kBytes);
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  EXPECT_EQ(cuda.ops->export_memory(cuda.device, memory, SL_HANDLE_LOCAL, &handle), SL_ERR_INVALID);
  EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
}

TEST(Mapping, StaysInsideItsReservation) {
  CudaDevice cuda;
  void* memory = cuda.Allocate(SL_MEMORY_EXPORTABLE, 2 * kBytes);
  const sl_memory_handle_t handle = Export(cuda, memory, SL_HANDLE_FD);
  void* base = nullptr;
  ASSERT_EQ(cuda.ops->reserve(cuda.device, 3 * kBytes, &base), SL_OK) << last_error;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  const auto import_at = [&](uint64_t offset) {
    return cuda.ops->import_memory(cuda.device, &handle, static_cast<char*>(base) + offset, &mapping, &address);
  };
  EXPECT_EQ(import_at(4096), SL_ERR_INVALID) << "not at the granularity";
  EXPECT_EQ(import_at(2 * kBytes), SL_ERR_INVALID) << "reaches behind the end";
  ASSERT_EQ(import_at(kBytes), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->unreserve(cuda.device, base, 3 * kBytes), SL_ERR_STATE);
  EXPECT_EQ(cuda.ops->unreserve(cuda.device, base, kBytes), SL_ERR_INVALID);
  EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_OK);
  EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_ERR_INVALID) << "twice";
  FailNext("cuMemSetAccess", cu::kNotSupported);
  EXPECT_EQ(import_at(kBytes), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(cuda.ops->unreserve(cuda.device, base, 3 * kBytes), SL_OK) << last_error;
  close(handle.fd);
  EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
}

}  // namespace
}  // namespace sl::device_cuda
