// SPDX-License-Identifier: Apache-2.0
//
// A job of the relay, as the progress thread sees it: pieces that begin in order, each when its data is in host memory,
// and end in any order, each when all its runs have.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/engine/run.h"
#include "kernel/engine/work.h"
#include "kernel/runtime/relay_cut.h"
#include "sl_device.h"

namespace sl::kernel {

struct Pending;
class Relay;

// Used by two threads: who issues gives the device its commands, the progress thread drives the runs. Who is done last
// gives the job back. What both read is constant in between.
class RelayJob final : public Work {
 public:
  explicit RelayJob(Relay* relay) : relay_(relay) {}
  RelayJob(const RelayJob&) = delete;
  RelayJob& operator=(const RelayJob&) = delete;

  // Cuts, and selects a plan for every part.   owns: the operations, when it succeeds
  Status Prepare(std::span<Pending* const> ops, uint64_t first_turn, sl_stream_t* stream);
  // Hands it to the progress thread.
  Status Submit();
  // One of the two threads is done with it.
  void Release();

  sl_status_t Poll(sl_wait_t* wait) override;
  bool moved() const override { return moved_; }
  bool awaits_device() const override { return begun_ < pieces(); }

  uint32_t pieces() const { return static_cast<uint32_t>(schedule_.pieces.size()); }
  uint64_t turn(uint32_t piece) const { return first_turn_ + piece; }
  std::span<const RelayPart> parts(uint32_t piece) const;
  // The operation of a part, as its caller stated it.
  const sl_op_t& op(const RelayPart& part) const { return stated_[part.op]; }
  sl_stream_t* stream() const { return stream_; }
  uint32_t* step() { return &step_; }

 private:
  struct Active {
    const Plan* plan;  // held
    Run* run;          // NULL: not begun, or ended
  };

  Status SelectPlans(std::span<Pending* const> ops);
  bool IsIn(uint32_t piece) const;
  Status BeginPiece(uint32_t piece);
  sl_status_t PollPiece(uint32_t piece, sl_wait_t* wait);
  sl_op_t OpOf(const RelayPart& part, uint64_t turn) const;
  static sl_status_t Check(void* job, const sl_wait_t* wait, uint64_t waited_ns);
  static void Done(void* job, sl_status_t status);
  void End(sl_status_t status);
  void Blame(sl_status_t status);
  void DropPlans();

  Relay* const relay_;
  std::vector<Pending*> ops_;
  std::vector<sl_op_t> stated_;  // of ops_
  RelaySchedule schedule_;
  uint64_t first_turn_ = 0;
  sl_stream_t* stream_ = nullptr;
  uint32_t step_ = 0;  // of who issues
  std::atomic<uint32_t> users_{0};

  // The progress thread's.
  std::vector<Active> active_;          // as schedule_.parts
  std::vector<uint32_t> left_;          // parts of each piece that have not ended
  uint32_t begun_ = 0;                  // pieces
  uint32_t ended_ = 0;                  // pieces that have ended, and all before them
  uint32_t waiting_part_ = UINT32_MAX;  // that the last poll waited for, or that failed
  Status failure_;                      // of that part
  bool moved_ = false;
};

}  // namespace sl::kernel
