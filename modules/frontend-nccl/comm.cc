// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/comm.h"

#include <time.h>

#include <cstdio>
#include <deque>
#include <memory>

#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/window.h"
#include "sdk/clock.h"
#include "sdk/status.h"

namespace sl::frontend_nccl {

constinit ncclComm g_comms[kMaxComms];

namespace {

constinit std::mutex g_slots_mutex;
constinit uint32_t g_slots_used = 0;                     // guarded by g_slots_mutex; slots from here on were never used
constinit std::deque<uint32_t>* g_slots_free = nullptr;  // guarded by g_slots_mutex; oldest first; never freed

constexpr uint64_t kWaitSliceNs = 20'000'000;
constexpr uint64_t kLeavingNs = 2'000'000'000;   // for those inside, once what they wait for is cancelled
constexpr uint64_t kPatienceNs = 1'000'000'000;  // with ranks of other processes that are late to end a communicator

// A slot's number; kMaxComms when there is none left. Old slots rest as long as there are fresh ones to spare.
uint32_t TakeSlot() {
  const std::lock_guard<std::mutex> lock(g_slots_mutex);
  if (g_slots_free == nullptr) g_slots_free = new std::deque<uint32_t>();
  const bool must_reuse = g_slots_used == kMaxComms;
  if (!g_slots_free->empty() && (must_reuse || g_slots_free->size() > kQuarantine)) {
    const uint32_t slot = g_slots_free->front();
    g_slots_free->pop_front();
    return slot;
  }
  return must_reuse ? kMaxComms : g_slots_used++;
}

void GiveSlot(uint32_t slot) noexcept {
  const std::lock_guard<std::mutex> lock(g_slots_mutex);
  try {
    g_slots_free->push_back(slot);
  } catch (...) {
    // Without memory for the list the slot stays unused for ever, which harms nobody.
  }
}

// A watchdog may go on asking: its error has the words, the log has them once for each handle.
void RefuseEnded(const char* function, ncclComm* comm, const char* why) {
  char text[256];
  std::snprintf(text, sizeof(text), "%s: communicator %p %s", function, static_cast<const void*>(comm), why);
  SetLastError(text);
  if (!comm->was_refused.exchange(true)) Log(SL_LOG_WARN, text);
}

ncclResult_t KeptFailure(const char* function, ncclComm* comm) {
  const std::lock_guard<std::mutex> lock(comm->cold->mutex);
  SetLastError((std::string(function) + ": " + comm->cold->failure_text).c_str());
  return comm->cold->failure;
}

ncclResult_t PollKernel(const char* function, ncclComm* comm, uint32_t phase) {
  char text[1024] = "";
  uint64_t needed = 0;
  const sl_status_t status = LoadedRuntime().comm_state(comm->kernel, text, sizeof(text), &needed);
  if (status == SL_IN_PROGRESS) {
    if (phase != kFinalizing || !OthersAreLate(comm)) return ncclInProgress;
    ChangePhase(comm, kFinalized);
    return ncclSuccess;
  }
  if (status != SL_OK) {
    if (phase == kFinalizing) comm->cold->finalizing = false;
    if (phase == kConnecting || phase == kFinalizing) return BecomeFailed(function, comm, status, text);
    SetLastError((std::string(function) + ": " + (*text != '\0' ? text : StatusName(status))).c_str());
    return ResultOf(status);
  }
  if (phase == kConnecting) return BecomeReady(function, comm);
  if (phase == kFinalizing) {
    comm->cold->finalizing = false;
    ChangePhase(comm, kFinalized);
  }
  return ncclSuccess;
}

bool IsMarked(ncclComm* comm) { return std::atomic_ref<uint32_t>(comm->in_call).load(std::memory_order_seq_cst) != 0; }

bool IsInside(ncclComm* comm) { return comm->pins.load(std::memory_order_seq_cst) != 0 || IsMarked(comm); }

}  // namespace

ncclComm* Judge(const char* function, const ncclComm* handle) noexcept {
  if (ncclComm* comm = Live(handle); comm != nullptr) return comm;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_comms);
  const bool is_slot = offset < sizeof(g_comms) && offset % sizeof(ncclComm) == 0;
  if (handle == nullptr) {
    Fail(ncclInvalidArgument, "%s: argument comm is NULL; make a communicator with ncclCommInitRank first", function);
  } else if (is_slot) {
    RefuseEnded(function, &g_comms[offset / sizeof(ncclComm)], "was destroyed or aborted; it cannot be used any more");
  } else {
    Fail(ncclInvalidArgument, "%s: argument comm %p is no communicator of this library", function,
         static_cast<const void*>(handle));
  }
  return nullptr;
}

