// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/run.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <utility>

#include "kernel/events/ring.h"
#include "kernel/plan/part.h"
#include "kernel/plan/scalar.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// A poll does at most this much, so that
constexpr uint64_t kPollBytes = uint64_t{1} << 20;
constexpr uint32_t kPollSteps = 4096;
// One lane's share of a poll before the next lane has its turn.
constexpr uint64_t kLaneBytes = uint64_t{1} << 18;
// Who waits for neighbours alone looks at networks once in so many turns: a look at memory takes nanoseconds, one at a
// network a system call. The last look before a sleep leaves nothing out: somebody may want to connect.
constexpr uint32_t kPollsPerLook = 4;
bool IsArmed(const sl_wait_t& wait) {
  return wait.doorbell != nullptr &&
         std::atomic_ref<uint32_t>(wait.doorbell->sleepers).load(std::memory_order_relaxed) != 0;
}
// Of the links that an operation uses.
uint32_t FirstLane(const RunContext& context, const sl_op_t& op) {
  if (op.capture == 0) [[likely]]
    return 0;
  return context.lanes * (1 + static_cast<uint32_t>((op.capture - 1) % kGraphLaneSets));
}
// Summing these formats before dividing could overflow, so AVG divides the contributions instead.
bool IsNarrow(sl_datatype_t datatype) {
  return datatype == SL_FLOAT16 || datatype == SL_FLOAT8E4M3 || datatype == SL_FLOAT8E5M2;
}

}  // namespace

Run::~Run() = default;

// Finds what reduces; also says how AVG and PREMUL_SUM scale.
Status Run::FindReduce(const Plan& plan, const sl_op_t& op) {
  reduce_ = nullptr;
  if (!plan.has_reduce()) return Status();
  const RunContext& context = pool_->context();
  if (context.device_ops != nullptr) {
    reduce_ = context.device_ops->reduce_function(context.device, op.datatype, op.reduction);
  }
  if (reduce_ == nullptr) {
    return Status(SL_ERR_UNSUPPORTED,
                  fmt::format("{}: the device offers no {} of {} on this memory", OpKindName(op.kind),
                              ReductionName(op.reduction), DatatypeName(op.datatype)));
  }
  const bool narrow_avg = op.reduction == SL_AVG && IsNarrow(op.datatype);
  scale_inputs_ = op.reduction == SL_PREMUL_SUM || narrow_avg;
  scale_sum_ = op.reduction == SL_AVG && !narrow_avg;
  return Status();
}

// Not at the start: links belong to whoever polls.
sl_status_t Run::TakeTurns() {
  if (op_.scalar != nullptr) TakeScalar(&op_);  // the stream has come to this operation
  const uint64_t chunk_bytes = plan_->desc().chunk * plan_->element_bytes();
  const std::span<const PlanLink> links = plan_->links();
  const uint32_t first_lane = FirstLane(pool_->context(), op_);
  for (size_t i = 0; i < links_.size(); ++i) {
    Link* link = pool_->context().links->Get(links[i].peer, first_lane + links[i].lane);
    if (chunk_bytes > link->chunk_bytes()) {
      return Stop(
          Status(SL_ERR_INTERNAL, fmt::format("a plan with chunks of {} bytes on a link to rank {} with {} bytes",
                                              chunk_bytes, link->peer(), link->chunk_bytes())));
    }
    links_[i] = LinkState{};
    links_[i].link = link;
    if (links[i].send_lane != kNoLink) links_[i].send_ticket = link->TakeSendTicket();
    if (links[i].recv_lane != kNoLink) links_[i].recv_ticket = link->TakeRecvTicket();
  }
  begun_ = true;
  pool_->begun_.store(number_ + 1, std::memory_order_release);
  return SL_OK;
}

Status Run::Prepare(const Plan& plan, const sl_op_t& op) {
  const sl_plan_desc_t& desc = plan.desc();
  SL_TRY(FindReduce(plan, op));
  links_.resize(plan.links().size());
  if (scratch_.size() < desc.scratch_bytes) scratch_.resize(desc.scratch_bytes);
  lanes_.assign(plan.lane_count(), LaneState{});
  for (uint32_t i = 0; i < plan.lane_count(); ++i) {
    // A plan without rounds goes straight to leaving its links.
    if (desc.rounds == 0) lanes_[i].step = static_cast<uint32_t>(plan.lane(i).size());
  }
  op_ = op;
  if (op_.signature == 0) op_.signature = EncodeSignature(op);
  algorithm_ = op.seq != 0 ? plan.algorithm_tag() : 0;
  lanes_left_ = plan.lane_count();
  status_ = Status();
  finished_ = false;
  begun_ = false;
  in_use_ = false;
  number_ = pool_->started_++;
  plan_ = &plan;
  plan.Hold();
  return Status();
}

