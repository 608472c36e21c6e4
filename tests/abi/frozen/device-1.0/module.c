/* SPDX-License-Identifier: Apache-2.0
 *
 * vendor-tally: a layer around any device, in plain C. It hands every call on and tallies what it reads in the structs
 * of sl.device/1 as they were when the interface was closed; the tally goes to the log when kernels are unloaded, as
 * communicators end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sl_device.h"

struct sl_instance_t {
  const sl_host_t* host;
  sl_instance_t* inner;
};

/* The objects are those of the device below, so calls on them name no instance; a process opens one. */
static const sl_device_ops_t* below;
static const sl_host_t* host;
/* Of all devices; calls come from many threads. */
static uint64_t reached; /* bytes, allocated or imported */
static uint64_t launched, processors;

static void add(uint64_t* tally, uint64_t more) { __atomic_fetch_add(tally, more, __ATOMIC_RELAXED); }
static unsigned long long read_tally(const uint64_t* tally) { return __atomic_load_n(tally, __ATOMIC_RELAXED); }

static sl_status_t count_(sl_instance_t* instance, uint32_t* out_count) {
  return below->count(instance->inner, out_count);
}
static sl_status_t current_(sl_instance_t* instance, uint32_t* out_ordinal) {
  return below->current(instance->inner, out_ordinal);
}
static sl_status_t open_(sl_instance_t* instance, uint32_t ordinal, sl_device_t** out_device) {
  return below->open(instance->inner, ordinal, out_device);
}
static void close_(sl_device_t* device) { below->close(device); }

static sl_status_t image_unload_(sl_device_t* device, sl_image_t* image) {
  char text[160];
  snprintf(text, sizeof text, "tallied %llu bytes, %llu launches, %llu processors", read_tally(&reached),
           read_tally(&launched), read_tally(&processors));
  host->log(host->ctx, SL_LOG_INFO, text);
  return below->image_unload(device, image);
}

/* Its own struct, as long as it was in revision 1: the device below may know a longer one. */
static sl_status_t info_(sl_device_t* device, sl_device_info_t* out_info) {
  sl_device_info_t facts = {.struct_size = sizeof facts};
  const sl_status_t status = below->info(device, &facts);
  if (status != SL_OK) return status;
  const uint32_t room = out_info->struct_size;
  __atomic_store_n(&processors, facts.processors, __ATOMIC_RELAXED);
  facts.struct_size = room;
  memcpy(out_info, &facts, room < sizeof facts ? room : sizeof facts);
  return SL_OK;
}

static sl_status_t allocate_(sl_device_t* device, uint32_t memory_kind, uint64_t bytes, void** out_memory) {
  const sl_status_t status = below->allocate(device, memory_kind, bytes, out_memory);
  if (status == SL_OK) add(&reached, bytes);
  return status;
}

static sl_status_t launch_(sl_device_t* device, sl_stream_t* stream, const sl_launch_t* given) {
  sl_launch_t known = {.struct_size = sizeof known};
  memcpy(&known, given, given->struct_size < sizeof known ? given->struct_size : sizeof known);
  known.struct_size = sizeof known;
  add(&launched, 1);
  return below->launch(device, stream, &known);
}
static sl_status_t launch_batch_(sl_device_t* device, uint32_t count, sl_stream_t* const* streams,
                                 const sl_launch_t* const* launches) {
  add(&launched, count);
  return below->launch_batch(device, count, streams, launches);
}

static sl_status_t release_(sl_device_t* device, void* memory) { return below->release(device, memory); }
static sl_status_t free_memory_(sl_device_t* device, uint64_t* out_bytes) {
  return below->free_memory(device, out_bytes);
}
static sl_status_t pointer_info_(sl_device_t* device, const void* pointer, sl_pointer_info_t* out_info) {
  return below->pointer_info(device, pointer, out_info);
}
static sl_status_t export_memory_(sl_device_t* device, void* memory, uint32_t handle_type,
                                  sl_memory_handle_t* out_handle) {
  return below->export_memory(device, memory, handle_type, out_handle);
}
static sl_status_t reserve_(sl_device_t* device, uint64_t bytes, void** out_address) {
  return below->reserve(device, bytes, out_address);
}
static sl_status_t unreserve_(sl_device_t* device, void* address, uint64_t bytes) {
  return below->unreserve(device, address, bytes);
}
static sl_status_t import_memory_(sl_device_t* device, const sl_memory_handle_t* handle, void* address,
                                  sl_mapping_t** out_mapping, void** out_address) {
  const sl_status_t status = below->import_memory(device, handle, address, out_mapping, out_address);
  if (status == SL_OK) add(&reached, handle->bytes);
  return status;
}
static sl_status_t unmap_(sl_device_t* device, sl_mapping_t* mapping) { return below->unmap(device, mapping); }
static sl_status_t stream_create_(sl_device_t* device, sl_stream_t** out_stream) {
  return below->stream_create(device, out_stream);
}
static sl_status_t stream_destroy_(sl_device_t* device, sl_stream_t* stream) {
  return below->stream_destroy(device, stream);
}
static sl_status_t stream_wait_idle_(sl_device_t* device, sl_stream_t* stream, uint64_t deadline_ns) {
  return below->stream_wait_idle(device, stream, deadline_ns);
}
static sl_status_t event_create_(sl_device_t* device, sl_event_t** out_event) {
  return below->event_create(device, out_event);
}
static sl_status_t event_destroy_(sl_device_t* device, sl_event_t* event) {
  return below->event_destroy(device, event);
}
static sl_status_t event_record_(sl_device_t* device, sl_event_t* event, sl_stream_t* stream) {
  return below->event_record(device, event, stream);
}
static sl_status_t event_query_(sl_device_t* device, sl_event_t* event) { return below->event_query(device, event); }
static sl_status_t stream_wait_event_(sl_device_t* device, sl_stream_t* stream, sl_event_t* event) {
  return below->stream_wait_event(device, stream, event);
}
static sl_status_t stream_write_value_(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  return below->stream_write_value(device, stream, word, value);
}
static sl_status_t stream_wait_value_(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value) {
  return below->stream_wait_value(device, stream, word, value);
}
static sl_status_t stream_callback_(sl_device_t* device, sl_stream_t* stream, void (*run)(void* ctx), void* ctx) {
  return below->stream_callback(device, stream, run, ctx);
}
static sl_status_t copy_(sl_device_t* device, sl_stream_t* stream, void* dst, const void* src, uint64_t bytes) {
  return below->copy(device, stream, dst, src, bytes);
}
static sl_status_t reduce_(sl_device_t* device, sl_stream_t* stream, void* dst, const void* const* srcs,
                           uint32_t n_srcs, uint64_t count, sl_datatype_t datatype, sl_reduction_t reduction,
                           const sl_reduce_scale_t* scale) {
  return below->reduce(device, stream, dst, srcs, n_srcs, count, datatype, reduction, scale);
}
static sl_status_t capture_state_(sl_device_t* device, sl_stream_t* stream, uint32_t* out_state, uint64_t* out_id) {
  return below->capture_state(device, stream, out_state, out_id);
}
static sl_status_t image_load_(sl_device_t* device, const sl_image_desc_t* desc, sl_image_t** out_image) {
  return below->image_load(device, desc, out_image);
}
static sl_reduce_fn reduce_function_(sl_device_t* device, sl_datatype_t datatype, sl_reduction_t reduction) {
  return below->reduce_function(device, datatype, reduction);
}
static sl_status_t capture_retain_(sl_device_t* device, sl_stream_t* stream, void (*release)(void* ctx), void* ctx) {
  return below->capture_retain(device, stream, release, ctx);
}
static sl_status_t host_attach_(sl_device_t* device, void* memory, uint64_t bytes) {
  return below->host_attach(device, memory, bytes);
}
static sl_status_t host_detach_(sl_device_t* device, void* memory) { return below->host_detach(device, memory); }

