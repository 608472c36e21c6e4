// SPDX-License-Identifier: Apache-2.0
//
// Making and ending communicators: arguments are checked here, the rest is a job (jobs.cc, destroy.cc).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/config.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/thread.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(sl_unique_id_t), "an id is the kernel's, byte for byte");

struct InitRequest {
  const char* function;
  ncclComm_t* out;
  int size;
  int rank;
  const ncclUniqueId* ids;
  int id_count;
  const ncclConfig_t* config;
  int device = -1;
};

ncclResult_t CheckInit(const InitRequest& request) {
  const char* function = request.function;
  if (request.out == nullptr) return Fail(ncclInvalidArgument, "%s: argument comm is NULL", function);
  if (request.size < 1) {
    return Fail(ncclInvalidArgument, "%s: argument nranks is %d, must be at least 1", function, request.size);
  }
  if (request.rank < 0 || request.rank >= request.size) {
    return Fail(ncclInvalidArgument, "%s: argument rank is %d, must be 0 to %d", function, request.rank,
                request.size - 1);
  }
  if (request.id_count < 1 || request.id_count > request.size) {
    return Fail(ncclInvalidArgument, "%s: argument nId is %d, must be 1 to the number of ranks, %d", function,
                request.id_count, request.size);
  }
  if (request.ids == nullptr) return Fail(ncclInvalidArgument, "%s: argument commIds is NULL", function);
  return ncclSuccess;
}

// Gives the job a handle in phase kQueued, and the program as well.
ncclResult_t NewHandle(CommSettings settings, ncclComm_t* out, Job* job) {
  FreeLate();
  ncclComm* comm = Allocate();
  if (comm == nullptr) {
    return Fail(ncclSystemError, "%s: this process holds %u communicators already; destroy some first", job->function,
                kMaxComms);
  }
  comm->blocking = settings.blocking();
  comm->cold->settings = std::move(settings);
  job->comm = comm;
  job->handed_out = HandedOut(comm, out);
  return ncclSuccess;
}

ncclResult_t FillInitJob(const InitRequest& request, Job* job) {
  if (request.out != nullptr) *request.out = nullptr;
  if (const ncclResult_t checked = CheckInit(request); checked != ncclSuccess) return checked;
  CommSettings settings;
  const ncclResult_t parsed = ParseConfig(request.function, request.config, nullptr, &settings);
  if (parsed != ncclSuccess) return parsed;
  if (const ncclResult_t ensured = EnsureRuntime(); ensured != ncclSuccess) return ensured;
  job->ids.resize(static_cast<size_t>(request.id_count));
  std::memcpy(job->ids.data(), request.ids, job->ids.size() * sizeof(sl_unique_id_t));
  job->size = request.size;
  job->rank = request.rank;
  job->device = request.device;
  // At a group's end the thread may have moved on to another device.
  int32_t kind = 0;
  if (job->device < 0) {
    const sl_status_t status = LoadedRuntime().current_device(&kind, &job->device);
    if (status != SL_OK) return FailWith(request.function, status);
  }
  return NewHandle(std::move(settings), request.out, job);
}

ncclResult_t Init(const InitRequest& request) {
  return NoteInGroup(Guarded(request.function, [&] {
    Job job(JobKind::kCreate, request.function);
    const ncclResult_t made = FillInitJob(request, &job);
    return made == ncclSuccess ? SubmitJob(std::move(job)) : made;
  }));
}

ncclResult_t CheckDevices(const char* function, int count, const int* devices) {
  int64_t allowed_twice = 0;
  const char* text = VariableText("NCCL_MULTI_RANK_GPU_ENABLE");
  if (text != nullptr && !ParseInteger(text, &allowed_twice)) allowed_twice = 0;
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0) {
      return Fail(ncclInvalidArgument, "%s: devlist[%d] is %d, must not be negative", function, i, devices[i]);
    }
    if (!seen.insert(devices[i]).second && allowed_twice == 0) {
      return Fail(ncclInvalidUsage,
                  "%s: devlist[%d] names device %d a second time; give every rank its own, or set "
                  "NCCL_MULTI_RANK_GPU_ENABLE to 1",
                  function, i, devices[i]);
    }
  }
  return ncclSuccess;
}

