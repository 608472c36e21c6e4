// SPDX-License-Identifier: Apache-2.0
//
// A run: one plan being executed for one operation, over links. It is a resumable state machine that never blocks, so
// that whoever has a thread drives it: the caller inline, a host stream, a progress thread (engine.h).
//
// Life: RunPool::Start -> Poll until it returns something else than SL_ERR_AGAIN -> RunPool::Finish.
//
// Order. Runs begin in the order in which they were started: one that is polled too early waits for those before it.
// When it begins, a run takes its turn on every link direction it uses, and it uses a direction only when all runs that
// began before it have left that direction, so chunks of different runs never mix.
//
// Failure. A run that fails stops at once and poisons its pool: chunks of a broken operation may be anywhere on the
// links, so all runs of that communicator end with the first failure instead of waiting for what will never come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/run_context.h"
#include "kernel/engine/work.h"
#include "kernel/link/link.h"
#include "kernel/plan/plan.h"
#include "sdk/status.h"
#include "sl_algorithm.h"
#include "sl_device.h"

namespace sl::kernel {

class RunPool;

// Not thread-safe: one thread at a time; another may go on where the first stopped, after synchronising with it.
class Run final : public Work {
 public:
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Goes on as far as it can without waiting, at most a megabyte's worth of work.
  // thread: [data]   returns: SL_OK it is complete | SL_ERR_AGAIN, with `wait` filled: on whom, on what; with a NULL
  // doorbell do not sleep for long, there may be work left | an error, for good; status() has the text
  sl_status_t Poll(sl_wait_t* wait) override;

  // Takes its turns before its first Poll, if all that were started before it have theirs and nobody is at the links.
  // One that has them may be left alone as long as one before it is on its way over the same link.
  // thread: [data], where it was started   returns: whether it has them
  bool TryBegin();

  // The outcome so far: SL_OK while it runs.
  const Status& status() const { return status_; }
  bool finished() const { return finished_; }
  bool moved() const override { return moved_; }
  uint64_t op_seq() const { return op_.seq; }
  // 0: it waits for a peer. Else a number that grows with everything that moves in its pool. Called as Poll.
  uint64_t MovesAhead() const;
  // Where it is: "all_reduce #12: lane 0 step 3 round 7 waits for a chunk from rank 2". Called as Poll; slow path.
  std::string Describe() const;

 private:
  friend class RunPool;
  enum class Blocked : uint8_t { kNo, kTurn, kChunk, kCredit };
  struct LaneState {
    uint64_t round;
    uint64_t repetition;
    uint64_t repetitions;
    uint32_t step;  // next to do; the number of steps: leaving its links
    uint32_t repeat_first;
    uint32_t repeat_end;    // 0: not inside a REPEAT
    uint32_t blocked_link;  // valid when blocked
    uint32_t left;          // links it has left
    Blocked blocked;
    bool done;
  };
  struct LinkState {
    Link* link;
    uint64_t send_ticket;
    uint64_t recv_ticket;
    uint8_t* outbox;       // reserved chunk; NULL: none
    const uint8_t* inbox;  // arrived chunk; NULL: none
    uint64_t inbox_bytes;
    uint64_t posted;  // chunks of this run
    uint64_t taken;
    bool send_turn;
    bool recv_turn;
    bool recv_left;
    bool notify;  // posted or released something the peer was not told of
  };
  // What is left of one poll.
  struct Budget {
    uint64_t bytes;
    uint32_t steps;
  };

