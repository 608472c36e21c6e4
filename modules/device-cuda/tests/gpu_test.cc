// SPDX-License-Identifier: Apache-2.0
// What only a GPU can answer: real kernels, captures, memory mapped anew, other processes. Skips where there is none.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "modules/device-cuda/tests/fixture.h"
#include "modules/device-cuda/tests/gpu_kernels.h"

extern "C" const unsigned char sl_image_gpu_kernels[];
extern "C" const uint64_t sl_image_gpu_kernels_size;

namespace sl::device_cuda {
namespace {

// Functions of the driver that the module has no use for.
template <typename Function>
Function* DriverFunction(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  EXPECT_NE(function, nullptr) << name;
  dlclose(library);
  return function;
}

std::string WhyNoGpu() {
  CudaModule module;
  if (module.status != SL_OK) return last_error;
  uint32_t count = 0;
  module.ops->count(module.instance, &count);
  return count > 0 ? "" : "the driver finds no GPU";
}

constexpr const char* kNames[] = {"sl_test_add", "sl_test_sum_arguments", "sl_test_shape"};

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
    cuda_ = std::make_unique<CudaDevice>();
    const sl_image_desc_t desc = {sizeof(desc), 3, nullptr, sl_image_gpu_kernels, sl_image_gpu_kernels_size, kNames};
    ASSERT_EQ(cuda_->ops->image_load(cuda_->device, &desc, &image_), SL_OK) << last_error;
    stream_ = cuda_->NewStream();
    memory_ = static_cast<char*>(cuda_->Allocate(SL_MEMORY_PLAIN, 65536));
  }
  void TearDown() override {
    if (cuda_ == nullptr) return;
    EXPECT_EQ(cuda_->ops->stream_destroy(cuda_->device, stream_), SL_OK) << last_error;
    EXPECT_EQ(cuda_->ops->image_unload(cuda_->device, image_), SL_OK) << last_error;
    EXPECT_EQ(cuda_->ops->release(cuda_->device, memory_), SL_OK) << last_error;
  }

  template <typename Args>
  sl_launch_t LaunchOf(uint32_t kernel, const Args& args, uint32_t blocks, uint32_t threads) {
    sl_launch_t launch{};
    launch.struct_size = sizeof(launch);
    launch.image = image_;
    launch.kernel = kernel;
    launch.grid[0] = blocks;
    launch.block[0] = threads;
    launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
    launch.args = &args;
    launch.args_bytes = sizeof(args);
    return launch;
  }
  template <typename T>
  T Read(const void* from) {
    T value{};
    EXPECT_EQ(cuda_->ops->copy(cuda_->device, stream_, &value, from, sizeof(value)), SL_OK) << last_error;
    EXPECT_EQ(cuda_->ops->stream_wait_idle(cuda_->device, stream_, After(10)), SL_OK) << last_error;
    return value;
  }
  // Fresh physical memory, as programs make it that map by hand.
  void MapByHand(cu::Address place, uint64_t bytes) {
    const Calls& calls = cuda_->calls();
    cu::AllocationProp prop{};
    prop.type = cu::kAllocationPinned;
    prop.requested_handle_types = cu::kHandlePosixFd;
    prop.location = {cu::kLocationDevice, cuda_->device->id};
    const cu::AccessDesc access = {prop.location, cu::kAccessReadWrite};
    cu::Memory memory = 0;
    ASSERT_EQ(calls.MemCreate(&memory, bytes, &prop, 0), cu::kSuccess);
    ASSERT_EQ(calls.MemMap(place, bytes, 0, memory, 0), cu::kSuccess);
    ASSERT_EQ(calls.MemSetAccess(place, bytes, &access, 1), cu::kSuccess);
    calls.MemRelease(memory);
  }
  unsigned long long* counter() { return reinterpret_cast<unsigned long long*>(memory_); }

  std::unique_ptr<CudaDevice> cuda_;
  sl_image_t* image_ = nullptr;
  sl_stream_t* stream_ = nullptr;
  char* memory_ = nullptr;  // zeroed
};

