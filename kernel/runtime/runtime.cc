// SPDX-License-Identifier: Apache-2.0
//
// sl_runtime_query and its table: the C face of the kernel. Each slot checks its handle, calls the C++ function that
// does the work, and turns exceptions and Status into codes with a thread-local text.
#include "sl_runtime.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/events/printable.h"
#include "kernel/runtime/check_op.h"
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/issue.h"
#include "kernel/runtime/lifecycle.h"
#include "kernel/runtime/memory.h"
#include "kernel/runtime/one_sided.h"

namespace {

using sl::Result;
using sl::Status;
using sl::kernel::LastError;
using sl::kernel::Process;
using sl::kernel::SetLastError;
using sl::kernel::StatusOf;

// Runs `body`, which returns a Status, as a C function.
template <typename Body>
sl_status_t Call(Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? status.code() : SetLastError(status);
  } catch (const std::bad_alloc&) {
    return SetLastError(SL_ERR_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return SetLastError(SL_ERR_INTERNAL, error.what());
  } catch (...) {
    return SetLastError(SL_ERR_EXCEPTION, "an exception that is not a std::exception");
  }
}

Status CheckComm(const sl_comm_t* comm) {
  if (comm == nullptr) return {SL_ERR_INVALID, "the communicator is null"};
  if (Process::IsForkedChild()) return {SL_ERR_STATE, "communicators do not work in a child after fork()"};
  return {};
}

// The same on a communicator.
template <typename Body>
sl_status_t CallOn(const sl_comm_t* comm, Body&& body) noexcept {
  return Call([&]() -> Status {
    SL_TRY(CheckComm(comm));
    return body();
  });
}

// The two-call idiom.
sl_status_t GiveText(const std::string& from, char* text, uint64_t capacity, uint64_t* out_needed) {
  if (out_needed != nullptr) *out_needed = from.size() + 1;
  if (text != nullptr && capacity != 0) {
    const size_t bytes = std::min<size_t>(from.size(), capacity - 1);
    std::memcpy(text, from.data(), bytes);
    text[bytes] = '\0';
  }
  return SL_OK;
}

// Of a collective call that has nowhere to put its result.
Status NoPlace(sl_comm_t* comm, sl_call_t call) {
  SL_TRY(sl::kernel::DeclineCall(comm, call));
  return {SL_ERR_INVALID, "the place for the result is null"};
}

sl_status_t UniqueId(sl_unique_id_t* out_id) {
  return Call([&] { return sl::kernel::MakeId(out_id); });
}

sl_status_t CommCreate(const sl_comm_config_t* config, sl_comm_t** out_comm) {
  return Call([&] { return sl::kernel::CreateComm(*config, out_comm); });
}

sl_status_t CommSplit(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config,
                      sl_comm_t** out_comm) {
  return CallOn(parent, [&]() -> Status {
    if (out_comm == nullptr) return NoPlace(parent, SL_CALL_SPLIT);
    return sl::kernel::SplitComm(parent, color, key, config, out_comm);
  });
}

sl_status_t CommShrink(sl_comm_t* parent, const uint32_t* excluded, uint32_t excluded_count, uint32_t flags,
                       const sl_comm_config_t* config, sl_comm_t** out_comm) {
  return CallOn(parent, [&]() -> Status {
    if (excluded == nullptr && excluded_count != 0) return {SL_ERR_INVALID, "the list of excluded ranks is null"};
    return sl::kernel::ShrinkComm(parent, {excluded, excluded_count}, flags, config, out_comm);
  });
}

sl_status_t CommGrow(sl_comm_t* parent, uint32_t size, const sl_unique_id_t* id, const sl_comm_config_t* config,
                     sl_comm_t** out_comm) {
  return CallOn(parent, [&]() -> Status {
    if (out_comm == nullptr) return NoPlace(parent, SL_CALL_GROW);
    return sl::kernel::GrowComm(parent, size, id, config, out_comm);
  });
}

sl_status_t CommRevoke(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::RevokeComm(comm); });
}

sl_status_t CommSuspend(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::SuspendComm(comm); });
}

sl_status_t CommResume(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::ResumeComm(comm); });
}

