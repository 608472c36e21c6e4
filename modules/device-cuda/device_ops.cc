// SPDX-License-Identifier: Apache-2.0
//
// sl.device/1 of GPUs: checks arguments, makes the device's context current and calls the driver or the nouns. Slots
// that issue work neither lock nor allocate unless they fail.
#include <algorithm>
#include <array>
#include <string>

#include "modules/device-cuda/device.h"
#include "modules/device-cuda/image.h"
#include "modules/device-cuda/reduce.h"
#include "sdk/answer.h"
#include "sdk/guard.h"

namespace sl::device_cuda {
namespace {

cu::Stream* Native(sl_stream_t* stream) { return reinterpret_cast<cu::Stream*>(stream); }
cu::Event* Native(sl_event_t* event) { return reinterpret_cast<cu::Event*>(event); }
cu::Address AddressOf(const void* pointer) { return reinterpret_cast<cu::Address>(pointer); }

Status Misused(const char* what) { return {SL_ERR_INVALID, std::string("device-cuda: ") + what}; }

sl_status_t Refuse(sl_device_t* device, const char* what) {
  return Guard(device->instance->host, [&] { return Misused(what); });
}

// What may allocate, wait or ask: legal beside captures, exceptions stop here.
template <typename Body>
sl_status_t Control(sl_device_t* device, Body&& body) {
  const ContextScope scope(*device);
  const BesideCaptures beside(device->calls);
  return Guard(device->instance->host, std::forward<Body>(body));
}

// What issues work: one call of the driver.
template <typename Issuing>
sl_status_t Issue(sl_device_t* device, const char* call, Issuing&& issue) {
  const ContextScope scope(*device);
  const cu::Code code = issue(device->calls);
  if (code == cu::kSuccess) [[likely]] {
    return SL_OK;
  }
  return Guard(device->instance->host, [&] { return device->Failure(code, call); });
}

// Fills a struct of the caller's age.
template <typename Info>
sl_status_t Fill(sl_device_t* device, const Info& from, Info* out, const char* what) {
  if (out->struct_size < sizeof(uint32_t)) return Refuse(device, what);
  Answer(out, from);
  return SL_OK;
}

sl_status_t CountDevices(sl_instance_t* instance, uint32_t* out_count) {
  return Guard(instance->host, [&]() -> Status {
    *out_count = instance->CountDevices();
    return {};
  });
}

sl_status_t CurrentDevice(sl_instance_t* instance, uint32_t* out_ordinal) {
  return Guard(instance->host, [&]() -> Status {
    SL_ASSIGN(*out_ordinal, instance->driver->Current());
    return {};
  });
}

sl_status_t Open(sl_instance_t* instance, uint32_t ordinal, sl_device_t** out_device) {
  return Guard(instance->host, [&]() -> Status {
    SL_ASSIGN(*out_device, instance->OpenDevice(ordinal));
    return {};
  });
}

void Close(sl_device_t* device) {
  if (device != nullptr) device->instance->CloseDevice(device);
}

sl_status_t Info(sl_device_t* device, sl_device_info_t* out_info) {
  return Fill(device, device->info, out_info, "info: set out_info->struct_size first");
}

// Memory.

// Exportable memory, reservations and mappings are made by hand, which SL_DEVICE_CAN_EXPORT says.
Status NeedsMapping(const sl_device_t& device) {
  if ((device.info.capabilities & SL_DEVICE_CAN_EXPORT) != 0) return {};
  return {SL_ERR_UNSUPPORTED, "device-cuda: device " + std::to_string(device.ordinal) +
                                  ": its driver cannot map memory by hand or export it as a descriptor"};
}

sl_status_t Allocate(sl_device_t* device, uint32_t memory_kind, uint64_t bytes, void** out_memory) {
  return Control(device, [&]() -> Status {
    if (memory_kind == SL_MEMORY_EXPORTABLE) SL_TRY(NeedsMapping(*device));
    SL_ASSIGN(*out_memory, device->instance->allocations.Allocate(*device, memory_kind, bytes));
    return {};
  });
}

sl_status_t Release(sl_device_t* device, void* memory) {
  return Control(device, [&] { return device->instance->allocations.Release(*device, memory); });
}

sl_status_t FreeMemory(sl_device_t* device, uint64_t* out_bytes) {
  return Control(device, [&]() -> Status {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    SL_TRY(SL_CUDA(*device, MemGetInfo, &free_bytes, &total_bytes));
    *out_bytes = free_bytes;
    return {};
  });
}

sl_status_t PointerInfo(sl_device_t* device, const void* pointer, sl_pointer_info_t* out_info) {
  const ContextScope scope(*device);
  const PointerFacts facts = device->instance->allocations.Describe(*device, pointer);
  sl_pointer_info_t info{};
  info.exportable = facts.is_exportable() ? 1 : 0;
  info.base = reinterpret_cast<void*>(facts.base);
  info.bytes = facts.bytes;
  info.allocation_id = facts.allocation_id;
  info.generation = facts.generation;
  return Fill(device, info, out_info, "pointer_info: set out_info->struct_size first");
}

sl_status_t ExportMemory(sl_device_t* device, void* memory, uint32_t handle_type, sl_memory_handle_t* out_handle) {
  return Control(device, [&]() -> Status {
    if (out_handle->struct_size < SL_MEMORY_HANDLE_SIZE_1_0) {
      return Misused("export_memory: set out_handle->struct_size first");
    }
    SL_ASSIGN(const sl_memory_handle_t handle, device->instance->allocations.Export(*device, memory, handle_type));
    Answer(out_handle, handle);
    return {};
  });
}

sl_status_t Reserve(sl_device_t* device, uint64_t bytes, void** out_address) {
  return Control(device, [&]() -> Status {
    SL_TRY(NeedsMapping(*device));
    SL_ASSIGN(*out_address, device->instance->mappings.Reserve(*device, bytes));
    return {};
  });
}

sl_status_t Unreserve(sl_device_t* device, void* address, uint64_t bytes) {
  return Control(device, [&] { return device->instance->mappings.Unreserve(*device, address, bytes); });
}

sl_status_t ImportMemory(sl_device_t* device, const sl_memory_handle_t* handle, void* address,
                         sl_mapping_t** out_mapping, void** out_address) {
  return Control(device, [&]() -> Status {
    if (handle->type != SL_HANDLE_IPC && handle->type != SL_HANDLE_LOCAL) SL_TRY(NeedsMapping(*device));
    SL_ASSIGN(sl_mapping_t * mapping, device->instance->mappings.Import(*device, *handle, address));
    *out_mapping = mapping;
    *out_address = reinterpret_cast<void*>(mapping->address);
    return {};
  });
}

sl_status_t Unmap(sl_device_t* device, sl_mapping_t* mapping) {
  return Control(device, [&] { return device->instance->mappings.Unmap(*device, mapping); });
}

// Pinned where it lies. The driver knows each address once, whoever has it pinned.
sl_status_t HostAttach(sl_device_t* device, void* memory, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  if (memory == nullptr || AddressOf(memory) % kPage != 0 || bytes == 0 || bytes % kPage != 0) {
    return Refuse(device, "host_attach: not whole pages of 4,096 bytes");
  }
  return Control(device, [&]() -> Status {
    SL_TRY(SL_CUDA(*device, MemHostRegister, memory, bytes, cu::kHostRegisterPortable | cu::kHostRegisterDeviceMap));
    cu::Address address = 0;
    Status status = SL_CUDA(*device, MemHostGetDevicePointer, &address, memory, 0);
    if (status.ok() && address != AddressOf(memory)) {
      status =
          Status(SL_ERR_UNSUPPORTED, "device-cuda: host memory that is pinned later has another address on device " +
                                         std::to_string(device->ordinal));
    }
    if (!status.ok()) device->calls.MemHostUnregister(memory);
    return status;
  });
}

sl_status_t HostDetach(sl_device_t* device, void* memory) {
  return Control(device, [&] { return SL_CUDA(*device, MemHostUnregister, memory); });
}

// Streams and events.

sl_status_t StreamCreate(sl_device_t* device, sl_stream_t** out_stream) {
  return Control(device, [&]() -> Status {
    SL_ASSIGN(*out_stream, device->CreateStream());
    return {};
  });
}

sl_status_t StreamDestroy(sl_device_t* device, sl_stream_t* stream) {
  return Control(device, [&] { return device->DestroyStream(stream); });
}

sl_status_t StreamWaitIdle(sl_device_t* device, sl_stream_t* stream, uint64_t deadline_ns) {
  return Control(device, [&] { return device->WaitIdle(Native(stream), deadline_ns); });
}

sl_status_t EventCreate(sl_device_t* device, sl_event_t** out_event) {
  return Control(device, [&]() -> Status {
    cu::Event* event = nullptr;
    SL_TRY(SL_CUDA(*device, EventCreate, &event, cu::kEventDisableTiming));
    *out_event = reinterpret_cast<sl_event_t*>(event);
    return {};
  });
}

sl_status_t EventDestroy(sl_device_t* device, sl_event_t* event) {
  return Control(device, [&] { return SL_CUDA(*device, EventDestroy, Native(event)); });
}

sl_status_t EventRecord(sl_device_t* device, sl_event_t* event, sl_stream_t* stream) {
  return Issue(device, "cuEventRecord",
               [&](const Calls& calls) { return calls.EventRecord(Native(event), Native(stream)); });
}

sl_status_t EventQuery(sl_device_t* device, sl_event_t* event) {
  const ContextScope scope(*device);
  const BesideCaptures beside(device->calls);
  const cu::Code code = device->calls.EventQuery(Native(event));
  if (code == cu::kSuccess) return SL_OK;
  if (code == cu::kNotReady) return SL_ERR_AGAIN;
  return Guard(device->instance->host, [&] { return device->Failure(code, "cuEventQuery"); });
}

sl_status_t StreamWaitEvent(sl_device_t* device, sl_stream_t* stream, sl_event_t* event) {
  return Issue(device, "cuStreamWaitEvent",
               [&](const Calls& calls) { return calls.StreamWaitEvent(Native(stream), Native(event), 0); });
}

bool IsAligned(const uint64_t* word) {
  return word != nullptr && reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) == 0;
}

sl_status_t StreamWriteValue(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  if (!IsAligned(word)) return Refuse(device, "stream_write_value: the word is not 8-byte aligned");
  return Issue(device, "cuStreamWriteValue64", [&](const Calls& calls) {
    return calls.StreamWriteValue64(Native(stream), AddressOf(word), value, cu::kStreamWriteValueDefault);
  });
}

sl_status_t StreamWaitValue(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  if (!IsAligned(word)) return Refuse(device, "stream_wait_value: the word is not 8-byte aligned");
  return Issue(device, "cuStreamWaitValue64", [&](const Calls& calls) {
    return calls.StreamWaitValue64(Native(stream), AddressOf(word), value, cu::kStreamWaitValueGeq);
  });
}

sl_status_t StreamBatchValues(sl_device_t* device, sl_stream_t* stream, uint32_t count,
                              const sl_stream_value_t* values) {
  std::array<cu::StreamMemoryOp, cu::kMostMemoryOps> ops;
  for (uint32_t first = 0; first < count; first += cu::kMostMemoryOps) {
    const uint32_t some = std::min(count - first, cu::kMostMemoryOps);
    for (uint32_t i = 0; i < some; ++i) {
      const auto& [word, value, action, reserved] = values[first + i];
      if (!IsAligned(word)) return Refuse(device, "stream_batch_values: a word is not 8-byte aligned");
      if (action != SL_VALUE_WRITE && action != SL_VALUE_WAIT) {
        return Refuse(device, "stream_batch_values: an unknown action");
      }
      const bool writes = action == SL_VALUE_WRITE;
      ops[i] = {};
      ops[i].operation = writes ? cu::kStreamWriteValue64 : cu::kStreamWaitValue64;
      ops[i].address = AddressOf(word);
      ops[i].value = value;
      ops[i].flags = writes ? cu::kStreamWriteValueDefault : cu::kStreamWaitValueGeq;
    }
    const sl_status_t issued = Issue(device, "cuStreamBatchMemOp", [&](const Calls& calls) {
      return calls.StreamBatchMemOp(Native(stream), some, ops.data(), 0);
    });
    if (issued != SL_OK) return issued;
  }
  return SL_OK;
}

sl_status_t StreamCallback(sl_device_t* device, sl_stream_t* stream, void (*run)(void*), void* ctx) {
  if (run == nullptr) return Refuse(device, "stream_callback: no function");
  return Issue(device, "cuLaunchHostFunc",
               [&](const Calls& calls) { return calls.LaunchHostFunc(Native(stream), run, ctx); });
}

sl_status_t CopyBytes(sl_device_t* device, sl_stream_t* stream, void* dst, const void* src, uint64_t bytes) {
  if (bytes == 0) return SL_OK;
  return Issue(device, "cuMemcpyAsync", [&](const Calls& calls) {
    return calls.MemcpyAsync(AddressOf(dst), AddressOf(src), bytes, Native(stream));
  });
}

sl_status_t ReduceBytes(sl_device_t* device, sl_stream_t* stream, void* dst, const void* const* srcs, uint32_t n_srcs,
                        uint64_t count, sl_datatype_t datatype, sl_reduction_t reduction,
                        const sl_reduce_scale_t* scale) {
  const ContextScope scope(*device);
  return Guard(device->instance->host, [&]() -> Status {
    SL_ASSIGN(sl_image_t * kernels, device->Reductions());
    return Reduce(*device, kernels, Native(stream), {dst, srcs, n_srcs, count, datatype, reduction, scale});
  });
}

sl_status_t CaptureState(sl_device_t* device, sl_stream_t* stream, uint32_t* out_state, uint64_t* out_id) {
  const ContextScope scope(*device);
  cu::CaptureStatus state = cu::kCaptureNone;
  uint64_t id = 0;
  cu::Code code = device->calls.StreamGetCaptureInfo(Native(stream), &state, &id);
  if (code == cu::kSuccess && state == cu::kCaptureInvalidated) code = cu::kStreamCaptureInvalidated;
  if (code != cu::kSuccess) [[unlikely]] {
    return Guard(device->instance->host, [&] { return device->Failure(code, "cuStreamGetCaptureInfo"); });
  }
  *out_state = state == cu::kCaptureActive ? 1 : 0;
  unsigned long long own_id = 0;
  const bool asks = state == cu::kCaptureNone && device->calls.StreamGetId != nullptr;
  if (asks && device->calls.StreamGetId(Native(stream), &own_id) != cu::kSuccess) own_id = 0;
  *out_id = state == cu::kCaptureActive ? id : own_id;
  return SL_OK;
}

// The graph owns the one reference; when it goes, with its copies and executables, the driver calls `release`.
sl_status_t CaptureRetain(sl_device_t* device, sl_stream_t* stream, void (*release)(void* ctx), void* ctx) {
  if (release == nullptr) return Refuse(device, "capture_retain: no function");
  return Control(device, [&]() -> Status {
    cu::CaptureStatus state = cu::kCaptureNone;
    uint64_t id = 0;
    cu::Graph* graph = nullptr;
    SL_TRY(SL_CUDA(*device, StreamGetCaptureInfo_v2, Native(stream), &state, &id, &graph, nullptr, nullptr));
    if (state != cu::kCaptureActive) return {SL_ERR_STATE, "device-cuda: capture_retain: the stream is not captured"};
    cu::UserObject* object = nullptr;
    SL_TRY(SL_CUDA(*device, UserObjectCreate, &object, ctx, release, 1, cu::kUserObjectNoDestructorSync));
    // An object that the graph refuses is left alone: to destroy it would be to call `release`.
    return SL_CUDA(*device, GraphRetainUserObject, graph, object, 1, cu::kGraphUserObjectMove);
  });
}

// Kernels.

sl_status_t ImageLoad(sl_device_t* device, const sl_image_desc_t* desc, sl_image_t** out_image) {
  return Control(device, [&]() -> Status {
    SL_ASSIGN(std::unique_ptr<sl_image_t> image, sl_image_t::Load(*device, *desc));
    *out_image = image.release();
    return {};
  });
}

sl_status_t ImageUnload(sl_device_t* device, sl_image_t* image) {
  return Control(device, [&]() -> Status {
    delete image;
    return {};
  });
}

constexpr char kBadLaunch[] =
    "launch: old struct, no image, a kernel that the image does not have, or more arguments than info says";

sl_status_t LaunchOne(sl_device_t* device, sl_stream_t* stream, const sl_launch_t* launch) {
  if (!IsLaunchable(*launch)) [[unlikely]] {
    return Refuse(device, kBadLaunch);
  }
  return Issue(device, "cuLaunchKernelEx", [&](const Calls&) { return Launch(Native(stream), *launch); });
}

// A batch may name images of several devices: ranks of one thread. Kernels that need each other are on streams of their
// own; on one stream they run one after the other, which is also what chains want.
sl_status_t LaunchMany(sl_device_t* device, uint32_t count, sl_stream_t* const* streams,
                       const sl_launch_t* const* launches) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsLaunchable(*launches[i])) [[unlikely]] {
      return Refuse(device, kBadLaunch);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const sl_device_t& own = launches[i]->image->device;
    const ContextScope scope(own);
    const cu::Code code = Launch(Native(streams[i]), *launches[i]);
    if (code == cu::kSuccess) [[likely]] {
      continue;
    }
    return Guard(device->instance->host, [&]() -> Status {
      const Status failure = own.Failure(code, "cuLaunchKernelEx");
      return {failure.code(), failure.message() + "; launch " + std::to_string(i + 1) + " of a batch of " +
                                  std::to_string(count) + ", those before it were launched"};
    });
  }
  return SL_OK;
}

