// SPDX-License-Identifier: Apache-2.0
//
// Ranks for integration tests: processes forked before anything of the library was used, or threads of one such
// process. The program that runs the tests never calls the library itself, so every test starts from nothing.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "nccl.h"
#include "sl_runtime.h"

// For functions that return void; the last error's text says why.
#define NCCL_OK(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

namespace sl::integration {

constexpr int kMaxRanks = 16;

// Memory that all ranks of a team share, zero at first.
struct Board {
  ncclUniqueId ids[64];
  std::atomic<uint32_t> ids_made;
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> phase;
  std::atomic<uint64_t> words[64];  // for tests
};

class Team {
 public:
  Team(Board* board, int rank, int size) : board_(board), rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::atomic<uint64_t>& word(int index) { return board_->words[index]; }

  // Meets all ranks of the team; aborts the process after half a minute.
  void Barrier();
  // A fresh id, made by rank 0 and known to all. Collective.
  ncclUniqueId MakeId();
  // One of each of the first `count` ranks, known to all. Collective.
  std::vector<ncclUniqueId> MakeIds(int count);
  // A communicator of all ranks. Collective; NULL when it failed, which is a test failure.
  ncclComm_t MakeComm();

 private:
  Board* const board_;
  const int rank_;
  const int size_;
  uint32_t ids_taken_ = 0;
};

using Body = std::function<void(Team&)>;

#ifdef SL_SANITIZED
constexpr int kSlowdown = 4;  // as cmake/SlTest.cmake allows
#else
constexpr int kSlowdown = 1;
#endif

struct TeamOptions {
  int seconds = 90 * kSlowdown;  // then the ranks are killed and the test has failed
  uint64_t may_die = 0;          // bit r: rank r may end by a signal
  void (*end)(int) = nullptr;    // how a rank ends, given its exit code; NULL: _exit
};

// Ranks end as programs do: a communicator that others are late to end is met by the library in exit(), of which
// _exit() knows nothing.
TeamOptions Exiting();

// Runs `body` in `size` processes. A rank that fails, dies or is late fails the test.
void RunProcesses(int size, const Body& body, const TeamOptions& options = {});
// Runs `body` in `size` threads of one process.
void RunThreads(int size, const Body& body, const TeamOptions& options = {});

// A variable that the library of the ranks sees, which are forked while it is set.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* const name_;
};

// Until `condition` holds, at most `seconds`; returns whether it does.
bool WaitUntil(double seconds, const std::function<bool()>& condition);
double Seconds();  // monotonic

// The kernel's table, for streams.
const sl_runtime_ops_t* Runtime();

// A host stream, as nccl.h takes it.
class HostStream {
 public:
  HostStream();
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  cudaStream_t get() const { return reinterpret_cast<cudaStream_t>(stream_); }
  // Waits for all work on it; false after `seconds`.
  bool Synchronize(double seconds = 20);

 private:
  sl_stream_t* stream_ = nullptr;
};

// The text of the last error contains `part`.
testing::AssertionResult LastErrorHas(const std::string& part);

}  // namespace sl::integration
