// SPDX-License-Identifier: Apache-2.0
//
// sl.topology/1, checked. The kernel's sink is replaced by one of ours, which looks at what passes and knows when
// discover() has returned.
#include <set>
#include <string>

#include "modules/checker/call.h"

namespace sl::checker {
namespace {

constexpr Interface kInterface = Interface::kTopology;

template <size_t kBytes>
bool IsName(const char (&text)[kBytes], bool may_be_empty) {
  return std::memchr(text, 0, kBytes) != nullptr && (may_be_empty || text[0] != 0);
}

struct SinkFacts final : Facts {
  const sl_topology_sink_ops_t* ops = nullptr;
  std::set<std::string> nodes;
};

struct AddNodeHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const sl_node_t& node = *std::get<1>(values);
    auto* facts = frame.object(0)->template As<SinkFacts>();
    if (!IsName(node.name, false) || !IsName(node.parent, true)) {
      return frame.Break(RuleId::kTextOpen, "a node's name is empty, or it or its parent's has no end");
    }
    if (node.kind > SL_NODE_SWITCH || !facts->nodes.insert(node.name).second) {
      frame.Break(RuleId::kNodeFacts, "node %s of kind %u was reported before, or is of no kind", node.name, node.kind);
    }
    if (node.parent[0] != 0 && facts->nodes.count(node.parent) == 0) {
      frame.Break(RuleId::kNodeParent, "node %s is in %s, which was not reported before it", node.name, node.parent);
    }
  }
};

struct AddEdgeHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const sl_edge_t& edge = *std::get<1>(values);
    const auto* facts = frame.object(0)->template As<SinkFacts>();
    if (!IsName(edge.from, false) || !IsName(edge.to, false)) {
      return frame.Break(RuleId::kTextOpen, "an end of an edge is empty or has no end");
    }
    if (edge.kind > SL_PATH_NETWORK || facts->nodes.count(edge.from) == 0 || facts->nodes.count(edge.to) == 0) {
      frame.Break(RuleId::kEdgeEnds, "edge of kind %u from %s to %s: no such kind, or no such node", edge.kind,
                  edge.from, edge.to);
    }
  }
};

constexpr Call kAddNode = {.name = "add_node", .interface = kInterface, .words = Words::kControl};
constexpr Call kAddEdge = {.name = "add_edge", .interface = kInterface, .words = Words::kControl};

constexpr sl_topology_sink_ops_t kSinkOps = {
    .struct_size = sizeof(sl_topology_sink_ops_t),
    .reserved = 0,
    .add_node = Checked<&sl_topology_sink_ops_t::add_node, kAddNode, AddNodeHook>,
    .add_edge = Checked<&sl_topology_sink_ops_t::add_edge, kAddEdge, AddEdgeHook>,
};

struct DiscoverHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto& [topology, sink_ops, given] = values;
    SinkFacts* facts = sink.Begin(frame, &given);
    if (facts == nullptr) return;
    facts->ops = sink_ops;
    sink_ops = &kSinkOps;
  }
  Lent<SinkFacts> sink;
};

struct PlaceHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [topology, device, lanes, placements] = values;
    if (status != SL_OK) return;
    for (uint32_t i = 0; i < lanes; ++i) {
      const sl_placement_t& placement = placements[i];
      if (placement.lane < lanes && IsName(placement.device, false) && IsName(placement.port, false) &&
          IsName(placement.backup_port, true)) {
        continue;
      }
      frame.Break(RuleId::kPlacementFacts, "placement %u of %u: lane %u, or a name that is none", i, lanes,
                  placement.lane);
    }
  }
};

constexpr Call kCreate = {
    .name = "create", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kDestroy = {.name = "destroy", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kDiscover = {.name = "discover", .interface = kInterface, .words = Words::kControl};
constexpr Call kPlace = {.name = "place", .interface = kInterface, .words = Words::kControl, .outs = 1};

}  // namespace

template <>
const sl_topology_sink_ops_t* Frame::ops<sl_topology_sink_ops_t>() const {
  return objects_[0]->As<SinkFacts>()->ops;
}

constexpr sl_topology_ops_t kTopologyOps = {
    .struct_size = sizeof(sl_topology_ops_t),
    .reserved = 0,
    .create = Checked<&sl_topology_ops_t::create, kCreate>,
    .destroy = Checked<&sl_topology_ops_t::destroy, kDestroy>,
    .discover = Checked<&sl_topology_ops_t::discover, kDiscover, DiscoverHook>,
    .place = Checked<&sl_topology_ops_t::place, kPlace, PlaceHook>,
};

}  // namespace sl::checker
