// SPDX-License-Identifier: Apache-2.0
// sl.topology/1: what a provider reports hangs together, again and again, and placements lead to what it reported.
#include <cstring>
#include <map>
#include <set>

#include "sl_topology.h"
#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/kit/subject.h"
#include "tests/conformance/kit/suite.h"

namespace sl::conform::topology {
namespace {

using Subject = conform::Subject<sl_topology_ops_t>;

template <size_t kSize>
bool Ends(const char (&text)[kSize]) {
  return strnlen(text, kSize) < kSize;
}

// What the header calls possible: nodes, and edges, and rates and times that are added up.
constexpr size_t kMostNodes = 65'536;
constexpr uint64_t kFastest = 1'000'000'000'000'000;
constexpr uint64_t kSlowest = 1'000'000'000'000;

// A sink that keeps what it is told, and can refuse from the n-th report on.
class Sink {
 public:
  explicit Sink(size_t refuse_at = SIZE_MAX) : refuse_at_(refuse_at) {}
  static const sl_topology_sink_ops_t* Ops() {
    static const sl_topology_sink_ops_t kOps = {sizeof(kOps), 0, AddNode, AddEdge};
    return &kOps;
  }
  sl_topology_sink_t* handle() { return reinterpret_cast<sl_topology_sink_t*>(this); }
  size_t reports() const { return nodes.size() + edges.size(); }

  std::vector<sl_node_t> nodes;
  std::vector<sl_edge_t> edges;

 private:
  static Sink& Of(sl_topology_sink_t* sink) { return *reinterpret_cast<Sink*>(sink); }
  template <typename Report>
  sl_status_t Keep(std::vector<Report>* reports_of, const Report* report) {
    if (reports() >= refuse_at_ || reports_of->size() > kMostNodes) return SL_ERR_LIMIT;
    Report copy{};
    std::memcpy(&copy, report, report->struct_size < sizeof(copy) ? report->struct_size : sizeof(copy));
    reports_of->push_back(copy);
    return SL_OK;
  }
  static sl_status_t AddNode(sl_topology_sink_t* sink, const sl_node_t* node) {
    return Of(sink).Keep(&Of(sink).nodes, node);
  }
  static sl_status_t AddEdge(sl_topology_sink_t* sink, const sl_edge_t* edge) {
    return Of(sink).Keep(&Of(sink).edges, edge);
  }

  const size_t refuse_at_;
};

// The provider's object; skips the test when its hardware is absent.
class Found {
 public:
  Found(Trial& trial, const Subject& subject) : subject_(subject) {
    const sl_status_t status = subject.ops.create(subject.instance(), &topology_);
    if (status == SL_ERR_NOT_FOUND || status == SL_ERR_UNSUPPORTED) trial.Skip("there is nothing to find here");
    trial.Require(status == SL_OK && topology_ != nullptr, "create gave {}: {}", StatusName(status), ErrorText());
  }
  ~Found() {
    if (topology_ != nullptr) subject_.ops.destroy(topology_);
  }
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;

  sl_status_t Discover(Sink* sink) const { return subject_.ops.discover(topology_, Sink::Ops(), sink->handle()); }
  sl_topology_t* get() const { return topology_; }

