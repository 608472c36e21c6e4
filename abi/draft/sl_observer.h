/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.observer/1 (draft): receives batches of records (sl_record_t, sl_host.h) off the data path. An observer cannot
 * fail, slow or change what it observes: its statuses are counted, and after 16 failures in a row it is switched off.
 */
#ifndef SL_OBSERVER_H
#define SL_OBSERVER_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_OBSERVER_ID "sl.observer/1"
#define SL_OBSERVER_REVISION 1u

typedef struct sl_observer_t sl_observer_t; /* one per process */

typedef struct sl_batch_t {
  uint32_t struct_size;
  uint32_t thread;  /* which ring: a small number, stable for the ring's life */
  uint64_t dropped; /* records this ring has lost so far */
  uint64_t count;
  const sl_record_t* records; /* oldest first; borrowed during the call */
} sl_batch_t;

typedef struct sl_observer_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Makes the observer and says which kinds it wants, bit (1 << kind); mandatory.
   * thread: [init]   owns: the caller destroys it   returns: SL_OK | SL_ERR_SYSTEM   since: 1 */
  sl_status_t (*create)(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_event_mask);
  /* After the last batch, which brings what the rings still hold: also when the process ends normally, from an exit
   * handler, then close() of a module that serves observers alone. Not for an observer that takes longer than two
   * seconds over that batch; mandatory.   thread: [control]   owns: frees `observer`   since: 1 */
  void (*destroy)(sl_observer_t* observer);
  /* Takes a batch. Called by one thread of the kernel, never by the thread that made the records.
   * thread: [control]   blocking: may write files; while it does, rings fill and drop   owns: borrows `batch`
   * returns: SL_OK | anything else counts as a failure   since: 1 */
  sl_status_t (*consume)(sl_observer_t* observer, const sl_batch_t* batch);
} sl_observer_ops_t;

#ifdef __cplusplus
}
#endif
#endif
