// SPDX-License-Identifier: Apache-2.0
//
// Graphs of the fake driver: what was captured, each piece of work behind others, to be run again and again.
#ifndef STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_GRAPH_H_
#define STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace sl::fake_cuda {

// Does what it can; returns whether it is done, else it is called again. Copies are independent of each other.
using Work = std::function<bool()>;

// The nodes at which a stream, or an event, stands in a graph.
using GraphPoint = std::vector<uint32_t>;

// Kept by the graph, by what was instantiated of it, and by each launch until it has ended. All under the driver's
// lock.
class GraphBody {
 public:
  GraphBody() = default;
  // Calls what it retained, on a thread of its own.
  ~GraphBody();
  GraphBody(const GraphBody&) = delete;
  GraphBody& operator=(const GraphBody&) = delete;

  // Appends work that begins when all of `behind` is done; returns where that ends.
  GraphPoint Add(Work work, const GraphPoint& behind);
  void Retain(std::function<void()> destroy) { retained_.push_back(std::move(destroy)); }
  // Whether all its work is done when that up to `point` is.
  bool IsJoinedBy(const GraphPoint& point) const;

 private:
  friend class GraphRun;
  struct Node {
    Work work;
    GraphPoint behind;  // earlier nodes
  };
  std::vector<Node> nodes_;
  std::vector<std::function<void()>> retained_;
};

struct Capture {
  uint64_t id = 0;
  int mode = 0;
  std::thread::id thread = std::this_thread::get_id();  // that began it
  std::shared_ptr<GraphBody> body = std::make_shared<GraphBody>();
};

// One launch. Those of one executable run one after the other, whatever their streams.
class GraphRun {
 public:
  GraphRun(std::shared_ptr<const GraphBody> body, std::shared_ptr<const GraphRun> previous);
  // As Work.
  bool Advance();

 private:
  bool IsReady(const GraphBody::Node& node) const;

  std::shared_ptr<const GraphBody> body_;
  std::shared_ptr<const GraphRun> previous_;
  std::vector<Work> left_;  // by node; NULL: done
  size_t done_ = 0;
  bool is_done_ = false;
};

struct GraphExec {
  std::shared_ptr<const GraphBody> body;
  std::shared_ptr<const GraphRun> newest;
};

}  // namespace sl::fake_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_GRAPH_H_
