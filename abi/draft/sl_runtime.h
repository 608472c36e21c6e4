/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.runtime/1 (draft): communicators, operations, memory, for front ends and programs. libstarling.so exports one
 * function, sl_runtime_query. Nothing happens in a process before the first call that needs it: the profile is read and
 * modules are loaded then, once.
 *
 * After fork() every call in the child returns SL_ERR_STATE, unless the parent had called unique_id only. Texts are
 * fetched with the two-call idiom: at most `capacity` bytes are written, NUL included, and *out_needed is always the
 * full size. size: the table of an interface stands in one file. */
#ifndef SL_RUNTIME_H
#define SL_RUNTIME_H

#include "sl_algorithm.h"
#include "sl_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_RUNTIME_ID "sl.runtime/1"
#define SL_RUNTIME_REVISION 1u

typedef struct sl_comm_t sl_comm_t;                 /* one rank of a communicator */
typedef struct sl_registration_t sl_registration_t; /* a user buffer made known */
typedef struct sl_comm_window_t sl_comm_window_t;   /* a user buffer every rank registered */

/* Names a communicator to be: addresses of its rendezvous and a random secret. Pass it to the ranks over a channel
 * strangers cannot read. */
#define SL_UNIQUE_ID_BYTES 128
typedef struct sl_unique_id_t {
  uint8_t bytes[SL_UNIQUE_ID_BYTES];
} sl_unique_id_t;

typedef struct sl_comm_config_t {
  uint32_t struct_size;
  uint32_t nonblocking;      /* 1: calls that would wait return SL_IN_PROGRESS; watch comm_state */
  const sl_unique_id_t* ids; /* borrowed during comm_create */
  uint32_t id_count;         /* at least 1; more spread the rendezvous */
  uint32_t rank;
  uint32_t size;
  int32_t device_kind;    /* SL_DEVICE_…; -1: what the profile prefers and the machine has */
  int32_t device_ordinal; /* -1: the caller's current one */
  uint32_t reserved;
  uint64_t timeout_ns; /* for every rank to arrive; 0: the profile's */
  const char* name;    /* for messages; NULL: none; copied */
  /* Processors of the device (SMs) that one operation holds, as in sl_comm_shape_t. Ranks may say different things: the
   * least bounds and the greatest weight count; the profile may be stricter. 0: nothing is said. */
  uint32_t processors_min;
  uint32_t processors_max;
  uint32_t processor_weight; /* in thousandths */
  uint32_t processor_free;   /* 1: ways that hold none go before all others, on all ranks when one asks for it */
  /* NULL, or a word of the caller's that is 0 and outlives the communicator and every call on it. Then whoever calls
   * `enqueue` marks that call in the word: exchanges it for 1 first, sequentially consistent, calls only if it was 0,
   * and stores 0 afterwards, release. So a call can be marked before the communicator is touched, and whoever ends the
   * communicator waits for the mark first. The other calls that issue operations mark themselves in the same word. */
  uint32_t* call_mark;
} sl_comm_config_t;

typedef struct sl_comm_info_t {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t size;
  uint32_t local_rank;
  uint32_t local_size;
  uint32_t device_kind;
  int32_t device_ordinal;
  uint32_t reserved;
  uint64_t comm_id;      /* equal on all ranks */
  uint64_t host_bytes;   /* memory this rank holds for the communicator: private */
  uint64_t shared_bytes; /* of this rank's slice of the symmetric heap: pages in use */
  uint64_t device_bytes;
  uint64_t operations;       /* issued so far */
  uint64_t releasable_bytes; /* of the device's memory: what comm_suspend gives back, or has given back */
  uint32_t suspended;        /* 1: by comm_suspend */
  uint32_t graphs;           /* captures its operations are part of that are not gone yet; they hold its memory */
  uint32_t one_sided;        /* 1: put_signal and wait_signals are served */
  uint32_t meeting;          /* 1: comm_finalize has completed this rank's work and waits for the other ranks */
} sl_comm_info_t;

/* How many signals of a rank to wait for. */
typedef struct sl_signal_count_t { /* never grows */
  uint32_t peer;
  uint32_t count;
} sl_signal_count_t;

