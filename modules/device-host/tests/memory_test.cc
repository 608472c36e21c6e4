// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "modules/device-host/tests/fixture.h"

namespace sl::device_host {
namespace {

constexpr uint64_t kBytes = 1 << 20;

sl_pointer_info_t InfoOf(HostDevice& host, const void* pointer) {
  sl_pointer_info_t info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(host.ops->pointer_info(host.device, pointer, &info), SL_OK);
  return info;
}

void* Allocate(HostDevice& host, uint32_t kind, uint64_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(host.ops->allocate(host.device, kind, bytes, &memory), SL_OK) << last_error;
  return memory;
}

sl_memory_handle_t Export(HostDevice& host, void* memory) {
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  EXPECT_EQ(host.ops->export_memory(host.device, memory, SL_HANDLE_FD, &handle), SL_OK) << last_error;
  return handle;
}

// Whether one byte there can be read, without a fault when it cannot.
bool IsReadable(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

size_t SegmentMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:starling") != std::string::npos;
  return count;
}

TEST(Memory, IsZeroedAndAligned) {
  HostDevice host;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, kBytes, 5 * kBytes}) {
    for (const uint32_t kind : {SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE}) {
      auto* memory = static_cast<unsigned char*>(Allocate(host, kind, bytes));
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (kind == SL_MEMORY_PLAIN ? 64 : 4096), 0u);
      for (uint64_t i = 0; i < bytes; i += 61) ASSERT_EQ(memory[i], 0);
      memset(memory, 0xff, bytes);
      EXPECT_EQ(host.ops->release(host.device, memory), SL_OK);
    }
  }
}

TEST(Memory, RefusesWhatCannotBe) {
  HostDevice host;
  void* memory = nullptr;
  EXPECT_EQ(host.ops->allocate(host.device, SL_MEMORY_PLAIN, 0, &memory), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->allocate(host.device, 9, 64, &memory), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->allocate(host.device, SL_MEMORY_EXPORTABLE, UINT64_MAX, &memory), SL_ERR_DEVICE_MEMORY);
  EXPECT_NE(last_error.find("more than this machine"), std::string::npos);
  int local = 0;
  EXPECT_EQ(host.ops->release(host.device, &local), SL_ERR_INVALID);
  auto* plain = static_cast<char*>(Allocate(host, SL_MEMORY_PLAIN, 128));
  EXPECT_EQ(host.ops->release(host.device, plain + 64), SL_ERR_INVALID);
  sl_memory_handle_t handle{};
  EXPECT_EQ(host.ops->export_memory(host.device, plain, SL_HANDLE_FD, &handle), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->export_memory(host.device, plain, SL_HANDLE_FABRIC, &handle), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(host.ops->release(host.device, plain), SL_OK);
  EXPECT_EQ(host.ops->release(host.device, plain), SL_ERR_INVALID);
}

TEST(PointerInfo, KnowsInsideFromOutside) {
  HostDevice host;
  auto* memory = static_cast<char*>(Allocate(host, SL_MEMORY_EXPORTABLE, 4096));
  for (const uint64_t offset : {0, 1, 4095}) {
    const sl_pointer_info_t info = InfoOf(host, memory + offset);
    EXPECT_EQ(info.base, memory);
    EXPECT_EQ(info.bytes, 4096u);
    EXPECT_NE(info.allocation_id, 0u);
    EXPECT_EQ(info.exportable, 1u);
  }
  EXPECT_EQ(InfoOf(host, memory + 4096).allocation_id, 0u);
  EXPECT_EQ(InfoOf(host, memory - 1).allocation_id, 0u);
  int local = 0;
  EXPECT_EQ(InfoOf(host, &local).allocation_id, 0u);
  EXPECT_EQ(InfoOf(host, nullptr).allocation_id, 0u);
  host.ops->release(host.device, memory);
  EXPECT_EQ(InfoOf(host, memory).allocation_id, 0u);
}

TEST(PointerInfo, ChangesGenerationWhenAnAddressIsReused) {
  HostDevice host;
  void* first = Allocate(host, SL_MEMORY_EXPORTABLE, kBytes);
  const uint64_t generation = InfoOf(host, first).generation;
  host.ops->release(host.device, first);
  void* again = nullptr;
  for (int i = 0; i < 64 && again != first; ++i) again = Allocate(host, SL_MEMORY_EXPORTABLE, kBytes);
  ASSERT_EQ(again, first) << "this system never gave the address again";
  EXPECT_GT(InfoOf(host, again).generation, generation);
}

TEST(PointerInfo, IsRightWhileOthersAllocate) {
  HostDevice host;
  void* fixed = Allocate(host, SL_MEMORY_PLAIN, 4096);
  const uint64_t id = InfoOf(host, fixed).allocation_id;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::vector<void*> held;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 100; ++i) held.push_back(Allocate(host, SL_MEMORY_PLAIN, 64));
      while (!held.empty()) {
        host.ops->release(host.device, held.back());
        held.pop_back();
      }
    }
    stop = true;
  });
  uint64_t looks = 0;
  while (!stop || looks < 1000) {
    const sl_pointer_info_t info = InfoOf(host, static_cast<char*>(fixed) + 100);
    ASSERT_EQ(info.allocation_id, id);
    ASSERT_EQ(info.base, fixed);
    ++looks;
  }
  writer.join();
}