sl_status_t CommDecline(sl_comm_t* comm, sl_call_t call) {
  return CallOn(comm, [&] { return sl::kernel::DeclineCall(comm, call); });
}

sl_status_t CommStateText(sl_comm_t* comm, char* text, uint64_t capacity, uint64_t* out_needed) {
  return CallOn(comm, [&]() -> Status {
    Status state = sl::kernel::CommState(comm);
    GiveText(state.message(), text, capacity, out_needed);
    return state;
  });
}

sl_status_t CommWait(sl_comm_t* comm, uint64_t deadline_ns) {
  return CallOn(comm, [&] { return sl::kernel::WaitComm(comm, deadline_ns); });
}

sl_status_t CommFinalize(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::FinalizeComm(comm); });
}

sl_status_t CommDestroy(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::DestroyComm(comm); });
}

sl_status_t CommAbort(sl_comm_t* comm) {
  return CallOn(comm, [&] { return sl::kernel::AbortComm(comm); });
}

sl_status_t CommCancel(sl_comm_t* comm) {
  return CallOn(comm, [comm]() -> Status {
    comm->comm.Cancel();
    return {};
  });
}

sl_status_t CommInfo(sl_comm_t* comm, sl_comm_info_t* out_info) {
  return CallOn(comm, [&]() -> Status {
    if (out_info == nullptr || out_info->struct_size < sizeof(uint64_t)) {
      return {SL_ERR_INVALID, "comm_info needs out_info with its struct_size set"};
    }
    const sl::kernel::Visit visit(comm);
    sl_comm_info_t info{};
    comm->comm.FillInfo(&info);
    if (comm->relay != nullptr) info.host_bytes += comm->relay->memory_bytes();
    info.operations = comm->operations.load(std::memory_order_relaxed);
    info.graphs = comm->graphs();
    info.struct_size = out_info->struct_size;
    std::memcpy(out_info, &info, std::min<size_t>(out_info->struct_size, sizeof(info)));
    return {};
  });
}

sl_status_t Enqueue(sl_comm_t* comm, const sl_op_t* op, sl_stream_t* stream) {
  return CallOn(comm, [&] { return sl::kernel::Issue(comm, *op, stream); });
}

sl_status_t EnqueueGroup(const sl_group_entry_t* entries, uint32_t count) {
  return Call([&]() -> Status {
    for (uint32_t i = 0; i < count; ++i) SL_TRY(CheckComm(entries[i].comm));
    return count == 0 ? Status() : sl::kernel::IssueGroup(entries, count);
  });
}

sl_status_t MemoryAllocate(int32_t device_kind, uint64_t bytes, void** out_memory) {
  return Call([&] { return sl::kernel::AllocateMemory(device_kind, bytes, out_memory); });
}

sl_status_t MemoryRelease(void* memory) {
  return Call([&] { return sl::kernel::ReleaseMemory(memory); });
}

sl_status_t RegisterMemory(sl_comm_t* comm, void* memory, uint64_t bytes, sl_registration_t** out_registration) {
  return CallOn(comm, [&] { return sl::kernel::RegisterMemory(comm, memory, bytes, out_registration); });
}

sl_status_t DeregisterMemory(sl_comm_t* comm, sl_registration_t* registration) {
  return CallOn(comm, [&] { return sl::kernel::DeregisterMemory(comm, registration); });
}

sl_status_t WindowRegister(sl_comm_t* comm, void* memory, uint64_t bytes, uint32_t flags,
                           sl_comm_window_t** out_window) {
  return CallOn(comm, [&]() -> Status {
    if (out_window == nullptr) return NoPlace(comm, SL_CALL_WINDOW);
    return sl::kernel::RegisterWindow(comm, memory, bytes, flags, out_window);
  });
}

sl_status_t WindowDeregister(sl_comm_t* comm, sl_comm_window_t* window) {
  return CallOn(comm, [&] { return sl::kernel::DeregisterWindow(comm, window); });
}

sl_status_t WindowMemory(sl_comm_t* comm, sl_comm_window_t* window, void** out_memory) {
  return CallOn(comm, [&]() -> Status {
    if (window == nullptr) return {SL_ERR_INVALID, "the window is null"};
    *out_memory = window->memory;
    return {};
  });
}

