// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/batch.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <utility>
#include <vector>

#include "modules/device-host/image.h"

namespace sl::device_host {
namespace {

// A batch of up to some twenty launches on the default stream allocates nothing but this, on the caller's stack.
constexpr size_t kArenaBytes = 8192;

// The launches of one stream.
struct Lane {
  Lane(sl_stream_t* of, std::pmr::memory_resource* arena) : stream(of), own(arena) {}

  sl_stream_t* stream;
  size_t tasks = 0;
  size_t bytes = 0;
  sl_stream_t::ItemPtr item;  // null for the default stream
  TaskSet own;                // default stream only

  TaskSet& set() { return item != nullptr ? item->tasks : own; }
};

// Where a launch of the batch went.
struct Place {
  uint32_t lane = 0;
  uint32_t task = 0;
};

class Builder {
 public:
  // `arena` outlives the lanes.
  Builder(uint32_t count, sl_stream_t* const* streams, const sl_launch_t* const* launches,
          std::pmr::memory_resource* arena)
      : count_(count),
        streams_(streams),
        launches_(launches),
        arena_(arena),
        lanes_(arena),
        places_(count, arena),
        predecessors_(count, -1, arena) {}

  void Build() {
    SortIntoLanes();
    FindPredecessors();
    for (Lane& lane : lanes_) {
      if (lane.stream != nullptr) lane.item = lane.stream->NewItem(Item::Kind::kTasks);
      lane.set().Reserve(lane.tasks, lane.bytes);
      if (crossings_ != 0) lane.set().Share(signals_);
    }
    for (uint32_t i = 0; i < count_; ++i) AddTask(i);
  }

  std::pmr::vector<Lane>& lanes() { return lanes_; }
  bool crosses() const { return crossings_ != 0; }

 private:
  void SortIntoLanes() {
    for (uint32_t i = 0; i < count_; ++i) {
      // Batches have few streams, so that looking at each is quicker than a map.
      auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                [stream = streams_[i]](const Lane& lane) { return lane.stream == stream; });
      if (found == lanes_.end()) found = lanes_.emplace(lanes_.end(), streams_[i], arena_);
      Lane& lane = *found;
      const sl_host_kernel_t& kernel = *FindKernel(*launches_[i]);
      places_[i] = {static_cast<uint32_t>(found - lanes_.begin()), static_cast<uint32_t>(lane.tasks++)};
      lane.bytes += TaskSet::Rounded(kernel.frame_bytes);
      if (lane.stream != nullptr) lane.bytes += TaskSet::Rounded(launches_[i]->args_bytes);
    }
  }

  void FindPredecessors() {
    std::pmr::unordered_map<const void*, uint32_t> last(arena_);
    for (uint32_t i = 0; i < count_; ++i) {
      if (launches_[i]->chain == nullptr) continue;
      const auto [found, is_new] = last.try_emplace(launches_[i]->chain, i);
      if (is_new) continue;
      predecessors_[i] = static_cast<int64_t>(std::exchange(found->second, i));
      if (places_[static_cast<size_t>(predecessors_[i])].lane != places_[i].lane) ++crossings_;
    }
    if (crossings_ != 0) signals_ = std::shared_ptr<Signal[]>(new Signal[crossings_]);
  }

  void AddTask(uint32_t i) {
    const Place place = places_[i];
    TaskSet& set = lanes_[place.lane].set();
    Task* task = set.Add(*launches_[i], *FindKernel(*launches_[i]), lanes_[place.lane].stream != nullptr);
    if (predecessors_[i] < 0) return set.ActivateLast();
    const Place before = places_[static_cast<size_t>(predecessors_[i])];
    Task* predecessor = lanes_[before.lane].set().at(before.task);
    if (before.lane == place.lane) {
      predecessor->next = static_cast<int32_t>(place.task);
      return;
    }
    Signal* signal = &signals_[next_signal_++];
    predecessor->ends = signal;
    task->after = signal;
    set.ActivateLast();
  }

  const uint32_t count_;
  sl_stream_t* const* const streams_;
  const sl_launch_t* const* const launches_;
  std::pmr::memory_resource* const arena_;
  std::pmr::vector<Lane> lanes_;
  std::pmr::vector<Place> places_;
  std::pmr::vector<int64_t> predecessors_;  // by launch: the launch of the same chain before it, or -1
  // One for each predecessor in another lane. Shared by the lanes, which end in any order.
  std::shared_ptr<Signal[]> signals_;
  uint32_t crossings_ = 0;
  uint32_t next_signal_ = 0;
};

}  // namespace

Result<sl_status_t> LaunchBatch(uint32_t count, sl_stream_t* const* streams, const sl_launch_t* const* launches,
                                const Tuning& tuning, Counters* counters, std::mutex* queueing) {
  alignas(std::max_align_t) std::byte memory[kArenaBytes];
  std::pmr::monotonic_buffer_resource arena(memory, sizeof(memory));
  Builder builder(count, streams, launches, &arena);
  builder.Build();
  // After this nothing can fail any more: a batch runs whole or not at all.
  for (Lane& lane : builder.lanes()) {
    if (lane.stream != nullptr) SL_TRY(lane.stream->Prepare());
  }
  {
    // Two batches that cross the same streams would otherwise be able to wait for each other.
    std::unique_lock lock(*queueing, std::defer_lock);
    if (builder.crosses()) lock.lock();
    for (Lane& lane : builder.lanes()) {
      if (lane.stream != nullptr) SL_TRY(lane.stream->Submit(std::move(lane.item)));
    }
  }
  sl_status_t first = SL_OK;
  for (Lane& lane : builder.lanes()) {
    if (lane.stream != nullptr) continue;
    lane.own.Drive(nullptr, tuning, counters);
    for (size_t i = 0; i < lane.own.size() && first == SL_OK; ++i) first = lane.own.at(i)->status;
  }
  return first;
}

}  // namespace sl::device_host
