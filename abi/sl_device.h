/* SPDX-License-Identifier: Apache-2.0
 * size: the table of an interface stands in one file.
 * sl.device/1: memory, streams, copies, reductions and launches of one kind of device. The host is a device
 * like any other; a GPU module implements the same table.
 *
 * Launches of host kernels (SL_DEVICE_RUNS_HOST_KERNELS) are watched: they call `check` and `done`. Elsewhere a launch
 * is issued and forgotten: its arguments are copied, `check` and `done` are not called, and trouble is told through the
 * algorithm's sl_control_t.
 *
 * Errors. Besides what a call names, every call may return SL_ERR_DEVICE, when the device or its driver fails, and
 * SL_ERR_MEMORY; with text.
 *
 * Structs that a call fills are the caller's: it sets struct_size, and at most so many bytes are written. Members that
 * the module does not know stay as they were.
 *
 * A stream handle is the caller's native one (a cudaStream_t on CUDA, from stream_create on the host). NULL is the
 * device's default stream; on the host, work on it runs on the caller and is complete on return. */
#ifndef SL_DEVICE_H
#define SL_DEVICE_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_DEVICE_ID "sl.device/1"
#define SL_DEVICE_REVISION 2u

typedef struct sl_device_t sl_device_t;
typedef struct sl_stream_t sl_stream_t;
typedef struct sl_event_t sl_event_t;
typedef struct sl_image_t sl_image_t;     /* kernels, loaded */
typedef struct sl_mapping_t sl_mapping_t; /* a peer's memory, mapped here */

#define SL_DEVICE_HOST 0u
#define SL_DEVICE_CUDA 1u

/* Capabilities. */
#define SL_DEVICE_CAN_EXPORT 1u         /* memory can be shared with other processes */
#define SL_DEVICE_CAN_SHARE_SEGMENT 2u  /* one exported allocation may hold the slices of all ranks */
#define SL_DEVICE_CAN_WRITE_VALUE 4u    /* stream_write_value and stream_wait_value */
#define SL_DEVICE_CAN_CAPTURE 8u        /* streams can be captured into graphs */
#define SL_DEVICE_RUNS_HOST_KERNELS 16u /* launches host kernels (sl_host_kernel_t) */
#define SL_DEVICE_MEMORY_IS_HOST 32u    /* CPU loads and stores reach its memory directly */

typedef struct sl_device_info_t {
  uint32_t struct_size;
  uint32_t kind; /* SL_DEVICE_HOST, SL_DEVICE_CUDA; vendors use numbers from 4096 */
  uint64_t capabilities;
  char name[64];
  uint8_t domain[16]; /* devices of equal domain and clique reach each other by load and store */
  uint32_t clique;
  int32_t numa_node; /* -1: unknown */
  char pci_path[64]; /* "" for the host */
  uint64_t memory_bytes;
  uint64_t export_granularity; /* exported allocations are multiples of it */
  uint32_t max_argument_bytes; /* of one launch, at least 4,096 */
  uint32_t processors;         /* SMs, or CPUs this process may run on */
} sl_device_info_t;

/* What is known about a pointer. `generation` changes whenever the same address is allocated again, so that a cache
 * keyed by (allocation_id, generation) is never stale. */
typedef struct sl_pointer_info_t {
  uint32_t struct_size;
  uint32_t exportable; /* 1: export_memory works on it */
  void* base;
  uint64_t bytes;
  uint64_t allocation_id; /* 0: not an allocation of this device (plain host memory) */
  uint64_t generation;
} sl_pointer_info_t;

#define SL_MEMORY_PLAIN 0u
#define SL_MEMORY_EXPORTABLE 1u
#define SL_MEMORY_HOST 2u /* host memory that CPUs and the device read and write, at one address */

