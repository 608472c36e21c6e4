// SPDX-License-Identifier: Apache-2.0
// What a process does first, and what passes between processes. This one never uses CUDA: children do, each afresh.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

constexpr uint64_t kBytes = 65536;

// Runs `body` in a child; its failures are on stderr.
template <typename Body>
pid_t Start(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

bool EndedWell(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void AskWithoutInitialising() {
  CudaModule module;
  ASSERT_EQ(module.status, SL_OK) << last_error;
  cu::Context* context = nullptr;
  uint32_t ordinal = 77;
  EXPECT_EQ(module.ops->current(module.instance, &ordinal), SL_ERR_NOT_FOUND);
  EXPECT_EQ(module.calls().CtxGetCurrent(&context), cu::kNotInitialized) << "opening or current() initialised CUDA";
  uint32_t count = 0;
  EXPECT_EQ(module.ops->count(module.instance, &count), SL_OK);
  EXPECT_EQ(count, 2u);
  // Counting is not using.
  EXPECT_EQ(module.ops->current(module.instance, &ordinal), SL_ERR_NOT_FOUND);
  EXPECT_EQ(ordinal, 77u);
  EXPECT_TRUE(module.host.lines.empty());
}

TEST(Process, IsNotMadeToUseCuda) { EXPECT_TRUE(EndedWell(Start(AskWithoutInitialising))); }

void AskWhereTheProgramInitialised() {
  CudaModule module;
  ASSERT_EQ(module.calls().Init(0), cu::kSuccess);
  uint32_t ordinal = 77;
  EXPECT_EQ(module.ops->current(module.instance, &ordinal), SL_OK) << last_error;
  EXPECT_EQ(ordinal, 0u);
}

TEST(Process, ThatInitialisedCudaUsesItsFirstDevice) { EXPECT_TRUE(EndedWell(Start(AskWhereTheProgramInitialised))); }

// A front end ends late communicators in a handler of exit(), which runs behind the destructors of the thread.
void UseTheDriverAtExit() {
  static auto* const cuda = new CudaDevice;
  static const ContextScope* const scope = new ContextScope(*cuda->device);
  static cu::Context* before = nullptr;
  ASSERT_EQ(cuda->calls().CtxGetCurrent(&before), cu::kSuccess);
  ASSERT_NE(before, nullptr);
  const auto look = [] {
    cu::Context* context = nullptr;
    const cu::Code code = cuda->calls().CtxGetCurrent(&context);
    _exit(code == cu::kSuccess && context == before && scope != nullptr ? 0 : 1);
  };
  ASSERT_EQ(std::atexit(look), 0);
  std::exit(1);
}

TEST(Process, UsesTheDriverWhileItExits) { EXPECT_TRUE(EndedWell(Start(UseTheDriverAtExit))); }

void UseWhatTheParentOpened() {
  CudaDevice cuda;
  EXPECT_TRUE(EndedWell(Start([&] {
    void* memory = nullptr;
    EXPECT_EQ(cuda.ops->allocate(cuda.device, SL_MEMORY_PLAIN, 64, &memory), SL_ERR_STATE);
    EXPECT_NE(last_error.find("a child of fork"), std::string::npos) << last_error;
  })));
}

TEST(Process, ForkedFromOneThatUsesCudaIsToldSo) { EXPECT_TRUE(EndedWell(Start(UseWhatTheParentOpened))); }

// Imports the handle of plain memory that comes over the socket, and writes through it.
void BeThePeer(int socket) {
  sl_memory_handle_t handle{};
  ASSERT_EQ(read(socket, &handle, sizeof(handle)), static_cast<ssize_t>(sizeof(handle)));
  CudaDevice cuda;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  EXPECT_EQ(cuda.ops->import_memory(cuda.device, &handle, &handle, &mapping, &address), SL_ERR_INVALID)
      << "at a place of the caller's";
  ASSERT_EQ(cuda.ops->import_memory(cuda.device, &handle, nullptr, &mapping, &address), SL_OK) << last_error;
  static_cast<char*>(address)[9] = 77;
  EXPECT_EQ(cuda.ops->unmap(cuda.device, mapping), SL_OK) << last_error;
}

void BeTheOwner(int socket, pid_t peer) {
  CudaDevice cuda;
  void* memory = cuda.Allocate(SL_MEMORY_PLAIN, kBytes);
  EXPECT_EQ(cuda.InfoOf(memory).exportable, 1u);
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  ASSERT_EQ(cuda.ops->export_memory(cuda.device, memory, SL_HANDLE_IPC, &handle), SL_OK) << last_error;
  ASSERT_EQ(write(socket, &handle, sizeof(handle)), static_cast<ssize_t>(sizeof(handle)));
  EXPECT_TRUE(EndedWell(peer));
  EXPECT_EQ(static_cast<char*>(memory)[9], 77);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  EXPECT_EQ(cuda.ops->import_memory(cuda.device, &handle, nullptr, &mapping, &address), SL_ERR_UNSUPPORTED);
  EXPECT_NE(last_error.find("made by this process"), std::string::npos) << last_error;
  EXPECT_EQ(cuda.ops->release(cuda.device, memory), SL_OK);
}

TEST(Process, MapsPlainMemoryOfAnother) {
  EXPECT_TRUE(EndedWell(Start([] {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    BeTheOwner(ends[0], Start([&] { BeThePeer(ends[1]); }));
  })));
}

}  // namespace
}  // namespace sl::device_cuda