TEST_F(Gpu, CopiesArgumentsAndKeepsTheOrder) {
  for (unsigned long long value = 1; value <= 100; ++value) {
    const AddArgs args = {counter(), value};
    const sl_launch_t launch = LaunchOf(0, args, 4, 32);
    ASSERT_EQ(cuda_->ops->launch(cuda_->device, value % 2 == 0 ? nullptr : stream_, &launch), SL_OK) << last_error;
  }
  EXPECT_EQ(cuda_->ops->stream_wait_idle(cuda_->device, nullptr, After(10)), SL_OK);
  EXPECT_EQ(Read<unsigned long long>(counter()), 4u * 5050u);
}

TEST_F(Gpu, TakesAsManyArgumentsAsItSays) {
  if (cuda_->device->info.max_argument_bytes < sizeof(ManyArgs)) GTEST_SKIP() << "4,096 bytes on this GPU or driver";
  const auto args = std::make_unique<ManyArgs>();
  args->out = counter();
  unsigned long long sum = 0;
  for (int i = 0; i < kManyWords; ++i) sum += args->words[i] = static_cast<uint32_t>(i) * 77u;
  const sl_launch_t launch = LaunchOf(1, *args, 1, 256);
  ASSERT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error;
  memset(args.get(), 0, sizeof(*args));
  EXPECT_EQ(Read<unsigned long long>(counter()), sum);
}

TEST_F(Gpu, LaunchesClustersCooperativelyAndDependently) {
  const int shared_bytes = cuda_->device->Attribute(cu::kMaxSharedMemoryPerBlockOptin);
  const ShapeArgs args = {reinterpret_cast<uint32_t*>(memory_), static_cast<uint32_t>(shared_bytes)};
  for (const uint32_t flags : {0u, SL_LAUNCH_COOPERATIVE, SL_LAUNCH_DEPENDENT}) {
    for (const uint32_t cluster : {0u, 2u, 4u}) {
      sl_launch_t launch = LaunchOf(2, args, 8, 64);
      launch.flags = flags;
      launch.cluster[0] = cluster;
      launch.cluster[1] = launch.cluster[2] = cluster == 0 ? 0 : 1;
      launch.shared_bytes = args.shared_bytes;
      ASSERT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error << " flags " << flags;
      struct Ranks {
        uint32_t of[8];
      };
      const auto ranks = Read<Ranks>(memory_);
      for (uint32_t block = 0; block < 8; ++block) {
        EXPECT_EQ(ranks.of[block], (cluster == 0 ? 0 : block % cluster) + 1) << "flags " << flags;
      }
    }
  }
  sl_launch_t launch = LaunchOf(2, args, 1, 64);
  launch.shared_bytes = args.shared_bytes + 1024;
  EXPECT_LT(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK);
  EXPECT_NE(last_error.find("cuLaunchKernelEx: CUDA_ERROR_"), std::string::npos) << last_error;
}

TEST_F(Gpu, IsUsedBesideACapture) {
  struct Graph;
  const auto begin = DriverFunction<cu::Code(cu::Stream*, cu::CaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = DriverFunction<cu::Code(cu::Stream*, Graph**)>("cuStreamEndCapture");
  const auto destroy = DriverFunction<cu::Code(Graph*)>("cuGraphDestroy");
  const ContextScope scope(*cuda_->device);
  constexpr cu::CaptureMode kGlobal = 0;  // the strictest: forbids what is unsafe to every thread
  auto* native = reinterpret_cast<cu::Stream*>(stream_);
  ASSERT_EQ(begin(native, kGlobal), cu::kSuccess);
  uint32_t state = 0;
  uint64_t id = 0;
  EXPECT_EQ(cuda_->ops->capture_state(cuda_->device, stream_, &state, &id), SL_OK) << last_error;
  EXPECT_EQ(state, 1u);
  EXPECT_NE(id, 0u);
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE, SL_MEMORY_HOST}) {
    EXPECT_EQ(cuda_->ops->release(cuda_->device, cuda_->Allocate(kind, 1 << 20)), SL_OK) << last_error;
  }
  sl_stream_t* other = cuda_->NewStream();
  sl_event_t* event = nullptr;
  ASSERT_EQ(cuda_->ops->event_create(cuda_->device, &event), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->event_record(cuda_->device, event, other), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->stream_wait_idle(cuda_->device, other, After(10)), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->event_query(cuda_->device, event), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->event_destroy(cuda_->device, event), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->stream_destroy(cuda_->device, other), SL_OK) << last_error;
  const AddArgs args = {counter(), 1};
  const sl_launch_t launch = LaunchOf(0, args, 1, 32);
  EXPECT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error;
  EXPECT_NE(cuda_->InfoOf(memory_).allocation_id, 0u);
  Graph* graph = nullptr;
  EXPECT_EQ(end(native, &graph), cu::kSuccess) << "something broke the capture";
  if (graph != nullptr) destroy(graph);
  EXPECT_EQ(Read<unsigned long long>(counter()), 0u) << "captured, not run";
}

