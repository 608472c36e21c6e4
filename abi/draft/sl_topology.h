/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.topology/1 (draft): a provider reports the nodes and links it found and may place lanes on ports. The graph,
 * path queries and the merging of several providers are the kernel's. */
#ifndef SL_TOPOLOGY_H
#define SL_TOPOLOGY_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_TOPOLOGY_ID "sl.topology/1"
#define SL_TOPOLOGY_REVISION 1u

typedef struct sl_topology_t sl_topology_t;
typedef struct sl_topology_sink_t sl_topology_sink_t; /* the kernel's graph under construction */

#define SL_NODE_HOST 0u
#define SL_NODE_NUMA 1u
#define SL_NODE_CPU 2u /* a package */
#define SL_NODE_PCI 3u /* a switch or bridge */
#define SL_NODE_DEVICE 4u
#define SL_NODE_NIC 5u
#define SL_NODE_PORT 6u
#define SL_NODE_SWITCH 7u

#define SL_PATH_LOCAL 0u
#define SL_PATH_MEMORY 1u /* inside a NUMA node */
#define SL_PATH_SOCKET 2u /* between CPUs */
#define SL_PATH_PCI 3u
#define SL_PATH_C2C 4u
#define SL_PATH_NVLINK 5u
#define SL_PATH_NETWORK 6u

typedef struct sl_node_t {
  uint32_t struct_size;
  uint32_t kind;   /* SL_NODE_… */
  char name[64];   /* unique; equal names from two providers are one node */
  char parent[64]; /* containing node; "" for the root */
  uint32_t index;  /* the operating system's number, e.g. NUMA node 1 */
  uint32_t processors;
  uint64_t memory_bytes;
} sl_node_t;

typedef struct sl_edge_t {
  uint32_t struct_size;
  uint32_t kind; /* SL_PATH_… */
  char from[64];
  char to[64];
  uint64_t bytes_per_second; /* each way; 1 to 10^15 */
  uint64_t latency_ns;       /* at most 10^12 */
} sl_edge_t;

typedef struct sl_topology_sink_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Adds a node, or facts to one of equal name.   thread: as discover(), which calls it   owns: copies `node`
   * returns: SL_OK | SL_ERR_INVALID no name, or a parent that was not added before   since: 1 */
  sl_status_t (*add_node)(sl_topology_sink_t* sink, const sl_node_t* node);
  /* Adds a link between two nodes.   thread: as discover()   owns: copies `edge`
   * returns: SL_OK | SL_ERR_INVALID an end that was not added before   since: 1 */
  sl_status_t (*add_edge)(sl_topology_sink_t* sink, const sl_edge_t* edge);
} sl_topology_sink_ops_t;

/* Where one lane of one device goes. The caller sets `struct_size`, which in an array is the distance to the next. */
typedef struct sl_placement_t {
  uint32_t struct_size;
  uint32_t lane;
  char device[64];
  char port[64];
  char backup_port[64]; /* "" none */
} sl_placement_t;

typedef struct sl_topology_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Makes the provider; mandatory.   thread: [init]   owns: the caller destroys it   returns: SL_OK   since: 1 */
  sl_status_t (*create)(sl_instance_t* instance, sl_topology_t** out_topology);
  /* Mandatory.   thread: [control]   owns: frees `topology`   since: 1 */
  void (*destroy)(sl_topology_t* topology);
  /* Reports everything found, at most 65,536 nodes and 65,536 edges.   thread: [control]   blocking: reads files
   * returns: SL_OK | the sink's first error | SL_ERR_SYSTEM   since: 1 */
  sl_status_t (*discover)(sl_topology_t* topology, const sl_topology_sink_ops_t* sink_ops, sl_topology_sink_t* sink);
  /* Fills `device`'s placements for `lanes` lanes.   thread: [control]   blocking: never
   * owns: out_placements has `lanes` entries, whose struct_size the caller has set
   * returns: SL_OK | SL_ERR_UNSUPPORTED the kernel places   since: 1 */
  sl_status_t (*place)(sl_topology_t* topology, const char* device, uint32_t lanes, sl_placement_t* out_placements);
} sl_topology_ops_t;

#ifdef __cplusplus
}
#endif
#endif
