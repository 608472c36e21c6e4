// SPDX-License-Identifier: Apache-2.0
#ifndef STARLING_MODULES_DEVICE_HOST_TASK_SET_H_
#define STARLING_MODULES_DEVICE_HOST_TASK_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "modules/device-host/launch.h"

namespace sl::device_host {

// Storage of tasks that are driven together: the tasks, their frames, and copies of their arguments. Reserve first, so
// that nothing moves afterwards. Keeps its memory when cleared.
class TaskSet {
 public:
  TaskSet() = default;
  // Takes its memory from `memory`, which outlives it.
  explicit TaskSet(std::pmr::memory_resource* memory) : tasks_(memory), active_(memory), memory_(memory) {}

  // Room for `tasks` tasks whose frames and copied arguments are `bytes` long, each rounded up by Rounded().
  void Reserve(size_t tasks, size_t bytes);
  static size_t Rounded(size_t bytes) { return (bytes + sizeof(Block) - 1) / sizeof(Block) * sizeof(Block); }

  // Adds a task with a zeroed frame. `copies_args`: the caller's arguments need not outlive the call.
  Task* Add(const sl_launch_t& launch, const sl_host_kernel_t& kernel, bool copies_args);
  // Adds a task that has already run: copies its arguments and its frame.
  Task* Adopt(const Task& task, uint32_t args_bytes, uint32_t frame_bytes);
  // Marks the last task as one that may run from the start.
  void ActivateLast() { active_.push_back(static_cast<uint32_t>(tasks_.size() - 1)); }
  // Keeps `signals` alive as long as the tasks.
  void Share(std::shared_ptr<Signal[]> signals) { signals_ = std::move(signals); }

  void Drive(const int32_t* cancel_word, const Tuning& tuning, Counters* counters);

  void Clear();
  size_t MemoryBytes() const { return memory_.capacity() * sizeof(Block) + tasks_.capacity() * sizeof(Task); }
  size_t size() const { return tasks_.size(); }
  Task* at(size_t index) { return &tasks_[index]; }

 private:
  struct alignas(16) Block {
    unsigned char bytes[16];
  };
  void* Take(size_t bytes);

  std::pmr::vector<Task> tasks_;
  std::pmr::vector<uint32_t> active_;
  std::pmr::vector<Block> memory_;
  size_t blocks_taken_ = 0;
  // Shared: each group of a batch may be the last to look at a signal of another one.
  std::shared_ptr<Signal[]> signals_;
};

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_TASK_SET_H_
