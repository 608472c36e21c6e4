// SPDX-License-Identifier: Apache-2.0
// A machine of two NICs and a device, as a topology provider tells of it; right, but for what the one BROKEN_… says.
#include <cstdio>
#include <cstring>

#include "sl_topology.h"
#include "tests/conform/modules/frame.h"

struct sl_topology_t {
  int discoveries = 0;
  int* more = nullptr;
};

namespace {

sl_status_t Create(sl_instance_t* instance, sl_topology_t** out_topology) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    auto* topology = new sl_topology_t;
#if defined(BROKEN_LOSES_NODES)
    topology->more = new int{1};  // where this throws, the object is lost
#endif
    *out_topology = topology;
    return {};
  });
}
void Destroy(sl_topology_t* topology) {
  delete topology->more;
  delete topology;
}

sl_node_t Node(const char* name, const char* parent, uint32_t kind) {
  sl_node_t node{};
  node.struct_size = sizeof(node);
  node.kind = kind;
  std::snprintf(node.name, sizeof(node.name), "%s", name);
  std::snprintf(node.parent, sizeof(node.parent), "%s", parent);
  return node;
}

sl_status_t Discover([[maybe_unused]] sl_topology_t* topology, const sl_topology_sink_ops_t* ops,
                     sl_topology_sink_t* sink) {
  const char* device_parent = "host";
  const char* second_nic = "nic-1";
#if defined(BROKEN_ORPHAN)
  device_parent = "socket-9";
#elif defined(BROKEN_TWIN)
  second_nic = "nic-0";
#elif defined(BROKEN_FICKLE)
  if (++topology->discoveries > 1) second_nic = "nic-7";
#endif
  const sl_node_t nodes[] = {Node("host", "", SL_NODE_HOST), Node("device-0", device_parent, SL_NODE_DEVICE),
                             Node("nic-0", "host", SL_NODE_NIC), Node(second_nic, "host", SL_NODE_NIC)};
  for (const sl_node_t& node : nodes) {
    [[maybe_unused]] const sl_status_t status = ops->add_node(sink, &node);
#if !defined(BROKEN_DEAF_TO_SINK)
    if (status != SL_OK) return status;
#endif
  }
  uint64_t bytes_per_second = 32'000'000'000;
#if defined(BROKEN_ENDLESS_RATE)
  bytes_per_second = UINT64_MAX - 999;
#elif defined(BROKEN_ENDLESS_GRAPH)
  for (uint32_t i = 0; i < 1'000'000; ++i) {
    sl_node_t node = Node("", "host", SL_NODE_PORT);
    std::snprintf(node.name, sizeof(node.name), "port-%u", i);
    if (const sl_status_t refused = ops->add_node(sink, &node); refused != SL_OK) return refused;
  }
#endif
  sl_edge_t edge{sizeof(edge), SL_PATH_PCI, "device-0", "nic-0", bytes_per_second, 900};
  [[maybe_unused]] const sl_status_t status = ops->add_edge(sink, &edge);
#if defined(BROKEN_DEAF_TO_SINK)
  return SL_OK;
#else
  return status;
#endif
}

sl_status_t Place(sl_topology_t*, const char* device, uint32_t lanes, sl_placement_t* out_placements) {
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    sl_placement_t& placement = out_placements[lane];
    placement.lane = lane;
    std::snprintf(placement.device, sizeof(placement.device), "%s", device);
#if defined(BROKEN_LOST_PORT)
    std::snprintf(placement.port, sizeof(placement.port), "nic-%u", lane);
#else
    std::snprintf(placement.port, sizeof(placement.port), "nic-%u", lane % 2);
#endif
  }
  return SL_OK;
}

constexpr sl_topology_ops_t kOps{sizeof(kOps), 0, Create, Destroy, Discover, Place};

}  // namespace

const sl_provide_t kProvide = {sizeof(sl_provide_t), 0, SL_TOPOLOGY_ID, SL_TOPOLOGY_REVISION, 1, &kOps, SL_MODULE_NAME};
