// SPDX-License-Identifier: Apache-2.0
//
// sl.device/1, checked. Device and streams are shared by a process, so calls on them may overlap; calls on one event,
// image or mapping may not.
#include <memory>

#include "modules/checker/call.h"

namespace sl::checker {
namespace {

constexpr Interface kInterface = Interface::kDevice;
constexpr uint32_t kMaxFrame = 1024;
constexpr uint32_t kLeastArguments = 4096;

struct OpenFacts final : Facts {
  uint32_t max_argument_bytes = 0;
  bool is_host_memory = false;
  // [type][reduction], what was answered first; (sl_reduce_fn)1 stands for "not asked yet".
  std::atomic<sl_reduce_fn> reduce[SL_DATATYPE_COUNT][SL_REDUCTION_COUNT] = {};
  std::atomic<bool> asked[SL_DATATYPE_COUNT][SL_REDUCTION_COUNT] = {};
};

struct ImageFacts final : Facts {
  uint32_t kernels = 0;
};

unsigned long long Wide(uint64_t value) { return value; }

struct OpenHook : MakingHook<OpenFacts> {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    OpenFacts* facts = Remember(frame);
    if (facts == nullptr) return;
    sl_device_info_t info = {};
    info.struct_size = sizeof info;
    if (frame.ops<sl_device_ops_t>()->info(*std::get<2>(values), &info) == SL_OK) {
      facts->max_argument_bytes = info.max_argument_bytes;
      facts->is_host_memory = (info.capabilities & SL_DEVICE_MEMORY_IS_HOST) != 0;
    }
  }
};

struct CloseHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values&) {
    const Object* left = nullptr;
    const uint32_t count = Heap::CountAlive(frame.object(0), nullptr, &left);
    if (count != 0) frame.BreakOf(left, RuleId::kDeviceLeft, "%u objects made from it are left, one of them", count);
  }
};

struct InfoHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    const sl_device_info_t* info = std::get<1>(values);
    if (status != SL_OK || info->struct_size < sizeof *info) return;
    if (std::memchr(info->name, 0, sizeof info->name) == nullptr ||
        std::memchr(info->pci_path, 0, sizeof info->pci_path) == nullptr) {
      frame.Break(RuleId::kTextOpen, "its name or PCI path has no end");
    }
    if (info->max_argument_bytes < kLeastArguments) {
      frame.Break(RuleId::kDeviceFacts, "arguments of at most %u bytes", info->max_argument_bytes);
    }
  }
};

bool IsZero(const void* memory, uint64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(memory);
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0; });
}

struct AllocateHook : NoHook {
  template <typename Values>
  void Before(Frame&, Values&) {
    entry = Allocations::Room();
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [device, kind, bytes, out_memory] = values;
    if (status != SL_OK) return;
    const uint64_t alignment = kind == SL_MEMORY_EXPORTABLE ? 4096 : 64;
    if (*out_memory == nullptr || reinterpret_cast<uintptr_t>(*out_memory) % alignment != 0) {
      frame.Break(RuleId::kMemoryAligned, "memory of kind %u at %p", kind, *out_memory);
    }
    // The ends tell, without touching pages nobody has used.
    const uint64_t looked_at = std::min<uint64_t>(bytes, 4096);
    if (frame.object(0)->template As<OpenFacts>()->is_host_memory && *out_memory != nullptr &&
        !IsZero(*out_memory, looked_at)) {
      frame.Break(RuleId::kMemoryZeroed, "among the first %llu bytes at %p some are not 0", Wide(looked_at),
                  *out_memory);
    }
    frame.instance()->allocations.Add(std::move(entry), *out_memory);
  }
  Allocations::Entry entry;
};

struct ReleaseHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    entry = frame.instance()->allocations.Take(std::get<1>(values));
    if (!entry.empty()) return;
    frame.Break(RuleId::kReleaseUnknown, "nothing was allocated at %p, or it was released", std::get<1>(values));
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    if (status != SL_OK && !entry.empty()) frame.instance()->allocations.Add(std::move(entry), std::get<1>(values));
  }
  // Taken out before the call: after it another thread may be given the same address.
  Allocations::Entry entry;
};

