// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/group.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>

#include "modules/frontend-nccl/red_op.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/thread.h"
#include "modules/frontend-nccl/window.h"
#include "sdk/datatype.h"

namespace sl::frontend_nccl {

constinit thread_local int t_group_depth = 0;

namespace {

// Without a destructor: programs call from destructors of static and thread_local objects, which may run after ours
// would have. A key's destructor runs after all of them, and not at all in exit().
constinit thread_local ThreadState* t_state = nullptr;

// The group that the thread left open ends with it, so that an open group always has its state. The variables that its
// calls were to fill may have lain on the thread's stack: nothing is written to them any more.
void FreeState(void* state) {
  const std::unique_ptr<ThreadState> ended(static_cast<ThreadState*>(state));
  t_state = nullptr;
  t_group_depth = 0;
  for (Job& job : ended->group.jobs) job.handed_out.Abandon();
}

// Without a key, or room for one in this thread, the state stays when the thread ends.
void FreeAtThreadEnd(ThreadState* state) {
  static pthread_key_t key;
  static const bool has_key = pthread_key_create(&key, FreeState) == 0;
  if (has_key) pthread_setspecific(key, state);
}

constexpr unsigned kSimInfoMagic = 0x74685283;

// All communicators of a group wait, or none does: its end can answer only once.
ncclResult_t AgreeOnWaiting(const char* function, Group& group, ncclComm* comm) {
  if (group.first == nullptr) group.first = comm;
  if (Live(group.first) == nullptr || group.first->blocking == comm->blocking) {
    return ncclSuccess;
  }
  return Fail(ncclInvalidArgument,
              "%s: a group cannot mix blocking and non-blocking communicators; end the group between them", function);
}

// Lists a job. When there is no memory for it, the other ranks are told at once that it will not be run.
void List(std::vector<Job>* jobs, Job&& job) {
  try {
    jobs->push_back(std::move(job));
  } catch (...) {
    Decline(job);
    throw;
  }
}

// Pins of a group's communicators, which take no memory: one for each run of operations on the same one.
class OpPins {
 public:
  explicit OpPins(const std::vector<PendingOp>& ops) : ops_(ops) {}
  ~OpPins() {
    while (held_ != 0) {
      if (Begins(--held_)) ops_[held_].comm->pins.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  OpPins(const OpPins&) = delete;
  OpPins& operator=(const OpPins&) = delete;

  // The next operation's. False when its communicator takes none any more.
  bool Hold() {
    ncclComm* comm = ops_[held_].comm;
    if (Begins(held_++)) comm->pins.fetch_add(1, std::memory_order_seq_cst);
    return comm->phase.load(std::memory_order_seq_cst) == kReady;
  }

 private:
  bool Begins(size_t i) const { return i == 0 || ops_[i].comm != ops_[i - 1].comm; }

  const std::vector<PendingOp>& ops_;
  size_t held_ = 0;
};

ncclResult_t EndedMeanwhile() {
  return Fail(ncclInvalidUsage, "ncclGroupEnd: a communicator with operations in the group was ended meanwhile");
}

ncclResult_t IssueOps(Group& group) {
  const sl_runtime_ops_t& runtime = LoadedRuntime();
  OpPins pins(group.ops);
  group.entries.clear();
  for (PendingOp& pending : group.ops) {
    if (!pins.Hold()) return EndedMeanwhile();
    group.entries.push_back({pending.comm->kernel, &pending.op, pending.stream, pending.tag, pending.launched});
  }
  sl_status_t status = SL_OK;
  const sl_group_entry_t& only = group.entries[0];
  if (group.entries.size() == 1 && only.tag == 0 && only.launched == nullptr) {
    const OpMark mark(group.ops[0].comm);  // beside another call the kernel refuses it as a group
    status = mark.is_alone() ? runtime.enqueue(only.comm, only.op, only.stream) : runtime.enqueue_group(&only, 1);
  } else {
    status = runtime.enqueue_group(group.entries.data(), static_cast<uint32_t>(group.entries.size()));
  }
  return status == SL_OK ? ncclSuccess : FailWith("ncclGroupEnd", status);
}

ncclResult_t IssueOneSided(const OneSided& call) {
  const sl_runtime_ops_t& runtime = LoadedRuntime();
  const sl_status_t status = call.waits ? runtime.wait_signals(call.comm->kernel, call.awaited.data(),
                                                               static_cast<uint32_t>(call.awaited.size()), call.stream)
                                        : runtime.put_signal(call.comm->kernel, call.memory, call.bytes, call.peer,
                                                             call.window, call.offset, call.stream);
  return status == SL_OK ? ncclSuccess : FailWith(call.function, status);
}

// What is waited for may be raised by this very group, on the same stream.
ncclResult_t IssueAllOneSided(std::vector<OneSided>& calls) {
  std::stable_partition(calls.begin(), calls.end(), [](const OneSided& call) { return !call.waits; });
  for (OneSided& call : calls) {
    const Pin pin(call.comm);
    if (call.comm->phase.load(std::memory_order_seq_cst) != kReady) return EndedMeanwhile();
    if (call.handle != nullptr) {  // it may have been deregistered since, and be another window's by now
      call.window = KernelWindow(call.function, call.comm, call.handle);
      if (call.window == nullptr) return ncclInvalidArgument;
    }
    if (const ncclResult_t issued = IssueOneSided(call); issued != ncclSuccess) return issued;
  }
  return ncclSuccess;
}

ncclResult_t RunGroup(Group& group) {
  if (group.error != ncclSuccess) {
    DeclineAll(group.jobs);
    SetLastError(group.error_text.c_str());
    return group.error;
  }
  ncclResult_t result = ncclSuccess;
  if (!group.jobs.empty()) result = RunJobs(group.jobs);
  if ((result == ncclSuccess || result == ncclInProgress) && !group.ops.empty()) {
    const ncclResult_t issued = IssueOps(group);
    if (issued != ncclSuccess) result = issued;
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    const ncclResult_t issued = IssueAllOneSided(group.one_sided);
    if (issued != ncclSuccess) result = issued;
  }
  return result;
}

// Leaves one level. False when the outermost end has not come; `out_result` is then what the call returns.
bool IsOutermost(const char* function, ncclResult_t* out_result) {
  if (t_group_depth == 0) {
    *out_result = Fail(ncclInvalidUsage, "%s: no group is open on this thread; call ncclGroupStart first", function);
    return false;
  }
  *out_result = ncclSuccess;
  return --t_group_depth == 0;
}

// What the kernel expects an operation to take; a negative number when nobody serves it.
double EstimateUs(const PendingOp& pending) {
  const Pin pin(pending.comm);
  if (pending.comm->phase.load(std::memory_order_seq_cst) != kReady) return -1;
  sl_estimate_t estimate{};
  estimate.struct_size = sizeof(estimate);
  if (LoadedRuntime().estimate(pending.comm->kernel, &pending.op, &estimate) != SL_OK) return -1;
  return static_cast<double>(estimate.time_ns) / 1000;
}

}  // namespace

ThreadState* MyState() noexcept {
  if (t_state == nullptr) [[unlikely]] {
    t_state = new (std::nothrow) ThreadState;
    if (t_state != nullptr) FreeAtThreadEnd(t_state);
  }
  return t_state;
}

void Group::Clear() {
  jobs.clear();
  ops.clear();
  one_sided.clear();
  error = ncclSuccess;
  error_text.clear();
  first = nullptr;
}

ncclResult_t NoteInGroup(ncclResult_t result) noexcept {
  if (t_group_depth == 0 || result == ncclSuccess || result == ncclInProgress) return result;
  Group& group = MyState()->group;
  if (group.error != ncclSuccess) return result;
  group.error = result;
  try {
    group.error_text = LastError();
  } catch (...) {
    group.error_text.clear();
  }
  return result;
}

ncclResult_t SubmitJob(Job job) {
  if (t_group_depth == 0) {
    std::vector<Job> one;
    List(&one, std::move(job));
    return RunJobs(one);
  }
  Group& group = MyState()->group;
  const ncclResult_t agreed = AgreeOnWaiting(job.function, group, job.Subject());
  if (agreed != ncclSuccess) job.TakeBack();
  List(&group.jobs, std::move(job));  // its end, which will fail after a refusal, tells the other ranks
  return agreed;
}

ncclResult_t DeclineJob(JobKind kind, const char* function, ncclComm* comm, ncclResult_t refused) {
  Job job(kind, function);
  (Makes(kind) ? job.parent : job.comm) = comm;
  if (t_group_depth == 0) {
    Decline(job);
  } else {
    List(&MyState()->group.jobs, std::move(job));
  }
  return refused;
}

ncclResult_t SubmitOp(const char* function, const PendingOp& op) noexcept {
  return Guarded(function, [&] {
    Group& group = MyState()->group;
    const ncclResult_t agreed = AgreeOnWaiting(function, group, op.comm);
    if (agreed == ncclSuccess) group.ops.push_back(op);
    return agreed;
  });
}

ncclResult_t SubmitOneSided(OneSided call) {
  if (t_group_depth == 0) return IssueOneSided(call);
  Group& group = MyState()->group;
  const ncclResult_t agreed = AgreeOnWaiting(call.function, group, call.comm);
  if (agreed == ncclSuccess) group.one_sided.push_back(std::move(call));
  return agreed;
}

ncclResult_t StartGroup() noexcept {
  ThreadState* state = MyState();
  if (state == nullptr) return Fail(ncclSystemError, "ncclGroupStart: out of host memory");
  ++t_group_depth;
  return ncclSuccess;
}

ncclResult_t EndGroup() noexcept {
  ncclResult_t result = ncclSuccess;
  if (!IsOutermost("ncclGroupEnd", &result)) return result;
  Group& group = MyState()->group;
  result = Guarded("ncclGroupEnd", [&] { return RunGroup(group); });
  group.Clear();
  return result;
}

ncclResult_t SimulateGroup(ncclSimInfo_t* info) noexcept {
  constexpr const char* kFunction = "ncclGroupSimulateEnd";
  ncclResult_t result = ncclSuccess;
  if (!IsOutermost(kFunction, &result)) return result;
  Group& group = MyState()->group;
  result = group.error;
  if (result != ncclSuccess) SetLastError(group.error_text.c_str());
  double total_us = 0;
  for (size_t i = 0; i < group.ops.size() && total_us >= 0; ++i) {
    const double one_us = EstimateUs(group.ops[i]);
    total_us = one_us < 0 ? -1 : total_us + one_us;
  }
  const bool known = total_us >= 0;
  group.Clear();
  if (result != ncclSuccess || info == nullptr) return result;
  if (info->magic != kSimInfoMagic || info->size < sizeof(ncclSimInfo_t)) {
    return Fail(ncclInvalidArgument, "%s: argument simInfo was not initialised; start from NCCL_SIM_INFO_INITIALIZER",
                kFunction);
  }
  info->estimatedTime = known ? static_cast<float>(total_us) : NCCL_UNDEF_FLOAT;
  if (known) return ncclSuccess;
  return Fail(ncclInvalidUsage,
              "%s: no estimate is to be had for an operation of this group; starling explain says why", kFunction);
}

}  // namespace sl::frontend_nccl