void Run::Record(uint32_t kind, int32_t peer, uint32_t lane, uint64_t bytes, uint64_t value, uint64_t value2) const {
  if (!EventWanted(kind)) [[likely]]
    return;
  const RunContext& context = pool_->context();
  Emit({0, kind, context.rank, context.comm_id, op_.seq, peer, lane, bytes, value, value2});
}

sl_status_t Run::Stop(Status status) {
  finished_ = true;
  status_ = std::move(status);
  pool_->CountMove();
  NotifyPeers();
  if (in_use_) pool_->context().links->EndUse();
  if (!status_.ok()) {
    const auto code = static_cast<uint64_t>(static_cast<int64_t>(status_.code()));
    Record(SL_EVENT_FAULT, op_.peer, 0, 0, code, lanes_.empty() ? 0 : lanes_[0].step);
    pool_->Fail(status_);
  }
  plan_->Drop();
  plan_ = nullptr;
  return status_.code();
}

sl_status_t Run::FailAt(const LaneState& lane, sl_status_t code, const std::string& text) {
  return Stop(Status(code, fmt::format("rank {} {}: {}", pool_->context().rank, Position(lane), text)));
}

sl_status_t Run::Poll(sl_wait_t* wait) {
  if (finished_) return status_.code();
  if (pool_->failed()) [[unlikely]]
    return Stop(pool_->failure());
  if (!begun_ && pool_->begun_.load(std::memory_order_acquire) != number_) [[unlikely]]
    return WaitToBegin(wait);
  const Driving driving(pool_->context().links);
  if (!driving.has_begun()) [[unlikely]]
    return WaitToBegin(wait);
  try {
    return PollDriving(wait);
  } catch (const std::bad_alloc&) {
    return Stop({SL_ERR_MEMORY, "out of memory"});
  }
}

sl_status_t Run::PollDriving(sl_wait_t* wait) {
  const sl_status_t begun = begun_ ? SL_OK : TakeTurns();
  if (begun != SL_OK) return begun;
  if (!in_use_) pool_->context().links->BeginUse();
  in_use_ = true;
  return PollLanes(wait);
}

bool Run::TryBegin() {
  if (begun_) return true;
  if (finished_ || pool_->failed() || pool_->begun_.load(std::memory_order_acquire) != number_) return false;
  const Driving driving(pool_->context().links);
  if (driving.has_begun()) TakeTurns();  // a failure is told by Poll
  return begun_;
}

sl_status_t Run::WaitToBegin(sl_wait_t* wait) {
  moved_ = false;
  wait->peer = -1;
  wait->what = "turn";
  wait->step = 0;
  wait->doorbell = nullptr;
  wait->fds = nullptr;
  wait->fd_count = 0;
  return SL_ERR_AGAIN;
}

sl_status_t Run::PollLanes(sl_wait_t* wait) {
  Budget budget{kPollBytes, kPollSteps};
  bool repaired = false;
  while (true) {
    const uint32_t steps_before = budget.steps;
    for (uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].done) continue;
      const sl_status_t status = AdvanceLane(i, &budget);
      if (status != SL_OK && status != SL_ERR_AGAIN) return status;
    }
    if (lanes_left_ == 0) return Stop(Status());
    if (budget.bytes == 0 || budget.steps == 0) break;
    if (budget.steps != steps_before) continue;
    if (repaired) break;
    repaired = true;
    NotifyPeers();
    if (WaitsFor(true) && !IsArmed(*wait) && ++local_polls_ % kPollsPerLook != 0) break;
    if (const sl_status_t status = pool_->context().links->Progress(); status != SL_OK && status != SL_ERR_AGAIN) {
      return FailBlocked(status);
    }
  }
  moved_ = budget.steps != kPollSteps;
  if (moved_) pool_->CountMove();
  NotifyPeers();
  FillWait(budget, wait);
  return SL_ERR_AGAIN;
}

// A transport failed while this run waited; names the rank it waited for.
sl_status_t Run::FailBlocked(sl_status_t code) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [](const LaneState& state) { return !state.done; });
  return FailLink(*lane, lane->blocked_link, code);
}

