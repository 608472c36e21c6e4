// SPDX-License-Identifier: Apache-2.0
//
// Memory, registrations, windows, and operators of a communicator's own.
#include <algorithm>
#include <memory>
#include <optional>

#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/window.h"
#include "sdk/datatype.h"

// Named by nccl.h. A registered buffer of one rank; its communicator lists it.
struct ncclWindow_vidmem {
  ncclComm* comm;
  void* memory;
  sl_comm_window_t* kernel;
};

namespace sl::frontend_nccl {
namespace {

ncclResult_t CheckBuffer(const char* function, const void* buffer, size_t size) {
  if (buffer == nullptr) return Fail(ncclInvalidArgument, "%s: argument buff is NULL", function);
  if (size == 0) return Fail(ncclInvalidArgument, "%s: argument size is 0", function);
  return ncclSuccess;
}

ncclResult_t MemoryAllocate(void** out, size_t size) {
  constexpr const char* kFunction = "ncclMemAlloc";
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument ptr is NULL", kFunction);
  if (size == 0) {
    *out = nullptr;
    return ncclSuccess;
  }
  if (const ncclResult_t ensured = EnsureRuntime(); ensured != ncclSuccess) return ensured;
  void* memory = nullptr;
  const sl_status_t status = LoadedRuntime().memory_allocate(-1, size, &memory);
  if (status != SL_OK) return FailWith(kFunction, status);
  *out = memory;
  return ncclSuccess;
}

ncclResult_t MemoryFree(void* memory) {
  if (memory == nullptr) return ncclSuccess;
  if (const ncclResult_t ensured = EnsureRuntime(); ensured != ncclSuccess) return ensured;
  return FailWith("ncclMemFree", LoadedRuntime().memory_release(memory));
}

ncclResult_t Register(const ncclComm* handle, void* buffer, size_t size, void** out) {
  constexpr const char* kFunction = "ncclCommRegister";
  const Pin comm = CheckComm(kFunction, handle);
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument handle is NULL", kFunction);
  if (const ncclResult_t checked = CheckBuffer(kFunction, buffer, size); checked != ncclSuccess) return checked;
  sl_registration_t* registration = nullptr;
  const sl_status_t status = LoadedRuntime().register_memory(comm->kernel, buffer, size, &registration);
  if (status != SL_OK) return FailWith(kFunction, status);
  *out = registration;
  return ncclSuccess;
}

ncclResult_t Deregister(const ncclComm* handle, void* registration) {
  constexpr const char* kFunction = "ncclCommDeregister";
  const Pin comm = CheckComm(kFunction, handle);
  if (comm != nullptr && registration == nullptr) return ncclSuccess;
  if (const ncclResult_t kept = RequireParts(kFunction, comm); kept != ncclSuccess) return kept;
  if (comm->kernel == nullptr) return RequireReady(kFunction, comm);
  // Whatever the communicator's state: programs deregister before they abort.
  const sl_status_t status =
      LoadedRuntime().deregister_memory(comm->kernel, static_cast<sl_registration_t*>(registration));
  // NCCL calls a handle it does not know wrong usage.
  return status == SL_ERR_INVALID ? (FailWith(kFunction, status), ncclInvalidUsage) : FailWith(kFunction, status);
}

// NCCL_WIN_GIN_ONLY takes the window from the collectives, which any window of ours may be.
constexpr int kKnownWindowFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY;

ncclResult_t CheckWindow(const char* function, const void* buffer, size_t size, const ncclWindow_t* out, int flags) {
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument win is NULL", function);
  if (const ncclResult_t checked = CheckBuffer(function, buffer, size); checked != ncclSuccess) return checked;
  if ((flags & ~kKnownWindowFlags) == 0) return ncclSuccess;
  if ((flags & ~(kKnownWindowFlags | NCCL_WIN_CFT_COUNTED)) == 0) {
    return Fail(ncclInvalidUsage,
                "%s: argument winFlags has NCCL_WIN_CFT_COUNTED, which serves kernels only; the device API is not "
                "served: leave it out",
                function);
  }
  return Fail(
      ncclInvalidArgument,
      "%s: argument winFlags is %d, must be a sum of 1 (symmetric), 2 (strict order) and 4 (not for collectives)",
      function, flags);
}

ncclResult_t WindowRegister(ncclComm_t handle, void* buffer, size_t size, ncclWindow_t* out, int flags) {
  constexpr const char* kFunction = "ncclCommWindowRegister";
  const Pin comm = CheckComm(kFunction, handle);
  if (comm == nullptr) return ncclInvalidArgument;
  ncclResult_t result = CheckWindow(kFunction, buffer, size, out, flags);
  if (result != ncclSuccess) return DeclineJob(JobKind::kWindow, kFunction, comm, result);
  // In a group the communicator may be one that the same group makes.
  if (comm->phase.load(std::memory_order_seq_cst) != kQueued) {
    if (result = RequireReady(kFunction, comm); result != ncclSuccess) return result;
  }
  *out = nullptr;
  Job job(JobKind::kWindow, kFunction);
  job.comm = comm;
  job.memory = buffer;
  job.bytes = size;
  const bool is_for_collectives = (flags & (NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_GIN_ONLY)) == NCCL_WIN_COLL_SYMMETRIC;
  job.flags = is_for_collectives ? SL_WINDOW_SYMMETRIC : 0;
  job.out_window = out;
  return SubmitJob(std::move(job));
}

ncclResult_t NoWindow(const char* function, ncclWindow_t window) {
  return Fail(ncclInvalidArgument, "%s: argument win %p is no window of this communicator, or was deregistered",
              function, static_cast<const void*>(window));
}

// What the handle says, if the communicator has the window; else nothing, with the last error set. A copy, since
// another thread may deregister the window, and with it free the handle.
std::optional<ncclWindow_vidmem> FindWindow(const char* function, ncclComm* comm, ncclWindow_t window) {
  {
    const std::lock_guard<std::mutex> lock(comm->cold->mutex);
    const std::vector<ncclWindow_t>& windows = comm->cold->windows;
    if (std::find(windows.begin(), windows.end(), window) != windows.end()) return *window;
  }
  NoWindow(function, window);
  return std::nullopt;
}

// The handle, no longer listed: of several threads that deregister a window one gets it. NULL: none is listed.
std::unique_ptr<ncclWindow_vidmem> TakeWindow(ncclComm* comm, ncclWindow_t window) {
  const std::lock_guard<std::mutex> lock(comm->cold->mutex);
  std::vector<ncclWindow_t>& windows = comm->cold->windows;
  const auto listed = std::find(windows.begin(), windows.end(), window);
  if (listed == windows.end()) return nullptr;
  windows.erase(listed);
  return std::unique_ptr<ncclWindow_vidmem>(window);
}

ncclResult_t WindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  constexpr const char* kFunction = "ncclCommWindowDeregister";
  const Pin comm = CheckComm(kFunction, handle);
  if (comm != nullptr && window == nullptr) return ncclSuccess;
  if (const ncclResult_t kept = RequireParts(kFunction, comm); kept != ncclSuccess) return kept;
  const std::unique_ptr<ncclWindow_vidmem> taken = TakeWindow(comm, window);
  if (taken == nullptr) return NoWindow(kFunction, window);
  return FailWith(kFunction, LoadedRuntime().window_deregister(comm->kernel, taken->kernel));
}

ncclResult_t WindowMemory(ncclComm_t handle, ncclWindow_t window, void** out) {
  constexpr const char* kFunction = "ncclWinGetUserPtr";
  const Pin comm = CheckComm(kFunction, handle);
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument outUserPtr is NULL", kFunction);
  const std::optional<ncclWindow_vidmem> found = FindWindow(kFunction, comm, window);
  if (!found) return ncclInvalidArgument;
  *out = found->memory;
  return ncclSuccess;
}

// Enumerations as numbers, since a program may pass any.
ncclResult_t CreateOperator(ncclRedOp_t* out, const void* scalar, unsigned datatype, unsigned residence,
                            ncclComm_t handle) {
  constexpr const char* kFunction = "ncclRedOpCreatePreMulSum";
  const Pin comm = CheckComm(kFunction, handle);
  if (const ncclResult_t ready = RequireReady(kFunction, comm); ready != ncclSuccess) return ready;
  if (out == nullptr) return Fail(ncclInvalidArgument, "%s: argument op is NULL", kFunction);
  if (scalar == nullptr) return Fail(ncclInvalidArgument, "%s: argument scalar is NULL", kFunction);
  if (datatype >= SL_DATATYPE_COUNT) {
    return Fail(ncclInvalidArgument, "%s: argument datatype is %d, must be 0 (ncclInt8) to 11 (ncclFloat8e5m2)",
                kFunction, static_cast<int>(datatype));
  }
  if (residence > ncclScalarHostImmediate) {
    return Fail(ncclInvalidArgument,
                "%s: argument residence is %d, must be ncclScalarDevice (0) or ncclScalarHostImmediate (1)", kFunction,
                static_cast<int>(residence));
  }
  const uint32_t number = comm->cold->red_ops.Create(static_cast<ncclDataType_t>(datatype),
                                                     static_cast<ncclScalarResidence_t>(residence), scalar);
  if (number == 0) {
    return Fail(ncclSystemError, "%s: the communicator has %u operators already; destroy some with ncclRedOpDestroy",
                kFunction, RedOpTable::kCapacity);
  }
  *out = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

ncclResult_t DestroyOperator(ncclRedOp_t op, ncclComm_t handle) {
  constexpr const char* kFunction = "ncclRedOpDestroy";
  if (static_cast<unsigned>(op) < static_cast<unsigned>(ncclNumOps)) {
    return Fail(ncclInvalidArgument, "%s: argument op is %d, a built-in operator, which cannot be destroyed", kFunction,
                static_cast<int>(op));
  }
  const Pin comm = CheckComm(kFunction, handle);
  if (const ncclResult_t kept = RequireParts(kFunction, comm); kept != ncclSuccess) return kept;
  if (comm->cold->red_ops.Destroy(static_cast<uint32_t>(op))) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s: argument op is %d, no operator of this communicator, or destroyed already",
              kFunction, static_cast<int>(op));
}

}  // namespace

