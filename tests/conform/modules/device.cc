// SPDX-License-Identifier: Apache-2.0
// The host's device with the one mistake that BROKEN_… says: a layer without the word, over the module's own code.
#include "modules/device-host/device.h"

#include <algorithm>
#include <cstring>

#include "sdk/module.h"

namespace {

using sl::device_host::kDeviceOps;

[[maybe_unused]] sl_status_t DirtyAllocate(sl_device_t* device, uint32_t kind, uint64_t bytes, void** out_memory) {
  const sl_status_t status = kDeviceOps.allocate(device, kind, bytes, out_memory);
  if (status == SL_OK) std::memset(*out_memory, 0x77, bytes);
  return status;
}

[[maybe_unused]] sl_status_t StalePointerInfo(sl_device_t* device, const void* pointer, sl_pointer_info_t* out_info) {
  const sl_status_t status = kDeviceOps.pointer_info(device, pointer, out_info);
  if (out_info->allocation_id != 0) out_info->allocation_id = out_info->generation = 1;
  return status;
}

[[maybe_unused]] sl_status_t GreedyInfo(sl_device_t* device, sl_device_info_t* out_info) {
  out_info->struct_size = sizeof(*out_info);
  return kDeviceOps.info(device, out_info);
}

[[maybe_unused]] sl_status_t TrustingImport(sl_device_t* device, const sl_memory_handle_t* handle, void* address,
                                            sl_mapping_t** out_mapping, void** out_address) {
  sl_memory_handle_t honest = *handle;
  honest.bytes = 4096;  // what the segment has, whatever the handle says
  return kDeviceOps.import_memory(device, &honest, address, out_mapping, out_address);
}

[[maybe_unused]] sl_status_t EarlyEventQuery(sl_device_t*, sl_event_t*) { return SL_OK; }
[[maybe_unused]] sl_status_t EarlyIdle(sl_device_t*, sl_stream_t*, uint64_t) { return SL_OK; }

[[maybe_unused]] sl_status_t ShortCopy(sl_device_t* device, sl_stream_t* stream, void* dst, const void* src,
                                       uint64_t bytes) {
  return kDeviceOps.copy(device, stream, dst, src, std::min<uint64_t>(bytes, 65536));
}

// Waits for none of the words.
[[maybe_unused]] sl_status_t HastyValues(sl_device_t* device, sl_stream_t* stream, uint32_t count,
                                         const sl_stream_value_t* values) {
  std::vector<sl_stream_value_t> hasty;
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i].action != SL_VALUE_WAIT) hasty.push_back(values[i]);
  }
  return kDeviceOps.stream_batch_values(device, stream, static_cast<uint32_t>(hasty.size()), hasty.data());
}

// float16 maxima come out as minima.
[[maybe_unused]] sl_status_t SwappedReduce(sl_device_t* device, sl_stream_t* stream, void* dst, const void* const* srcs,
                                           uint32_t n_srcs, uint64_t count, sl_datatype_t datatype,
                                           sl_reduction_t reduction, const sl_reduce_scale_t* scale) {
  if (datatype == SL_FLOAT16 && reduction == SL_MAX) reduction = SL_MIN;
  return kDeviceOps.reduce(device, stream, dst, srcs, n_srcs, count, datatype, reduction, scale);
}

[[maybe_unused]] sl_status_t TwiceDone(sl_device_t* device, sl_stream_t* stream, const sl_launch_t* launch) {
  const sl_status_t status = kDeviceOps.launch(device, stream, launch);
  if (launch->done != nullptr) launch->done(launch->done_ctx, status);
  return status;
}

// One after the other: kernels that need each other never end.
[[maybe_unused]] sl_status_t SerialBatch(sl_device_t* device, uint32_t count, sl_stream_t* const* streams,
                                         const sl_launch_t* const* launches) {
  for (uint32_t i = 0; i < count; ++i) {
    const sl_status_t status = kDeviceOps.launch(device, streams[i], launches[i]);
    if (status != SL_OK) return status;
  }
  return SL_OK;
}

sl_device_ops_t MakeOps() {
  sl_device_ops_t ops = kDeviceOps;
#if defined(BROKEN_DIRTY_MEMORY)
  ops.allocate = DirtyAllocate;
#elif defined(BROKEN_STALE_POINTERS)
  ops.pointer_info = StalePointerInfo;
#elif defined(BROKEN_GREEDY_INFO)
  ops.info = GreedyInfo;
#elif defined(BROKEN_TRUSTING_IMPORT)
  ops.import_memory = TrustingImport;
#elif defined(BROKEN_EARLY_EVENT)
  ops.event_query = EarlyEventQuery;
#elif defined(BROKEN_EARLY_IDLE)
  ops.stream_wait_idle = EarlyIdle;
#elif defined(BROKEN_SHORT_COPY)
  ops.copy = ShortCopy;
#elif defined(BROKEN_HASTY_VALUES)
  ops.stream_batch_values = HastyValues;
#elif defined(BROKEN_SWAPPED_REDUCE)
  ops.reduce = SwappedReduce;
#elif defined(BROKEN_TWICE_DONE)
  ops.launch = TwiceDone;
#elif defined(BROKEN_SERIAL_BATCH)
  ops.launch_batch = SerialBatch;
#endif
  return ops;
}
const sl_device_ops_t kOps = MakeOps();

sl_status_t Open(const sl_host_t* host, const sl_open_args_t*, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    *out_instance = new sl_instance_t(host, sl::device_host::Tuning());
    return {};
  });
}

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_DEVICE_ID, SL_DEVICE_REVISION, 1, &kOps, SL_MODULE_NAME}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "1.0.0",
    .vendor = "Starling",
    .summary = "a device of the conformance kit's own tests",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .close = sl_instance_t::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
