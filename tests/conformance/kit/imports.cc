// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <set>

#include "tests/conformance/kit/data_watch.h"

namespace sl::conform {
namespace {

// Replacements are plain functions, called from anywhere in the module: what they share has to be global.
struct Watch {
  std::atomic<uint64_t> fail_at[2]{};
  std::atomic<uint64_t> requests[2]{};
  std::mutex mutex;
  std::set<void*> blocks;  // guarded by mutex
};
Watch g_watch;

// Whether this request is the one to refuse.
bool Refused(Imports::Kind kind) {
  const auto index = static_cast<size_t>(kind);
  return g_watch.requests[index].fetch_add(1) + 1 == g_watch.fail_at[index].load();
}
bool NoMemory() {
  DataWatch::Allocated();
  return Refused(Imports::Kind::kMemory);
}
bool NoResource() { return Refused(Imports::Kind::kResource); }

void* Keep(void* block) {
  if (block != nullptr) {
    const std::lock_guard lock(g_watch.mutex);
    g_watch.blocks.insert(block);
  }
  return block;
}
void Forget(void* block) {
  const std::lock_guard lock(g_watch.mutex);
  g_watch.blocks.erase(block);
}
void* OutOfMemory() {
  errno = ENOMEM;
  return nullptr;
}

void* Malloc(size_t bytes) { return NoMemory() ? OutOfMemory() : Keep(malloc(bytes)); }
void* Calloc(size_t count, size_t bytes) { return NoMemory() ? OutOfMemory() : Keep(calloc(count, bytes)); }
void* Realloc(void* block, size_t bytes) {
  if (NoMemory()) return OutOfMemory();
  Forget(block);
  return Keep(realloc(block, bytes));
}
void* AlignedAlloc(size_t alignment, size_t bytes) {
  return NoMemory() ? OutOfMemory() : Keep(aligned_alloc(alignment, bytes));
}
void* Memalign(size_t alignment, size_t bytes) { return NoMemory() ? OutOfMemory() : Keep(memalign(alignment, bytes)); }
int PosixMemalign(void** out, size_t alignment, size_t bytes) {
  if (NoMemory()) return ENOMEM;
  const int error = posix_memalign(out, alignment, bytes);
  if (error == 0) Keep(*out);
  return error;
}
void Free(void* block) {
  Forget(block);
  free(block);
}

// For modules that take operator new from a shared C++ library.
void* New(size_t bytes) {
  void* block = NoMemory() ? nullptr : Keep(malloc(bytes > 0 ? bytes : 1));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* NewNothrow(size_t bytes, const std::nothrow_t&) noexcept { return Malloc(bytes > 0 ? bytes : 1); }
void* NewAligned(size_t bytes, std::align_val_t alignment) {
  void* block = NoMemory() ? nullptr : Keep(memalign(static_cast<size_t>(alignment), bytes));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void DeleteSized(void* block, size_t) { Free(block); }
void DeleteAligned(void* block, std::align_val_t) { Free(block); }
void DeleteSizedAligned(void* block, size_t, std::align_val_t) { Free(block); }

void* Mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (!NoResource()) return mmap(address, bytes, protection, flags, fd, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}
int PthreadCreate(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  return NoResource() ? EAGAIN : pthread_create(thread, attributes, run, argument);
}
int NoDescriptor() {
  errno = EMFILE;
  return -1;
}
int MemfdCreate(const char* name, unsigned flags) { return NoResource() ? NoDescriptor() : memfd_create(name, flags); }
int Socket(int domain, int type, int protocol) {
  return NoResource() ? NoDescriptor() : socket(domain, type, protocol);
}
int Socketpair(int domain, int type, int protocol, int* fds) {
  return NoResource() ? NoDescriptor() : socketpair(domain, type, protocol, fds);
}
int Pipe2(int* fds, int flags) { return NoResource() ? NoDescriptor() : pipe2(fds, flags); }
int Eventfd(unsigned value, int flags) { return NoResource() ? NoDescriptor() : eventfd(value, flags); }
int EpollCreate1(int flags) { return NoResource() ? NoDescriptor() : epoll_create1(flags); }
int Ftruncate(int fd, off_t bytes) { return NoResource() ? NoDescriptor() : ftruncate(fd, bytes); }
int Open(const char* path, int flags, unsigned mode) { return NoResource() ? NoDescriptor() : open(path, flags, mode); }

template <typename Function>
void* Address(Function function) {
  return reinterpret_cast<void*>(function);
}

struct Replacement {
  const char* name;
  void* function;
};

// Mangled names are those of 64-bit Linux, where size_t is unsigned long.
const Replacement* FindReplacement(const char* name) {
  static const Replacement kAll[] = {
      {"malloc", Address(Malloc)},
      {"calloc", Address(Calloc)},
      {"realloc", Address(Realloc)},
      {"aligned_alloc", Address(AlignedAlloc)},
      {"memalign", Address(Memalign)},
      {"posix_memalign", Address(PosixMemalign)},
      {"free", Address(Free)},
      {"_Znwm", Address(New)},
      {"_Znam", Address(New)},
      {"_ZnwmRKSt9nothrow_t", Address(NewNothrow)},
      {"_ZnamRKSt9nothrow_t", Address(NewNothrow)},
      {"_ZnwmSt11align_val_t", Address(NewAligned)},
      {"_ZnamSt11align_val_t", Address(NewAligned)},
      {"_ZdlPv", Address(Free)},
      {"_ZdaPv", Address(Free)},
      {"_ZdlPvm", Address(DeleteSized)},
      {"_ZdaPvm", Address(DeleteSized)},
      {"_ZdlPvSt11align_val_t", Address(DeleteAligned)},
      {"_ZdaPvSt11align_val_t", Address(DeleteAligned)},
      {"_ZdlPvmSt11align_val_t", Address(DeleteSizedAligned)},
      {"_ZdaPvmSt11align_val_t", Address(DeleteSizedAligned)},
      {"mmap", Address(Mmap)},
      {"mmap64", Address(Mmap)},
      {"pthread_create", Address(PthreadCreate)},
      {"memfd_create", Address(MemfdCreate)},
      {"socket", Address(Socket)},
      {"socketpair", Address(Socketpair)},
      {"pipe2", Address(Pipe2)},
      {"eventfd", Address(Eventfd)},
      {"epoll_create1", Address(EpollCreate1)},
      {"ftruncate", Address(Ftruncate)},
      {"ftruncate64", Address(Ftruncate)},
      {"open", Address(Open)},
      {"open64", Address(Open)},
  };
  for (const Replacement& one : kAll) {
    if (std::strcmp(one.name, name) == 0) return &one;
  }
  return nullptr;
}

// Relocations that hold a function's address.
bool HoldsAddress(uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#else
  return false;
#endif
}

// The parts of a loaded library's dynamic section that are looked at; glibc has made the pointers absolute.
struct Dynamic {
  const Elf64_Sym* symbols = nullptr;
  const char* strings = nullptr;
  const Elf64_Rela* tables[2] = {};
  size_t bytes[2] = {};

  explicit Dynamic(const Elf64_Dyn* entry) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      const auto pointer = static_cast<uintptr_t>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(pointer);
      if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(pointer);
      if (entry->d_tag == DT_RELA) tables[0] = reinterpret_cast<const Elf64_Rela*>(pointer);
      if (entry->d_tag == DT_RELASZ) bytes[0] = entry->d_un.d_val;
      if (entry->d_tag == DT_JMPREL) tables[1] = reinterpret_cast<const Elf64_Rela*>(pointer);
      if (entry->d_tag == DT_PLTRELSZ) bytes[1] = entry->d_un.d_val;
    }
  }
};

// Tables are read-only once a library is loaded.
bool MakeWritable(void* slot) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(slot) / page * page;
  return mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE) == 0;
}

}  // namespace