// As PyTorch's expandable segments do: one reservation, physical memory that comes and goes.
TEST_F(Gpu, TellsMappingsOfOneReservationApart) {
  const Calls& calls = cuda_->calls();
  const ContextScope scope(*cuda_->device);
  const uint64_t bytes = cuda_->device->info.export_granularity;
  cu::Address base = 0;
  ASSERT_EQ(calls.MemAddressReserve(&base, 2 * bytes, bytes, 0, 0), cu::kSuccess);
  const auto map = [&](cu::Address place) { MapByHand(place, bytes); };
  const auto info_of = [&](cu::Address place) { return cuda_->InfoOf(reinterpret_cast<void*>(place)); };
  map(base);
  map(base + bytes);
  const sl_pointer_info_t first = info_of(base + 5);
  const sl_pointer_info_t second = info_of(base + bytes + 5);
  EXPECT_EQ(first.base, reinterpret_cast<void*>(base));
  EXPECT_EQ(first.bytes, bytes);
  EXPECT_EQ(second.base, reinterpret_cast<void*>(base + bytes));
  EXPECT_EQ(second.exportable, 1u);
  EXPECT_FALSE(first.allocation_id == second.allocation_id && first.generation == second.generation);
  for (int round = 0; round < 20; ++round) {
    const sl_pointer_info_t before = info_of(base);
    calls.MemUnmap(base, bytes);
    EXPECT_EQ(info_of(base).allocation_id, 0u) << "nothing is mapped there";
    map(base);
    const sl_pointer_info_t after = info_of(base);
    EXPECT_FALSE(before.allocation_id == after.allocation_id && before.generation == after.generation)
        << "id " << after.allocation_id << " generation " << after.generation << " round " << round;
  }
  calls.MemUnmap(base, bytes);
  calls.MemUnmap(base + bytes, bytes);
  calls.MemAddressFree(base, 2 * bytes);
}

// As peers do with a buffer over several of them.
TEST_F(Gpu, MapsARowOfDescriptorsSideBySide) {
  constexpr uint64_t kPieces = 3;
  const Calls& calls = cuda_->calls();
  const ContextScope scope(*cuda_->device);
  const uint64_t bytes = cuda_->device->info.export_granularity;
  cu::Address base = 0;
  ASSERT_EQ(calls.MemAddressReserve(&base, kPieces * bytes, bytes, 0, 0), cu::kSuccess);
  void* row = nullptr;
  ASSERT_EQ(cuda_->ops->reserve(cuda_->device, kPieces * bytes, &row), SL_OK) << last_error;
  std::vector<sl_mapping_t*> mappings;
  for (uint64_t i = 0; i < kPieces; ++i) {
    auto* const place = reinterpret_cast<char*>(base + i * bytes);
    MapByHand(base + i * bytes, bytes);
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    ASSERT_EQ(cuda_->ops->export_memory(cuda_->device, place, SL_HANDLE_FD, &handle), SL_OK) << last_error;
    EXPECT_EQ(handle.bytes, bytes);
    sl_mapping_t* mapping = nullptr;
    void* there = nullptr;
    ASSERT_EQ(cuda_->ops->import_memory(cuda_->device, &handle, static_cast<char*>(row) + i * bytes, &mapping, &there),
              SL_OK)
        << last_error;
    close(handle.fd);
    mappings.push_back(mapping);
    const uint64_t mark = 77 + i;
    EXPECT_EQ(cuda_->ops->copy(cuda_->device, stream_, place + bytes - sizeof(mark), &mark, sizeof(mark)), SL_OK);
    EXPECT_EQ(Read<uint64_t>(static_cast<char*>(there) + bytes - sizeof(mark)), mark);
  }
  for (sl_mapping_t* mapping : mappings) EXPECT_EQ(cuda_->ops->unmap(cuda_->device, mapping), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->unreserve(cuda_->device, row, kPieces * bytes), SL_OK) << last_error;
  for (uint64_t i = 0; i < kPieces; ++i) calls.MemUnmap(base + i * bytes, bytes);
  calls.MemAddressFree(base, kPieces * bytes);
}