void CheckWord(Frame& frame, const uint64_t* word) {
  if (word != nullptr && reinterpret_cast<uintptr_t>(word) % 8 == 0) return;
  frame.Break(RuleId::kWordAligned, "the word is at %p", static_cast<const void*>(word));
}

struct WordHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckWord(frame, std::get<2>(values));
  }
};

struct WordsHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    for (uint32_t i = 0; i < std::get<2>(values); ++i) CheckWord(frame, std::get<3>(values)[i].word);
  }
};

// The callback runs in a wrapper that marks its thread.
struct CallbackHook : NoHook {
  struct Wrapped {
    void (*run)(void* ctx);
    void* ctx;
  };
  static void Run(void* ctx) {
    const std::unique_ptr<Wrapped> wrapped(static_cast<Wrapped*>(ctx));
    const CallbackScope scope;
    wrapped->run(wrapped->ctx);
  }
  template <typename Values>
  void Before(Frame&, Values& values) {
    wrapped.reset(new Wrapped{std::get<2>(values), std::get<3>(values)});
    std::get<2>(values) = Run;
    std::get<3>(values) = wrapped.get();
  }
  template <typename Values>
  void After(Frame&, sl_status_t status, Values&) {
    if (status == SL_OK) static_cast<void>(wrapped.release());  // Run() owns it
  }
  std::unique_ptr<Wrapped> wrapped;
};

struct CopyHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const auto to = reinterpret_cast<uintptr_t>(std::get<2>(values));
    const auto from = reinterpret_cast<uintptr_t>(std::get<3>(values));
    const uint64_t bytes = std::get<4>(values);
    if (bytes == 0 || (to > from ? to - from : from - to) >= bytes) return;
    frame.Break(RuleId::kCopyOverlap, "%llu bytes from %#zx to %#zx", Wide(bytes), static_cast<size_t>(from),
                static_cast<size_t>(to));
  }
};

void CheckTypes(Frame& frame, sl_datatype_t datatype, sl_reduction_t reduction) {
  if (datatype < SL_DATATYPE_COUNT && reduction < SL_REDUCTION_COUNT) return;
  frame.Break(RuleId::kTypeRange, "type %u, reduction %u", datatype, reduction);
}

struct ReduceHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    if (std::get<4>(values) == 0) frame.Break(RuleId::kReduceSources, "no source");
    CheckTypes(frame, std::get<6>(values), std::get<7>(values));
  }
};

struct ReduceFunctionHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_reduce_fn& answer, Values& values) {
    auto& [device, datatype, reduction] = values;
    if (datatype >= SL_DATATYPE_COUNT || reduction >= SL_REDUCTION_COUNT) return;  // NULL is the answer to these
    auto* facts = frame.object(0)->template As<OpenFacts>();
    auto& first = facts->reduce[datatype][reduction];
    auto& asked = facts->asked[datatype][reduction];
    if (asked.load(std::memory_order_acquire)) {
      if (first.load(std::memory_order_relaxed) == answer) return;
      frame.Break(RuleId::kReduceConstant, "for type %u and reduction %u it gave another function before", datatype,
                  reduction);
    }
    first.store(answer, std::memory_order_relaxed);
    asked.store(true, std::memory_order_release);
  }
};

struct CaptureHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    if (status == SL_OK && *std::get<2>(values) > 1) {
      frame.Break(RuleId::kCaptureFacts, "capture state %u", *std::get<2>(values));
    }
  }
};

struct ImageHook : MakingHook<ImageFacts> {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    MakingHook::Before(frame, values);
    const sl_image_desc_t& desc = *std::get<1>(values);
    for (uint32_t i = 0; desc.host_kernels != nullptr && i < desc.kernel_count; ++i) {
      if (desc.host_kernels[i].frame_bytes <= kMaxFrame) continue;
      frame.Break(RuleId::kFrameLimit, "kernel %s has a frame of %u bytes", desc.host_kernels[i].name,
                  desc.host_kernels[i].frame_bytes);
    }
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    if (ImageFacts* facts = Remember(frame)) facts->kernels = std::get<1>(values)->kernel_count;
  }
};

