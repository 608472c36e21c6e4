/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel offers every module: log, error text, clock, event records, further services by id. */
#ifndef SL_HOST_H
#define SL_HOST_H

#include "sl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t sl_log_level_t;
#define SL_LOG_ERROR 0u /* cannot go on */
#define SL_LOG_WARN 1u  /* goes on, degraded */
#define SL_LOG_INFO 2u  /* once per communicator */
#define SL_LOG_DEBUG 3u /* proportional to objects */
#define SL_LOG_TRACE 4u /* proportional to operations */

/* One fact about the data path, 64 bytes, wire and file format of every observer. Kinds are SL_EVENT_… */
typedef struct sl_record_t {
  uint64_t time_ns; /* CLOCK_MONOTONIC; 0: the kernel fills it */
  uint32_t kind;
  uint32_t rank;    /* rank of the communicator that speaks */
  uint64_t comm_id; /* the same number on every rank of a communicator */
  uint64_t op_seq;  /* the communicator's n-th operation */
  int32_t peer;     /* -1: none */
  uint32_t lane;
  uint64_t bytes;
  uint64_t value; /* by kind: a status, a step, a port, a duration */
  uint64_t value2;
} sl_record_t;

SL_ASSERT_SIZE(sl_record_t, 64); /* on every platform */

/* Event kinds; bit (1 << kind) of the event mask switches one on. */
#define SL_EVENT_OP_BEGIN 0u   /* value: operation kind, value2: algorithm index, its row of `explain` from 0 */
#define SL_EVENT_OP_END 1u     /* value: status */
#define SL_EVENT_STEP 2u       /* value: step index, value2: round */
#define SL_EVENT_CHUNK_POST 3u /* value: chunk sequence */
#define SL_EVENT_CHUNK_DONE 4u /* value: chunk sequence */
#define SL_EVENT_LINK_STATE 5u /* value: 1 up, 0 down; value2: epoch */
#define SL_EVENT_COMM_STATE 6u /* value: state */
#define SL_EVENT_FAULT 7u      /* value: status, value2: step */
#define SL_EVENT_OP_TAG 8u     /* value: the caller's own number for the operation; after its OP_BEGIN */
#define SL_EVENT_KIND_COUNT 9u

/* The table a module receives in open(); valid until its close() returns. `ctx` is this module's own context. */
typedef struct sl_host_t {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;

  /* True when a message of `level` would be written. Ask before formatting at debug and trace.
   * thread: [any]   blocking: never   returns: 0 or 1, not a status   since: container 1 */
  int32_t (*log_enabled)(void* ctx, sl_log_level_t level);

  /* Writes one line; the kernel adds time, rank and module name.
   * thread: [any]   blocking: may write to a file   owns: borrows `text`   since: container 1 */
  void (*log)(void* ctx, sl_log_level_t level, const char* text);

  /* Sets the calling thread's error text, which the caller of the failing function reads; valid until the thread's
   * next call into Starling.   thread: [any]   blocking: never   owns: copies `text`
   * returns: `status`, so that `return host->set_error(…)` reads well   since: container 1 */
  sl_status_t (*set_error)(void* ctx, sl_status_t status, const char* text);

  /* CLOCK_MONOTONIC.   thread: [any]   blocking: never   returns: ns, not a status   since: container 1 */
  uint64_t (*now_ns)(void* ctx);

  /* Bit k set: records of kind k are wanted. Read it (relaxed) before building a record: off costs one branch.
   * since: container 1 */
  const uint64_t* event_mask;

  /* Appends a record to the calling thread's ring; drops and counts when the ring is full.
   * thread: [any]   blocking: never; allocates on a thread's first record only   since: container 1 */
  void (*emit)(void* ctx, const sl_record_t* record);

  /* Finds a further service of the kernel by id. None is offered yet: a module must do without.
   * thread: [control]   owns: the table lives as long as the module is open   returns: the table | NULL no such service
   * since: container 1 */
  const void* (*find_service)(void* ctx, const char* id);
} sl_host_t;

#define SL_HOST_SIZE_1_0 72u
SL_ASSERT_SIZE(sl_host_t, SL_HOST_SIZE_1_0);

#ifdef __cplusplus
}
#endif
#endif
