// SPDX-License-Identifier: Apache-2.0
//
// A plan: what one rank does in one operation, as data (abi/sl_algorithm.h says what the data means). It is made
// by PlanBuilder, which checks every step, and never changes afterwards, so that it can be shared by runs and threads,
// verified and simulated.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::kernel {

constexpr uint32_t kNoLink = UINT32_MAX;
// Steps of a plan, a lane counting as one: 16 for each rank of the largest communicator, 144 MiB.
constexpr size_t kMostPlanSteps = size_t{1} << 20;

// A step as its algorithm stated it, and the places of its peers in Plan::links(); kNoLink where there is none.
struct PlanStep {
  sl_step_t data;
  uint32_t link;  // of data.peer
  uint32_t a_link;
  uint32_t b_link;
  uint32_t dst_link;
  uint32_t dst2_link;
};

// One link a plan uses. Each direction belongs to one lane only, which is what keeps its chunks in order.
struct PlanLink {
  uint32_t peer;
  uint32_t lane;       // of the link
  uint32_t send_lane;  // index of the plan's lane that sends; kNoLink: none does
  uint32_t recv_lane;
};

class Plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const sl_plan_desc_t& desc() const { return desc_; }
  const sl_geometry_t& geometry(uint32_t buffer) const;  // SL_BUFFER_SEND, RECV or SCRATCH
  uint32_t lane_count() const { return static_cast<uint32_t>(lane_ends_.size()); }
  std::span<const PlanStep> lane(uint32_t index) const;
  std::span<const PlanLink> links() const { return links_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  uint32_t element_bytes() const { return element_bytes_; }
  bool has_reduce() const { return has_reduce_; }
  uint32_t algorithm_tag() const { return algorithm_tag_; }

  // The whole plan for people, one step a line, such as
  //   lane 0
  //      3  repeat   the next 5 steps 2 times
  //      4    wait     rank 2  | recv[3 -1i]
  std::string ToText() const;

  // A run holds its plan while it lives; whoever stores plans frees only those nobody holds.   thread: [any]
  void Hold() const { holders_.fetch_add(1, std::memory_order_relaxed); }
  void Drop() const { holders_.fetch_sub(1, std::memory_order_release); }
  bool held() const { return holders_.load(std::memory_order_acquire) != 0; }

 private:
  friend class PlanBuilder;
  Plan() = default;

  sl_plan_desc_t desc_{};
  std::vector<PlanStep> steps_;
  std::vector<uint32_t> lane_ends_;  // lane i is steps [lane_ends_[i - 1], lane_ends_[i])
  std::vector<PlanLink> links_;
  uint32_t rank_ = 0;
  uint32_t size_ = 0;
  uint32_t element_bytes_ = 0;
  bool has_reduce_ = false;
  uint32_t algorithm_tag_ = 0;  // AlgorithmTag of who made it
  mutable std::atomic<uint32_t> holders_{0};
};

// One step for people, as ToText() shows it, without its shape: "copy     recv[3 -1i] <- in(2)".
std::string StepText(const sl_step_t& step);

// What a builder checks steps against.
struct PlanFrame {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint32_t link_lanes = 1;        // lanes a link may have
  uint32_t link_chunk_bytes = 0;  // largest payload of a chunk
  uint32_t link_slots = 0;        // chunks a link holds each way; 0: unknown
  sl_op_t op{};                   // gives element size and the extents of the caller's buffers
  std::string algorithm = {};     // that makes it; empty: nobody's, as in tests
};

// Builds one plan. The table's functions take handle(); the first error stays, and Finish() returns it whatever the
// algorithm made of it. One thread at a time.
class PlanBuilder {
 public:
  explicit PlanBuilder(const PlanFrame& frame);
  ~PlanBuilder();

  static const sl_plan_builder_ops_t* Ops();
  sl_plan_builder_t* handle() { return reinterpret_cast<sl_plan_builder_t*>(this); }

  // The same as the table, for C++.
  Status Describe(const sl_plan_desc_t& desc);
  Status BeginLane();
  Status AddStep(const sl_step_t& step);

  // The first error of a call so far.
  const Status& error() const { return error_; }

  // The plan, or the first error. Once, last.
  Result<std::unique_ptr<Plan>> Finish();

 private:
  Status CheckDesc(const sl_plan_desc_t& desc);
  Status CheckStep(const sl_step_t& step);
  Status CheckOperands(const sl_step_t& step);
  Status CheckBounds(const sl_step_t& step);
  Status CheckRepeat(const sl_step_t& step);
  Status Add(const sl_step_t& step);
  Status CheckRoom();
  Status AddLinks(PlanStep* added);
  Result<uint32_t> LinkOf(int32_t peer, uint32_t lane, bool sends);
  Status Fail(const std::string& text);
  Status Keep(Status status);
  std::string Place() const;

  PlanFrame frame_;
  std::unique_ptr<Plan> plan_;
  Status error_;
  bool described_ = false;
  uint32_t repeat_steps_ = 0;  // steps still inside the last REPEAT
  uint32_t repetitions_ = 1;   // of the step being added
};

}  // namespace sl::kernel