#define SL_HANDLE_FD 0u     /* a descriptor, to be passed by SCM_RIGHTS */
#define SL_HANDLE_FABRIC 1u /* 64 opaque bytes that any process of the fabric may import */
#define SL_HANDLE_IPC 2u    /* 64 opaque bytes that another process of this host may import; of plain allocations */
#define SL_HANDLE_LOCAL 3u  /* 64 opaque bytes that this process may import for another device of the module */
typedef struct sl_memory_handle_t {
  uint32_t struct_size;
  uint32_t type;
  int32_t fd;
  uint32_t reserved;
  uint64_t bytes;
  uint8_t fabric[64];
} sl_memory_handle_t;

/* What a waiting host kernel waits for; tells the driver how to sleep, and people what is stuck on whom. */
typedef struct sl_wait_t {
  uint32_t struct_size;
  int32_t peer;            /* rank waited for; -1: several or none */
  sl_doorbell_t* doorbell; /* NULL: no doorbell, the driver yields instead of sleeping */
  const char* what;        /* constant text: "packet", "chunk", "credit", "barrier" */
  uint32_t step;
  uint32_t reserved;
  uint64_t seen;
  uint64_t wanted;
  /* Descriptors, or NULL: one of them is readable as soon as it is time to look again, whatever this wait is for. A
   * driver that sleeps for nothing else may sleep on them instead of on the doorbell: networks make descriptors
   * readable, and a doorbell has to be rung for them by another thread. Valid until the kernel is called again. */
  const int32_t* fds;
  uint32_t fd_count;
  uint32_t reserved2;
} sl_wait_t;

/* A host kernel is resumable: it is called until it returns something else than SL_ERR_AGAIN, keeps what it must
 * remember in `frame` (zeroed before the first call, 16-byte aligned, relocatable by memcpy between calls), and never
 * blocks. `wait` is filled before SL_ERR_AGAIN is returned. May be called by different threads, never by two at once.
 */
typedef sl_status_t (*sl_host_kernel_fn)(const void* args, void* frame, sl_wait_t* wait);
typedef struct sl_host_kernel_t {
  const char* name;
  sl_host_kernel_fn run;
  uint32_t frame_bytes; /* at most 1,024 */
  uint32_t reserved;
} sl_host_kernel_t;

/* Kernels of one module for one kind of device. */
typedef struct sl_image_desc_t {
  uint32_t struct_size;
  uint32_t kernel_count;
  const sl_host_kernel_t* host_kernels; /* SL_DEVICE_HOST: kernel_count entries */
  const void* binary;                   /* others: a fatbin, code object, … */
  uint64_t binary_bytes;
  const char* const* kernel_names; /* others: kernel_count entry names */
} sl_image_desc_t;

#define SL_LAUNCH_COOPERATIVE 1u
#define SL_LAUNCH_DEPENDENT 2u      /* programmatic dependent launch */
#define SL_LAUNCH_OVERSUBSCRIBED 4u /* more ranks than processors: yield early */
typedef struct sl_launch_t {
  uint32_t struct_size;
  uint32_t flags;
  sl_image_t* image;
  uint32_t kernel; /* index into the image */
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3]; /* 0: none */
  uint32_t shared_bytes;
  uint32_t args_bytes;
  const void* args;  /* copied by the launch unless the work is complete on return */
  const void* chain; /* launches of one batch with equal chains run one after the other; NULL: free */
  /* Host kernels: polled now and then while waiting; nonzero ends the wait with that status. May be NULL. */
  const int32_t* abort_word;
  /* Host kernels: called about every `check_interval_ns` of waiting with `check_ctx`; other than SL_OK ends the wait.
   * NULL: no check. Runs on the waiting thread and may be slow. */
  sl_status_t (*check)(void* check_ctx, const sl_wait_t* wait, uint64_t waited_ns);
  void* check_ctx;
  uint64_t check_interval_ns;
  /* Host kernels: receives the outcome, on the thread that finished, before the stream goes on. May be NULL. */
  void (*done)(void* done_ctx, sl_status_t status);
  void* done_ctx;
} sl_launch_t;