sl_status_t PutSignalOf(sl_comm_t* comm, const void* memory, uint64_t bytes, uint32_t peer, sl_comm_window_t* window,
                        uint64_t offset, sl_stream_t* stream) {
  return CallOn(comm, [&] { return sl::kernel::PutSignal(comm, {memory, bytes, window, offset}, peer, stream); });
}

sl_status_t WaitSignalsOf(sl_comm_t* comm, const sl_signal_count_t* counts, uint32_t count, sl_stream_t* stream) {
  return CallOn(comm, [&] { return sl::kernel::WaitSignals(comm, {counts, count}, stream); });
}

// `call`: what the host's device is asked.
template <typename Call>
Status AskHostDevice(const Call& call) {
  SL_ASSIGN(Process * process, Process::Get());
  const auto& device = process->host_device();
  return StatusOf(call(*device.ops, device.handle));
}

sl_status_t StreamCreate(sl_stream_t** out_stream) {
  return Call([&] {
    return AskHostDevice([&](const auto& ops, auto* device) { return ops.stream_create(device, out_stream); });
  });
}

sl_status_t StreamDestroy(sl_stream_t* stream) {
  return Call(
      [&] { return AskHostDevice([&](const auto& ops, auto* device) { return ops.stream_destroy(device, stream); }); });
}

sl_status_t StreamWaitIdle(sl_stream_t* stream, uint64_t deadline_ns) {
  return Call([&] {
    return AskHostDevice(
        [&](const auto& ops, auto* device) { return ops.stream_wait_idle(device, stream, deadline_ns); });
  });
}

// While it is set up or suspended there is none, and a worker may be about to make it or to take it away.
Result<sl::kernel::Selector*> SelectorOf(sl_comm_t& comm) {
  using State = sl::kernel::Communicator::State;
  const State state = comm.comm.state.load(std::memory_order_acquire);
  if (state == State::kJoining || state == State::kSuspended) {
    return Status(SL_ERR_STATE, "the communicator is still being set up, or is suspended");
  }
  return comm.comm.selector();
}

sl_status_t CallSettings(sl_comm_t* comm, const sl_call_settings_t* settings, uint32_t* out_number) {
  return CallOn(comm, [&]() -> Status {
    if (settings == nullptr || settings->struct_size < sizeof(uint32_t) || out_number == nullptr) {
      return {SL_ERR_INVALID, "call_settings needs settings with their struct_size set, and out_number"};
    }
    const sl::kernel::Visit visit(comm);
    SL_TRY(SelectorOf(*comm).status());
    sl_call_settings_t wanted{};
    std::memcpy(&wanted, settings, std::min<size_t>(settings->struct_size, sizeof(wanted)));
    SL_ASSIGN(*out_number, comm->comm.call_settings().NumberOf(wanted));
    return {};
  });
}

sl_status_t Explain(sl_comm_t* comm, const sl_op_t* op, char* text, uint64_t capacity, uint64_t* out_needed) {
  return CallOn(comm, [&]() -> Status {
    SL_ASSIGN(sl::kernel::Selector* const selector, SelectorOf(*comm));
    SL_TRY(sl::kernel::CheckOpArguments(comm->comm, *op));
    const sl_op_t selected = comm->relay != nullptr ? comm->relay->PieceOf(*op) : *op;
    GiveText(selector->Explain(selected), text, capacity, out_needed);
    return {};
  });
}

sl_status_t Estimate(sl_comm_t* comm, const sl_op_t* op, sl_estimate_t* out_estimate) {
  return CallOn(comm, [&]() -> Status {
    SL_ASSIGN(sl::kernel::Selector* const selector, SelectorOf(*comm));
    SL_TRY(sl::kernel::CheckOpArguments(comm->comm, *op));
    const sl_op_t selected = comm->relay != nullptr ? comm->relay->PieceOf(*op) : *op;
    SL_ASSIGN(sl_estimate_t estimate, selector->Estimate(selected));
    if (comm->relay != nullptr) comm->relay->AddCost(*op, &estimate);
    estimate.struct_size = std::min<uint32_t>(out_estimate->struct_size, sizeof(estimate));
    std::memcpy(out_estimate, &estimate, estimate.struct_size);
    return {};
  });
}

