// SPDX-License-Identifier: Apache-2.0
#include "sdk/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace {

int g_random_error = 0;  // of getrandom; EINTR: the first time only
int g_memory_error = 0;  // of memfd_create

}  // namespace

// This program's own, which the code under test calls.
extern "C" ssize_t getrandom(void* buffer, size_t bytes, unsigned flags) {
  using GetRandom = ssize_t (*)(void*, size_t, unsigned);
  static const auto real = reinterpret_cast<GetRandom>(dlsym(RTLD_NEXT, "getrandom"));
  if (g_random_error != 0) {
    errno = g_random_error;
    if (g_random_error == EINTR) g_random_error = 0;
    return -1;
  }
  return real(buffer, std::min<size_t>(bytes, 5), flags);  // in small pieces
}

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  using Create = int (*)(const char*, unsigned);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "memfd_create"));
  if (g_memory_error == 0) return real(name, flags);
  errno = g_memory_error;
  return -1;
}

namespace sl {
namespace {

bool Has(const Status& status, const std::string& part) { return status.message().find(part) != std::string::npos; }

// Some byte of so many is not 0.
bool IsFilled(const std::array<uint8_t, 64>& bytes) {
  return std::any_of(bytes.begin() + 48, bytes.end(), [](uint8_t byte) { return byte != 0; });
}

class Random : public testing::TestWithParam<int> {
 protected:
  ~Random() override { g_random_error = 0; }
};
INSTANTIATE_TEST_SUITE_P(Refused, Random, testing::Values(0, EINTR, EPERM, ENOSYS, EINVAL));

TEST_P(Random, IsFilledWhateverGetrandomSays) {
  g_random_error = GetParam();
  std::array<uint8_t, 64> bytes{};
  EXPECT_TRUE(FillRandom(bytes).ok());
  EXPECT_TRUE(IsFilled(bytes));
}

TEST(RandomRefused, IsAnErrorThatSaysSoWithoutADescriptorForTheFile) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  g_random_error = EPERM;
  std::array<uint8_t, 64> bytes{};
  setrlimit(RLIMIT_NOFILE, &none);
  const Status raised = FillRandom(bytes);  // the soft limit is raised for the file
  EXPECT_TRUE(raised.ok()) << raised.message();
  g_random_error = 0;
  setrlimit(RLIMIT_NOFILE, &before);
}

class SharedMemory : public testing::Test {
 protected:
  ~SharedMemory() override { g_memory_error = 0; }
  static constexpr uint64_t kBytes = 1 << 20;
  static Result<Fd> Make() { return MakeSharedMemory("a segment", "test", kBytes, F_SEAL_SHRINK | F_SEAL_GROW); }
};

TEST_F(SharedMemory, HasItsSizeAndSeals) {
  const Result<Fd> made = Make();
  ASSERT_TRUE(made.ok());
  struct stat info {};
  ASSERT_EQ(fstat(made.value().get(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), kBytes);
  EXPECT_EQ(fcntl(made.value().get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
}

TEST_F(SharedMemory, SaysThatASandboxForbidsItNotThatDescriptorsAreUsedUp) {
  for (const int error : {EPERM, EACCES, ENOSYS}) {
    g_memory_error = error;
    const Status status = Make().status();
    EXPECT_EQ(status.code(), SL_ERR_SYSTEM);
    EXPECT_TRUE(Has(status, "a segment: memfd_create: ")) << status.message();
    EXPECT_TRUE(Has(status, "seccomp")) << status.message();
    EXPECT_FALSE(Has(status, "ulimit")) << status.message();
  }
  g_memory_error = EMFILE;
  EXPECT_TRUE(Has(Make().status(), "ulimit -n"));
  EXPECT_EQ(Make().status().code(), SL_ERR_LIMIT);
}

void MakeWithLittleRoom() {
  const rlimit small = {1 << 19, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = MakeSharedMemory("a segment", "test", 1 << 20, F_SEAL_SHRINK).status();
  _exit(status.code() == SL_ERR_LIMIT && Has(status, "ulimit -f") ? 0 : 1);
}

// Without the signal that ends a program which expects none.
TEST_F(SharedMemory, IsAnErrorWhereFilesMayNotBeThatLarge) {
  EXPECT_EXIT(MakeWithLittleRoom(), testing::ExitedWithCode(0), "");
}

TEST(Descriptors, AreAskedForOnceMoreWhenTheSoftLimitCouldBeRaised) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 64) GTEST_SKIP() << "a hard limit of " << before.rlim_max;
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Fd fd = MakeFd([] { return dup(0); });
  EXPECT_TRUE(fd.valid() || errno == EBADF);
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Remedy, FitsTheErrorAndTheCall) {
  EXPECT_EQ(RemedyOf("open", EMFILE), "raise the limit on descriptors (ulimit -n)");
  EXPECT_NE(RemedyOf("open", ENFILE).find("fs.file-max"), std::string::npos);
  EXPECT_NE(RemedyOf("ftruncate", EFBIG).find("ulimit -f"), std::string::npos);
  EXPECT_NE(RemedyOf("mmap", ENOMEM).find("vm.max_map_count"), std::string::npos);
  EXPECT_EQ(RemedyOf("recv", EAGAIN), "");
  EXPECT_EQ(RemedyOf("recv", EIO), "");
  EXPECT_NE(RemedyOf("pthread_create", EAGAIN).find("ulimit -u"), std::string::npos);
}

}  // namespace
}  // namespace sl