ncclResult_t InitAll(ncclComm_t* comms, int count, const int* devices) {
  constexpr const char* kFunction = "ncclCommInitAll";
  if (comms == nullptr) return Fail(ncclInvalidArgument, "%s: argument comm is NULL", kFunction);
  if (count < 0) return Fail(ncclInvalidArgument, "%s: argument ndev is %d, must not be negative", kFunction, count);
  std::fill_n(comms, count, nullptr);
  if (t_group_depth != 0) {
    return Fail(ncclInvalidUsage, "%s: it is a group of its own and cannot stand inside one", kFunction);
  }
  if (count == 0) return ncclSuccess;
  if (devices != nullptr) {
    const ncclResult_t checked = CheckDevices(kFunction, count, devices);
    if (checked != ncclSuccess) return checked;
  }
  if (const ncclResult_t ensured = EnsureRuntime(); ensured != ncclSuccess) return ensured;
  ncclUniqueId id;
  const sl_status_t status = LoadedRuntime().unique_id(reinterpret_cast<sl_unique_id_t*>(&id));
  if (status != SL_OK) return FailWith(kFunction, status);
  std::vector<Job> jobs;
  jobs.reserve(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    const InitRequest request{
        kFunction, &comms[rank], count, rank, &id, 1, nullptr, devices != nullptr ? devices[rank] : rank};
    const ncclResult_t made = FillInitJob(request, &jobs.emplace_back(JobKind::kCreate, kFunction));
    if (made != ncclSuccess) return made;
  }
  // InitAll always waits: it has no way to say that it is not done.
  for (const Job& job : jobs) {
    job.comm->blocking = true;
    job.comm->cold->settings.values.blocking = 1;
  }
  return RunJobs(jobs);
}

ncclResult_t FillSplitJob(ncclComm* parent, int color, int key, ncclComm_t* out, const ncclConfig_t* config, Job* job) {
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument newcomm is NULL", job->function);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return Fail(ncclInvalidArgument, "%s: argument color is %d, must not be negative, or NCCL_SPLIT_NOCOLOR (%d)",
                job->function, color, NCCL_SPLIT_NOCOLOR);
  }
  CommSettings settings;
  const ncclResult_t parsed = ParseConfig(job->function, config, &parent->cold->settings, &settings);
  if (parsed != ncclSuccess) return parsed;
  job->parent = parent;
  job->color = color;
  job->key = key;
  return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : NewHandle(std::move(settings), out, job);
}

ncclResult_t MakeSplitJob(ncclComm_t handle, int color, int key, ncclComm_t* out, const ncclConfig_t* config,
                          Job* job) {
  if (out != nullptr) *out = nullptr;
  const Pin parent = CheckComm(job->function, handle);
  if (const ncclResult_t ready = RequireReady(job->function, parent); ready != ncclSuccess) return ready;
  const ncclResult_t filled =
      Guarded(job->function, [&] { return FillSplitJob(parent, color, key, out, config, job); });
  return filled == ncclSuccess ? ncclSuccess : DeclineJob(job->kind, job->function, parent, filled);
}

// The pin of the parent is gone before the child is waited for, which may outlive it: see I3.
ncclResult_t Split(ncclComm_t handle, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  Job job(JobKind::kSplit, "ncclCommSplit");
  const ncclResult_t made = MakeSplitJob(handle, color, key, out, config, &job);
  return made == ncclSuccess ? SubmitJob(std::move(job)) : made;
}

ncclResult_t CheckExcluded(const char* function, const ncclComm& comm, const int* list, int count,
                           std::vector<uint32_t>* out_excluded) {
  if (count < 1) {
    return Fail(ncclInvalidArgument, "%s: argument excludeRanksCount is %d, must be at least 1", function, count);
  }
  if (list == nullptr) return Fail(ncclInvalidArgument, "%s: argument excludeRanksList is NULL", function);
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    const int rank = list[i];
    if (rank < 0 || rank >= comm.size) {
      return Fail(ncclInvalidArgument, "%s: excludeRanksList[%d] is %d, must be 0 to %d", function, i, rank,
                  comm.size - 1);
    }
    if (rank == comm.rank) {
      return Fail(ncclInvalidArgument,
                  "%s: excludeRanksList[%d] is %d, the calling rank itself; excluded ranks do not "
                  "call",
                  function, i, rank);
    }
    if (!seen.insert(rank).second) {
      return Fail(ncclInvalidArgument, "%s: excludeRanksList[%d] names rank %d a second time", function, i, rank);
    }
    out_excluded->push_back(static_cast<uint32_t>(rank));
  }
  return ncclSuccess;
}

