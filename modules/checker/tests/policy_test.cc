// SPDX-License-Identifier: Apache-2.0
//
// Fault policies, observers and topologies that break one word each.
#include <cstring>
#include <functional>
#include <thread>

#include "modules/checker/tests/fixture.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"

namespace sl::checker {
namespace {

std::function<void(uint32_t* weights, sl_fault_verdict_t* verdict)> g_decide;

class FaultPolicy : public CheckerTest {
 protected:
  void SetUp() override {
    below_.struct_size = sizeof below_;
    below_.create = [](sl_instance_t*, uint32_t, sl_fault_policy_t** out) {
      *out = Below<sl_fault_policy_t>(1);
      return SL_OK;
    };
    below_.destroy = [](sl_fault_policy_t*) {};
    below_.evaluate = [](sl_fault_policy_t*, uint64_t, const sl_connection_health_t*, uint32_t, uint32_t* weights,
                         sl_fault_verdict_t* verdict) {
      g_decide(weights, verdict);
      return SL_OK;
    };
    Wrap(SL_FAULT_ID, &below_);
    ASSERT_EQ(f()->create(instance_, 2, &policy_), SL_OK);
    for (auto& health : health_) health.struct_size = sizeof health;
  }
  void TearDown() override {
    f()->destroy(policy_);
    CheckerTest::TearDown();
  }
  sl_status_t Evaluate(std::function<void(uint32_t*, sl_fault_verdict_t*)> decide, uint32_t connections = 2) {
    g_decide = std::move(decide);
    uint32_t weights[3] = {};
    sl_fault_verdict_t verdict = {};
    verdict.struct_size = sizeof verdict;
    return f()->evaluate(policy_, 0, health_, connections, weights, &verdict);
  }
  const sl_fault_ops_t* f() const { return ops<sl_fault_ops_t>(); }

  sl_fault_ops_t below_ = {};
  sl_fault_policy_t* policy_ = nullptr;
  sl_connection_health_t health_[3] = {};
};

TEST_F(FaultPolicy, IsHeldToItsWeights) {
  EXPECT_EQ(Evaluate([](uint32_t* weights, auto*) { weights[0] = 1; }), SL_OK);
  EXPECT_EQ(Evaluate([](uint32_t* weights, auto*) { weights[0] = weights[1] = 0; }), SL_ERR_INTERNAL);
  ExpectBroken("weights-zero");
  health_[0].flags = SL_HEALTH_ERROR;
  health_[1].flags = SL_HEALTH_PORT_DOWN;
  EXPECT_EQ(Evaluate([](uint32_t* weights, auto*) { weights[0] = weights[1] = 0; }), SL_OK) << "none is left";
  EXPECT_EQ(Evaluate([](auto*, sl_fault_verdict_t* verdict) { verdict->probe_mask_lo = 4; }), SL_ERR_INTERNAL);
  ExpectBroken("probe-range");
  uint32_t calls = 0;
  EXPECT_EQ(Evaluate([&](uint32_t* weights, auto*) { weights[0] = ++calls; }), SL_ERR_INTERNAL);
  ExpectBroken("undetermined");
  EXPECT_EQ(Evaluate([](auto*, auto*) {}, 3), SL_ERR_INVALID);
  ExpectBroken("connections-differ");
}

bool g_changes = false;

class Observer : public CheckerTest {
 protected:
  void SetUp() override {
    below_.struct_size = sizeof below_;
    below_.create = [](sl_instance_t*, sl_observer_t** out, uint64_t* mask) {
      *out = Below<sl_observer_t>(1);
      *mask = 1u << SL_EVENT_STEP;
      return SL_OK;
    };
    below_.destroy = [](sl_observer_t*) {};
    below_.consume = [](sl_observer_t*, const sl_batch_t* batch) {
      if (g_changes) const_cast<sl_record_t*>(batch->records)->bytes = 5;
      return SL_OK;
    };
    Wrap(SL_OBSERVER_ID, &below_);
    uint64_t mask = 0;
    ASSERT_EQ(o()->create(instance_, &observer_, &mask), SL_OK);
    for (auto& record : records_) record.kind = SL_EVENT_STEP;
  }
  void TearDown() override {
    o()->destroy(observer_);
    CheckerTest::TearDown();
  }
  sl_status_t Consume(uint64_t dropped = 0) {
    const sl_batch_t batch = {sizeof batch, 3, dropped, 2, records_};
    return o()->consume(observer_, &batch);
  }
  const sl_observer_ops_t* o() const { return ops<sl_observer_ops_t>(); }