sl_status_t ServedBy(sl_comm_t* comm, char* text, uint64_t capacity, uint64_t* out_needed) {
  return CallOn(comm, [&]() -> Status {
    std::string out;
    const sl::kernel::Choice* choice = SelectorOf(*comm).ok() ? comm->last_choice : nullptr;
    if (choice != nullptr) {
      out = std::string(choice->name) + "\t";
      for (const auto& served : comm->comm.process()->algorithms()) {
        if (served.name == choice->name) out += served.module;
      }
      out += "\t" + sl::kernel::Printable(choice->estimate.reason) + "; " + choice->reason;
    }
    GiveText(out, text, capacity, out_needed);
    return {};
  });
}

sl_status_t ProfileText(const char* profile, char* text, uint64_t capacity, uint64_t* out_needed) {
  return Call([&]() -> Status {
    std::string out;
    SL_TRY(sl::kernel::ProfileText(profile, &out));
    GiveText(out, text, capacity, out_needed);
    return {};
  });
}

sl_status_t ModulesText(const char* profile, char* text, uint64_t capacity, uint64_t* out_needed) {
  return Call([&]() -> Status {
    std::string out;
    SL_TRY(sl::kernel::ModulesText(profile, &out));
    GiveText(out, text, capacity, out_needed);
    return {};
  });
}

sl_status_t CurrentDevice(int32_t* out_kind, int32_t* out_ordinal) {
  return Call([&]() -> Status {
    SL_ASSIGN(Process * process, Process::Get());
    SL_ASSIGN(const sl::kernel::Device* device, process->FindDevice(-1, -1));
    *out_kind = static_cast<int32_t>(device->info.kind);
    *out_ordinal = device->ordinal;
    return {};
  });
}

void LogLine(sl_log_level_t level, const char* text) { sl::kernel::Log(level, text); }

const sl_runtime_ops_t kOps = {
    .struct_size = sizeof(sl_runtime_ops_t),
    .revision = SL_RUNTIME_REVISION,
    .last_error = LastError,
    .unique_id = UniqueId,
    .comm_create = CommCreate,
    .comm_split = CommSplit,
    .comm_state = CommStateText,
    .comm_wait = CommWait,
    .comm_finalize = CommFinalize,
    .comm_destroy = CommDestroy,
    .comm_abort = CommAbort,
    .comm_info = CommInfo,
    .enqueue = Enqueue,
    .enqueue_group = EnqueueGroup,
    .memory_allocate = MemoryAllocate,
    .memory_release = MemoryRelease,
    .register_memory = RegisterMemory,
    .deregister_memory = DeregisterMemory,
    .window_register = WindowRegister,
    .window_deregister = WindowDeregister,
    .window_memory = WindowMemory,
    .stream_create = StreamCreate,
    .stream_destroy = StreamDestroy,
    .stream_wait_idle = StreamWaitIdle,
    .explain = Explain,
    .estimate = Estimate,
    .served_by = ServedBy,
    .profile_text = ProfileText,
    .modules_text = ModulesText,
    .log = LogLine,
    .comm_shrink = CommShrink,
    .current_device = CurrentDevice,
    .comm_revoke = CommRevoke,
    .comm_grow = CommGrow,
    .comm_suspend = CommSuspend,
    .comm_resume = CommResume,
    .put_signal = PutSignalOf,
    .wait_signals = WaitSignalsOf,
    .comm_decline = CommDecline,
    .comm_cancel = CommCancel,
    .call_settings = CallSettings,
};

// Before the first descriptor is made here. In a daemon that has closed its standard ones, ours would get their
// numbers, and log lines would go into our own connections. Open across exec, as programs expect of these.
bool FillStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    const int filler = open("/dev/null", O_RDWR);
    if (filler > STDERR_FILENO) close(filler);  // another thread was quicker
  }
  return true;
}

}  // namespace

sl_status_t sl_runtime_query(uint32_t revision, const sl_runtime_ops_t** out_ops) {
  if (revision > SL_RUNTIME_REVISION || out_ops == nullptr) return SL_ERR_UNSUPPORTED;
  [[maybe_unused]] static const bool filled = FillStandardDescriptors();
  *out_ops = &kOps;
  return SL_OK;
}