// Copies a launch with its image as the module below knows it.
void CopyLaunch(Frame& frame, const sl_launch_t& given, sl_launch_t* copy) {
  static constexpr uint32_t kImageAt = 4;
  *copy = {};
  std::memcpy(copy, &given, std::min<size_t>(given.struct_size, sizeof *copy));
  copy->image = static_cast<sl_image_t*>(frame.Take(given.image, Kind::kImage, kImageAt, false));
  const Object* image = frame.object(kImageAt);
  if (frame.refused() || image == nullptr) return;
  const uint32_t kernels = image->As<ImageFacts>()->kernels;
  if (given.kernel >= kernels) {
    frame.BreakOf(image, RuleId::kKernelRange, "kernel %u of an image of %u", given.kernel, kernels);
  }
  const uint32_t limit = frame.object(0)->As<OpenFacts>()->max_argument_bytes;
  if (given.args_bytes > limit) {
    frame.BreakOf(image, RuleId::kArgumentLimit, "%u bytes of arguments, at most %u", given.args_bytes, limit);
  }
}

struct LaunchHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CopyLaunch(frame, *std::get<2>(values), &launch);
    std::get<2>(values) = &launch;
  }
  sl_launch_t launch;
};

struct BatchHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto& [device, count, given_streams, given_launches] = values;
    sl_launch_t* copies = launches;
    if (count > kOnStack) {
      more = std::make_unique<More>(count);
      copies = more->launches.get();
      streams = more->streams.get();
      pointers = more->pointers.get();
    }
    for (uint32_t i = 0; i < count; ++i) {
      frame.CheckSize(given_launches[i], sizeof(sl_launch_t), 3);
      if (given_launches[i] == nullptr) return;
      CopyLaunch(frame, *given_launches[i], &copies[i]);
      pointers[i] = &copies[i];
      streams[i] = static_cast<sl_stream_t*>(frame.Take(given_streams[i], Kind::kStream, kStreamAt, true));
    }
    given_streams = streams;
    given_launches = pointers;
  }

 private:
  static constexpr uint32_t kOnStack = 64;  // larger batches allocate
  static constexpr uint32_t kStreamAt = 5;
  struct More {
    explicit More(uint32_t count)
        : launches(new sl_launch_t[count]), streams(new sl_stream_t*[count]), pointers(new const sl_launch_t*[count]) {}
    std::unique_ptr<sl_launch_t[]> launches;
    std::unique_ptr<sl_stream_t*[]> streams;
    std::unique_ptr<const sl_launch_t*[]> pointers;
  };
  sl_launch_t launches[kOnStack];
  sl_stream_t* streams_here[kOnStack];
  const sl_launch_t* pointers_here[kOnStack];
  sl_stream_t** streams = streams_here;
  const sl_launch_t** pointers = pointers_here;
  std::unique_ptr<More> more;
};

// `shared`: the subject is the device or a stream.
constexpr Call Shared(const char* name, uint32_t outs = 0, bool makes = false) {
  return {
      .name = name, .interface = kInterface, .words = Words::kControl, .outs = outs, .makes = makes, .shared = true};
}
// The subject is the second parameter.
constexpr Call OnPart(const char* name, bool ends) {
  return {.name = name, .interface = kInterface, .words = Words::kControl, .subject = 1, .ends = ends};
}

constexpr Call kCount = Shared("count", 1);
constexpr Call kCurrent = Shared("current", 1);
constexpr Call kOpen = Shared("open", 1, true);
constexpr Call kClose = {.name = "close", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kInfo = Shared("info", 1);
constexpr Call kAllocate = Shared("allocate", 1, true);
constexpr Call kRelease = Shared("release");
constexpr Call kFreeMemory = Shared("free_memory", 1);
constexpr Call kPointerInfo = Shared("pointer_info", 1);
constexpr Call kExport = Shared("export_memory", 1);
constexpr Call kReserve = Shared("reserve", 1, true);
constexpr Call kUnreserve = Shared("unreserve");
constexpr Call kImport = Shared("import_memory", 2, true);
constexpr Call kUnmap = OnPart("unmap", true);
constexpr Call kStreamCreate = Shared("stream_create", 1, true);
constexpr Call kStreamDestroy = OnPart("stream_destroy", true);
constexpr Call kWaitIdle = Shared("stream_wait_idle");
constexpr Call kEventCreate = Shared("event_create", 1, true);
constexpr Call kEventDestroy = OnPart("event_destroy", true);
constexpr Call kEventRecord = {
    .name = "event_record", .interface = kInterface, .words = Words::kControl, .subject = 1, .native = true};
constexpr Call kEventQuery = Shared("event_query");
constexpr Call kWaitEvent = Shared("stream_wait_event");
constexpr Call kWriteValue = Shared("stream_write_value");
constexpr Call kWaitValue = Shared("stream_wait_value");
constexpr Call kBatchValues = Shared("stream_batch_values");
constexpr Call kCallback = Shared("stream_callback");
constexpr Call kCopy = Shared("copy");
constexpr Call kReduce = Shared("reduce");
constexpr Call kCapture = Shared("capture_state", 2);
constexpr Call kImageLoad = Shared("image_load", 1, true);
constexpr Call kImageUnload = OnPart("image_unload", true);
constexpr Call kLaunch = Shared("launch");
constexpr Call kBatch = Shared("launch_batch");
constexpr Call kReduceFunction = Shared("reduce_function");
constexpr Call kCaptureRetain = Shared("capture_retain");
constexpr Call kHostAttach = Shared("host_attach");
constexpr Call kHostDetach = Shared("host_detach");

using Ops = sl_device_ops_t;

}  // namespace

