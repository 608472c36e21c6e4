// SPDX-License-Identifier: Apache-2.0
//
// sl.device/1 of the host: checks arguments and calls the nouns. Slots of the data path (launch, pointer_info,
// reduce_function) do without Guard unless they fail or queue.
#include <time.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "modules/device-host/batch.h"
#include "modules/device-host/copy.h"
#include "modules/device-host/device.h"
#include "modules/device-host/image.h"
#include "modules/device-host/reduce.h"
#include "sdk/answer.h"
#include "sdk/guard.h"

namespace sl::device_host {
namespace {

using Kind = Item::Kind;

// Smaller copies and reductions on an idle stream cost less on the caller than waking the stream's thread does.
constexpr uint64_t kInlineBytes = 65536;

template <typename Body>
sl_status_t Guarded(sl_device_t* device, Body&& body) {
  return Guard(device->instance->host, std::forward<Body>(body));
}

Status Misused(const char* what) { return {SL_ERR_INVALID, std::string("device-host: ") + what}; }

// Fills a struct of the caller's age.
template <typename Info>
Status Fill(const Info& from, Info* out, const char* what) {
  if (out->struct_size < sizeof(uint32_t)) return Misused(what);
  Answer(out, from);
  return {};
}

// Queues what is in `item`; where allowed, runs it on the caller instead, in order all the same.
Status SubmitOrRun(sl_stream_t* stream, sl_stream_t::ItemPtr item, bool may_run_here) {
  if (!may_run_here || !stream->BeginInline()) return stream->Submit(std::move(item));
  item->RunPlain();
  stream->EndInline();
  return {};
}

sl_status_t CountDevices(sl_instance_t*, uint32_t* out_count) {
  *out_count = 1;
  return SL_OK;
}

sl_status_t CurrentDevice(sl_instance_t*, uint32_t* out_ordinal) {
  *out_ordinal = 0;
  return SL_OK;
}

sl_status_t Open(sl_instance_t* instance, uint32_t ordinal, sl_device_t** out_device) {
  return Guard(instance->host, [&]() -> Status {
    if (ordinal != 0) {
      return {SL_ERR_NOT_FOUND,
              "device-host: device " + std::to_string(ordinal) + " does not exist; the host is device 0"};
    }
    sl_device_t* device = instance->OpenDevice();
    if (device == nullptr) return {SL_ERR_STATE, "device-host: the module is being unloaded"};
    *out_device = device;
    return {};
  });
}

void Close(sl_device_t* device) {
  if (device != nullptr) device->instance->CloseDevice(device);
}

sl_status_t Info(sl_device_t* device, sl_device_info_t* out_info) {
  return Guarded(device, [&]() -> Status {
    return Fill(HostInfo(device->instance->memory.PageBytes()), out_info, "info: set out_info->struct_size first");
  });
}

// Memory.

sl_status_t Allocate(sl_device_t* device, uint32_t memory_kind, uint64_t bytes, void** out_memory) {
  return Guarded(device, [&]() -> Status {
    SL_ASSIGN(*out_memory, device->instance->memory.Allocate(memory_kind, bytes));
    return {};
  });
}

sl_status_t Release(sl_device_t* device, void* memory) {
  return Guarded(device, [&] { return device->instance->memory.Release(memory); });
}

sl_status_t FreeMemory(sl_device_t*, uint64_t* out_bytes) {
  *out_bytes = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return SL_OK;
}

sl_status_t PointerInfo(sl_device_t* device, const void* pointer, sl_pointer_info_t* out_info) {
  Status filled =
      Fill(device->instance->memory.Describe(pointer), out_info, "pointer_info: set out_info->struct_size first");
  return filled.ok() ? SL_OK : Guarded(device, [&] { return filled; });
}

sl_status_t ExportMemory(sl_device_t* device, void* memory, uint32_t handle_type, sl_memory_handle_t* out_handle) {
  return Guarded(device, [&]() -> Status {
    if (handle_type != SL_HANDLE_FD) {
      return {SL_ERR_UNSUPPORTED, "device-host: host memory is exported as a descriptor only (SL_HANDLE_FD)"};
    }
    if (out_handle->struct_size < SL_MEMORY_HANDLE_SIZE_1_0) {
      return Misused("export_memory: set out_handle->struct_size first");
    }
    SL_ASSIGN(const sl_memory_handle_t handle, device->instance->memory.Export(memory));
    Answer(out_handle, handle);
    return {};
  });
}

sl_status_t Reserve(sl_device_t* device, uint64_t bytes, void** out_address) {
  return Guarded(device, [&]() -> Status {
    SL_ASSIGN(*out_address, device->instance->memory.Reserve(bytes));
    return {};
  });
}

sl_status_t Unreserve(sl_device_t* device, void* address, uint64_t bytes) {
  return Guarded(device, [&] { return device->instance->memory.Unreserve(address, bytes); });
}

sl_status_t ImportMemory(sl_device_t* device, const sl_memory_handle_t* handle, void* address,
                         sl_mapping_t** out_mapping, void** out_address) {
  return Guarded(device, [&]() -> Status {
    SL_ASSIGN(sl_mapping_t * mapping, device->instance->memory.Import(*handle, address));
    *out_mapping = mapping;
    *out_address = reinterpret_cast<void*>(mapping->address);
    return {};
  });
}

sl_status_t Unmap(sl_device_t* device, sl_mapping_t* mapping) {
  return Guarded(device, [&] { return device->instance->memory.Unmap(mapping); });
}

// Streams and events.

sl_status_t StreamCreate(sl_device_t* device, sl_stream_t** out_stream) {
  return Guarded(device, [&]() -> Status {
    *out_stream = device->CreateStream();
    return {};
  });
}

sl_status_t StreamDestroy(sl_device_t* device, sl_stream_t* stream) {
  return Guarded(device, [&] { return device->DestroyStream(stream); });
}

sl_status_t StreamWaitIdle(sl_device_t* device, sl_stream_t* stream, uint64_t deadline_ns) {
  if (stream == nullptr) return SL_OK;
  return Guarded(device, [&]() -> Status {
    const sl_status_t status = stream->WaitIdle(deadline_ns);
    if (status != SL_ERR_TIMEOUT) return Status(status);
    return {status, "device-host: the stream's work did not end before the deadline"};
  });
}

sl_status_t EventCreate(sl_device_t* device, sl_event_t** out_event) {
  return Guarded(device, [&]() -> Status {
    *out_event = new sl_event_t;
    return {};
  });
}

sl_status_t EventDestroy(sl_device_t*, sl_event_t* event) {
  delete event;
  return SL_OK;
}

sl_status_t EventRecord(sl_device_t* device, sl_event_t* event, sl_stream_t* stream) {
  return Guarded(device, [&]() -> Status {
    Mark mark = MakeMark();
    if (stream == nullptr) {
      Reach(mark.get());
    } else {
      sl_stream_t::ItemPtr item = stream->NewItem(Kind::kMark);
      item->mark = mark;
      SL_TRY(SubmitOrRun(stream, std::move(item), true));
    }
    event->mark = std::move(mark);
    return {};
  });
}

sl_status_t EventQuery(sl_device_t*, sl_event_t* event) {
  return event->mark == nullptr || IsReached(*event->mark) ? SL_OK : SL_ERR_AGAIN;
}

// A wait on the default stream holds the caller, bounded by an option: nobody could cancel it.
sl_status_t WaitBound(void* tuning, const sl_wait_t*, uint64_t waited_ns) {
  return waited_ns >= static_cast<const Tuning*>(tuning)->wait_timeout_ns ? SL_ERR_TIMEOUT : SL_OK;
}

// Waits by one of the waiting kernels, on the caller or as an item of `stream`.
Status Wait(sl_device_t* device, sl_stream_t* stream, const sl_host_kernel_t& kernel, const void* args,
            uint32_t args_bytes, const Mark& mark) {
  sl_launch_t launch{};
  launch.struct_size = sizeof(launch);
  launch.args = args;
  launch.args_bytes = args_bytes;
  if (stream == nullptr) {
    const Tuning& tuning = device->instance->tuning;
    launch.check = WaitBound;
    launch.check_ctx = const_cast<Tuning*>(&tuning);
    launch.check_interval_ns = tuning.wait_timeout_ns;
    const sl_status_t status = LaunchInline(launch, kernel, tuning, &device->counters);
    if (status == SL_OK) return {};
    return {status, std::string("device-host: ") + kernel.name + " on the default stream was not reached in " +
                        std::to_string(tuning.wait_timeout_ns / 1'000'000) + " ms; see the option wait_timeout_ms"};
  }
  sl_stream_t::ItemPtr item = stream->NewItem(Kind::kTasks);
  item->mark = mark;
  item->tasks.Reserve(1, TaskSet::Rounded(args_bytes));
  item->tasks.Add(launch, kernel, true);
  item->tasks.ActivateLast();
  return stream->Submit(std::move(item));
}

sl_status_t StreamWaitEvent(sl_device_t* device, sl_stream_t* stream, sl_event_t* event) {
  return Guarded(device, [&]() -> Status {
    const Mark mark = event->mark;
    if (mark == nullptr || IsReached(*mark)) return {};
    const WaitMarkArgs args{mark.get()};
    return Wait(device, stream, kWaitMarkKernel, &args, sizeof(args), mark);
  });
}

sl_status_t StreamWriteValue(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  return Guarded(device, [&]() -> Status {
    if (word == nullptr || reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0) {
      return Misused("stream_write_value: the word is not 8-byte aligned");
    }
    if (stream == nullptr) {
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
      return {};
    }
    sl_stream_t::ItemPtr item = stream->NewItem(Kind::kWrite);
    item->dst = word;
    item->count = value;
    return SubmitOrRun(stream, std::move(item), true);
  });
}

sl_status_t StreamWaitValue(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  return Guarded(device, [&]() -> Status {
    if (word == nullptr || reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0) {
      return Misused("stream_wait_value: the word is not 8-byte aligned");
    }
    const WaitValueArgs args{word, value};
    return Wait(device, stream, kWaitValueKernel, &args, sizeof(args), nullptr);
  });
}

sl_status_t StreamBatchValues(sl_device_t* device, sl_stream_t* stream, uint32_t count,
                              const sl_stream_value_t* values) {
  sl_status_t status = SL_OK;
  for (uint32_t i = 0; i < count && status == SL_OK; ++i) {
    const auto& [word, value, action, reserved] = values[i];
    if (action == SL_VALUE_WRITE) {
      status = StreamWriteValue(device, stream, word, value);
    } else if (action == SL_VALUE_WAIT) {
      status = StreamWaitValue(device, stream, word, value);
    } else {
      status = Guarded(device, [] { return Misused("stream_batch_values: an unknown action"); });
    }
  }
  return status;
}

sl_status_t StreamCallback(sl_device_t* device, sl_stream_t* stream, void (*run)(void*), void* ctx) {
  return Guarded(device, [&]() -> Status {
    if (run == nullptr) return Misused("stream_callback: no function");
    if (stream == nullptr) {
      run(ctx);
      return {};
    }
    sl_stream_t::ItemPtr item = stream->NewItem(Kind::kCallback);
    item->callback = run;
    item->callback_ctx = ctx;
    return stream->Submit(std::move(item));
  });
}

sl_status_t CopyBytes(sl_device_t* device, sl_stream_t* stream, void* dst, const void* src, uint64_t bytes) {
  return Guarded(device, [&]() -> Status {
    if (stream == nullptr) {
      Copy(dst, src, bytes);
      return {};
    }
    sl_stream_t::ItemPtr item = stream->NewItem(Kind::kCopy);
    item->dst = dst;
    item->srcs.assign(1, src);
    item->count = bytes;
    return SubmitOrRun(stream, std::move(item), bytes <= kInlineBytes);
  });
}

sl_status_t Reduce(sl_device_t* device, sl_stream_t* stream, void* dst, const void* const* srcs, uint32_t n_srcs,
                   uint64_t count, sl_datatype_t datatype, sl_reduction_t reduction, const sl_reduce_scale_t* scale) {
  return Guarded(device, [&]() -> Status {
    const sl_reduce_fn reduce = FindReduce(datatype, reduction);
    if (reduce == nullptr || n_srcs == 0 || srcs == nullptr) {
      return {SL_ERR_INVALID, "device-host: reduce of " + std::to_string(n_srcs) + " sources, data type " +
                                  std::to_string(datatype) + ", reduction " + std::to_string(reduction) +
                                  ": one of these is out of range"};
    }
    if (stream == nullptr) {
      reduce(dst, nullptr, srcs, n_srcs, count, scale);
      return {};
    }
    sl_stream_t::ItemPtr item = stream->NewItem(Kind::kReduce);
    item->dst = dst;
    item->srcs.assign(srcs, srcs + n_srcs);
    item->count = count;
    item->reduce = reduce;
    item->has_scale = scale != nullptr;
    if (scale != nullptr) item->scale = *scale;
    return SubmitOrRun(stream, std::move(item), count <= kInlineBytes / DatatypeBytes(datatype) / n_srcs);
  });
}

// Where callers learn whether a stream is of this device; calls that issue work do not look.
sl_status_t CaptureState(sl_device_t* device, sl_stream_t* stream, uint32_t* out_state, uint64_t* out_id) {
  return Guarded(device, [&]() -> Status {
    if (stream != nullptr && !device->HasStream(stream)) return Misused("this is no stream of the host");
    *out_state = 0;
    *out_id = 0;
    return {};
  });
}

sl_status_t CaptureRetain(sl_device_t* device, sl_stream_t*, void (*)(void*), void*) {
  return Guarded(device, []() -> Status { return {SL_ERR_STATE, "device-host: streams are not captured here"}; });
}

// Kernels.

sl_status_t ImageLoad(sl_device_t* device, const sl_image_desc_t* desc, sl_image_t** out_image) {
  return Guarded(device, [&]() -> Status {
    if (desc->kernel_count == 0 || desc->host_kernels == nullptr) {
      return {SL_ERR_UNSUPPORTED, "device-host: the image has no host kernels"};
    }
    auto image = std::make_unique<sl_image_t>();
    image->kernels = std::make_unique<sl_host_kernel_t[]>(desc->kernel_count);
    image->kernel_count = desc->kernel_count;
    for (uint32_t i = 0; i < desc->kernel_count; ++i) {
      const sl_host_kernel_t& kernel = desc->host_kernels[i];
      if (kernel.run == nullptr || kernel.frame_bytes > kMaxFrameBytes) {
        return {SL_ERR_INVALID, "device-host: kernel " + std::to_string(i) +
                                    " of the image has no function, or a frame of " +
                                    std::to_string(kernel.frame_bytes) + " bytes; at most " +
                                    std::to_string(kMaxFrameBytes) + " are possible"};
      }
      image->kernels[i] = kernel;
      image->kernels[i].frame_bytes = static_cast<uint32_t>(TaskSet::Rounded(kernel.frame_bytes));
    }
    *out_image = image.release();
    return {};
  });
}

sl_status_t ImageUnload(sl_device_t*, sl_image_t* image) {
  delete image;
  return SL_OK;
}

Status BadLaunch() {
  return Misused(
      "launch: old struct, no image, a kernel that the image does not have, or more than 4096 bytes of arguments");
}

sl_status_t Launch(sl_device_t* device, sl_stream_t* stream, const sl_launch_t* launch) {
  const sl_host_kernel_t* kernel = FindKernel(*launch);
  if (kernel == nullptr) [[unlikely]] {
    return Guarded(device, [] { return BadLaunch(); });
  }
  if (stream == nullptr) return LaunchInline(*launch, *kernel, device->instance->tuning, &device->counters);
  return Guarded(device, [&] { return stream->Launch(*launch, *kernel); });
}

sl_status_t LaunchMany(sl_device_t* device, uint32_t count, sl_stream_t* const* streams,
                       const sl_launch_t* const* launches) {
  if (count == 1) return Launch(device, streams[0], launches[0]);
  sl_status_t first = SL_OK;
  const sl_status_t status = Guarded(device, [&]() -> Status {
    for (uint32_t i = 0; i < count; ++i) {
      if (FindKernel(*launches[i]) == nullptr) return BadLaunch();
    }
    SL_ASSIGN(first,
              LaunchBatch(count, streams, launches, device->instance->tuning, &device->counters, &device->queueing));
    return {};
  });
  return status != SL_OK ? status : first;
}

// It sees all there is; what is attached need not be remembered.
sl_status_t HostAttach(sl_device_t* device, void* memory, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  const bool is_aligned = memory != nullptr && reinterpret_cast<uintptr_t>(memory) % kPage == 0;
  if (is_aligned && bytes != 0 && bytes % kPage == 0) return SL_OK;
  return Guarded(device, [] { return Misused("host_attach: not whole pages of 4,096 bytes"); });
}

sl_status_t HostDetach(sl_device_t*, void*) { return SL_OK; }

sl_reduce_fn ReduceFunction(sl_device_t*, sl_datatype_t datatype, sl_reduction_t reduction) {
  return FindReduce(datatype, reduction);
}

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
    .reduce = Reduce,
    .capture_state = CaptureState,
    .image_load = ImageLoad,
    .image_unload = ImageUnload,
    .launch = Launch,
    .launch_batch = LaunchMany,
    .reduce_function = ReduceFunction,
    .capture_retain = CaptureRetain,
    .host_attach = HostAttach,
    .host_detach = HostDetach,
    .stream_batch_values = StreamBatchValues,
};

}  // namespace sl::device_host