TEST_F(Gpu, ReachesTheMemoryOfAnotherGpu) {
  uint32_t count = 0;
  ASSERT_EQ(cuda_->ops->count(cuda_->instance, &count), SL_OK);
  if (count < 2) GTEST_SKIP() << "one GPU";
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda_->ops->open(cuda_->instance, 1, &other), SL_OK) << last_error;
  void* there = nullptr;
  const uint64_t bytes = cuda_->device->info.export_granularity;
  ASSERT_EQ(cuda_->ops->allocate(other, SL_MEMORY_EXPORTABLE, bytes, &there), SL_OK) << last_error;
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  ASSERT_EQ(cuda_->ops->export_memory(other, there, SL_HANDLE_FD, &handle), SL_OK) << last_error;
  sl_mapping_t* mapping = nullptr;
  void* here = nullptr;
  ASSERT_EQ(cuda_->ops->import_memory(cuda_->device, &handle, nullptr, &mapping, &here), SL_OK) << last_error;
  close(handle.fd);
  const AddArgs args = {static_cast<unsigned long long*>(here), 42};
  const sl_launch_t launch = LaunchOf(0, args, 1, 32);
  ASSERT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error;
  EXPECT_EQ(Read<unsigned long long>(here), 42u);
  // At its own address, too, also where a program's current GPU is not the one whose memory and stream it names.
  sl_stream_t* stream_there = nullptr;
  ASSERT_EQ(cuda_->ops->stream_create(other, &stream_there), SL_OK) << last_error;
  {
    const ContextScope scope(*cuda_->device);
    const auto place = reinterpret_cast<cu::Address>(there);
    EXPECT_EQ(cuda_->calls().MemcpyAsync(place + sizeof(args), place, 8, reinterpret_cast<cu::Stream*>(stream_there)),
              cu::kSuccess);
  }
  EXPECT_EQ(cuda_->ops->stream_destroy(other, stream_there), SL_OK) << last_error;
  EXPECT_EQ(Read<unsigned long long>(static_cast<char*>(here) + sizeof(args)), 42u);
  unsigned long long seen = 0;
  EXPECT_EQ(cuda_->ops->copy(other, nullptr, &seen, there, sizeof(seen)), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->stream_wait_idle(other, nullptr, After(10)), SL_OK) << last_error;
  EXPECT_EQ(seen, 42u);
  EXPECT_EQ(cuda_->ops->unmap(cuda_->device, mapping), SL_OK) << last_error;
  EXPECT_EQ(cuda_->ops->release(other, there), SL_OK) << last_error;
  cuda_->ops->close(other);
}

TEST_F(Gpu, LendsItsMemoryToAnotherGpuOfTheProcess) {
  uint32_t count = 0;
  ASSERT_EQ(cuda_->ops->count(cuda_->instance, &count), SL_OK);
  if (count < 2) GTEST_SKIP() << "one GPU";
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda_->ops->open(cuda_->instance, 1, &other), SL_OK) << last_error;
  for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE}) {
    void* there = nullptr;
    ASSERT_EQ(cuda_->ops->allocate(other, kind, cuda_->device->info.export_granularity, &there), SL_OK) << last_error;
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    ASSERT_EQ(cuda_->ops->export_memory(other, there, SL_HANDLE_LOCAL, &handle), SL_OK) << last_error;
    sl_mapping_t* mapping = nullptr;
    void* here = nullptr;
    ASSERT_EQ(cuda_->ops->import_memory(cuda_->device, &handle, nullptr, &mapping, &here), SL_OK) << last_error;
    EXPECT_EQ(here == there, kind == SL_MEMORY_PLAIN);
    const AddArgs args = {static_cast<unsigned long long*>(here), 42};
    const sl_launch_t launch = LaunchOf(0, args, 1, 32);
    ASSERT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error;
    EXPECT_EQ(Read<unsigned long long>(here), 42u);
    EXPECT_EQ(Read<unsigned long long>(there), 42u);
    if (kind == SL_MEMORY_EXPORTABLE) {  // it outlives what its owner frees, and is nobody else's meanwhile
      EXPECT_EQ(cuda_->ops->release(other, there), SL_OK) << last_error;
      there = nullptr;
      ASSERT_EQ(cuda_->ops->launch(cuda_->device, stream_, &launch), SL_OK) << last_error;
      EXPECT_EQ(Read<unsigned long long>(here), 84u);
    }
    EXPECT_EQ(cuda_->ops->unmap(cuda_->device, mapping), SL_OK) << last_error;
    if (there != nullptr) {
      EXPECT_EQ(cuda_->ops->release(other, there), SL_OK) << last_error;
    }
  }
  cuda_->ops->close(other);
}

