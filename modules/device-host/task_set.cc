// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/task_set.h"

#include <cstring>

namespace sl::device_host {

void TaskSet::Reserve(size_t tasks, size_t bytes) {
  tasks_.reserve(tasks);
  active_.reserve(tasks);
  memory_.assign(bytes / sizeof(Block), Block{});
  blocks_taken_ = 0;
}

void* TaskSet::Take(size_t bytes) {
  void* place = memory_.data() + blocks_taken_;
  blocks_taken_ += Rounded(bytes) / sizeof(Block);
  return place;
}

Task* TaskSet::Add(const sl_launch_t& launch, const sl_host_kernel_t& kernel, bool copies_args) {
  const void* args = launch.args;
  if (copies_args && launch.args_bytes != 0) {
    void* copy = Take(launch.args_bytes);
    std::memcpy(copy, launch.args, launch.args_bytes);
    args = copy;
  }
  tasks_.push_back(MakeTask(launch, kernel.run, args, Take(kernel.frame_bytes)));
  return &tasks_.back();
}

Task* TaskSet::Adopt(const Task& task, uint32_t args_bytes, uint32_t frame_bytes) {
  tasks_.push_back(task);
  Task* adopted = &tasks_.back();
  if (args_bytes != 0) {
    void* copy = Take(args_bytes);
    std::memcpy(copy, task.args, args_bytes);
    adopted->args = copy;
  }
  adopted->frame = Take(frame_bytes);
  std::memcpy(adopted->frame, task.frame, frame_bytes);
  return adopted;
}

void TaskSet::Drive(const int32_t* cancel_word, const Tuning& tuning, Counters* counters) {
  Group(tasks_.data(), active_.data(), static_cast<uint32_t>(active_.size()), cancel_word, &tuning, counters).Drive(0);
}

void TaskSet::Clear() {
  tasks_.clear();
  active_.clear();
  memory_.clear();
  signals_.reset();
  blocks_taken_ = 0;
}

}  // namespace sl::device_host
