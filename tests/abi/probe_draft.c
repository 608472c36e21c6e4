/* SPDX-License-Identifier: Apache-2.0
 *
 * The same as probe_stable.c for the headers in draft/. They may change, but then SL_ABI_BUILD_ID must, too, or a
 * module built with the older draft would be taken for a new one. */
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_runtime.h"
#include "sl_topology.h"

#define PROBE(type) SL_EXPORT type probe_##type;

/* sl_fault.h, sl_observer.h, sl_topology.h */
PROBE(sl_connection_health_t)
PROBE(sl_fault_verdict_t)
PROBE(sl_fault_ops_t)
PROBE(sl_batch_t)
PROBE(sl_observer_ops_t)
PROBE(sl_node_t)
PROBE(sl_edge_t)
PROBE(sl_topology_sink_ops_t)
PROBE(sl_placement_t)
PROBE(sl_topology_ops_t)

/* sl_runtime.h */
PROBE(sl_unique_id_t)
PROBE(sl_comm_config_t)
PROBE(sl_comm_info_t)
PROBE(sl_group_entry_t)
PROBE(sl_call_settings_t)
PROBE(sl_signal_count_t)
PROBE(sl_runtime_ops_t)