constexpr sl_device_ops_t kDeviceOps = {
    .struct_size = sizeof(sl_device_ops_t),
    .reserved = 0,
    .count = Checked<&Ops::count, kCount>,
    .current = Checked<&Ops::current, kCurrent>,
    .open = Checked<&Ops::open, kOpen, OpenHook>,
    .close = Checked<&Ops::close, kClose, CloseHook>,
    .info = Checked<&Ops::info, kInfo, InfoHook>,
    .allocate = Checked<&Ops::allocate, kAllocate, AllocateHook>,
    .release = Checked<&Ops::release, kRelease, ReleaseHook>,
    .free_memory = Checked<&Ops::free_memory, kFreeMemory>,
    .pointer_info = Checked<&Ops::pointer_info, kPointerInfo>,
    .export_memory = Checked<&Ops::export_memory, kExport>,
    .reserve = Checked<&Ops::reserve, kReserve>,
    .unreserve = Checked<&Ops::unreserve, kUnreserve>,
    .import_memory = Checked<&Ops::import_memory, kImport>,
    .unmap = Checked<&Ops::unmap, kUnmap>,
    .stream_create = Checked<&Ops::stream_create, kStreamCreate>,
    .stream_destroy = Checked<&Ops::stream_destroy, kStreamDestroy>,
    .stream_wait_idle = Checked<&Ops::stream_wait_idle, kWaitIdle>,
    .event_create = Checked<&Ops::event_create, kEventCreate>,
    .event_destroy = Checked<&Ops::event_destroy, kEventDestroy>,
    .event_record = Checked<&Ops::event_record, kEventRecord>,
    .event_query = Checked<&Ops::event_query, kEventQuery>,
    .stream_wait_event = Checked<&Ops::stream_wait_event, kWaitEvent>,
    .stream_write_value = Checked<&Ops::stream_write_value, kWriteValue, WordHook>,
    .stream_wait_value = Checked<&Ops::stream_wait_value, kWaitValue, WordHook>,
    .stream_callback = Checked<&Ops::stream_callback, kCallback, CallbackHook>,
    .copy = Checked<&Ops::copy, kCopy, CopyHook>,
    .reduce = Checked<&Ops::reduce, kReduce, ReduceHook>,
    .capture_state = Checked<&Ops::capture_state, kCapture, CaptureHook>,
    .image_load = Checked<&Ops::image_load, kImageLoad, ImageHook>,
    .image_unload = Checked<&Ops::image_unload, kImageUnload>,
    .launch = Checked<&Ops::launch, kLaunch, LaunchHook>,
    .launch_batch = Checked<&Ops::launch_batch, kBatch, BatchHook>,
    .reduce_function = Checked<&Ops::reduce_function, kReduceFunction, ReduceFunctionHook>,
    .capture_retain = Checked<&Ops::capture_retain, kCaptureRetain, CallbackHook>,
    .host_attach = Checked<&Ops::host_attach, kHostAttach>,
    .host_detach = Checked<&Ops::host_detach, kHostDetach>,
    .stream_batch_values = Checked<&Ops::stream_batch_values, kBatchValues, WordsHook>,
};

}  // namespace sl::checker
