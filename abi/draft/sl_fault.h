/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.fault/1 (draft): a fault policy is a function from the health of a link's connections to their weights, and to
 * the time of its next look. Moving unacknowledged chunks to the new weights, exactly once, is the kernel's. */
#ifndef SL_FAULT_H
#define SL_FAULT_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_FAULT_ID "sl.fault/1"
#define SL_FAULT_REVISION 1u

typedef struct sl_fault_policy_t sl_fault_policy_t; /* the policy of one link */

#define SL_HEALTH_PORT_DOWN 1u   /* the local port reported down */
#define SL_HEALTH_REMOTE_DOWN 2u /* the peer told that its port is down */
#define SL_HEALTH_ERROR 4u       /* the connection ended with `last_status` */
#define SL_HEALTH_PROBE_LOST 8u  /* the newest probe is overdue */
#define SL_HEALTH_PROBED 16u     /* a probe came back since the last fault */

/* One connection of a link as the kernel sees it. In an array, `struct_size` is the distance to the next. */
typedef struct sl_connection_health_t {
  uint32_t struct_size;
  uint32_t flags;            /* SL_HEALTH_… */
  uint64_t bytes_per_second; /* nominal */
  uint64_t measured_bytes_per_second;
  uint64_t rtt_ns; /* smoothed; 0 unknown */
  uint64_t outstanding_bytes;
  uint64_t oldest_outstanding_ns; /* age; 0 none */
  uint64_t since_fault_ns;        /* UINT64_MAX: never */
  uint32_t faults;                /* so far */
  int32_t last_status;
} sl_connection_health_t;

typedef struct sl_fault_verdict_t {
  uint32_t struct_size;
  uint32_t probe_mask_lo; /* connections 0…31 to probe now */
  uint64_t next_look_ns;  /* deadline of the next evaluation even if nothing happens; SL_NO_DEADLINE: none */
} sl_fault_verdict_t;

typedef struct sl_fault_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* The policy of one link with `connections` connections, at most 32; mandatory.
   * thread: [control]   owns: the caller destroys it   returns: SL_OK | SL_ERR_UNSUPPORTED too many   since: 1 */
  sl_status_t (*create)(sl_instance_t* instance, uint32_t connections, sl_fault_policy_t** out_policy);
  /* Mandatory.   thread: [control]   owns: frees `policy`   since: 1 */
  void (*destroy)(sl_fault_policy_t* policy);
  /* Decides. weights[i] is connection i's share of new chunks, any scale; never all zero while one connection has no
   * fault. Deterministic in its inputs and the policy's own past.
   * thread: [data]   blocking: never   owns: borrows `health`; fills `connections` weights
   * returns: SL_OK; after anything else the kernel keeps the old weights   since: 1 */
  sl_status_t (*evaluate)(sl_fault_policy_t* policy, uint64_t now_ns, const sl_connection_health_t* health,
                          uint32_t connections, uint32_t* out_weights, sl_fault_verdict_t* out_verdict);
} sl_fault_ops_t;

#ifdef __cplusplus
}
#endif
#endif