  explicit Run(RunPool* pool) : pool_(pool) {}
  Status Prepare(const Plan& plan, const sl_op_t& op);
  Status FindReduce(const Plan& plan, const sl_op_t& op);
  sl_status_t TakeTurns();
  sl_status_t WaitToBegin(sl_wait_t* wait);
  sl_status_t PollDriving(sl_wait_t* wait);
  sl_status_t PollLanes(sl_wait_t* wait);
  sl_status_t AdvanceLane(uint32_t index, Budget* budget);
  sl_status_t Execute(LaneState* lane, const PlanStep& step, uint64_t elements, Budget* budget);
  sl_status_t Wait(LaneState* lane, const PlanStep& step, uint64_t bytes);
  sl_status_t Reserve(LaneState* lane, uint32_t link);
  sl_status_t Put(LaneState* lane, const PlanStep& step, uint64_t bytes);
  sl_status_t Release(LaneState* lane, const PlanStep& step);
  sl_status_t Copy(const LaneState& lane, const PlanStep& step, uint64_t bytes);
  sl_status_t Reduce(const LaneState& lane, const PlanStep& step, uint64_t elements);
  sl_status_t LeaveLinks(uint32_t index, LaneState* lane, Budget* budget);
  uint8_t* Address(const LaneState& lane, const sl_operand_t& operand, uint32_t link, uint64_t bytes);
  sl_status_t Stop(Status status);
  sl_status_t FailAt(const LaneState& lane, sl_status_t code, const std::string& text);
  sl_status_t FailLink(const LaneState& lane, uint32_t link, sl_status_t code);
  sl_status_t FailChunk(const LaneState& lane);
  sl_status_t FailBlocked(sl_status_t code);
  void FillWait(const Budget& budget, sl_wait_t* wait) const;
  // For peers alone whose links are mapped, or for none such.
  bool WaitsFor(bool mapped) const;
  void Announce(LinkState* state, uint64_t bytes);
  void NotifyPeers();
  void Record(uint32_t kind, int32_t peer, uint32_t lane, uint64_t bytes, uint64_t value, uint64_t value2) const;
  std::string Name() const;
  std::string Position(const LaneState& lane) const;

  RunPool* pool_;
  Run* next_free_ = nullptr;
  uint64_t counted_bytes_ = 0;  // of it, in the pool's memory_bytes_
  const Plan* plan_ = nullptr;
  sl_op_t op_{};
  uint32_t algorithm_ = 0;  // OpTag's
  Status status_;
  bool finished_ = true;
  bool begun_ = false;   // has its links and turns
  bool in_use_ = false;  // keeps the keeper from its links
  bool moved_ = false;
  bool notify_any_ = false;
  bool scale_inputs_ = false;  // multiply raw contributions
  bool scale_sum_ = false;     // divide the complete sum
  uint64_t number_ = 0;        // of the pool's runs, from 0
  uint32_t lanes_left_ = 0;
  uint32_t local_polls_ = 0;  // that waited for mapped links alone
  sl_reduce_fn reduce_ = nullptr;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::vector<uint8_t> scratch_;
};

// The runs of one rank of one communicator; a run that ended is used again.
// thread: Start: one at a time. Finish, Fail: [any].
class RunPool {
 public:
  explicit RunPool(const RunContext& context);
  ~RunPool();  // no run may be between Start and Finish
  RunPool(const RunPool&) = delete;
  RunPool& operator=(const RunPool&) = delete;

  // Makes a run ready and holds the plan; touches no link. `op` is copied; its buffers must live until the run has
  // ended. Allocates only while the pool or the run is still growing.
  // returns: SL_OK | SL_ERR_STATE the pool has failed | SL_ERR_UNSUPPORTED memory the CPU cannot reach
  Status Start(const Plan& plan, const sl_op_t& op, Run** out_run);

  // Takes a run back. One that has not finished counts as given up, with `status` (an abort, a timeout) as its outcome,
  // and poisons the pool.
  void Finish(Run* run, sl_status_t status = SL_ERR_ABORTED);

  // Makes every run, now and later, end with this status at its next Poll. The first failure stays.
  void Fail(const Status& status);
  // The failure, or SL_OK.
  Status failure() const;

  const RunContext& context() const { return context_; }
  // Runs between Start and Finish, and what all runs of the pool occupy.   [any]
  uint32_t running() const { return running_.load(std::memory_order_relaxed); }
  uint64_t memory_bytes() const { return sizeof(*this) + memory_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Run;
  void Recycle(Run* run);
  void Count(Run* run);
  void CountMove() { moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  bool failed() const { return failure_.load(std::memory_order_relaxed) != nullptr; }

  const RunContext context_;
  bool host_memory_ = true;
  std::atomic<const Status*> failure_{nullptr};
  std::atomic<Run*> free_{nullptr};  // pushed by any thread, popped by one, hence no ABA
  std::atomic<uint32_t> running_{0};
  std::atomic<uint64_t> memory_bytes_{0};  // of all runs
  std::atomic<uint64_t> begun_{0};         // runs that have begun; the next one to begin has this number
  std::atomic<uint64_t> moves_{0};         // polls that moved, and ends; by whoever drives the links, hence no lock
  uint64_t started_ = 0;
  std::vector<std::unique_ptr<Run>> runs_;
};

// Drives a run as a host kernel: args is a pointer to a Run*, args_bytes sizeof(Run*), no frame.
sl_host_kernel_t EngineKernel();

}  // namespace sl::kernel