/* What a stream does with one word. */
#define SL_VALUE_WRITE 0u /* as stream_write_value */
#define SL_VALUE_WAIT 1u  /* as stream_wait_value */
typedef struct sl_stream_value_t {
  uint64_t* word;
  uint64_t value;
  uint32_t action; /* SL_VALUE_… */
  uint32_t reserved;
} sl_stream_value_t;

/* Facts of one reduction step. Several steps make one collective, so who multiplies and who divides is said here. */
#define SL_REDUCE_FINAL 1u /* SL_AVG: this step completes the sum, divide by `world` now */
#define SL_REDUCE_STREAM_STORES                                                         \
  2u /* hint: the output is larger than the cache and not read soon; never changes bits \
      */
typedef struct sl_reduce_scale_t {
  uint64_t scalar_bits; /* SL_PREMUL_SUM: the scalar, in the data type's own format, low bytes */
  uint32_t world;       /* SL_AVG: the divisor; 0 is read as 1 */
  uint32_t flags;       /* SL_REDUCE_… */
  uint64_t premul_mask; /* bit min(i, 63): source i is a contribution nobody multiplied yet. SL_PREMUL_SUM multiplies it
                         * by the scalar; SL_AVG of floats by 1/world (then SL_REDUCE_FINAL stays unset) */
} sl_reduce_scale_t;

/* dst[i] = op(srcs[0][i], srcs[1][i], …) in that order; also stored to dst2 when it is not NULL. Any alignment; dst and
 * dst2 may equal a source exactly, no other overlap. n_srcs >= 1 (1: a copy, or a scaling). Synchronous, on the calling
 * thread. `scale` may be NULL for the operations that need no scaling. */
typedef void (*sl_reduce_fn)(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                             const sl_reduce_scale_t* scale);

/* Devices. `device` comes first everywhere; a NULL stream is the default stream. A device serves many threads at once:
 * [control] speaks of the stream, event, image or mapping that a call names, not of the device, and calls on one stream
 * that are [any] may overlap, it then takes each as a whole. */
