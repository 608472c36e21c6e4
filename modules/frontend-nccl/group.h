// SPDX-License-Identifier: Apache-2.0
//
// What a group collects and how its end issues it: first communicators are made, split, shrunk, grown, suspended,
// resumed, finalized or destroyed, all at once; then every operation of every communicator goes to the kernel in one
// call; one-sided ones come last, and of them the waits.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "modules/frontend-nccl/comm.h"
#include "nccl.h"
#include "sl_runtime.h"

namespace sl::frontend_nccl {

enum class JobKind : uint8_t { kCreate, kSplit, kShrink, kGrow, kSuspend, kResume, kFinalize, kDestroy, kWindow };
// Whether a job of this kind makes the communicator it is about.
constexpr bool Makes(JobKind kind) { return kind <= JobKind::kGrow; }

// A handle that a call has given its program before what it stands for is made. It is taken back, and the program's
// variable set to NULL, unless the call keeps it: also where an exception ends the call.
class HandedOut {
 public:
  HandedOut() = default;
  HandedOut(ncclComm* comm, ncclComm_t* out) noexcept : comm_(comm), out_(out) { *out = comm; }
  HandedOut(HandedOut&& other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)), out_(std::exchange(other.out_, nullptr)) {}
  HandedOut& operator=(HandedOut&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(out_, other.out_);
    return *this;
  }
  ~HandedOut() { TakeBack(); }

  void Keep() noexcept { comm_ = nullptr, out_ = nullptr; }
  // Another thread ends the communicator; the program's variable is still ours.
  void Lose() noexcept { comm_ = nullptr; }
  // The program's variable may be gone: only the communicator is taken back.
  void Abandon() noexcept {
    out_ = nullptr;
    TakeBack();
  }
  // In jobs.cc.
  void TakeBack() noexcept;

 private:
  ncclComm* comm_ = nullptr;
  ncclComm_t* out_ = nullptr;
};

// A call on a communicator that meets other ranks, and so cannot be waited for before all of a thread's have started.
struct Job {
  Job(JobKind job_kind, const char* called) : kind(job_kind), function(called) {}

  JobKind kind;
  const char* function;        // what the program called
  ncclComm* comm = nullptr;    // one that is made: the new one (NULL: this rank goes without); else the one meant
  HandedOut handed_out;        // one that is made: what the program has of it
  ncclComm* parent = nullptr;  // split, shrink, grow
  int color = 0;               // split
  int key = 0;
  std::vector<uint32_t> excluded;  // shrink
  uint32_t shrink_flags = 0;
  int size = 0;  // create, grow
  int rank = 0;
  int device = -1;
  std::vector<sl_unique_id_t> ids;  // grow: one, or none
  void* memory = nullptr;           // window
  uint64_t bytes = 0;
  uint32_t flags = 0;
  ncclWindow_t* out_window = nullptr;
  bool waits = true;  // its communicator is a blocking one
  ncclResult_t result = ncclSuccess;
  std::string text;  // why, when `result` is a failure

  // Ends what was to be made.
  void TakeBack() noexcept {
    handed_out.TakeBack();
    if (Makes(kind)) comm = nullptr;
  }
  // The communicator whose ranks meet.
  ncclComm* Place() const { return parent != nullptr ? parent : comm; }
  // The communicator whose mode, waiting or not, decides for this call.
  ncclComm* Subject() const { return comm != nullptr ? comm : parent; }
};

struct PendingOp {
  ncclComm* comm;
  sl_stream_t* stream;
  sl_op_t op;
  uint64_t tag = 0;                // as in sl_group_entry_t
  sl_event_t* launched = nullptr;  // the same
};

// A put with its signal, a signal alone (0 bytes), or a wait for signals. The caller has checked it.
struct OneSided {
  const char* function = "";  // what the program called
  ncclComm* comm = nullptr;
  sl_stream_t* stream = nullptr;
  bool waits = false;
  const void* memory = nullptr;
  uint64_t bytes = 0;
  uint32_t peer = 0;
  ncclWindow_t handle = nullptr;  // of `window`
  sl_comm_window_t* window = nullptr;
  uint64_t offset = 0;
  std::vector<sl_signal_count_t> awaited;
};

struct Group {
  std::vector<Job> jobs;
  std::vector<PendingOp> ops;
  std::vector<OneSided> one_sided;
  std::vector<sl_group_entry_t> entries;  // kept for its memory
  ncclResult_t error = ncclSuccess;       // of the first call that failed
  std::string error_text;
  ncclComm* first = nullptr;  // decides whether the group waits

  void Clear();
};

// A call inside a group failed: the end will say so too, and issue nothing. Outside a group nothing is kept.
ncclResult_t NoteInGroup(ncclResult_t result) noexcept;

// Runs a job at once, or keeps it for the group's end.   returns: ncclSuccess | ncclInProgress | its failure
ncclResult_t SubmitJob(Job job);
// A call that split, grew or registered a window was refused for an argument. The other ranks, which may be waiting for
// it, hear so, in a group at its end.   returns: `refused`
ncclResult_t DeclineJob(JobKind kind, const char* function, ncclComm* comm, ncclResult_t refused);
// Keeps an operation for the group's end. The caller has checked it.
ncclResult_t SubmitOp(const char* function, const PendingOp& op) noexcept;
// Issues a one-sided call, or keeps it for the group's end.
ncclResult_t SubmitOneSided(OneSided call);

// Starts all jobs, then waits for all of them unless their communicators are non-blocking. On failure, what the jobs
// were to make is unmade. After an exception nothing was started, and the other ranks were told. In jobs.cc.
ncclResult_t RunJobs(std::vector<Job>& jobs);
// Tells the other ranks that the job will not be run; all, in the order in which they would have been. In jobs.cc.
void Decline(const Job& job) noexcept;
void DeclineAll(const std::vector<Job>& jobs) noexcept;

ncclResult_t StartGroup() noexcept;
ncclResult_t EndGroup() noexcept;
// Ends the group without issuing it and estimates how long it would take.
ncclResult_t SimulateGroup(ncclSimInfo_t* info) noexcept;

// Communicators that one program call destroys, or one group. In destroy.cc.
ncclResult_t StartFinalize(const char* function, ncclComm* comm);
ncclResult_t AwaitFinalize(const char* function, ncclComm* comm);
// Frees those that were destroyed while ranks of other processes were late, and that have met them since.
void FreeLate();
// Ends the handles. A rank whose siblings in this process were not destroyed yet is left to the last of them, so that
// one thread may destroy its ranks one after the other.
ncclResult_t DestroyComms(const char* function, const std::vector<ncclComm*>& comms);
ncclResult_t AbortComm(const char* function, ncclComm* comm);
// Ends a handle that a failed call made, unless its program has ended it.
void Discard(ncclComm* comm) noexcept;

}  // namespace sl::frontend_nccl
