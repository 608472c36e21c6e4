// SPDX-License-Identifier: Apache-2.0
//
// N ranks in one thread: each has a pool of runs over a FakeLinkNet; all runs are polled in turn until they have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernel/engine/fake_links_test_util.h"
#include "kernel/engine/run.h"

namespace sl::kernel {

class PlanWorld {
 public:
  PlanWorld(uint32_t ranks, const FakeNetOptions& options);
  ~PlanWorld();

  FakeLinkNet& net() { return net_; }
  RunPool& pool(uint32_t rank) { return *pools_[rank]; }

  Status Start(uint32_t rank, const Plan& plan, const sl_op_t& op);

  // Polls everything started, in turn, from rank `first` on. "" when all have succeeded; the first failure's text; or
  // "stuck: " and where everybody is. Takes all runs back. Bounded.
  std::string Drive(uint32_t first = 0);
  // From now on runs are polled in an order drawn anew for every turn.
  void Shuffle(uint32_t seed) { random_.emplace(seed); }
  // The outcome of each rank's last run in the last Drive.
  sl_status_t outcome(uint32_t rank) const { return outcomes_[rank]; }
  uint64_t polls() const { return polls_; }

 private:
  struct Started {
    uint32_t rank;
    Run* run;
  };
  bool PollOnce(uint32_t first, bool* out_moved, std::string* failure);
  FakeLinkNet net_;
  std::vector<std::unique_ptr<RunPool>> pools_;
  std::vector<Started> started_;
  std::vector<sl_status_t> outcomes_;
  std::optional<std::mt19937> random_;
  uint64_t polls_ = 0;
};

// A plan from steps: a builder with one lane begun and described.
sl_step_t MakeStep(uint32_t kind, int32_t peer, sl_operand_t shape);

}  // namespace sl::kernel