ncclResult_t RegisterWindow(const char* function, ncclComm* comm, void* memory, uint64_t bytes, uint32_t flags,
                            ncclWindow_t* out_window) {
  return Guarded(function, [&]() -> ncclResult_t {
    auto window = std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{comm, memory, nullptr});
    const sl_status_t status = LoadedRuntime().window_register(comm->kernel, memory, bytes, flags, &window->kernel);
    if (status != SL_OK) return FailWith(function, status);
    try {
      const std::lock_guard<std::mutex> lock(comm->cold->mutex);
      comm->cold->windows.push_back(window.get());
    } catch (...) {
      LoadedRuntime().window_deregister(comm->kernel, window->kernel);
      throw;
    }
    *out_window = window.release();
    return ncclSuccess;
  });
}

sl_comm_window_t* KernelWindow(const char* function, ncclComm* comm, ncclWindow_t window) {
  const std::optional<ncclWindow_vidmem> found = FindWindow(function, comm, window);
  return found ? found->kernel : nullptr;
}

void ForgetWindow(ncclWindow_t window) noexcept { delete window; }

}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) { return fe::MemoryAllocate(ptr, size); }

SL_NCCL_API(ncclResult_t, ncclMemFree, void* ptr) { return fe::MemoryFree(ptr); }

SL_NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return fe::Register(comm, buff, size, handle);
}

SL_NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return fe::Deregister(comm, handle);
}

SL_NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
            int winFlags) {
  return fe::NoteInGroup(
      fe::Guarded("ncclCommWindowRegister", [&] { return fe::WindowRegister(comm, buff, size, win, winFlags); }));
}

SL_NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  return fe::Guarded("ncclCommWindowDeregister", [&] { return fe::WindowDeregister(comm, win); });
}

SL_NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return fe::WindowMemory(comm, win, outUserPtr);
}

SL_NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
            ncclScalarResidence_t residence, ncclComm_t comm) {
  const auto type_number = static_cast<unsigned>(datatype);
  const auto residence_number = static_cast<unsigned>(residence);
  return fe::Guarded("ncclRedOpCreatePreMulSum",
                     [&] { return fe::CreateOperator(op, scalar, type_number, residence_number, comm); });
}

SL_NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) { return fe::DestroyOperator(op, comm); }
