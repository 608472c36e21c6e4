// SPDX-License-Identifier: Apache-2.0
// The shared memory through which the workers of one measurement on one host meet: a barrier, a small all-gather, the
// unique id, and what each worker is doing, so that a stuck or dead one can be named. A worker is one thread of one
// process. Nothing here calls the library under test.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sl::tools {

inline constexpr int kMaxWorkers = 1024;
inline constexpr size_t kMaxGatherBytes = 256;

struct alignas(64) WorkerSlot {
  std::atomic<uint64_t> progress;  // grows while the worker gets on; the watchdog reads it
  std::atomic<uint32_t> point;     // version of `doing`, odd while it is written
  int32_t pid;
  char doing[112];                           // for messages: "all_reduce 1048576 bytes"
  unsigned char gather[2][kMaxGatherBytes];  // by parity of the number of gathers before
};

struct Segment {
  uint64_t magic;
  uint32_t workers;
  alignas(64) std::atomic<uint32_t> failed;  // 1 + the first worker (or kMaxWorkers for the launcher) that gave up
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> generation;
  std::atomic<uint32_t> sleepers;
  std::atomic<int64_t> start_ns;  // common start time of the generation's workers, CLOCK_MONOTONIC; 0 = at once
  WorkerSlot slots[1];            // `workers` of them
};

// Maps a segment; owns the mapping and the descriptor.
class SharedSegment {
 public:
  // An anonymous segment whose descriptor children inherit.
  static SharedSegment Create(int workers);
  // Maps the descriptor that the launcher passed on.
  static SharedSegment Adopt(int fd);
  // A named segment for processes that something else started: the creator makes it, the others wait for it until
  // `timeout_s` has passed. `key` is the same in all processes of the job and in no other running job. What jobs that
  // were killed have left under other keys goes when one is created.
  static SharedSegment CreateNamed(const std::string& key, int workers);
  static SharedSegment OpenNamed(const std::string& key, int workers, int timeout_s);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  Segment* get() const { return segment_; }
  WorkerSlot& slot(int worker) const { return segment_->slots[worker]; }
  int fd() const { return fd_; }
  // Takes the name away once all have opened it.
  void Unlink();

 private:
  SharedSegment(int fd, size_t bytes, std::string name);
  static size_t BytesFor(int workers);
  void Initialise(int workers);

  int fd_;
  size_t bytes_;
  Segment* segment_;
  std::string name_;  // path of a named segment that is still to be unlinked
};

// Says what `slot`'s worker is doing. Called by that worker alone.
void SetDoing(WorkerSlot& slot, const std::string& text);
// Reads it from elsewhere; empty when it changes too fast to read.
std::string GetDoing(const WorkerSlot& slot);

// Why a worker gives up that waited for others so long.
std::string LateText(int timeout_s);

// Waits until all workers have come. Spins for a bounded time, then sleeps on a futex. Returns false when a worker gave
// up or `timeout_s` passed (then the caller is marked as having given up). With `aligned` the workers leave at one
// common time a few microseconds later, so that a timed loop does not begin with waiting for the last to wake.
bool SegmentBarrier(Segment* segment, int worker, int timeout_s, bool aligned);

// Marks the measurement as failed and wakes everybody in a barrier.
void SegmentFail(Segment* segment, int worker);

int64_t MonotonicNs();

}  // namespace sl::tools