static sl_status_t module_open(const sl_host_t* kernel, const sl_open_args_t* args, sl_instance_t** out_instance) {
  sl_instance_t* instance = malloc(sizeof *instance);
  if (instance == NULL) return kernel->set_error(kernel->ctx, SL_ERR_MEMORY, "out of host memory");
  host = kernel;
  below = args->bindings[0]->ops;
  *instance = (sl_instance_t){kernel, args->bindings[0]->instance};
  *out_instance = instance;
  return SL_OK;
}

static sl_status_t module_quiesce(sl_instance_t* instance, uint64_t deadline_ns) {
  (void)instance, (void)deadline_ns;
  return SL_OK;
}

static void module_close(sl_instance_t* instance) { free(instance); }

static const sl_device_ops_t ops = {
    .struct_size = sizeof ops,
    .count = count_,
    .current = current_,
    .open = open_,
    .close = close_,
    .info = info_,
    .allocate = allocate_,
    .release = release_,
    .free_memory = free_memory_,
    .pointer_info = pointer_info_,
    .export_memory = export_memory_,
    .reserve = reserve_,
    .unreserve = unreserve_,
    .import_memory = import_memory_,
    .unmap = unmap_,
    .stream_create = stream_create_,
    .stream_destroy = stream_destroy_,
    .stream_wait_idle = stream_wait_idle_,
    .event_create = event_create_,
    .event_destroy = event_destroy_,
    .event_record = event_record_,
    .event_query = event_query_,
    .stream_wait_event = stream_wait_event_,
    .stream_write_value = stream_write_value_,
    .stream_wait_value = stream_wait_value_,
    .stream_callback = stream_callback_,
    .copy = copy_,
    .reduce = reduce_,
    .capture_state = capture_state_,
    .image_load = image_load_,
    .image_unload = image_unload_,
    .launch = launch_,
    .launch_batch = launch_batch_,
    .reduce_function = reduce_function_,
    .capture_retain = capture_retain_,
    .host_attach = host_attach_,
    .host_detach = host_detach_,
};
static const sl_provide_t provide = {.struct_size = sizeof provide,
                                     .flags = SL_INTERFACE_LAYER,
                                     .id = SL_DEVICE_ID,
                                     .revision = 1,
                                     .revision_min = 1,
                                     .ops = &ops,
                                     .name = "tally"};
static const sl_provide_t* const provides[] = {&provide};
static const sl_require_t require = {
    .struct_size = sizeof require, .id = SL_DEVICE_ID, .revision_min = 1, .revision_max = 1};
static const sl_require_t* const requirements[] = {&require};

static const sl_module_t module = {
    .struct_size = sizeof module,
    .container_version = SL_CONTAINER_VERSION,
    .magic = SL_MODULE_MAGIC,
    .name = "vendor-tally",
    .version = "1.0.0",
    .vendor = "A Vendor",
    .summary = "hands everything on, in C",
    .build_id = SL_ABI_BUILD_ID,
    .provides = provides,
    .requirements = requirements,
    .provide_count = 1,
    .require_count = 1,
    .open = module_open,
    .quiesce = module_quiesce,
    .close = module_close,
};

SL_EXPORT sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  if (hello == NULL || out_module == NULL || hello->magic != SL_MODULE_MAGIC) return SL_ERR_INVALID;
  if (hello->container_min > SL_CONTAINER_VERSION || hello->container_max < SL_CONTAINER_VERSION) {
    return SL_ERR_UNSUPPORTED;
  }
  *out_module = &module;
  return SL_OK;
}