ncclResult_t MakeShrinkJob(ncclComm_t handle, const int* list, int count, ncclComm_t* out, const ncclConfig_t* config,
                           int flags, Job* job) {
  const char* const function = job->function;
  static_assert(NCCL_SHRINK_ABORT == SL_SHRINK_ABORT, "flags are passed on as they are");
  if (out != nullptr) *out = nullptr;
  const Pin parent = CheckComm(function, handle);
  if (parent == nullptr) return ncclInvalidArgument;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument newcomm is NULL", function);
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return Fail(ncclInvalidArgument,
                "%s: argument shrinkFlags is %d, must be NCCL_SHRINK_DEFAULT (%d) or NCCL_SHRINK_ABORT (%d)", function,
                flags, NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT);
  }
  if (const ncclResult_t ready = RequireReady(function, parent); ready != ncclSuccess) return ready;
  const ncclResult_t checked = CheckExcluded(function, *parent, list, count, &job->excluded);
  if (checked != ncclSuccess) return checked;
  CommSettings settings;
  const ncclResult_t parsed = ParseConfig(function, config, &parent->cold->settings, &settings);
  if (parsed != ncclSuccess) return parsed;
  job->parent = parent;
  job->shrink_flags = static_cast<uint32_t>(flags);
  return NewHandle(std::move(settings), out, job);
}

ncclResult_t Shrink(ncclComm_t handle, const int* list, int count, ncclComm_t* out, const ncclConfig_t* config,
                    int flags) {
  Job job(JobKind::kShrink, "ncclCommShrink");
  const ncclResult_t made = MakeShrinkJob(handle, list, count, out, config, flags, &job);
  return made == ncclSuccess ? SubmitJob(std::move(job)) : made;
}

ncclResult_t FillGrowJob(ncclComm* parent, int size, const ncclUniqueId* id, int rank, ncclComm_t* out,
                         const ncclConfig_t* config, Job* job) {
  const char* const function = job->function;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument newcomm is NULL", function);
  if (size <= parent->size) {
    return Fail(ncclInvalidArgument, "%s: argument nRanks is %d, must be more than the communicator's %d", function,
                size, parent->size);
  }
  if (rank != -1) {
    return Fail(ncclInvalidArgument,
                "%s: argument rank is %d, must be -1 for a rank of the communicator, which keeps its number", function,
                rank);
  }
  CommSettings settings;
  const ncclResult_t parsed = ParseConfig(function, config, &parent->cold->settings, &settings);
  if (parsed != ncclSuccess) return parsed;
  job->parent = parent;
  job->size = size;
  if (id != nullptr) {
    job->ids.resize(1);
    std::memcpy(job->ids.data(), id, sizeof(*id));
  }
  return NewHandle(std::move(settings), out, job);
}

ncclResult_t MakeGrowJob(ncclComm_t handle, int size, const ncclUniqueId* id, int rank, ncclComm_t* out,
                         const ncclConfig_t* config, Job* job) {
  if (out != nullptr) *out = nullptr;
  const Pin parent = CheckComm(job->function, handle);
  if (const ncclResult_t ready = RequireReady(job->function, parent); ready != ncclSuccess) return ready;
  const ncclResult_t filled =
      Guarded(job->function, [&] { return FillGrowJob(parent, size, id, rank, out, config, job); });
  return filled == ncclSuccess ? ncclSuccess : DeclineJob(job->kind, job->function, parent, filled);
}

// A rank that joins has no communicator yet: to it, growing is making one.
ncclResult_t Grow(ncclComm_t handle, int size, const ncclUniqueId* id, int rank, ncclComm_t* out,
                  const ncclConfig_t* config) {
  Job job(JobKind::kGrow, "ncclCommGrow");
  if (handle == nullptr) return Init({job.function, out, size, rank, id, 1, config});
  const ncclResult_t made = MakeGrowJob(handle, size, id, rank, out, config, &job);
  return made == ncclSuccess ? SubmitJob(std::move(job)) : made;
}

