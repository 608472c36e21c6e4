// SPDX-License-Identifier: Apache-2.0
//
// The relay's graphs: who makes them, who lets them go.
#include <time.h>

#include <algorithm>
#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay.h"
#include "kernel/runtime/relay_graph.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
Status Relay::Capture(std::span<Pending* const> ops, uint64_t capture, sl_stream_t* stream) {
  SL_ASSIGN(RelayGraph * graph, GraphOf(capture));
  SL_ASSIGN(const RelayGraph::Job* job, graph->Add(ops));
  if (!graph->is_watched_) SL_TRY(Watch(graph));
  const auto enqueue = [&]() -> Status {
    SL_TRY(StatusOf(device_.ops->stream_wait_value(device_.handle, stream, &job->words->ready, 1)));
    SL_TRY(EnqueueCaptured(job->pieces, stream));
    return StatusOf(device_.ops->stream_write_value(device_.handle, stream, &job->words->left, 1));
  };
  Status enqueued = OrNoMemory(enqueue);
  if (enqueued.ok()) return enqueued;
  // The device has a part of the job, which no replay gets past: it takes the way of W3.
  graph->Close();
  Ring(handle_->comm.process()->progress()->doorbell());
  return enqueued;
}

Result<RelayGraph*> Relay::GraphOf(uint64_t capture) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                    [capture](const auto& graph) { return graph->capture() == capture; });
    if (found != graphs_.end()) return found->get();
  }
  uint8_t*& areas = graph_areas_[(capture - 1) % kGraphLaneSets];
  if (areas == nullptr) {
    SL_ASSIGN(areas, TakeMemory(uint64_t{2} * kSlots * room_.area_bytes));
  }
  const std::lock_guard lock(mutex_);
  return graphs_.emplace_back(std::make_unique<RelayGraph>(this, capture, areas)).get();
}

// From its first job on.
Status Relay::Watch(RelayGraph* graph) {
  {
    const std::lock_guard lock(mutex_);
    graph->is_watched_ = true;
  }
  ProgressJob job;
  job.work = graph;
  job.is_standing = true;
  job.abort_word = handle_->comm.abort_word();
  job.check = RelayGraph::Check;
  job.check_ctx = graph;
  job.check_interval_ns = kCheckIntervalNs;
  job.done = RelayGraph::Done;
  job.done_ctx = graph;
  Status submitted = OrNoMemory([&] { return handle_->comm.process()->progress()->Submit(job); });
  if (submitted.ok()) return {};
  const std::lock_guard lock(mutex_);
  graph->LetPass();
  return submitted;
}

void Relay::EndGraph(uint64_t capture) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                  [capture](const auto& graph) { return graph->capture() == capture; });
  if (found == graphs_.end()) return;
  RelayGraph* graph = found->get();
  graph->is_gone_ = true;
  graph->Close();
  if (graph->has_ended_ || !graph->is_watched_) return Forget(graph);
  Ring(handle_->comm.process()->progress()->doorbell());
}

// Under the lock: nobody looks at it any more.
void Relay::Forget(RelayGraph* graph) {
  free_pages_.insert(free_pages_.end(), graph->word_pages_.begin(), graph->word_pages_.end());
  std::erase_if(graphs_, [graph](const auto& one) { return one.get() == graph; });
}

Result<std::span<uint8_t>> Relay::TakePage(uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_pages_.begin(), free_pages_.end(),
                                    [bytes](const std::span<uint8_t> page) { return page.size() >= bytes; });
    if (found != free_pages_.end()) {
      const std::span<uint8_t> page = *found;
      free_pages_.erase(found);
      return page;
    }
  }
  SL_ASSIGN(uint8_t * memory, TakeMemory(bytes));
  return std::span(memory, bytes);
}

bool Relay::IsResting() {
  const std::lock_guard lock(mutex_);
  return std::none_of(graphs_.begin(), graphs_.end(), [](const auto& graph) {
    return graph->is_busy() || (graph->is_closed() && graph->is_watched_ && !graph->has_ended_);
  });
}

bool Relay::EndGraphs(uint64_t deadline_ns) {
  const auto have_ended = [this] {
    const std::lock_guard lock(mutex_);
    return std::all_of(graphs_.begin(), graphs_.end(),
                       [](const auto& graph) { return graph->has_ended_ || !graph->is_watched_; });
  };
  {
    const std::lock_guard lock(mutex_);
    for (const auto& graph : graphs_) graph->Close();
  }
  while (!have_ended()) {
    if (NowNs() >= deadline_ns) return false;
    Ring(handle_->comm.process()->progress()->doorbell());
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

}  // namespace sl::kernel