typedef struct sl_device_ops_t {
  uint32_t struct_size;
  uint32_t reserved;

  /* How many devices there are; 0 is a normal answer.   thread: [any]   returns: SL_OK   since: 1 */
  sl_status_t (*count)(sl_instance_t* instance, uint32_t* out_count);
  /* The device the calling thread uses at present, as the device's own runtime counts.
   * thread: [any]   blocking: never   returns: SL_OK | SL_ERR_NOT_FOUND this process does not use devices of this kind
   * since: 1 */
  sl_status_t (*current)(sl_instance_t* instance, uint32_t* out_ordinal);
  /* Opens device `ordinal`; mandatory.   thread: [init]   owns: the caller closes it
   * returns: SL_OK | SL_ERR_NOT_FOUND no such device | SL_ERR_DEVICE   since: 1 */
  sl_status_t (*open)(sl_instance_t* instance, uint32_t ordinal, sl_device_t** out_device);
  /* Closes it; everything made from it must be gone. Mandatory.   thread: [control]   owns: frees `device`   since: 1
   */
  void (*close)(sl_device_t* device);
  /* Facts, constant while it is open; fills at most out_info->struct_size bytes.
   * thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*info)(sl_device_t* device, sl_device_info_t* out_info);

  /* Memory, zeroed, aligned to at least 4,096 when exportable, else 64.   thread: [any]
   * owns: the caller releases it   returns: SL_OK | SL_ERR_DEVICE_MEMORY | SL_ERR_INVALID 0 bytes, unknown kind
   * since: 1 */
  sl_status_t (*allocate)(sl_device_t* device, uint32_t memory_kind, uint64_t bytes, void** out_memory);
  /* Frees what allocate() made; peers' mappings stay readable until they unmap.
   * thread: [any]   returns: SL_OK | SL_ERR_INVALID not an allocation's start   since: 1 */
  sl_status_t (*release)(sl_device_t* device, void* memory);
  /* Memory of the device that nobody has taken at present, other processes included.
   * thread: [any]   blocking: never   returns: SL_OK | SL_ERR_DEVICE   since: 1 */
  sl_status_t (*free_memory)(sl_device_t* device, uint64_t* out_bytes);
  /* Facts about any address, which need not be this device's.
   * thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*pointer_info)(sl_device_t* device, const void* pointer, sl_pointer_info_t* out_info);
  /* A handle others can import.   thread: [any]   owns: the caller closes the descriptor
   * returns: SL_OK | SL_ERR_INVALID not exportable | SL_ERR_UNSUPPORTED this type of handle   since: 1 */
  sl_status_t (*export_memory)(sl_device_t* device, void* memory, uint32_t handle_type, sl_memory_handle_t* out_handle);
  /* Reserves address space, to be filled by import_memory at fixed places.
   * thread: [any]   owns: the caller unreserves it   returns: SL_OK | SL_ERR_DEVICE_MEMORY   since: 1 */
  sl_status_t (*reserve)(sl_device_t* device, uint64_t bytes, void** out_address);
  /* Gives a whole reservation back; what was mapped into it must be unmapped.
   * thread: [any]   returns: SL_OK | SL_ERR_INVALID not a reservation   since: 1 */
  sl_status_t (*unreserve)(sl_device_t* device, void* address, uint64_t bytes);
  /* Maps a handle, at `address` inside a reservation, or anywhere when it is NULL.
   * thread: [any]   owns: borrows the descriptor; the caller unmaps
   * returns: SL_OK | SL_ERR_INVALID | SL_ERR_DENIED | SL_ERR_DEVICE_MEMORY   since: 1 */
  sl_status_t (*import_memory)(sl_device_t* device, const sl_memory_handle_t* handle, void* address,
                               sl_mapping_t** out_mapping, void** out_address);
  /* Ends a mapping that no work uses any more.   thread: [control]   owns: frees `mapping`   returns: SL_OK   since: 1
   */
  sl_status_t (*unmap)(sl_device_t* device, sl_mapping_t* mapping);

  /* A stream: an ordered queue of work.   thread: [any]   owns: the caller destroys it
   * returns: SL_OK | SL_ERR_LIMIT   since: 1 */
  sl_status_t (*stream_create)(sl_device_t* device, sl_stream_t** out_stream);
  /* Waits for its work, for a time the device bounds, then cancels what is left and says so in the log.
   * thread: [control]   owns: frees `stream`   returns: SL_OK | SL_ERR_INVALID not a stream of this device   since: 1
   */
  sl_status_t (*stream_destroy)(sl_device_t* device, sl_stream_t* stream);
  /* Waits until all work issued so far is done.   thread: [any]   blocking: until `deadline_ns`
   * returns: SL_OK | SL_ERR_TIMEOUT at the deadline | SL_ERR_AGAIN at once, when the deadline is 0   since: 1 */
  sl_status_t (*stream_wait_idle)(sl_device_t* device, sl_stream_t* stream, uint64_t deadline_ns);
  /* An event marks a point in a stream; before it is recorded it counts as reached.
   * thread: [any]   owns: the caller destroys it   returns: SL_OK | SL_ERR_LIMIT   since: 1 */
  sl_status_t (*event_create)(sl_device_t* device, sl_event_t** out_event);
  /* Streams that wait for it still do.   thread: [control]   owns: frees `event`   returns: SL_OK   since: 1 */
  sl_status_t (*event_destroy)(sl_device_t* device, sl_event_t* event);
  /* Moves the event, or one that the program made with the driver, to the end of what was issued to `stream`.
   * thread: [control]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*event_record)(sl_device_t* device, sl_event_t* event, sl_stream_t* stream);
  /* Whether its point was reached.   thread: [any]   blocking: never   returns: SL_OK reached | SL_ERR_AGAIN   since: 1
   */
  sl_status_t (*event_query)(sl_device_t* device, sl_event_t* event);
  /* `stream` goes on when the point that the event marks now was reached.
   * thread: [control]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*stream_wait_event)(sl_device_t* device, sl_stream_t* stream, sl_event_t* event);
  /* In stream order: stores `value`, release. `word` is 8-byte aligned memory of SL_MEMORY_HOST, or attached.
   * thread: [any]   blocking: never   owns: borrows `word` until then   returns: SL_OK   since: 1 */
  sl_status_t (*stream_write_value)(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value);
  /* Holds the stream until *word >= value, acquire, unsigned.
   * thread: [any]   blocking: never, but on a default stream that runs on the caller   owns: borrows `word` till
   * then returns: SL_OK   since: 1 */
  sl_status_t (*stream_wait_value)(sl_device_t* device, sl_stream_t* stream, uint64_t* word, uint64_t value);
  /* Runs `run` in stream order, on a thread of the device; it must be short and must not call back into the device.
   * thread: [any]   blocking: never   owns: borrows `ctx` until it has run   returns: SL_OK   since: 1 */
  sl_status_t (*stream_callback)(sl_device_t* device, sl_stream_t* stream, void (*run)(void* ctx), void* ctx);
  /* In stream order: copies; ranges do not overlap.   thread: [any]   owns: borrows both ranges until it is done
   * returns: SL_OK   since: 1 */
  sl_status_t (*copy)(sl_device_t* device, sl_stream_t* stream, void* dst, const void* src, uint64_t bytes);
  /* In stream order: reduces as sl_reduce_fn does.   thread: [any]
   * owns: copies `srcs` and `scale`, borrows the buffers until it is done
   * returns: SL_OK | SL_ERR_UNSUPPORTED this type with this operation   since: 1 */
  sl_status_t (*reduce)(sl_device_t* device, sl_stream_t* stream, void* dst, const void* const* srcs, uint32_t n_srcs,
                        uint64_t count, sl_datatype_t datatype, sl_reduction_t reduction,
                        const sl_reduce_scale_t* scale);
  /* Capture state of a stream: 1 capturing, with the capture's id; 0 none, with an id that no other stream ever has,
   * unlike its handle, or 0: unknown.   thread: [any]   returns: SL_OK | SL_ERR_INVALID no stream of it   since: 1 */
  sl_status_t (*capture_state)(sl_device_t* device, sl_stream_t* stream, uint32_t* out_state, uint64_t* out_id);

  /* Loads kernels.   thread: [any]   owns: borrows what `desc` points to until image_unload()
   * returns: SL_OK | SL_ERR_UNSUPPORTED no kernel for this kind of device   since: 1 */
  sl_status_t (*image_load)(sl_device_t* device, const sl_image_desc_t* desc, sl_image_t** out_image);
  /* Unloads kernels that no launch uses any more.   thread: [control]   owns: frees `image`   returns: SL_OK   since: 1
   */
  sl_status_t (*image_unload)(sl_device_t* device, sl_image_t* image);
  /* Launches in stream order. On the host's default stream the kernel has run when launch returns, and its status is
   * returned; on others a launch on an idle stream starts on the caller and is handed to the stream after a bounded
   * spin, and the status goes to `done`.
   * thread: [any]   blocking: as the kernel, on the default stream; else handing over takes the stream's lock
   * returns: SL_OK | the kernel's status, default stream only | SL_ERR_INVALID no such kernel, arguments too large
   * since: 1 */
  sl_status_t (*launch)(sl_device_t* device, sl_stream_t* stream, const sl_launch_t* launch);
  /* A group: all launches progress together, also those on one stream, which become one item of it, and those of
   * several ranks driven by one thread; `chain` alone orders them. streams[i] belongs to launches[i].
   * thread: [any]   blocking: as launch   returns: the first failure of those on the default stream, after they have
   * ended; after any other failure nothing was launched   since: 1 */
  sl_status_t (*launch_batch)(sl_device_t* device, uint32_t count, sl_stream_t* const* streams,
                              const sl_launch_t* const* launches);
  /* The synchronous reduction for a type and operation; NULL when the device's memory is not host memory or the pair
   * is invalid. Constant while the device is open.
   * thread: [any]   blocking: never   returns: the function or NULL, not a status   since: 1 */
  sl_reduce_fn (*reduce_function)(sl_device_t* device, sl_datatype_t datatype, sl_reduction_t reduction);
  /* Calls `release` once when the graph that `stream` is captured into is gone with all that was made of it, on any
   * thread, also within calls of the program: it is short and does not call the device.   thread: [control]
   * blocking: never   owns: borrows `ctx` until then   returns: SL_OK | SL_ERR_STATE no capture   since: 1 */
  sl_status_t (*capture_retain)(sl_device_t* device, sl_stream_t* stream, void (*release)(void* ctx), void* ctx);
  /* Lets the device at host memory of the caller's, mapped from a file perhaps, at the address it has, until
   * host_detach(): it may then be copied to and from, hold stream words, and be loaded from and stored to by launches.
   * thread: [any]   owns: borrows the memory until then   units: whole pages of 4,096 bytes
   * returns: SL_OK | SL_ERR_INVALID no whole pages | SL_ERR_UNSUPPORTED the device sees it elsewhere | SL_ERR_LIMIT
   * since: 1 */
  sl_status_t (*host_attach)(sl_device_t* device, void* memory, uint64_t bytes);
  /* Ends that; no work on it is under way.   thread: [control]   returns: SL_OK | SL_ERR_INVALID not attached   since:
   * 1
   */
  sl_status_t (*host_detach)(sl_device_t* device, void* memory);
  /* What stream_write_value and stream_wait_value do, in this order; of a device that has queues of its own, at the
   * price of about one of them. After a failure the first of them may have been issued.
   * thread: [any]   blocking: as stream_wait_value   owns: copies `values`, borrows the words until then
   * returns: SL_OK | SL_ERR_INVALID an unknown action, or a word that they refuse   since: 2 */
  sl_status_t (*stream_batch_values)(sl_device_t* device, sl_stream_t* stream, uint32_t count,
                                     const sl_stream_value_t* values);
} sl_device_ops_t;

