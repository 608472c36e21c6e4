/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that every Starling interface uses: status codes, data types, conventions. Conventions are stated once, here.
 *
 * ownership  "borrows X": the callee uses X during the call only, unless a later moment is named. "owns X": the callee
 *            must release X. Objects are opaque; whoever created one destroys it, with the table that created it.
 * strings    UTF-8, NUL-terminated, borrowed unless stated. A string returned lives as long as the object it names.
 * structs    begin with `struct_size`, set by whoever allocates the struct; fields are only appended, unknown tails are
 *            zero. A table (`…_ops_t`) works alike; the kernel overlays it once, at load, on stubs that return
 *            SL_ERR_UNSUPPORTED, so a slot may be NULL unless its comment says mandatory.
 * outputs    `out_…` parameters come last and are written only on SL_OK.
 * units      sizes in bytes, counts in elements, times in nanoseconds. A deadline is absolute, CLOCK_MONOTONIC;
 *            SL_NO_DEADLINE never expires.
 * threads    [init]    any one thread, before the object is shared
 *            [control] any thread, calls on one object do not overlap; may block up to its deadline, may allocate
 *            [data]    any thread, calls on one object do not overlap; never blocks, allocates, locks or logs
 *            [any]     any thread, at any time, overlapping calls allowed
 *            Objects made from one another are different objects: calls on them may overlap, unless a slot says that it
 *            counts as a call on both.
 * errors     an int32_t status: SL_OK or negative. The text goes to the host's set_error() (sl_host.h). SL_ERR_AGAIN is
 *            flow control: nothing failed, call again. */
#ifndef SL_BASE_H
#define SL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_EXPORT __attribute__((visibility("default")))

/* Closes a struct or table at the size a release gave it; fields added later come behind. 64-bit platforms only. */
#if defined(__cplusplus)
#define SL_ASSERT_SIZE(type, size) static_assert(sizeof(type) == (size), #type " changed its size")
#else
#define SL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " changed its size")
#endif

typedef int32_t sl_status_t;

#define SL_OK 0
#define SL_IN_PROGRESS 1 /* accepted; the object reports the outcome later */

/* Flow control. */
#define SL_ERR_AGAIN (-1)

/* Usage, -100…-199: the caller is wrong; nothing was changed. */
#define SL_ERR_INVALID (-100)     /* an argument is out of its documented range */
#define SL_ERR_STATE (-101)       /* right call, wrong moment: after abort, before open, inside a group */
#define SL_ERR_UNSUPPORTED (-102) /* this module or revision does not offer it */
#define SL_ERR_MISMATCH (-103)    /* ranks disagree about a call */
#define SL_ERR_CONFIG (-104)      /* profile, option or environment value */

/* Resource, -200…-299: this process or host lacks something. */
#define SL_ERR_MEMORY (-200)
#define SL_ERR_LIMIT (-201)     /* descriptors, ports, slots, credits */
#define SL_ERR_NOT_FOUND (-202) /* module, interface, device, file */
#define SL_ERR_DENIED (-203)    /* permission, ownership, wrong secret */
#define SL_ERR_SYSTEM (-204)    /* a system call failed for another reason */

/* Link, -300…-399: a path is broken, the peer may live. A fault policy switches on this range. */
#define SL_ERR_LINK_DOWN (-300)
#define SL_ERR_LINK_TIMEOUT (-301)
#define SL_ERR_LINK_CORRUPT (-302) /* a length, sequence or checksum cannot be right */

/* Peer, -400…-499: another rank is gone or has failed. */
#define SL_ERR_PEER_LOST (-400)
#define SL_ERR_PEER_FAILED (-401) /* the peer reported an error of its own */
#define SL_ERR_TIMEOUT (-402)     /* a rank did not arrive in time */
#define SL_ERR_ABORTED (-403)     /* the local user aborted */

/* Device, -500…-599. */
#define SL_ERR_DEVICE (-500)
#define SL_ERR_DEVICE_MEMORY (-501)

/* Internal, -900…-999: a defect of Starling or of a module. */
#define SL_ERR_INTERNAL (-900)
#define SL_ERR_EXCEPTION (-901) /* a module threw across its boundary; caught by the trampoline */

#define SL_IS_USAGE_ERROR(status) ((status) <= -100 && (status) > -200)
#define SL_IS_RESOURCE_ERROR(status) ((status) <= -200 && (status) > -300)
#define SL_IS_LINK_ERROR(status) ((status) <= -300 && (status) > -400)
#define SL_IS_PEER_ERROR(status) ((status) <= -400 && (status) > -500)
#define SL_IS_DEVICE_ERROR(status) ((status) <= -500 && (status) > -600)

#define SL_NO_DEADLINE UINT64_MAX

/* Element types. The numbers are wire bytes and never change. */
typedef uint32_t sl_datatype_t;
#define SL_INT8 0u
#define SL_UINT8 1u
#define SL_INT32 2u
#define SL_UINT32 3u
#define SL_INT64 4u
#define SL_UINT64 5u
#define SL_FLOAT16 6u
#define SL_FLOAT32 7u
#define SL_FLOAT64 8u
#define SL_BFLOAT16 9u
#define SL_FLOAT8E4M3 10u
#define SL_FLOAT8E5M2 11u
#define SL_DATATYPE_COUNT 12u

/* Reductions. 8- and 16-bit floats accumulate in float32 within a step and round once, to nearest even. */
typedef uint32_t sl_reduction_t;
#define SL_SUM 0u
#define SL_PROD 1u
#define SL_MAX 2u        /* a NaN wins */
#define SL_MIN 3u        /* a NaN wins */
#define SL_AVG 4u        /* sum, then divided by the number of ranks; integers truncate toward zero */
#define SL_PREMUL_SUM 5u /* every contribution is multiplied by its rank's scalar, then summed */
#define SL_REDUCTION_COUNT 6u

/* Operations. */
typedef uint32_t sl_op_kind_t;
#define SL_OP_ALL_REDUCE 0u
#define SL_OP_ALL_GATHER 1u
#define SL_OP_REDUCE_SCATTER 2u
#define SL_OP_BROADCAST 3u
#define SL_OP_REDUCE 4u
#define SL_OP_ALL_TO_ALL 5u
#define SL_OP_GATHER 6u
#define SL_OP_SCATTER 7u
#define SL_OP_SEND 8u
#define SL_OP_RECV 9u
#define SL_OP_KIND_COUNT 10u

/* Where somebody sleeps until there is news, perhaps in another process. Who publishes stores its news, fences
 * (sequentially consistent), reads `sleepers` and, unless it is 0, increments `rings` and wakes the futex there. Who
 * sleeps increments `sleepers`, reads `rings`, looks for news once more, and waits on the futex `rings` for that value.
 */
typedef struct sl_doorbell_t { /* never grows */
  uint32_t rings;              /* futex word: incremented by who publishes, when somebody sleeps */
  uint32_t sleepers;           /* how many sleep, or are about to */
} sl_doorbell_t;
SL_ASSERT_SIZE(sl_doorbell_t, 8);

/* True when `table` is long enough to have `member`; compares with >=, so a longer table of the future is welcome. */
#define SL_HAS(table, type, member) ((table)->struct_size >= offsetof(type, member) + sizeof(((type*)0)->member))

#ifdef __cplusplus
}
#endif
#endif