  sl_observer_ops_t below_ = {};
  sl_observer_t* observer_ = nullptr;
  sl_record_t records_[2] = {};
};

TEST_F(Observer, IsGivenWhatTheKernelPromised) {
  EXPECT_EQ(Consume(5), SL_OK);
  EXPECT_EQ(Consume(4), SL_ERR_INVALID);
  ExpectBroken("dropped-shrinks");
  records_[0].time_ns = 9;
  EXPECT_EQ(Consume(5), SL_ERR_INVALID);
  ExpectBroken("record-order");
  records_[1].time_ns = 9;
  records_[1].kind = SL_EVENT_FAULT;
  EXPECT_EQ(Consume(5), SL_ERR_INVALID);
  ExpectBroken("record-unwanted");
  records_[1].kind = SL_EVENT_STEP;
  std::thread([this] { EXPECT_EQ(Consume(5), SL_ERR_STATE); }).join();
  ExpectBroken("consume-thread");
  g_changes = true;
  EXPECT_EQ(Consume(5), SL_ERR_INTERNAL);
  g_changes = false;
  ExpectBroken("record-changed");
}

std::function<sl_status_t(const sl_topology_sink_ops_t*, sl_topology_sink_t*)> g_discover;
sl_placement_t g_placement = {};

sl_node_t Node(const char* name, const char* parent) {
  sl_node_t node = {};
  node.struct_size = sizeof node;
  std::strncpy(node.name, name, sizeof node.name - 1);
  std::strncpy(node.parent, parent, sizeof node.parent - 1);
  return node;
}

class Topology : public CheckerTest {
 protected:
  void SetUp() override {
    below_.struct_size = sizeof below_;
    below_.create = [](sl_instance_t*, sl_topology_t** out) {
      *out = Below<sl_topology_t>(1);
      return SL_OK;
    };
    below_.destroy = [](sl_topology_t*) {};
    below_.discover = [](sl_topology_t*, const sl_topology_sink_ops_t* sink_ops, sl_topology_sink_t* sink) {
      return g_discover(sink_ops, sink);
    };
    below_.place = [](sl_topology_t*, const char*, uint32_t, sl_placement_t* out) {
      *out = g_placement;
      return SL_OK;
    };
    Wrap(SL_TOPOLOGY_ID, &below_);
    ASSERT_EQ(t()->create(instance_, &topology_), SL_OK);
  }
  void TearDown() override {
    t()->destroy(topology_);
    CheckerTest::TearDown();
  }
  void Discover(std::function<sl_status_t(const sl_topology_sink_ops_t*, sl_topology_sink_t*)> discover) {
    g_discover = std::move(discover);
    sl_topology_sink_ops_t kernels = {};
    kernels.struct_size = sizeof kernels;
    kernels.add_node = [](sl_topology_sink_t*, const sl_node_t*) { return SL_OK; };
    kernels.add_edge = [](sl_topology_sink_t*, const sl_edge_t*) { return SL_OK; };
    EXPECT_EQ(t()->discover(topology_, &kernels, Below<sl_topology_sink_t>(5)), SL_OK);
  }
  const sl_topology_ops_t* t() const { return ops<sl_topology_ops_t>(); }

  sl_topology_ops_t below_ = {};
  sl_topology_t* topology_ = nullptr;
};

TEST_F(Topology, IsHeldToWhatItReports) {
  const sl_topology_sink_ops_t* kept_ops = nullptr;
  sl_topology_sink_t* kept = nullptr;
  Discover([&](const sl_topology_sink_ops_t* sink_ops, sl_topology_sink_t* sink) {
    kept_ops = sink_ops;
    kept = sink;
    sl_node_t node = Node("host", "");
    EXPECT_EQ(sink_ops->add_node(sink, &node), SL_OK);
    EXPECT_EQ(sink_ops->add_node(sink, &node), SL_ERR_INTERNAL);
    ExpectBroken("node-facts");
    node = Node("nic", "bridge");
    EXPECT_EQ(sink_ops->add_node(sink, &node), SL_ERR_INTERNAL);
    ExpectBroken("node-parent");
    node = Node("", "host");
    EXPECT_EQ(sink_ops->add_node(sink, &node), SL_ERR_INTERNAL);
    ExpectBroken("text-open");
    sl_edge_t edge = {};
    edge.struct_size = sizeof edge;
    std::strcpy(edge.from, "host");
    std::strcpy(edge.to, "nowhere");
    EXPECT_EQ(sink_ops->add_edge(sink, &edge), SL_ERR_INTERNAL);
    ExpectBroken("edge-ends");
    std::strcpy(edge.to, "host");
    return sink_ops->add_edge(sink, &edge);
  });
  const sl_node_t late = Node("late", "");
  EXPECT_EQ(kept_ops->add_node(kept, &late), SL_ERR_STATE);
  ExpectBroken("used-after-end");
  g_placement = {sizeof g_placement, 0, "gpu0", "port0", ""};
  sl_placement_t placement = {};
  placement.struct_size = sizeof placement;
  EXPECT_EQ(t()->place(topology_, "gpu0", 1, &placement), SL_OK);
  g_placement.lane = 1;
  EXPECT_EQ(t()->place(topology_, "gpu0", 1, &placement), SL_ERR_INTERNAL);
  ExpectBroken("placement-facts");
}

}  // namespace
}  // namespace sl::checker