sl_reduce_fn ReduceFunction(sl_device_t*, sl_datatype_t, sl_reduction_t) { return nullptr; }

}  // namespace

const sl_device_ops_t kDeviceOps = {
    .struct_size = sizeof(sl_device_ops_t),
    .reserved = 0,
    .count = CountDevices,
    .current = CurrentDevice,
    .open = Open,
    .close = Close,
    .info = Info,
    .allocate = Allocate,
    .release = Release,
    .free_memory = FreeMemory,
    .pointer_info = PointerInfo,
    .export_memory = ExportMemory,
    .reserve = Reserve,
    .unreserve = Unreserve,
    .import_memory = ImportMemory,
    .unmap = Unmap,
    .stream_create = StreamCreate,
    .stream_destroy = StreamDestroy,
    .stream_wait_idle = StreamWaitIdle,
    .event_create = EventCreate,
    .event_destroy = EventDestroy,
    .event_record = EventRecord,
    .event_query = EventQuery,
    .stream_wait_event = StreamWaitEvent,
    .stream_write_value = StreamWriteValue,
    .stream_wait_value = StreamWaitValue,
    .stream_callback = StreamCallback,
    .copy = CopyBytes,
    .reduce = ReduceBytes,
    .capture_state = CaptureState,
    .image_load = ImageLoad,
    .image_unload = ImageUnload,
    .launch = LaunchOne,
    .launch_batch = LaunchMany,
    .reduce_function = ReduceFunction,
    .capture_retain = CaptureRetain,
    .host_attach = HostAttach,
    .host_detach = HostDetach,
    .stream_batch_values = StreamBatchValues,
};

}  // namespace sl::device_cuda