TEST(Export, SharesASegmentWithAnotherProcess) {
  HostDevice host;
  auto* memory = static_cast<uint32_t*>(Allocate(host, SL_MEMORY_EXPORTABLE, kBytes));
  memory[0] = 17;
  const sl_memory_handle_t handle = Export(host, memory);
  const pid_t child = fork();
  if (child == 0) {
    // The child's own view comes from the handle alone: what fork could have shared is not there.
    if (IsReadable(memory)) _exit(2);
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    if (host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address) != SL_OK) _exit(3);
    auto* shared = static_cast<uint32_t*>(address);
    if (shared[0] != 17) _exit(4);
    shared[kBytes / sizeof(uint32_t) - 1] = 42;
    _exit(host.ops->unmap(host.device, mapping) == SL_OK ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(memory[kBytes / sizeof(uint32_t) - 1], 42u);
  close(handle.fd);
}

TEST(Export, OutlivesTheAllocation) {
  HostDevice host;
  auto* memory = static_cast<char*>(Allocate(host, SL_MEMORY_EXPORTABLE, 4096));
  strcpy(memory, "still here");
  const sl_memory_handle_t handle = Export(host, memory);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  std::thread([&] {
    EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_OK);
  }).join();
  close(handle.fd);
  EXPECT_EQ(host.ops->release(host.device, memory), SL_OK);
  EXPECT_STREQ(static_cast<char*>(address), "still here");
  EXPECT_EQ(InfoOf(host, address).exportable, 0u);
  EXPECT_EQ(host.ops->unmap(host.device, mapping), SL_OK);
  EXPECT_EQ(InfoOf(host, address).allocation_id, 0u);
}

TEST(Import, FillsAReservationAndGivesItBack) {
  HostDevice host;
  constexpr uint64_t kRanks = 4;
  void* base = nullptr;
  ASSERT_EQ(host.ops->reserve(host.device, kRanks * 4096, &base), SL_OK);
  EXPECT_FALSE(IsReadable(base));
  std::vector<sl_mapping_t*> mappings;
  for (uint64_t r = 0; r < kRanks; ++r) {
    auto* memory = static_cast<char*>(Allocate(host, SL_MEMORY_EXPORTABLE, 4096));
    memory[0] = static_cast<char>('a' + r);
    const sl_memory_handle_t handle = Export(host, memory);
    void* place = static_cast<char*>(base) + r * 4096;
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    ASSERT_EQ(host.ops->import_memory(host.device, &handle, place, &mapping, &address), SL_OK) << last_error;
    EXPECT_EQ(address, place);
    EXPECT_EQ(host.ops->import_memory(host.device, &handle, place, &mapping, &address), SL_ERR_INVALID);
    close(handle.fd);
    mappings.push_back(mapping);
  }
  for (uint64_t r = 0; r < kRanks; ++r) EXPECT_EQ(static_cast<char*>(base)[r * 4096], static_cast<char>('a' + r));
  EXPECT_EQ(host.ops->unreserve(host.device, base, kRanks * 4096), SL_ERR_STATE);
  for (sl_mapping_t* mapping : mappings) EXPECT_EQ(host.ops->unmap(host.device, mapping), SL_OK);
  EXPECT_FALSE(IsReadable(base));
  // Still reserved: nobody else was given the place.
  void* elsewhere = mmap(base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(elsewhere, MAP_FAILED);
  EXPECT_EQ(host.ops->unreserve(host.device, base, kRanks * 4096), SL_OK);
  EXPECT_EQ(host.ops->unreserve(host.device, base, kRanks * 4096), SL_ERR_INVALID);
}

TEST(Import, RefusesPlacesOutsideReservations) {
  HostDevice host;
  void* memory = Allocate(host, SL_MEMORY_EXPORTABLE, 8192);
  const sl_memory_handle_t handle = Export(host, memory);
  void* base = nullptr;
  ASSERT_EQ(host.ops->reserve(host.device, 8192, &base), SL_OK);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  char* start = static_cast<char*>(base);
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, start + 4096, &mapping, &address), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, start - 4096, &mapping, &address), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, start + 1, &mapping, &address), SL_ERR_INVALID);
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, memory, &mapping, &address), SL_ERR_INVALID);
  close(handle.fd);
}

