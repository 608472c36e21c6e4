// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/memory.h"

#include <fmt/format.h>

#include "kernel/events/last_error.h"
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/copies.h"

namespace sl::kernel {
namespace {

Status NoHandle(const char* noun, const void* handle) {
  return {SL_ERR_INVALID,
          fmt::format("{} is no {} of this communicator, or it was deregistered already", handle, noun)};
}

Result<RegistrationCache::Entry*> AcquireFor(sl_comm_t* comm, void* memory, uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return Status(SL_ERR_INVALID, "window: the buffer is null or empty");
  return comm->registrations.Acquire(memory, bytes);
}

}  // namespace

Status AllocateMemory(int32_t device_kind, uint64_t bytes, void** out_memory) {
  SL_ASSIGN(Process * process, Process::Get());
  SL_ASSIGN(const Device* device, process->FindDevice(device_kind, -1));
  const uint32_t memory_kind = device->can_export() ? SL_MEMORY_EXPORTABLE : SL_MEMORY_PLAIN;
  return StatusOf(device->ops->allocate(device->handle, memory_kind, bytes, out_memory));
}

Status ReleaseMemory(void* memory) {
  SL_ASSIGN(Process * process, Process::Get());
  const Device* device = process->DeviceOf(memory);
  if (device == nullptr) {
    return {SL_ERR_INVALID,
            fmt::format("release of {}, which no device here allocated; give back what ncclMemAlloc gave, once, and "
                        "other memory to whoever allocated it",
                        memory)};
  }
  return StatusOf(device->ops->release(device->handle, memory));
}

Status RegisterMemory(sl_comm_t* comm, void* memory, uint64_t bytes, sl_registration_t** out_registration) {
  if (memory == nullptr || bytes == 0) return {SL_ERR_INVALID, "register: the buffer is null or empty"};
  SL_ASSIGN(RegistrationCache::Entry * entry, comm->registrations.Acquire(memory, bytes));
  *out_registration = comm->registered.Add(std::make_unique<sl_registration_t>(sl_registration_t{entry}));
  return {};
}

Status DeregisterMemory(sl_comm_t* comm, sl_registration_t* registration) {
  const std::unique_ptr<sl_registration_t> taken = comm->registered.Take(registration);
  if (taken == nullptr) return NoHandle("registration", registration);
  comm->registrations.Release(taken->entry);
  return {};
}

Status RegisterWindow(sl_comm_t* comm, void* memory, uint64_t bytes, uint32_t flags, sl_comm_window_t** out_window) {
  if (comm->comm.state.load() != Communicator::State::kReady) {
    return {SL_ERR_STATE, "window: the communicator is not ready"};
  }
  const Visit visit(comm);
  const Result<RegistrationCache::Entry*> acquired = AcquireFor(comm, memory, bytes);
  if (!acquired.ok()) {
    comm->comm.Decline(comm->comm.TakeTurn(), kWindowCall, acquired.status());
    return acquired.status();
  }
  RegistrationCache::Entry* entry = acquired.value();
  Reach* reach = comm->comm.reach();
  std::vector<uint64_t> seen_at;
  Reach::Pin pin;
  if (reach != nullptr) {
    seen_at.resize(comm->comm.size());
    pin = reach->PinAddresses(memory, bytes, seen_at.data());
  }
  Result<Communicator::WindowSight> agreed = comm->comm.AgreeOnWindow(bytes, flags, entry->exportable, seen_at);
  if (!agreed.ok()) {
    if (reach != nullptr) reach->Unpin(pin);
    comm->registrations.Release(entry);
    return agreed.status();
  }
  Communicator::WindowSight sight = agreed.Take();
  const bool is_symmetric = (flags & SL_WINDOW_SYMMETRIC) != 0 && sight.by_all && comm->comm.signals().valid();
  *out_window = comm->windows.Add(std::make_unique<sl_comm_window_t>(
      sl_comm_window_t{memory, bytes, flags, entry, pin, std::move(sight.seen), is_symmetric}));
  if (is_symmetric) {
    MakeSideStreams(comm);
    comm->symmetric_windows.Add(*out_window);
  }
  return {};
}

Status DeregisterWindow(sl_comm_t* comm, sl_comm_window_t* window) {
  const std::unique_ptr<sl_comm_window_t> taken = comm->windows.Take(window);
  if (taken == nullptr) return NoHandle("window", window);
  if (taken->is_symmetric) comm->symmetric_windows.TakeOut(taken.get());
  if (Reach* reach = comm->comm.reach(); reach != nullptr) reach->Unpin(taken->pin);
  comm->registrations.Release(taken->entry);
  return {};
}

}  // namespace sl::kernel