sl_status_t Run::FailLink(const LaneState& lane, uint32_t link, sl_status_t code) {
  std::string text = fmt::format("link to rank {}: {}", links_[link].link->peer(), StatusName(code));
  if (const std::string why = links_[link].link->why(); !why.empty()) text += ": " + why;
  return FailAt(lane, code, text);
}

sl_status_t Run::FailChunk(const LaneState& lane) {
  return FailAt(lane, SL_ERR_INTERNAL,
                "the plan uses a chunk that it does not hold, or keeps one; the algorithm is wrong");
}

std::string Run::Name() const {
  std::string name = OpKindName(op_.kind);
  if (op_.seq != 0) name += fmt::format(" #{}", op_.seq);
  if (op_.kind == SL_OP_SEND) name += fmt::format(" to rank {}", op_.peer);
  if (op_.kind == SL_OP_RECV) name += fmt::format(" from rank {}", op_.peer);
  return name;
}

std::string Run::Position(const LaneState& lane) const {
  return fmt::format("{} lane {} step {} round {}", Name(), &lane - lanes_.data(), lane.step, lane.round);
}

std::string Run::Describe() const {
  if (finished_) return fmt::format("{}: {}", Name(), status_.ok() ? "complete" : status_.message());
  if (!begun_) return fmt::format("{} has not begun", Name());
  std::string text;
  for (const LaneState& lane : lanes_) {
    if (lane.done) continue;
    if (!text.empty()) text += "; ";
    text += Position(lane);
    const uint32_t peer = lane.blocked == Blocked::kNo ? 0 : links_[lane.blocked_link].link->peer();
    if (lane.blocked == Blocked::kChunk) text += fmt::format(" waits for a chunk from rank {}", peer);
    if (lane.blocked == Blocked::kCredit) text += fmt::format(" waits for room at rank {}", peer);
    if (lane.blocked == Blocked::kTurn) text += fmt::format(" waits for its turn on the link to rank {}", peer);
    if (lane.blocked == Blocked::kNo) text += " is working";
  }
  return text;
}

uint64_t Run::MovesAhead() const {
  const bool waits_for_peer =
      begun_ && std::any_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) {
        return !lane.done && (lane.blocked == Blocked::kChunk || lane.blocked == Blocked::kCredit);
      });
  return finished_ || waits_for_peer ? 0 : 1 + pool_->moves_.load(std::memory_order_relaxed);
}

// Says on whom the run waits; without a doorbell when it only ran out of budget.
void Run::FillWait(const Budget& budget, sl_wait_t* wait) const {
  wait->doorbell = nullptr;
  wait->fds = nullptr;
  wait->fd_count = 0;
  wait->peer = -1;
  wait->what = "work";
  const auto waiting = std::find_if(lanes_.begin(), lanes_.end(),
                                    [](const LaneState& lane) { return !lane.done && lane.blocked != Blocked::kNo; });
  if (waiting == lanes_.end()) return;
  const Link* link = links_[waiting->blocked_link].link;
  link->DescribeWait(waiting->blocked == Blocked::kCredit, wait);
  wait->peer = static_cast<int32_t>(link->peer());
  wait->step = waiting->step;
  constexpr const char* kWhat[] = {"work", "turn", "chunk", "credit"};
  wait->what = kWhat[static_cast<size_t>(waiting->blocked)];
  for (const LaneState& lane : lanes_) {
    const bool other = !lane.done && lane.blocked != Blocked::kNo && links_[lane.blocked_link].link != link;
    if (other) wait->peer = -1;
  }
  if (budget.bytes == 0 || budget.steps == 0) {
    wait->doorbell = nullptr;
    return;
  }
  wait->doorbell = pool_->context().links->doorbell();
  if (!WaitsFor(false)) return;
  const std::span<const int32_t> descriptors = pool_->context().links->descriptors();
  wait->fds = descriptors.data();
  wait->fd_count = static_cast<uint32_t>(descriptors.size());
}

bool Run::WaitsFor(bool mapped) const {
  return std::all_of(lanes_.begin(), lanes_.end(), [this, mapped](const LaneState& lane) {
    if (lane.done) return true;
    const bool for_peer = lane.blocked == Blocked::kChunk || lane.blocked == Blocked::kCredit;
    return for_peer && links_[lane.blocked_link].link->mapped() == mapped;
  });
}