TEST(Import, RefusesDescriptorsThatCannotBeTrusted) {
  HostDevice host;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  sl_memory_handle_t handle = Export(host, Allocate(host, SL_MEMORY_EXPORTABLE, 8192));
  const int good = handle.fd;
  handle.bytes = 1 << 20;
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_ERR_DENIED);
  handle.bytes = 4096;
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_ERR_DENIED);
  handle.bytes = 8192;
  handle.fd = -1;
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_ERR_DENIED);
  handle.fd = memfd_create("stranger", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(handle.fd, 8192), 0);
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_ERR_DENIED);
  EXPECT_NE(last_error.find("shrink"), std::string::npos);
  close(handle.fd);
  handle.fd = good;
  handle.type = SL_HANDLE_FABRIC;
  EXPECT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_ERR_UNSUPPORTED);
  close(good);
}

TEST(Close, LeavesNoDescriptorAndNoMapping) {
  const size_t descriptors = OpenDescriptors();
  {
    HostDevice host;
    void* memory = Allocate(host, SL_MEMORY_EXPORTABLE, kBytes);
    const sl_memory_handle_t handle = Export(host, memory);
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    void* base = nullptr;
    ASSERT_EQ(host.ops->import_memory(host.device, &handle, nullptr, &mapping, &address), SL_OK);
    ASSERT_EQ(host.ops->reserve(host.device, kBytes, &base), SL_OK);
    ASSERT_EQ(host.ops->import_memory(host.device, &handle, base, &mapping, &address), SL_OK);
    close(handle.fd);
    EXPECT_EQ(SegmentMappings(), 3u);
    EXPECT_EQ(host.Quiesce(NowNs()), SL_ERR_TIMEOUT);
    EXPECT_NE(last_error.find("1 opening"), std::string::npos) << last_error;
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(SegmentMappings(), 0u);
}

TEST(Info, DescribesThisMachine) {
  HostDevice host;
  uint32_t count = 0;
  EXPECT_EQ(host.ops->count(host.instance, &count), SL_OK);
  EXPECT_EQ(count, 1u);
  sl_device_t* other = nullptr;
  EXPECT_EQ(host.ops->open(host.instance, 1, &other), SL_ERR_NOT_FOUND);
  sl_device_info_t info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(host.ops->info(host.device, &info), SL_OK);
  EXPECT_EQ(info.kind, SL_DEVICE_HOST);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(info.processors, static_cast<uint32_t>(CPU_COUNT(&set)));
  EXPECT_GE(info.max_argument_bytes, 4096u);
  EXPECT_GE(info.memory_bytes, uint64_t{64} << 20);
  sl_device_info_t again{};
  again.struct_size = offsetof(sl_device_info_t, clique);
  again.clique = 77;
  ASSERT_EQ(host.ops->info(host.device, &again), SL_OK);
  EXPECT_EQ(memcmp(info.domain, again.domain, sizeof(info.domain)), 0);
  EXPECT_EQ(again.clique, 77u) << "more was written than struct_size allows";
}

}  // namespace
}  // namespace sl::device_host