/* One entry of a group; entries of one communicator keep their order. */
typedef struct sl_group_entry_t {
  sl_comm_t* comm;
  const sl_op_t* op; /* borrowed during the call */
  sl_stream_t* stream;
  uint64_t tag;         /* for records (SL_EVENT_OP_TAG); 0: none */
  sl_event_t* launched; /* of the communicator's device; recorded behind the operation's work; NULL: none */
} sl_group_entry_t;

/* What single collectives want otherwise than their communicator; equal on all ranks. */
typedef struct sl_call_settings_t {
  uint32_t struct_size;
  uint32_t processors_min; /* 0: the communicator's */
  uint32_t processors_max; /* the communicator's bound holds, too; 0: that alone */
  uint32_t has_policy;     /* 1: the next two hold in place of the communicator's */
  uint32_t processor_weight;
  uint32_t processor_free;
  uint32_t is_forced; /* 1: operations that no way of `ways` serves are refused; 0: they are served as without it */
  uint32_t reserved;
  /* Names of algorithms, of their ways, or both as "symmetric/two_shot": , or  + and  ^ not  | or within a name; case
   * does not matter, and a name stands for all that it begins. NULL or "": any. */
  const char* ways;
  const char* rule; /* NULL, or the keys of a [[select]] rule of the profile, which goes before the profile's */
} sl_call_settings_t;

#define SL_WINDOW_SYMMETRIC 1u

/* comm_shrink: ends the parent's outstanding operations first; the parent can then only be shrunk again, destroyed or
 * aborted. */
#define SL_SHRINK_ABORT 1u

/* comm_decline: a call that all ranks make together. */
typedef uint32_t sl_call_t;
#define SL_CALL_SPLIT 0u
#define SL_CALL_GROW 1u
#define SL_CALL_WINDOW 2u
#define SL_CALL_SUSPEND 3u
#define SL_CALL_RESUME 4u