sl_status_t Run::AdvanceLane(uint32_t index, Budget* budget) {
  LaneState& lane = lanes_[index];
  const std::span<const PlanStep> steps = plan_->lane(index);
  const sl_plan_desc_t& desc = plan_->desc();
  const uint64_t stop_bytes = budget->bytes > kLaneBytes ? budget->bytes - kLaneBytes : 0;
  lane.blocked = Blocked::kNo;
  while (true) {
    if (lane.step == steps.size() && (steps.empty() || lane.round + 1 >= desc.rounds)) {
      return LeaveLinks(index, &lane, budget);
    }
    if (budget->steps == 0 || budget->bytes <= stop_bytes) return SL_ERR_AGAIN;
    --budget->steps;
    if (lane.step == steps.size()) {
      ++lane.round;
      lane.step = 0;
      continue;
    }
    const PlanStep& step = steps[lane.step];
    if (step.data.kind == SL_STEP_REPEAT) {
      ++lane.step;
      if (step.data.count == 0) {
        lane.step += step.data.length;
        continue;
      }
      lane.repeat_first = lane.step;
      lane.repeat_end = lane.step + step.data.length;
      lane.repetitions = step.data.count;
      continue;
    }
    const sl_operand_t& shape = step.data.shape;
    const uint32_t block = BlockAt(shape.block, shape.block_step, lane.repetition, desc.block_modulus);
    const Part part = PartOf(plan_->geometry(shape.buffer), block, desc.chunk, lane.round);
    if (part.elements != 0) {
      const sl_status_t status = Execute(&lane, step, part.elements, budget);
      if (status != SL_OK) {
        ++budget->steps;  // not done
        return status;
      }
    }
    if (++lane.step == lane.repeat_end) {
      if (++lane.repetition < lane.repetitions) {
        lane.step = lane.repeat_first;
      } else {
        lane.repetition = 0;
        lane.repeat_end = 0;
      }
    }
  }
}

sl_status_t Run::Execute(LaneState* lane, const PlanStep& step, uint64_t elements, Budget* budget) {
  const uint64_t bytes = elements * plan_->element_bytes();
  sl_status_t status = SL_OK;
  switch (step.data.kind) {
    case SL_STEP_WAIT:
      status = Wait(lane, step, bytes);
      break;
    case SL_STEP_RESERVE:
      status = Reserve(lane, step.link);
      break;
    case SL_STEP_COPY:
      status = Copy(*lane, step, bytes);
      break;
    case SL_STEP_REDUCE:
      status = Reduce(*lane, step, elements);
      break;
    case SL_STEP_PUT:
      status = Put(lane, step, bytes);
      break;
    default:
      status = Release(lane, step);
      break;
  }
  if (status != SL_OK) return status;
  const bool moved = step.data.kind == SL_STEP_COPY || step.data.kind == SL_STEP_REDUCE ||
                     (step.data.kind == SL_STEP_PUT && step.data.a.buffer != SL_BUFFER_NONE);
  if (moved) budget->bytes -= std::min(bytes, budget->bytes);
  if (EventWanted(SL_EVENT_STEP)) [[unlikely]] {
    Record(SL_EVENT_STEP, step.data.peer, step.data.lane, bytes, lane->step, lane->round);
  }
  return SL_OK;
}

// Ends the turns of the links that belong to this lane, each when it has come.
sl_status_t Run::LeaveLinks(uint32_t index, LaneState* lane, Budget* budget) {
  const std::span<const PlanLink> links = plan_->links();
  for (; lane->left < links.size(); ++lane->left) {
    LinkState& state = links_[lane->left];
    const PlanLink& link = links[lane->left];
    lane->blocked_link = lane->left;
    lane->blocked = Blocked::kTurn;
    if (link.recv_lane == index && !state.recv_left) {
      if (state.inbox != nullptr) return FailChunk(*lane);
      if (!state.recv_turn && !state.link->IsRecvTurn(state.recv_ticket)) return SL_ERR_AGAIN;
      state.link->EndReceiving();
      state.link->EndRecvTurn();
      state.recv_left = true;
    }
    if (link.send_lane == index) {
      if (!state.send_turn && !state.link->IsSendTurn(state.send_ticket)) return SL_ERR_AGAIN;
      state.link->EndSendTurn();
    }
  }
  lane->blocked = Blocked::kNo;
  lane->done = true;
  --lanes_left_;
  if (budget->steps != 0) --budget->steps;
  return SL_OK;
}

}  // namespace sl::kernel
