// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/plan_world_test_util.h"

#include <algorithm>

#include "kernel/engine/reference_reduce_test_util.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {

PlanWorld::PlanWorld(uint32_t ranks, const FakeNetOptions& options) : net_(ranks, options), outcomes_(ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    pools_.push_back(std::make_unique<RunPool>(
        RunContext{rank, ranks, 77, 1, net_.provider(rank), ReferenceDeviceOps(), nullptr,
                   [](uint32_t tag) { return tag == AlgorithmTag("ring") ? "ring" : "another one"; }}));
  }
}

PlanWorld::~PlanWorld() {
  for (const Started& started : started_) pools_[started.rank]->Finish(started.run);
}

Status PlanWorld::Start(uint32_t rank, const Plan& plan, const sl_op_t& op) {
  Run* run = nullptr;
  SL_TRY(pools_[rank]->Start(plan, op, &run));
  started_.push_back({rank, run});
  return Status();
}

// Polls every run once; true while any is unfinished.
bool PlanWorld::PollOnce(uint32_t first, bool* out_moved, std::string* failure) {
  bool running = false;
  *out_moved = false;
  if (random_) std::shuffle(started_.begin(), started_.end(), *random_);
  for (size_t i = 0; i < started_.size(); ++i) {
    const Started& started = started_[(i + first) % started_.size()];
    if (started.run->finished()) continue;
    sl_wait_t wait{};
    ++polls_;
    const sl_status_t status = started.run->Poll(&wait);
    *out_moved |= status != SL_ERR_AGAIN || started.run->moved();
    running |= status == SL_ERR_AGAIN;
    if (status == SL_ERR_AGAIN) continue;
    outcomes_[started.rank] = status;
    if (status != SL_OK && failure->empty()) *failure = started.run->status().message();
  }
  return running;
}

std::string PlanWorld::Drive(uint32_t first) {
  std::string failure;
  bool moved = true;
  while (moved && PollOnce(first, &moved, &failure)) {
  }
  std::string text = failure;
  for (const Started& started : started_) {
    if (!started.run->finished()) text += (text.empty() ? "stuck: " : "; ") + started.run->Describe();
    pools_[started.rank]->Finish(started.run);
  }
  started_.clear();
  return text;
}

sl_step_t MakeStep(uint32_t kind, int32_t peer, sl_operand_t shape) {
  sl_step_t step{};
  step.struct_size = sizeof(step);
  step.kind = kind;
  step.peer = peer;
  step.shape = shape;
  return step;
}

}  // namespace sl::kernel