/* Closed releases: what is added later comes behind these sizes. Host kernels, scales and stream values never grow. */
#define SL_DEVICE_INFO_SIZE_1_0 192u
#define SL_POINTER_INFO_SIZE_1_0 40u
#define SL_MEMORY_HANDLE_SIZE_1_0 88u
#define SL_WAIT_SIZE_1_0 64u
#define SL_HOST_KERNEL_SIZE_1_0 24u
#define SL_IMAGE_DESC_SIZE_1_0 40u
#define SL_LAUNCH_SIZE_1_0 128u
#define SL_REDUCE_SCALE_SIZE_1_0 24u
#define SL_DEVICE_OPS_SIZE_1_0 296u
#define SL_STREAM_VALUE_SIZE_1_1 24u
#define SL_DEVICE_OPS_SIZE_1_1 304u
SL_ASSERT_SIZE(sl_device_info_t, SL_DEVICE_INFO_SIZE_1_0);
SL_ASSERT_SIZE(sl_pointer_info_t, SL_POINTER_INFO_SIZE_1_0);
SL_ASSERT_SIZE(sl_memory_handle_t, SL_MEMORY_HANDLE_SIZE_1_0);
SL_ASSERT_SIZE(sl_wait_t, SL_WAIT_SIZE_1_0);
SL_ASSERT_SIZE(sl_host_kernel_t, SL_HOST_KERNEL_SIZE_1_0);
SL_ASSERT_SIZE(sl_image_desc_t, SL_IMAGE_DESC_SIZE_1_0);
SL_ASSERT_SIZE(sl_launch_t, SL_LAUNCH_SIZE_1_0);
SL_ASSERT_SIZE(sl_reduce_scale_t, SL_REDUCE_SCALE_SIZE_1_0);
SL_ASSERT_SIZE(sl_stream_value_t, SL_STREAM_VALUE_SIZE_1_1);
SL_ASSERT_SIZE(sl_device_ops_t, SL_DEVICE_OPS_SIZE_1_1);

#ifdef __cplusplus
}
#endif
#endif