// What calls of the hot path cost; printed, not asserted.
TEST_F(Gpu, SaysWhatItsCallsCost) {
  const auto report = [&](const char* what, int rounds, auto&& call) {
    const uint64_t start = NowNs();
    for (int i = 0; i < rounds; ++i) call();
    printf("%-40s %8.1f ns\n", what, static_cast<double>(NowNs() - start) / rounds);
    EXPECT_EQ(cuda_->ops->stream_wait_idle(cuda_->device, stream_, After(10)), SL_OK);
  };
  const AddArgs args = {counter(), 1};
  const sl_launch_t launch = LaunchOf(0, args, 1, 32);
  const auto measure_all = [&] {
    report("context made current", 100000, [&] { const ContextScope inner(*cuda_->device); });
    report("pointer_info", 10000, [&] { cuda_->InfoOf(memory_); });
    uint32_t state = 0;
    uint64_t id = 0;
    report("capture_state", 10000, [&] { cuda_->ops->capture_state(cuda_->device, stream_, &state, &id); });
    report("launch", 500, [&] { cuda_->ops->launch(cuda_->device, stream_, &launch); });
  };
  measure_all();
  const ContextScope scope(*cuda_->device);
  printf("with the context current already:\n");
  measure_all();
}

// Imports plain memory of the owner's by an IPC handle, and writes through it.
int BeThePeer(int socket) {
  if (!WhyNoGpu().empty()) return 0;
  sl_memory_handle_t handle{};
  if (read(socket, &handle, sizeof(handle)) != static_cast<ssize_t>(sizeof(handle))) return 1;
  CudaDevice cuda;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  EXPECT_EQ(cuda.ops->import_memory(cuda.device, &handle, nullptr, &mapping, &address), SL_OK) << last_error;
  if (mapping == nullptr) return 1;
  const uint64_t mark = 77;
  EXPECT_EQ(cuda.ops->copy(cuda.device, nullptr, address, &mark, sizeof(mark)), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->stream_wait_idle(cuda.device, nullptr, After(10)), SL_OK) << last_error;
  EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_OK) << last_error;
  return ::testing::Test::HasFailure() ? 1 : 0;
}

// Forked before anything initialises CUDA.
int peer_socket = -1;
pid_t peer = -1;

TEST_F(Gpu, LendsPlainMemoryToAnotherProcess) {
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  ASSERT_EQ(cuda_->ops->export_memory(cuda_->device, memory_, SL_HANDLE_IPC, &handle), SL_OK) << last_error;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  EXPECT_EQ(cuda_->ops->import_memory(cuda_->device, &handle, nullptr, &mapping, &address), SL_ERR_UNSUPPORTED)
      << last_error;
  ASSERT_EQ(write(peer_socket, &handle, sizeof(handle)), static_cast<ssize_t>(sizeof(handle)));
  int status = 0;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Read<uint64_t>(memory_), 77u);
}

}  // namespace
}  // namespace sl::device_cuda

int main(int argc, char** argv) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  sl::device_cuda::peer = fork();
  if (sl::device_cuda::peer == 0) {
    close(ends[0]);
    _exit(sl::device_cuda::BeThePeer(ends[1]));
  }
  close(ends[1]);
  sl::device_cuda::peer_socket = ends[0];
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