typedef struct sl_runtime_ops_t {
  uint32_t struct_size;
  uint32_t revision;

  /* The calling thread's last error text, "" when none; valid until the thread's next call.
   * thread: [any]   blocking: never   returns: the text, not a status   since: 1 */
  const char* (*last_error)(void);

  /* Makes an id; a thread of this process serves its rendezvous until all ranks have met or its time is over.
   * thread: [any]   returns: SL_OK | SL_ERR_CONFIG no usable interface | SL_ERR_SYSTEM   since: 1 */
  sl_status_t (*unique_id)(sl_unique_id_t* out_id);

  /* Joins a communicator.   thread: [any]   blocking: until all ranks have come, or `nonblocking`
   * owns: the caller destroys or aborts it
   * returns: SL_OK | SL_IN_PROGRESS | SL_ERR_INVALID | SL_ERR_TIMEOUT with the absent ranks named | SL_ERR_MISMATCH
   * since: 1 */
  sl_status_t (*comm_create)(const sl_comm_config_t* config, sl_comm_t** out_comm);
  /* Splits `parent`: ranks of equal color form a communicator, ordered by key, then rank; color -1 gives NULL. All
   * ranks of the parent call it. `config` may be NULL; its ids, rank and size are not looked at. Non-blocking, the
   * outcome is the new communicator's state, or the parent's when color is -1; the parent outlives it. Another split,
   * and comm_finalize, may follow before that.
   * thread: [control]   blocking: until all ranks have called it, or `nonblocking`   owns: the caller destroys it
   * returns: as comm_create   since: 1 */
  sl_status_t (*comm_split)(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config,
                            sl_comm_t** out_comm);
  /* What the last non-blocking call has come to, or what went wrong since.   thread: [any]
   * returns: SL_OK ready | SL_IN_PROGRESS | the communicator's error, whose text is copied to `text`   since: 1 */
  sl_status_t (*comm_state)(sl_comm_t* comm, char* text, uint64_t capacity, uint64_t* out_needed);
  /* Waits for the last non-blocking call. What went wrong since is comm_state's to tell: a peer that was quick may have
   * failed already.   thread: [any]   blocking: until `deadline_ns`
   * returns: the call's outcome | SL_ERR_TIMEOUT at the deadline   since: 1 */
  sl_status_t (*comm_wait)(sl_comm_t* comm, uint64_t deadline_ns);
  /* Completes outstanding work, then meets the other ranks; no operation may follow.
   * thread: [control]   blocking: until all have met or its time is over, or `nonblocking`
   * returns: SL_OK | SL_IN_PROGRESS | the communicator's error   since: 1 */
  sl_status_t (*comm_finalize)(sl_comm_t* comm);
  /* Completes outstanding work, leaves and frees it; the others learn that this rank has left. Work that cannot end
   * fails by its own time limit, so it never hangs on a broken communicator. Memory that captured graphs use is freed
   * when they are gone.
   * thread: [control]   blocking: until outstanding work has ended   owns: frees `comm`   returns: SL_OK   since: 1 */
  sl_status_t (*comm_destroy)(sl_comm_t* comm);
  /* Ends everything at once, whatever the peers do, and frees it.
   * thread: [any], also beside a call that waits on `comm`   blocking: at most 1 s   owns: frees `comm`
   * returns: SL_OK   since: 1 */
  sl_status_t (*comm_abort)(sl_comm_t* comm);
  /* Facts and counters; fills at most out_info->struct_size bytes.
   * thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*comm_info)(sl_comm_t* comm, sl_comm_info_t* out_info);

  /* Issues an operation on `stream`; on the host's NULL stream it is complete on return.
   * thread: [data]; the first call of a kind may allocate   blocking: on the host's NULL stream, as long as peers do
   * owns: borrows `op`; its buffers until the operation is done
   * returns: SL_OK | usage errors, nothing issued | the communicator's error   since: 1 */
  sl_status_t (*enqueue)(sl_comm_t* comm, const sl_op_t* op, sl_stream_t* stream);
  /* Issues several operations as one schedule: sends and receives of all peers progress together, and so do several
   * ranks of one thread.   thread, blocking, owns: as enqueue
   * returns: as enqueue; after a usage error nothing was issued   since: 1 */
  sl_status_t (*enqueue_group)(const sl_group_entry_t* entries, uint32_t count);

  /* Memory of the given kind of device (-1: preferred) that peers can map, where the device can share any.
   * thread: [any]   owns: the caller releases it   returns: SL_OK | SL_ERR_DEVICE_MEMORY | SL_ERR_NOT_FOUND   since: 1
   */
  sl_status_t (*memory_allocate)(int32_t device_kind, uint64_t bytes, void** out_memory);
  /* Frees it; no operation may still use it.   thread: [any]   returns: SL_OK | SL_ERR_INVALID not ours   since: 1 */
  sl_status_t (*memory_release)(void* memory);
  /* Makes a buffer known before its first use; purely an optimisation.
   * thread: [control]   owns: borrows the memory until deregister_memory()   returns: SL_OK | SL_ERR_INVALID   since: 1
   */
  sl_status_t (*register_memory)(sl_comm_t* comm, void* memory, uint64_t bytes, sl_registration_t** out_registration);
  /* Forgets it.   thread: [control]   owns: frees `registration`   returns: SL_OK   since: 1 */
  sl_status_t (*deregister_memory)(sl_comm_t* comm, sl_registration_t* registration);
  /* Registers a buffer on all ranks; collective.
   * thread: [control]   blocking: until all ranks have called it   owns: borrows the memory until window_deregister()
   * returns: SL_OK | SL_ERR_UNSUPPORTED not exportable | SL_ERR_MISMATCH ranks disagree   since: 1 */
  sl_status_t (*window_register)(sl_comm_t* comm, void* memory, uint64_t bytes, uint32_t flags,
                                 sl_comm_window_t** out_window);
  /* Ends this rank's part of a window.   thread: [control]   owns: frees `window`   returns: SL_OK   since: 1 */
  sl_status_t (*window_deregister)(sl_comm_t* comm, sl_comm_window_t* window);
  /* The memory it was made of.   thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*window_memory)(sl_comm_t* comm, sl_comm_window_t* window, void** out_memory);

  /* A host stream, for programs without a GPU.   thread: [any]   owns: the caller destroys it
   * returns: SL_OK | SL_ERR_LIMIT   since: 1 */
  sl_status_t (*stream_create)(sl_stream_t** out_stream);
  /* As sl_device_ops_t::stream_destroy.   thread: [control]   owns: frees `stream`   returns: SL_OK   since: 1 */
  sl_status_t (*stream_destroy)(sl_stream_t* stream);
  /* As sl_device_ops_t::stream_wait_idle.   thread: [any]   blocking: until `deadline_ns`
   * returns: SL_OK | SL_ERR_TIMEOUT | SL_ERR_AGAIN   since: 1 */
  sl_status_t (*stream_wait_idle)(sl_stream_t* stream, uint64_t deadline_ns);

  /* How an operation would be served: candidates, costs, the choice and why; text for people, one candidate a line.
   * thread: [control]   blocking: never   returns: SL_OK | usage errors   since: 1 */
  sl_status_t (*explain)(sl_comm_t* comm, const sl_op_t* op, char* text, uint64_t capacity, uint64_t* out_needed);
  /* What an operation is expected to cost: the estimate of the algorithm that would be chosen; fills at most
   * out_estimate->struct_size bytes.
   * thread: [control]   blocking: never   returns: SL_OK | SL_ERR_UNSUPPORTED nobody serves it | usage errors   since:
   * 1 */
  sl_status_t (*estimate)(sl_comm_t* comm, const sl_op_t* op, sl_estimate_t* out_estimate);
  /* What served this communicator's last operation: "algorithm<tab>module<tab>reason"; "" before the first.
   * thread: [control], not beside an operation of the same communicator   returns: SL_OK   since: 1 */
  sl_status_t (*served_by)(sl_comm_t* comm, char* text, uint64_t capacity, uint64_t* out_needed);
  /* A profile by name or path (NULL: the effective one), checked: SL_OK with the effective set as TOML, or
   * SL_ERR_CONFIG with file:line:column messages. Loads the modules' tables, opens none.
   * thread: [any]   blocking: reads files   returns: SL_OK | SL_ERR_CONFIG   since: 1 */
  sl_status_t (*profile_text)(const char* profile, char* text, uint64_t capacity, uint64_t* out_needed);
  /* All modules found on the search path, as JSON: name, version, path, hash, interfaces, options, or why refused.
   * thread: [any]   blocking: reads files   returns: SL_OK | SL_ERR_CONFIG   since: 1 */
  sl_status_t (*modules_text)(const char* profile, char* text, uint64_t capacity, uint64_t* out_needed);
  /* Log lines of front ends, through the kernel's sink.
   * thread: [any]   blocking: may write to a file   owns: borrows `text`   since: 1 */
  void (*log)(sl_log_level_t level, const char* text);

  /* Makes a communicator of the ranks of `parent` but the `excluded_count` ones in `excluded`, in the parent's order.
   * Called by all of them and by no excluded rank, with the same set. Needs no excluded rank and nothing that may have
   * broken with one: with SL_SHRINK_ABORT in `flags` it works after ranks were lost. `config` may be NULL; its ids,
   * rank and size are not looked at. Without the flag the parent stays as it is, its operations included. Non-blocking,
   * the outcome is the new communicator's state; the parent outlives the call.
   * thread: [control]   blocking: until all ranks have called it, or `nonblocking`
   * owns: the caller destroys it; borrows `excluded` during the call
   * returns: as comm_create | SL_ERR_PEER_LOST a rank is not excluded and does not live, named | SL_ERR_MISMATCH ranks
   * exclude different ones   since: 1 */
  sl_status_t (*comm_shrink)(sl_comm_t* parent, const uint32_t* excluded, uint32_t excluded_count, uint32_t flags,
                             const sl_comm_config_t* config, sl_comm_t** out_comm);
  /* The device a communicator made now by this thread with device_kind and device_ordinal -1 would get.
   * thread: [any]   blocking: may open the device   returns: SL_OK | SL_ERR_NOT_FOUND   since: 1 */
  sl_status_t (*current_device)(int32_t* out_kind, int32_t* out_ordinal);

  /* Ends this rank's outstanding operations, whatever the peers do, and lets none follow. What failed before counts no
   * more: the communicator can be split, shrunk, grown, suspended, destroyed or aborted, not finalized. Local: the
   * other ranks do not hear of it. thread: [control]   blocking: at most 1 s, or `nonblocking` returns: SL_OK |
   * SL_IN_PROGRESS | SL_ERR_INVALID revoked before | SL_ERR_STATE not ready | SL_ERR_TIMEOUT they did not stop   since:
   * 1 */
  sl_status_t (*comm_revoke)(sl_comm_t* comm);
  /* Makes a communicator of `size` ranks: those of `parent`, which keep their numbers, and new ones, which call
   * comm_create with `id` and numbers from the parent's size on. At least one rank of the parent passes the id, the
   * others may pass NULL. `config` may be NULL; its ids, rank and size are not looked at. The parent stays as it is.
   * thread: [control]   blocking: until all ranks have come, or `nonblocking`
   * owns: the caller destroys it; borrows `id` during the call
   * returns: as comm_create   since: 1 */
  sl_status_t (*comm_grow)(sl_comm_t* parent, uint32_t size, const sl_unique_id_t* id, const sl_comm_config_t* config,
                           sl_comm_t** out_comm);
  /* Gives back the memory the ranks share for their operations, until comm_resume; the ranks stay connected. Completes
   * outstanding work first. Collective.
   * thread: [control]   blocking: until all ranks have given theirs back, or `nonblocking`
   * returns: SL_OK | SL_IN_PROGRESS | SL_ERR_STATE suspended already, or captured graphs of a rank use the memory |
   * SL_ERR_TIMEOUT | the communicator's error   since: 1 */
  sl_status_t (*comm_suspend)(sl_comm_t* comm);
  /* Takes such memory again; operations may follow. Collective.
   * thread: [control]   blocking: until all ranks have theirs, or `nonblocking`
   * returns: SL_OK | SL_IN_PROGRESS | SL_ERR_STATE not suspended | SL_ERR_DEVICE_MEMORY, which fails the communicator
   * since: 1 */
  sl_status_t (*comm_resume)(sl_comm_t* comm);

  /* In stream order: copies `bytes` from `memory` to `offset` in `peer`'s part of `window`, then raises one signal at
   * it, without its doing anything. With 0 bytes only the signal; `window` and `memory` are not looked at. Those of one
   * rank to one peer arrive in the order of their calls.
   * thread: [data]   blocking: never   owns: borrows `memory` until it is done, `window` during the call
   * returns: SL_OK | SL_ERR_INVALID | SL_ERR_UNSUPPORTED the peer's memory is out of reach: send and receive instead |
   * the communicator's error   since: 1 */
  sl_status_t (*put_signal)(sl_comm_t* comm, const void* memory, uint64_t bytes, uint32_t peer,
                            sl_comm_window_t* window, uint64_t offset, sl_stream_t* stream);
  /* In stream order: waits for so many signals of each rank and takes them; what was put before them is there. Signals
   * raised by captured calls are for captured waits, others for others. An abort ends the wait.
   * thread: [data]   blocking: never   owns: borrows `counts` during the call
   * returns: SL_OK | SL_ERR_INVALID | SL_ERR_UNSUPPORTED as put_signal | the communicator's error   since: 1 */
  sl_status_t (*wait_signals)(sl_comm_t* comm, const sl_signal_count_t* counts, uint32_t count, sl_stream_t* stream);

  /* Stands for a collective call that this rank cannot make while the others may be making it: its program passed a
   * wrong argument, say. The ranks that make it get SL_ERR_MISMATCH with this rank's name instead of waiting for it; if
   * they make another call, this rank's next one meets theirs.
   * thread: [control]   blocking: never
   * returns: SL_OK | SL_ERR_INVALID no such call | SL_ERR_STATE none could be under way   since: 1 */
  sl_status_t (*comm_decline)(sl_comm_t* comm, sl_call_t call);

  /* The first part of comm_abort: ends what the communicator is about, and every wait in it, now and later, and frees
   * nothing; calls beside it return SL_ERR_ABORTED soon. Only comm_abort or comm_destroy may follow, once they have.
   * thread: [any], also beside a call that waits on `comm`   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*comm_cancel)(sl_comm_t* comm);

  /* The number by which operations of this communicator ask for settings (sl_op_t::settings); of equal ones the same,
   * on every rank and in every call; 0 where nothing is asked for.
   * thread: [any]; the first call for settings may allocate   owns: borrows `settings` during the call
   * returns: SL_OK | SL_ERR_INVALID | SL_ERR_CONFIG a wrong rule, with its place | SL_ERR_LIMIT   since: 1 */
  sl_status_t (*call_settings)(sl_comm_t* comm, const sl_call_settings_t* settings, uint32_t* out_number);
} sl_runtime_ops_t;

/* The table of `revision`, constant for the life of the process.   thread: [any]   blocking: never
 * returns: SL_OK | SL_ERR_UNSUPPORTED   since: 1 */
SL_EXPORT sl_status_t sl_runtime_query(uint32_t revision, const sl_runtime_ops_t** out_ops);

#ifdef __cplusplus
}
#endif
#endif