 private:
  const Subject& subject_;
  sl_topology_t* topology_ = nullptr;
};

void HangsTogether(Trial& trial) {
  const Subject subject(trial, SL_TOPOLOGY_ID);
  const Found found(trial, subject);
  Sink sink;
  const sl_status_t status = found.Discover(&sink);
  trial.Require(sink.nodes.size() <= kMostNodes && sink.edges.size() <= kMostNodes,
                "it reports more than {} nodes or edges, which are possible", kMostNodes);
  trial.Require(status == SL_OK, "discover gave {}: {}", StatusName(status), ErrorText());
  std::map<std::string, std::string> parents;
  for (const sl_node_t& node : sink.nodes) {
    trial.Require(Ends(node.name) && Ends(node.parent) && node.name[0] != '\0',
                  "a node has no name, or none that ends");
    const Scope scope(fmt::format("node {}", node.name));
    trial.Expect(node.struct_size >= offsetof(sl_node_t, index), "its struct_size is {}", node.struct_size);
    trial.Expect(node.kind <= SL_NODE_SWITCH, "its kind is {}", node.kind);
    trial.Expect(parents.emplace(node.name, node.parent).second, "is reported twice");
  }
  for (const auto& [name, parent] : parents) {
    trial.Expect(parent.empty() || parents.count(parent) != 0, "node {} lies in {}, which is not reported", name,
                 parent);
    size_t depth = 0;
    for (std::string at = name; !at.empty() && depth <= parents.size(); ++depth) at = parents[at];
    trial.Expect(depth <= parents.size(), "node {} contains itself", name);
  }
  for (const sl_edge_t& edge : sink.edges) {
    trial.Require(Ends(edge.from) && Ends(edge.to), "an edge has an end whose name does not end");
    const Scope scope(fmt::format("edge {} - {}", edge.from, edge.to));
    trial.Expect(edge.kind <= SL_PATH_NETWORK, "its kind is {}", edge.kind);
    trial.Expect(std::strcmp(edge.from, edge.to) != 0, "leads back to where it comes from");
    trial.Expect(parents.count(edge.from) != 0 && parents.count(edge.to) != 0, "an end is no node that is reported");
    trial.Expect(edge.bytes_per_second > 0 && edge.bytes_per_second <= kFastest,
                 "its rate is {} bytes/s; 1 to {} are possible", edge.bytes_per_second, kFastest);
    trial.Expect(edge.latency_ns <= kSlowest, "its latency is {} ns; at most {} are possible", edge.latency_ns,
                 kSlowest);
  }
}

// What it said of nodes and edges, comparable.
std::multiset<std::string> TextOf(const Sink& sink) {
  std::multiset<std::string> text;
  for (const sl_node_t& node : sink.nodes) text.insert(fmt::format("{} in {}: {}", node.name, node.parent, node.kind));
  for (const sl_edge_t& edge : sink.edges) text.insert(fmt::format("{} - {}: {}", edge.from, edge.to, edge.kind));
  return text;
}

void SaysTheSameAgain(Trial& trial) {
  const Subject subject(trial, SL_TOPOLOGY_ID);
  const Found found(trial, subject);
  Sink first;
  Sink again;
  trial.Require(found.Discover(&first) == SL_OK && found.Discover(&again) == SL_OK, "discover: {}", ErrorText());
  trial.Expect(TextOf(first) == TextOf(again), "asked twice, it reports other nodes or edges");
  const Found other(trial, subject);
  Sink elsewhere;
  trial.Require(other.Discover(&elsewhere) == SL_OK, "discover: {}", ErrorText());
  trial.Expect(TextOf(first) == TextOf(elsewhere), "a second object reports other nodes or edges");
}

void PassesTheSinksErrorsOn(Trial& trial) {
  const Subject subject(trial, SL_TOPOLOGY_ID);
  const Found found(trial, subject);
  Sink whole;
  trial.Require(found.Discover(&whole) == SL_OK, "discover: {}", ErrorText());
  if (whole.reports() == 0) trial.Skip("it reports nothing");
  for (size_t at = 0; at < whole.reports() && at < 100; ++at) {
    Sink refusing(at);
    const sl_status_t status = found.Discover(&refusing);
    trial.Expect(status < SL_OK, "the kernel refused report {}, and discover gave {}", at + 1, StatusName(status));
  }
}

void PlacesOnWhatItReported(Trial& trial) {
  const Subject subject(trial, SL_TOPOLOGY_ID);
  const Found found(trial, subject);
  Sink sink;
  trial.Require(found.Discover(&sink) == SL_OK, "discover: {}", ErrorText());
  std::set<std::string> ports;
  for (const sl_node_t& node : sink.nodes) {
    if (node.kind == SL_NODE_PORT || node.kind == SL_NODE_NIC) ports.insert(node.name);
  }
  bool is_placed = false;
  for (const sl_node_t& node : sink.nodes) {
    if (node.kind != SL_NODE_DEVICE) continue;
    for (const uint32_t lanes : {1u, 2u, 8u}) {
      const Scope scope(fmt::format("device {}, {} lanes", node.name, lanes));
      std::vector<sl_placement_t> placements(lanes);
      for (sl_placement_t& placement : placements) placement.struct_size = sizeof(placement);
      const sl_status_t status = subject.ops.place(found.get(), node.name, lanes, placements.data());
      if (status == SL_ERR_UNSUPPORTED) continue;
      is_placed = true;
      trial.Require(status == SL_OK, "place gave {}: {}", StatusName(status), ErrorText());
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        const sl_placement_t& placement = placements[lane];
        trial.Expect(placement.lane == lane, "placement {} is of lane {}", lane, placement.lane);
        trial.Expect(std::strcmp(placement.device, node.name) == 0, "is of device {}", placement.device);
        trial.Expect(ports.count(placement.port) != 0, "leads to port {}, which is not reported", placement.port);
        const bool has_backup = placement.backup_port[0] != '\0';
        trial.Expect(!has_backup || ports.count(placement.backup_port) != 0, "its backup {} is not reported",
                     placement.backup_port);
      }
    }
  }
  if (!is_placed) trial.Skip("it leaves placement to the kernel");
}

void ShortOfMemory(Trial& trial) {
  const Subject subject(trial, SL_TOPOLOGY_ID);
  { const Found found(trial, subject); }  // skips when there is nothing to find
  ForEachShortage(trial, subject.module(), Imports::Kind::kMemory, trial.full() ? 2000 : 300, [&] {
    ClearError();
    sl_topology_t* topology = nullptr;
    const sl_status_t status = subject.ops.create(subject.instance(), &topology);
    if (status != SL_OK) {
      trial.Expect(topology == nullptr && !ErrorText().empty(), "create gave {}, an object or no text",
                   StatusName(status));
      return;
    }
    Sink sink;
    const sl_status_t found = subject.ops.discover(topology, Sink::Ops(), sink.handle());
    trial.Expect(found == SL_OK || !ErrorText().empty(), "discover gave {} without a text", StatusName(found));
    subject.ops.destroy(topology);
  });
}

}  // namespace

Suite MakeSuite() {
  return {SL_TOPOLOGY_ID,
          {
              {"Graph.HangsTogether", "unique names that end, parents and ends of edges that exist, no cycles",
               HangsTogether},
              {"Graph.IsTheSameAgain", "discovery is a fact, not an event", SaysTheSameAgain},
              {"Graph.PassesTheSinksErrorsOn", "a report that is refused ends discovery", PassesTheSinksErrorsOn},
              {"Placement.LeadsToReportedPorts", "one placement a lane, on ports and backups that exist",
               PlacesOnWhatItReported},
              {"Shortage.OfMemoryFailsCleanly",
               "any allocation refused: an error in words, or none, and nothing is lost", ShortOfMemory},
          }};
}

}  // namespace sl::conform::topology