ncclResult_t Poll(const char* function, ncclComm* comm) noexcept {
  return Guarded(function, [&]() -> ncclResult_t {
    const uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
    switch (phase) {
      case kQueued:
        return ncclInProgress;
      case kFailed:
        return KeptFailure(function, comm);
      case kFinalized:
      case kDestroying:
      case kFree:  // since it was judged
        return ncclSuccess;
      default:
        return PollKernel(function, comm, phase);
    }
  });
}

ncclResult_t RequireParts(const char* function, ncclComm* comm) noexcept {
  if (comm == nullptr) return ncclInvalidArgument;
  if (!IsEnding(comm)) return ncclSuccess;
  RefuseEnded(function, comm, "was handed to ncclCommDestroy or ncclCommAbort");
  return ncclInvalidUsage;
}

ncclResult_t RequireReady(const char* function, ncclComm* comm) noexcept {
  if (comm == nullptr) return ncclInvalidArgument;
  uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
  if (phase == kConnecting || phase == kFinalizing) {
    const ncclResult_t result = Poll(function, comm);
    if (result != ncclSuccess && result != ncclInProgress) return result;
    phase = comm->phase.load(std::memory_order_seq_cst);
  }
  switch (phase) {
    case kReady:
      return ncclSuccess;
    case kQueued:
      return Fail(ncclInvalidArgument, "%s: the communicator is made in this group; use it after ncclGroupEnd",
                  function);
    case kConnecting:
      return Fail(ncclInvalidArgument,
                  "%s: the communicator is still connecting; wait until ncclCommGetAsyncError no longer says "
                  "ncclInProgress",
                  function);
    case kFinalizing:
    case kFinalized:
      return Fail(ncclInvalidUsage, "%s: the communicator was finalized; only ncclCommDestroy may follow", function);
    case kFailed:
      return Guarded(function, [&] { return KeptFailure(function, comm); });
    default:
      return RequireParts(function, comm);
  }
}

ncclComm* Allocate() {
  const uint32_t slot = TakeSlot();
  if (slot == kMaxComms) return nullptr;
  ncclComm* comm = &g_comms[slot];
  try {
    comm->cold = new CommCold(slot);
  } catch (...) {
    GiveSlot(slot);
    throw;
  }
  comm->kernel = nullptr;
  comm->rank = -1;
  comm->size = 0;
  comm->device = -1;
  comm->blocking = true;
  comm->parked = false;
  comm->next_to_end = nullptr;
  comm->aborted.store(false);
  comm->was_refused.store(false);
  comm->comm_id.store(0, std::memory_order_relaxed);
  comm->phase.store(kQueued, std::memory_order_release);
  return comm;
}

// A slot whose operation has not left, so that its memory is kept, stays unused for ever: the mark is that operation's.
void Release(ncclComm* comm) noexcept {
  comm->phase.store(kFree, std::memory_order_release);
  for (ncclWindow_t window : comm->cold->windows) ForgetWindow(window);
  delete comm->cold;
  comm->cold = nullptr;
  comm->kernel = nullptr;
  if (IsMarked(comm)) return;
  GiveSlot(static_cast<uint32_t>(comm - g_comms));
}

ncclResult_t BecomeReady(const char* function, ncclComm* comm) noexcept {
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  const sl_status_t status = LoadedRuntime().comm_info(comm->kernel, &info);
  if (status != SL_OK) return BecomeFailed(function, comm, status);
  const std::lock_guard<std::mutex> lock(comm->cold->mutex);
  if (comm->phase.load(std::memory_order_relaxed) != kConnecting) return ncclSuccess;  // another thread was faster
  comm->rank = static_cast<int32_t>(info.rank);
  comm->size = static_cast<int32_t>(info.size);
  comm->device = info.device_ordinal;
  comm->comm_id.store(info.comm_id, std::memory_order_relaxed);
  ChangePhase(comm, kReady);
  return ncclSuccess;
}

