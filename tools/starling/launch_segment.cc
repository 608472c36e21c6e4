// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>

#include "sdk/clock.h"
#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

constexpr uint64_t kMagic = 0x534c42454e434831;  // "SLBENCH1"
constexpr int kSpins = 4000;                     // with a pause each: some tens of microseconds
constexpr int64_t kAlignNs = 20'000;             // time for the last worker to leave the barrier

[[noreturn]] void Fail(const std::string& what) {
  throw CommandError(kExitFailure, what + ": " + std::strerror(errno));
}

constexpr char kFolder[] = "/dev/shm";

// What the names of this user's segments begin with.
std::string Prefix() { return "starling-bench-" + std::to_string(getuid()) + "-"; }
std::string NameOf(const std::string& key) { return std::string(kFolder) + "/" + Prefix() + key; }

// A creator holds the lock as long as it lives, in whatever container.
bool IsAbandoned(int fd) { return flock(fd, LOCK_SH | LOCK_NB) == 0; }

// The folder is everybody's: what another user has put there under our name is not ours.
bool IsOurs(int fd, struct stat* status) { return fstat(fd, status) == 0 && status->st_uid == geteuid(); }

// Takes away what jobs that were killed have left. One that has no magic yet is being made.
void SweepAbandoned() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
    if (entry.path().filename().string().rfind(Prefix(), 0) != 0) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat status;
    uint64_t magic = 0;
    if (IsOurs(fd, &status) && pread(fd, &magic, sizeof magic, 0) == sizeof magic && magic == kMagic &&
        IsAbandoned(fd)) {
      unlink(entry.path().c_str());
    }
    close(fd);
  }
}

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, long wait_ns) {
  timespec limit{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits for the generation to change. The sleeper counts itself before it looks again (S1), and the last arriver
// changes the generation before it reads the count (S2); both sequentially consistent, so one of them sees the other.
bool AwaitGeneration(Segment* segment, uint32_t seen, int timeout_s) {
  const int64_t deadline = MonotonicNs() + static_cast<int64_t>(timeout_s) * 1'000'000'000;
  for (int i = 0; i < kSpins; ++i) {
    if (segment->generation.load(std::memory_order_acquire) != seen) return true;
    Pause();
  }
  while (segment->generation.load(std::memory_order_acquire) == seen) {
    if (segment->failed.load(std::memory_order_relaxed) != 0) return false;
    if (MonotonicNs() > deadline) return false;
    segment->sleepers.fetch_add(1);  // S1
    FutexWait(segment->generation, seen, 100'000'000);
    segment->sleepers.fetch_sub(1);
  }
  return true;
}

}  // namespace

int64_t MonotonicNs() { return static_cast<int64_t>(NowNs()); }

size_t SharedSegment::BytesFor(int workers) {
  return sizeof(Segment) + static_cast<size_t>(workers) * sizeof(WorkerSlot);
}

SharedSegment::SharedSegment(int fd, size_t bytes, std::string name)
    : fd_(fd), bytes_(bytes), segment_(nullptr), name_(std::move(name)) {
  void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) {
    close(fd_);
    Fail("cannot map the shared segment of the measurement");
  }
  segment_ = static_cast<Segment*>(base);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(other.fd_), bytes_(other.bytes_), segment_(other.segment_), name_(std::move(other.name_)) {
  other.fd_ = -1;
  other.segment_ = nullptr;
  other.name_.clear();
}

SharedSegment::~SharedSegment() {
  Unlink();
  if (segment_) munmap(segment_, bytes_);
  if (fd_ >= 0) close(fd_);
}

void SharedSegment::Unlink() {
  if (!name_.empty()) unlink(name_.c_str());
  name_.clear();
}

// Fresh pages are zero, which is the right start for everything else.
void SharedSegment::Initialise(int workers) {
  segment_->workers = static_cast<uint32_t>(workers);
  segment_->magic = kMagic;
}

SharedSegment SharedSegment::Create(int workers) {
  // Not close-on-exec: the children that are about to be started adopt it by number.
  int fd = memfd_create("starling-bench", 0);
  if (fd < 0) Fail("cannot create the shared segment of the measurement");
  if (ftruncate(fd, static_cast<off_t>(BytesFor(workers))) != 0) Fail("cannot size the shared segment");
  SharedSegment result(fd, BytesFor(workers), "");
  result.Initialise(workers);
  return result;
}

SharedSegment SharedSegment::Adopt(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < BytesFor(1)) {
    throw CommandError(kExitUsage, "STARLING_TOOL_LAUNCH names no segment; it is set by starling itself, unset it");
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  SharedSegment result(fd, static_cast<size_t>(status.st_size), "");
  Segment* segment = result.get();
  if (segment->magic != kMagic || BytesFor(static_cast<int>(segment->workers)) > static_cast<size_t>(status.st_size)) {
    throw CommandError(kExitUsage, "STARLING_TOOL_LAUNCH names a foreign file; it is set by starling itself, unset it");
  }
  return result;
}

SharedSegment SharedSegment::CreateNamed(const std::string& key, int workers) {
  const std::string name = NameOf(key);
  const std::string fresh = name + "." + std::to_string(getpid());
  SweepAbandoned();
  unlink(name.c_str());
  unlink(fresh.c_str());
  int fd = open(fresh.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) Fail("cannot create " + fresh);
  if (ftruncate(fd, static_cast<off_t>(BytesFor(workers))) != 0) Fail("cannot size " + fresh);
  SharedSegment result(fd, BytesFor(workers), fresh);
  if (flock(fd, LOCK_EX) != 0) Fail("cannot lock " + fresh);
  result.Initialise(workers);
  // Others see the segment only complete.
  if (rename(fresh.c_str(), name.c_str()) != 0) Fail("cannot rename " + fresh);
  result.name_ = name;
  return result;
}

SharedSegment SharedSegment::OpenNamed(const std::string& key, int workers, int timeout_s) {
  const std::string name = NameOf(key);
  const int64_t deadline = MonotonicNs() + static_cast<int64_t>(timeout_s) * 1'000'000'000;
  while (MonotonicNs() < deadline) {
    int fd = open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (fd >= 0 && (!IsOurs(fd, &status) || static_cast<size_t>(status.st_size) != BytesFor(workers))) {
      close(fd);
      fd = -1;
    }
    if (fd >= 0) {
      SharedSegment result(fd, BytesFor(workers), "");
      // Rank 0 will replace one that a job which crashed has left behind.
      if (result.get()->magic == kMagic && !IsAbandoned(fd)) return result;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  throw CommandError(kExitFailure, "rank 0 did not create " + name + " within " + std::to_string(timeout_s) +
                                       " s: are all ranks on this host? If not, give --id-file PATH on a shared file "
                                       "system");
}

void SetDoing(WorkerSlot& slot, const std::string& text) {
  slot.point.fetch_add(1);
  size_t length = std::min(text.size(), sizeof slot.doing - 1);
  std::memcpy(slot.doing, text.data(), length);
  slot.doing[length] = 0;
  slot.point.fetch_add(1);
  slot.progress.fetch_add(1, std::memory_order_relaxed);
}

std::string GetDoing(const WorkerSlot& slot) {
  uint32_t before = slot.point.load();
  char copy[sizeof slot.doing];
  std::memcpy(copy, slot.doing, sizeof copy);
  copy[sizeof copy - 1] = 0;
  return before % 2 == 0 && slot.point.load() == before ? copy : "";
}

std::string LateText(int timeout_s) {
  return "not all workers came to the barrier within " + std::to_string(timeout_s) + " s";
}

void SegmentFail(Segment* segment, int worker) {
  uint32_t none = 0;
  segment->failed.compare_exchange_strong(none, static_cast<uint32_t>(worker) + 1);
  FutexWakeAll(segment->generation);
}

bool SegmentBarrier(Segment* segment, int worker, int timeout_s, bool aligned) {
  if (segment->failed.load(std::memory_order_relaxed) != 0) return false;
  segment->slots[worker].progress.fetch_add(1, std::memory_order_relaxed);
  const uint32_t seen = segment->generation.load(std::memory_order_acquire);
  if (segment->arrived.fetch_add(1) + 1 == segment->workers) {
    segment->arrived.store(0, std::memory_order_relaxed);
    // Aligning costs spinning, which would keep a core from workers that have none.
    const bool cores = segment->workers <= std::thread::hardware_concurrency();
    segment->start_ns.store(aligned && cores ? MonotonicNs() + kAlignNs : 0, std::memory_order_relaxed);
    segment->generation.fetch_add(1);  // releases everything written before the barrier; S2
    if (segment->sleepers.load() != 0) FutexWakeAll(segment->generation);
  } else if (!AwaitGeneration(segment, seen, timeout_s)) {
    // A launcher may end the job with the first worker that leaves: all can say why.
    SetDoing(segment->slots[worker], LateText(timeout_s));
    SegmentFail(segment, worker);
    return false;
  }
  const int64_t start = segment->start_ns.load(std::memory_order_relaxed);
  while (start != 0 && MonotonicNs() < start) Pause();
  return true;
}

}  // namespace sl::tools