Imports::Imports(Trial& trial, const LoadedModule& module, bool required) {
  link_map* map = nullptr;
  if (dlinfo(module.handle(), RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_ld == nullptr) {
    if (!required) return;
    trial.Skip("this C library does not tell where a module lies");
  }
  const Dynamic dynamic(map->l_ld);
  for (size_t table = 0; table < 2; ++table) {
    for (size_t i = 0; dynamic.tables[table] != nullptr && i < dynamic.bytes[table] / sizeof(Elf64_Rela); ++i) {
      const Elf64_Rela& relocation = dynamic.tables[table][i];
      if (!HoldsAddress(ELF64_R_TYPE(relocation.r_info)) || relocation.r_addend != 0) continue;
      const Elf64_Sym& symbol = dynamic.symbols[ELF64_R_SYM(relocation.r_info)];
      const Replacement* replacement = FindReplacement(dynamic.strings + symbol.st_name);
      if (replacement == nullptr) continue;
      auto* slot = reinterpret_cast<void**>(map->l_addr + relocation.r_offset);
      if (!MakeWritable(slot)) continue;
      patches_.push_back({slot, *slot});
      *slot = replacement->function;
    }
  }
  FailAt(Kind::kMemory, 0);
  FailAt(Kind::kResource, 0);
  if (patches_.empty() && required) trial.Skip("the module imports nothing that could be refused");
}

Imports::~Imports() {
  for (const Patch& patch : patches_) *patch.slot = patch.original;
}

void Imports::FailAt(Kind kind, uint64_t nth) {
  const auto index = static_cast<size_t>(kind);
  g_watch.requests[index].store(0);
  g_watch.fail_at[index].store(nth);
}

uint64_t Imports::Requests(Kind kind) const { return g_watch.requests[static_cast<size_t>(kind)].load(); }

uint64_t Imports::LiveBlocks() const {
  const std::lock_guard lock(g_watch.mutex);
  return g_watch.blocks.size();
}

}  // namespace sl::conform