ncclResult_t BecomeFailed(const char* function, ncclComm* comm, sl_status_t status, const char* text) noexcept {
  return Guarded(function, [&]() -> ncclResult_t {
    std::string why = text;
    if (why.empty()) why = LoadedRuntime().last_error();
    if (why.empty()) why = StatusName(status);
    const ncclResult_t result = ResultOf(status);
    SetLastError((std::string(function) + ": " + why).c_str());
    const std::lock_guard<std::mutex> lock(comm->cold->mutex);
    comm->cold->failure = result;
    comm->cold->failure_text = std::move(why);
    ChangePhase(comm, kFailed);
    return result;
  });
}

void ChangePhase(ncclComm* comm, Phase phase) noexcept {
  uint32_t before = comm->phase.load(std::memory_order_seq_cst);
  do {
    if (before == kFree || before == kDestroying) return;
  } while (!comm->phase.compare_exchange_weak(before, phase, std::memory_order_seq_cst));
}

// In slices, since the mark of an end wakes nobody.
sl_status_t AwaitKernel(ncclComm* comm, Phase phase, const std::function<bool()>& is_vain) noexcept {
  const sl_runtime_ops_t& runtime = LoadedRuntime();
  for (;;) {
    const uint32_t now = comm->phase.load(std::memory_order_seq_cst);
    if (now == kFree || (now == kDestroying && phase != kDestroying)) return SL_ERR_ABORTED;
    const uint64_t end_ns = NowNs() + kWaitSliceNs;
    const sl_status_t status = runtime.comm_wait(comm->kernel, end_ns);
    // A slice that is over and a rank that came too late have the same number; the latter is told again at once.
    if (status != SL_ERR_TIMEOUT || NowNs() < end_ns) return status;
    if (is_vain && is_vain()) return SL_IN_PROGRESS;
  }
}

bool ClaimForEnding(ncclComm* comm) noexcept {
  uint32_t phase = comm->phase.load(std::memory_order_seq_cst);
  do {
    if (phase == kFree || phase == kDestroying) return false;
  } while (!comm->phase.compare_exchange_weak(phase, kDestroying, std::memory_order_seq_cst));
  return true;
}

void AwaitPins(ncclComm* comm) noexcept {
  const timespec pause{0, 100000};
  uint64_t deadline_ns = UINT64_MAX;
  while (IsInside(comm) && NowNs() < deadline_ns) {
    if (comm->aborted.load() && deadline_ns == UINT64_MAX) {
      if (comm->kernel != nullptr) LoadedRuntime().comm_cancel(comm->kernel);
      deadline_ns = NowNs() + kLeavingNs;
    }
    nanosleep(&pause, nullptr);
  }
}

bool AnyRankHere(uint64_t comm_id, const ncclComm* except, const std::function<bool(ncclComm*)>& is_it) noexcept {
  const std::lock_guard<std::mutex> lock(g_slots_mutex);
  for (uint32_t slot = 0; slot < g_slots_used; ++slot) {
    ncclComm* comm = &g_comms[slot];
    if (comm == except || comm->phase.load(std::memory_order_acquire) < kReady) continue;
    if (comm->comm_id.load(std::memory_order_relaxed) == comm_id && is_it(comm)) return true;
  }
  return false;
}

// In these phases the kernel's finalize does not wait for anything that the program has still to call.
bool HasSiblingToCome(const ncclComm* comm) {
  const uint64_t family = comm->comm_id.load(std::memory_order_relaxed);
  if (family == 0) return false;
  return AnyRankHere(family, comm, [](const ncclComm* sibling) {
    const uint32_t phase = sibling->phase.load(std::memory_order_acquire);
    return phase != kFinalizing && phase != kFinalized && phase != kFailed && phase != kDestroying;
  });
}

bool IsMeeting(const ncclComm* comm) {
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  return LoadedRuntime().comm_info(comm->kernel, &info) == SL_OK && info.meeting != 0;
}

bool OthersAreLate(const ncclComm* comm) {
  if (!IsMeeting(comm)) return false;
  const uint64_t now = NowNs();
  uint64_t since = 0;
  if (comm->cold->meeting_since_ns.compare_exchange_strong(since, now)) since = now;
  return HasSiblingToCome(comm) || now - since >= kPatienceNs;
}

}  // namespace sl::frontend_nccl