ncclResult_t Finalize(ncclComm_t handle) {
  constexpr const char* kFunction = "ncclCommFinalize";
  if (handle == nullptr) return ncclSuccess;
  const Pin comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  const uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
  if (phase == kFinalizing || phase == kFinalized) {
    return Fail(ncclInvalidArgument, "%s: the communicator was finalized already; call ncclCommDestroy", kFunction);
  }
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  Job job(JobKind::kFinalize, kFunction);
  job.comm = comm;
  return SubmitJob(std::move(job));
}

ncclResult_t Destroy(ncclComm_t handle) {
  constexpr const char* kFunction = "ncclCommDestroy";
  if (handle == nullptr) return ncclSuccess;
  ncclComm* comm = Judge(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  uint32_t phase = comm->phase.load(std::memory_order_acquire);
  if (phase == kConnecting) {
    const Pin pin(comm);
    Poll(kFunction, comm);
    phase = comm->phase.load(std::memory_order_acquire);
  }
  if (phase == kQueued || phase == kConnecting) {
    return Fail(ncclInvalidArgument,
                "%s: the communicator is still connecting; wait for it, or end it with ncclCommAbort", kFunction);
  }
  if (phase == kDestroying) {
    return Fail(ncclInvalidArgument, "%s: the communicator was destroyed already", kFunction);
  }
  Job job(JobKind::kDestroy, kFunction);
  job.comm = comm;
  return SubmitJob(std::move(job));
}

ncclResult_t UniqueId(const char* function, ncclUniqueId* out) {
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument uniqueId is NULL", function);
  if (const ncclResult_t ensured = EnsureRuntime(); ensured != ncclSuccess) return ensured;
  sl_unique_id_t id;
  const sl_status_t status = LoadedRuntime().unique_id(&id);
  if (status != SL_OK) return FailWith(function, status);
  std::memcpy(out, &id, sizeof(id));
  return ncclSuccess;
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId) { return fe::UniqueId("ncclGetUniqueId", uniqueId); }

SL_NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId) {
  const fe::Pin checked = fe::CheckComm("ncclCommGetUniqueId", comm);
  const ncclResult_t ready = fe::RequireReady("ncclCommGetUniqueId", checked);
  return ready == ncclSuccess ? fe::UniqueId("ncclCommGetUniqueId", uniqueId) : ready;
}

SL_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return fe::Init({"ncclCommInitRank", comm, nranks, rank, &commId, 1, nullptr});
}

SL_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
            ncclConfig_t* config) {
  return fe::Init({"ncclCommInitRankConfig", comm, nranks, rank, &commId, 1, config});
}

SL_NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
            ncclUniqueId* commIds, ncclConfig_t* config) {
  return fe::Init({"ncclCommInitRankScalable", newcomm, nranks, myrank, commIds, nId, config});
}

SL_NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  return fe::NoteInGroup(fe::Guarded("ncclCommInitAll", [&] { return fe::InitAll(comm, ndev, devlist); }));
}

SL_NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
            ncclConfig_t* config) {
  return fe::NoteInGroup(fe::Guarded("ncclCommSplit", [&] { return fe::Split(comm, color, key, newcomm, config); }));
}

SL_NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return fe::NoteInGroup(fe::Guarded("ncclCommShrink", [&] {
    return fe::Shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  }));
}

SL_NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
            ncclComm_t* newcomm, ncclConfig_t* config) {
  return fe::NoteInGroup(
      fe::Guarded("ncclCommGrow", [&] { return fe::Grow(comm, nRanks, uniqueId, rank, newcomm, config); }));
}

SL_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return fe::NoteInGroup(fe::Guarded("ncclCommFinalize", [&] { return fe::Finalize(comm); }));
}

SL_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return fe::NoteInGroup(fe::Guarded("ncclCommDestroy", [&] { return fe::Destroy(comm); }));
}

// Ends at once, inside a group too: whoever aborts does not want to wait for the group's end.
SL_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return fe::Guarded("ncclCommAbort", [&] {
    ncclComm* checked = fe::Judge("ncclCommAbort", comm);
    return checked != nullptr ? fe::AbortComm("ncclCommAbort", checked) : ncclInvalidArgument;
  });
}
