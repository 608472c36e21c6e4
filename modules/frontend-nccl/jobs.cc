// SPDX-License-Identifier: Apache-2.0
//
// The calls that meet other ranks. The kernel is always asked not to wait; waiting is done here, after all calls of a
// group have been started, so that one thread can hold several ranks.
#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/window.h"
#include "sdk/thread.h"

namespace sl::frontend_nccl {
namespace {

sl_comm_config_t KernelConfig(const Job& job, const CommSettings& settings) {
  sl_comm_config_t config{};
  config.struct_size = sizeof(config);
  config.nonblocking = 1;
  config.ids = job.ids.data();
  config.id_count = static_cast<uint32_t>(job.ids.size());
  config.rank = static_cast<uint32_t>(job.rank);
  config.size = static_cast<uint32_t>(job.size);
  config.device_kind = -1;
  config.device_ordinal = job.device;
  config.processors_min = settings.least_ctas;
  config.processors_max = settings.most_ctas;
  FillPolicy(settings.values.CTAPolicy, &config.processor_weight, &config.processor_free);
  config.call_mark = job.comm != nullptr ? &job.comm->in_call : nullptr;
  config.name = settings.comm_name.empty() ? nullptr : settings.comm_name.c_str();
  return config;
}

// After the kernel accepted a new communicator, or refused it.
ncclResult_t Accepted(const Job& job, sl_status_t status, sl_comm_t* kernel) {
  if (status < SL_OK) return FailWith(job.function, status);
  if (kernel == nullptr) return Fail(ncclInternalError, "%s: the kernel made no communicator", job.function);
  const Pin pin(job.comm);
  job.comm->kernel = kernel;
  ChangePhase(job.comm, kConnecting);
  return status == SL_OK ? BecomeReady(job.function, job.comm) : ncclInProgress;
}

ncclResult_t StartCreate(const Job& job) {
  const sl_comm_config_t config = KernelConfig(job, job.comm->cold->settings);
  sl_comm_t* kernel = nullptr;
  const sl_status_t status = LoadedRuntime().comm_create(&config, &kernel);
  return Accepted(job, status, kernel);
}

ncclResult_t StartSplit(const Job& job) {
  const Pin pin(job.parent);
  const ncclResult_t ready = RequireReady(job.function, job.parent);
  if (ready != ncclSuccess) return ready;
  const CommSettings& settings = job.comm != nullptr ? job.comm->cold->settings : job.parent->cold->settings;
  const sl_comm_config_t config = KernelConfig(job, settings);
  sl_comm_t* kernel = nullptr;
  const sl_status_t status = LoadedRuntime().comm_split(job.parent->kernel, job.color, job.key, &config, &kernel);
  if (job.comm != nullptr) return Accepted(job, status, kernel);
  return status < SL_OK ? FailWith(job.function, status) : ResultOf(status);
}

ncclResult_t StartShrink(const Job& job) {
  const Pin pin(job.parent);
  const ncclResult_t ready = RequireReady(job.function, job.parent);
  if (ready != ncclSuccess) return ready;
  const sl_comm_config_t config = KernelConfig(job, job.comm->cold->settings);
  sl_comm_t* kernel = nullptr;
  const sl_status_t status =
      LoadedRuntime().comm_shrink(job.parent->kernel, job.excluded.data(), static_cast<uint32_t>(job.excluded.size()),
                                  job.shrink_flags, &config, &kernel);
  return Accepted(job, status, kernel);
}

ncclResult_t StartGrow(const Job& job) {
  const Pin pin(job.parent);
  const ncclResult_t ready = RequireReady(job.function, job.parent);
  if (ready != ncclSuccess) return ready;
  const sl_comm_config_t config = KernelConfig(job, job.comm->cold->settings);
  sl_comm_t* kernel = nullptr;
  const sl_status_t status = LoadedRuntime().comm_grow(job.parent->kernel, static_cast<uint32_t>(job.size),
                                                       job.ids.empty() ? nullptr : job.ids.data(), &config, &kernel);
  return Accepted(job, status, kernel);
}

ncclResult_t StartPause(const Job& job) {
  const Pin pin(job.comm);
  const ncclResult_t ready = RequireReady(job.function, job.comm);
  if (ready != ncclSuccess) return ready;
  const sl_runtime_ops_t& runtime = LoadedRuntime();
  const sl_status_t status =
      job.kind == JobKind::kSuspend ? runtime.comm_suspend(job.comm->kernel) : runtime.comm_resume(job.comm->kernel);
  return status < SL_OK ? FailWith(job.function, status) : ResultOf(status);
}

ncclResult_t Start(Job& job) {
  switch (job.kind) {
    case JobKind::kCreate:
      return StartCreate(job);
    case JobKind::kSplit:
      return StartSplit(job);
    case JobKind::kShrink:
      return StartShrink(job);
    case JobKind::kGrow:
      return StartGrow(job);
    case JobKind::kSuspend:
    case JobKind::kResume:
      return StartPause(job);
    case JobKind::kFinalize:
      return StartFinalize(job.function, job.comm);
    case JobKind::kDestroy:
    case JobKind::kWindow:
      return ncclSuccess;  // have steps of their own, after everything is connected
  }
  return ncclInternalError;
}

// A rank of this thread that cannot come any more.
bool HasFailed(const Job& job) {
  if (!Makes(job.kind) || job.comm == nullptr || job.result != ncclInProgress || !job.waits) return false;
  const Pin pin(job.comm);
  if (job.comm->phase.load(std::memory_order_seq_cst) != kConnecting) return false;
  return LoadedRuntime().comm_state(job.comm->kernel, nullptr, 0, nullptr) < SL_OK;
}

// Not for long when another rank of the thread has failed: it would have been waited for, and says why there is none.
ncclResult_t AwaitConnection(Job& job, const std::vector<Job>& jobs) {
  const Pin pin(job.comm);
  const auto is_vain = [&job, &jobs] {
    return std::any_of(jobs.begin(), jobs.end(), [&job](const Job& one) { return &one != &job && HasFailed(one); });
  };
  const sl_status_t status = AwaitKernel(job.comm, kConnecting, is_vain);
  if (status == SL_IN_PROGRESS) return ncclInProgress;
  if (status == SL_OK) return BecomeReady(job.function, job.comm);
  // A child whose parent was aborted has failed so, too, and its handle is still the program's.
  const uint32_t phase = job.comm->phase.load(std::memory_order_seq_cst);
  if (phase != kFree && phase != kDestroying) return BecomeFailed(job.function, job.comm, status);
  job.comm = nullptr;  // whoever ends it has the handle
  job.handed_out.Lose();
  return Fail(ncclInvalidUsage, "%s: the communicator was aborted while it was connecting", job.function);
}

// Refused or not, the communicator is as good as before; if it is not, it says so itself.
ncclResult_t AwaitPause(const Job& job) {
  const Pin pin(job.comm);
  const sl_status_t status = AwaitKernel(job.comm, kReady);
  return status == SL_OK ? ncclSuccess : FailWith(job.function, status);
}

ncclResult_t Await(Job& job, const std::vector<Job>& jobs) {
  switch (job.kind) {
    case JobKind::kCreate:
    case JobKind::kShrink:
    case JobKind::kGrow:
      return AwaitConnection(job, jobs);
    case JobKind::kSuspend:
    case JobKind::kResume:
      return AwaitPause(job);
    case JobKind::kSplit: {
      if (job.comm != nullptr) return AwaitConnection(job, jobs);
      const Pin pin(job.parent);
      const sl_status_t status = AwaitKernel(job.parent, kReady);
      return status == SL_OK ? ncclSuccess : FailWith(job.function, status);
    }
    case JobKind::kFinalize:
      return AwaitFinalize(job.function, job.comm);
    default:
      return ncclSuccess;
  }
}

bool Failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

void Settle(Job& job, ncclResult_t result) noexcept {
  job.result = result;
  if (!Failed(result)) return;
  try {
    job.text = LastError();
  } catch (...) {
    job.text.clear();
  }
}

void RunWindow(Job* job) noexcept {
  const Pin pin(job->comm);
  ncclResult_t result = RequireReady(job->function, job->comm);
  if (result == ncclSuccess) {
    result = RegisterWindow(job->function, job->comm, job->memory, job->bytes, job->flags, job->out_window);
  }
  Settle(*job, result);
}

void RefuseWindow(Job* job, const char* why) noexcept {
  Settle(*job, Fail(ncclSystemError, "%s: %s", job->function, why));
  Decline(*job);
}

void RunWindowsInTurn(const std::vector<Job*>& jobs) noexcept {
  for (Job* job : jobs) RunWindow(job);
}

// A thread for each communicator.
void RunWindowsBesideEachOther(const std::vector<Job*>& windows) {
  std::map<const ncclComm*, std::vector<Job*>> by_comm;
  for (Job* job : windows) by_comm[job->comm].push_back(job);
  std::vector<Thread> threads;
  threads.reserve(by_comm.size());
  for (const auto& [comm, jobs] : by_comm) {
    try {
      const Status started = threads.emplace_back().Start("sl-window", "to meet the other ranks",
                                                          [&jobs = jobs] { RunWindowsInTurn(jobs); });
      if (started.ok()) continue;
      for (Job* job : jobs) RefuseWindow(job, started.message().c_str());
    } catch (const std::exception& why) {
      for (Job* job : jobs) RefuseWindow(job, why.what());
    }
  }
  for (Thread& thread : threads) {
    if (thread.joinable()) thread.Join();
  }
}

// Registering a window meets the other ranks and has no form that does not wait: those of a communicator one after the
// other, in the order of their calls, and communicators beside each other.
void RunWindows(const std::vector<Job*>& windows) noexcept {
  const ncclComm* first = windows.front()->comm;
  if (std::all_of(windows.begin(), windows.end(), [first](const Job* job) { return job->comm == first; })) {
    return RunWindowsInTurn(windows);
  }
  try {
    RunWindowsBesideEachOther(windows);
  } catch (const std::exception& why) {  // before the first thread was started
    for (Job* job : windows) RefuseWindow(job, why.what());
  }
}

// What the other ranks wait for, of a job that is not run here.
std::optional<sl_call_t> CallOf(JobKind kind) {
  switch (kind) {
    case JobKind::kSplit:
      return SL_CALL_SPLIT;
    case JobKind::kGrow:
      return SL_CALL_GROW;
    case JobKind::kWindow:
      return SL_CALL_WINDOW;
    case JobKind::kSuspend:
      return SL_CALL_SUSPEND;
    case JobKind::kResume:
      return SL_CALL_RESUME;
    default:
      return std::nullopt;
  }
}

// The group's answer: the first failure, else whether anything is still under way. After a failure nothing that these
// jobs were to make stays: the program cannot tell which of its handles would be good.
ncclResult_t Conclude(std::vector<Job>& jobs) {
  ncclResult_t result = ncclSuccess;
  const std::string* text = nullptr;
  for (const Job& job : jobs) {
    if (Failed(job.result) && !Failed(result)) {
      result = job.result;
      text = &job.text;
    } else if (job.result == ncclInProgress && result == ncclSuccess) {
      result = ncclInProgress;
    }
  }
  if (!Failed(result)) {
    for (Job& job : jobs) job.handed_out.Keep();
    return result;
  }
  for (Job& job : jobs) job.TakeBack();
  SetLastError(text->empty() ? "out of host memory" : text->c_str());
  return result;
}

}  // namespace

void HandedOut::TakeBack() noexcept {
  if (ncclComm_t* out = std::exchange(out_, nullptr); out != nullptr) *out = nullptr;
  if (ncclComm* comm = std::exchange(comm_, nullptr); comm != nullptr) Discard(comm);
}

void Decline(const Job& job) noexcept {
  const std::optional<sl_call_t> call = CallOf(job.kind);
  ncclComm* place = job.Place();
  if (!call || Live(place) == nullptr) return;
  const Pin pin(place);
  if (place->phase.load(std::memory_order_seq_cst) == kReady) LoadedRuntime().comm_decline(place->kernel, *call);
}

void DeclineAll(const std::vector<Job>& jobs) noexcept {
  for (const bool windows : {false, true}) {
    for (const Job& job : jobs) {
      if ((job.kind == JobKind::kWindow) == windows) Decline(job);
    }
  }
}

ncclResult_t RunJobs(std::vector<Job>& jobs) {
  std::vector<Job*> windows;
  std::vector<ncclComm*> destroyed;
  try {  // from the first start on nothing takes memory
    windows.reserve(jobs.size());
    destroyed.reserve(jobs.size());
  } catch (...) {
    DeclineAll(jobs);
    throw;
  }
  bool failed = false;
  const char* destroy_function = "";
  for (Job& job : jobs) {
    if (Live(job.Subject()) == nullptr || (job.parent != nullptr && Live(job.parent) == nullptr)) {
      Settle(job, Fail(ncclInvalidUsage, "%s: the communicator was ended while the group was open", job.function));
      failed = true;
      continue;
    }
    job.waits = job.Subject()->blocking;
    Settle(job, Start(job));
    failed = failed || Failed(job.result);
    if (job.kind == JobKind::kWindow) windows.push_back(&job);
    if (job.kind == JobKind::kDestroy) {
      destroyed.push_back(job.comm);
      destroy_function = job.function;
    }
  }
  // After a failure nobody waits: the other ranks may never hear of a call that did not start.
  for (Job& job : jobs) {
    if (failed || job.result != ncclInProgress || !job.waits) continue;
    Settle(job, Await(job, jobs));
    failed = Failed(job.result);
  }
  if (!failed && !windows.empty()) RunWindows(windows);
  if (failed) std::for_each(windows.begin(), windows.end(), [](const Job* job) { Decline(*job); });
  ncclResult_t result = Conclude(jobs);
  if (!destroyed.empty()) {
    const ncclResult_t ended = DestroyComms(destroy_function, destroyed);
    if (result == ncclSuccess) result = ended;
  }
  return result;
}

}  // namespace sl::frontend_nccl
