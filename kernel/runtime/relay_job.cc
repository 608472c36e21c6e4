// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_job.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "kernel/events/log.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kCheckIntervalNs = 10'000'000;

bool IsCollective(const sl_op_t& op) { return op.kind != SL_OP_SEND && op.kind != SL_OP_RECV; }

uint64_t Load(const uint64_t* word) {
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}

}  // namespace

Status RelayJob::Prepare(std::span<Pending* const> ops, uint64_t first_turn, sl_stream_t* stream) {
  const Communicator& comm = relay_->handle_->comm;
  first_turn_ = first_turn;
  stream_ = stream;
  step_ = 0;
  stated_.clear();
  for (const Pending* pending : ops) stated_.push_back(pending->op);
  schedule_.parts.clear();
  schedule_.pieces.clear();
  for (uint32_t op = 0; op < stated_.size(); ++op) {
    if (IsCollective(stated_[op])) CutCollective(stated_, op, comm.size(), relay_->area_bytes_, &schedule_);
  }
  CutTransfers(stated_, comm.rank(), comm.size(), relay_->area_bytes_, &schedule_);
  left_.clear();
  for (const RelayPiece& piece : schedule_.pieces) left_.push_back(piece.end - piece.first);
  begun_ = ended_ = 0;
  waiting_part_ = UINT32_MAX;
  failure_ = {};
  moved_ = false;
  if (Status selected = SelectPlans(ops); !selected.ok()) {
    DropPlans();
    return selected;
  }
  ops_.assign(ops.begin(), ops.end());
  return {};
}

// Choices may leave the selector's cache while the job is under way; held, their plans stay.
Status RelayJob::SelectPlans(std::span<Pending* const> ops) {
  sl_comm_t* handle = relay_->handle_;
  active_.clear();
  for (const RelayPart& part : schedule_.parts) {
    sl_op_t op = stated_[part.op];
    op.count = part.count;
    SL_ASSIGN(const Choice* choice, handle->comm.selector()->Select(op));
    choice->plan->Hold();
    active_.push_back({choice->plan.get(), nullptr});
    handle->last_choice = choice;
    if (part.first == 0) TellBegin(*ops[part.op], *choice);
  }
  return {};
}

void RelayJob::DropPlans() {
  for (const Active& active : active_) active.plan->Drop();
  active_.clear();
}

// A full queue empties as the device and the peers get on; calls that find a GPU's queue full wait, too.
Status RelayJob::Submit() {
  Communicator& comm = relay_->handle_->comm;
  users_.store(2, std::memory_order_relaxed);
  ProgressJob job;
  job.work = this;
  job.start_word = &relay_->words(first_turn_)->start;
  job.start_value = first_turn_;
  job.abort_word = comm.abort_word();
  job.check = Check;
  job.check_ctx = this;
  job.check_interval_ns = kCheckIntervalNs;
  job.done = Done;
  job.done_ctx = this;
  Status submitted = comm.process()->progress()->Submit(job);
  while (submitted.code() == SL_ERR_LIMIT && comm.healthy() && !comm.cancelled()) {
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
    submitted = comm.process()->progress()->Submit(job);
  }
  if (!submitted.ok()) DropPlans();
  return submitted;
}

void RelayJob::Release() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) relay_->GiveJob(this);
}

std::span<const RelayPart> RelayJob::parts(uint32_t piece) const {
  const RelayPiece& of = schedule_.pieces[piece];
  return std::span(schedule_.parts).subspan(of.first, of.end - of.first);
}

bool RelayJob::IsIn(uint32_t piece) const { return Load(&relay_->words(turn(piece))->start) >= turn(piece); }

sl_status_t RelayJob::Poll(sl_wait_t* wait) {
  moved_ = false;
  waiting_part_ = UINT32_MAX;
  while (begun_ < pieces() && IsIn(begun_)) {
    moved_ = true;
    if (failure_ = BeginPiece(begun_++); !failure_.ok()) return failure_.code();
  }
  for (uint32_t piece = ended_; piece < begun_; ++piece) {
    if (left_[piece] == 0) continue;
    if (const sl_status_t status = PollPiece(piece, wait); status != SL_OK) return status;
  }
  while (ended_ < begun_ && left_[ended_] == 0) ++ended_;
  if (ended_ == pieces()) return SL_OK;
  if (waiting_part_ == UINT32_MAX) {
    *wait = {};
    wait->struct_size = sizeof(*wait);
    wait->peer = -1;
    wait->what = "piece from the device";
  }
  return SL_ERR_AGAIN;
}

sl_op_t RelayJob::OpOf(const RelayPart& part, uint64_t turn) const {
  sl_op_t op = stated_[part.op];
  op.count = part.count;
  op.send = relay_->send_area(turn) + part.send_at;
  op.recv = relay_->recv_area(turn) + part.recv_at;
  if (op.scalar != nullptr) {
    op.scalar_bits = 0;
    std::memcpy(&op.scalar_bits, &relay_->words(turn)->scalar, DatatypeBytes(op.datatype));
    op.scalar = nullptr;
  }
  return op;
}

Status RelayJob::BeginPiece(uint32_t piece) {
  for (uint32_t part = schedule_.pieces[piece].first; part < schedule_.pieces[piece].end; ++part) {
    waiting_part_ = part;
    SL_TRY(relay_->handle_->comm.runs()->Start(*active_[part].plan, OpOf(schedule_.parts[part], turn(piece)),
                                               &active_[part].run));
  }
  waiting_part_ = UINT32_MAX;
  return {};
}

// SL_OK also when runs of it have to wait; `wait` is what the first of all waits for.
sl_status_t RelayJob::PollPiece(uint32_t piece, sl_wait_t* wait) {
  for (uint32_t part = schedule_.pieces[piece].first; part < schedule_.pieces[piece].end; ++part) {
    Run*& run = active_[part].run;
    if (run == nullptr) continue;
    sl_wait_t its_wait{};
    its_wait.struct_size = sizeof(its_wait);
    const sl_status_t status = run->Poll(&its_wait);
    if (status == SL_ERR_AGAIN) {
      moved_ |= run->moved();
      if (waiting_part_ == UINT32_MAX) *wait = its_wait;
      if (waiting_part_ == UINT32_MAX) waiting_part_ = part;
      continue;
    }
    moved_ = true;
    if (status != SL_OK) {
      waiting_part_ = part;
      return status;
    }
    relay_->handle_->comm.runs()->Finish(run);
    run = nullptr;
    --left_[piece];
  }
  if (left_[piece] == 0) relay_->RaiseEnd(turn(piece));
  return SL_OK;
}

// As of single operations, of the one that waits. While all wait for the device nothing is amiss.
sl_status_t RelayJob::Check(void* context, const sl_wait_t* wait, uint64_t waited_ns) {
  auto* job = static_cast<RelayJob*>(context);
  if (job->waiting_part_ == UINT32_MAX) return SL_OK;
  Pending* pending = job->ops_[job->schedule_.parts[job->waiting_part_].op];
  pending->run = job->active_[job->waiting_part_].run;
  const sl_status_t status = CheckWait(pending, wait, waited_ns);
  pending->run = nullptr;
  return status;
}

void RelayJob::Done(void* context, sl_status_t status) { static_cast<RelayJob*>(context)->End(status); }

// The communicator hears of a failure before the device goes on. Operations are given back last of all: who sees none
// under way may free the communicator, this job included.
void RelayJob::End(sl_status_t status) {
  const LogRankScope rank_scope(relay_->handle_->comm.rank());
  if (status != SL_OK) Blame(status);
  for (Pending* pending : ops_) {
    [[maybe_unused]] const Status outcome = Leave(pending, status);  // kept as the communicator's failure
  }
  DropPlans();
  for (uint32_t piece = pieces() - std::min(pieces(), Relay::kSlots); piece < pieces(); ++piece) {
    relay_->RaiseEnd(turn(piece));
  }
  std::vector<Pending*>& ending = relay_->ending_;
  ending.swap(ops_);
  PendingPool& pool = relay_->handle_->pending;
  Release();
  Pending* const last = ending.back();
  ending.pop_back();
  for (Pending* pending : ending) pool.Give(pending);
  ending.clear();
  pool.Give(last);
}

// Ends all runs, and brings the operation that failed, or waited when the job was ended, to the front with its reason.
void RelayJob::Blame(sl_status_t status) {
  const uint32_t blamed_part = waiting_part_ != UINT32_MAX ? waiting_part_ : 0;
  const uint32_t blamed = schedule_.parts[blamed_part].op;
  Pending* pending = ops_[blamed];
  Run* run = active_[blamed_part].run;
  if (failure_.code() == status) pending->outcome = failure_;
  if (pending->outcome.code() != status && (run == nullptr || run->status().ok())) {
    const std::string text = run != nullptr
                                 ? run->Describe()
                                 : std::string(OpKindName(stated_[blamed].kind)) + " waits for data from the device";
    const Status found(status, text);
    pending->outcome = status == SL_ERR_PEER_LOST ? NameTheLost(*pending, found) : found;
  }
  for (Active& active : active_) {
    if (active.run != nullptr && active.run != run) relay_->handle_->comm.runs()->Finish(active.run, status);
    active.run = nullptr;
  }
  pending->run = run;  // Leave() finishes it
  std::swap(ops_[0], ops_[blamed]);
}

}  // namespace sl::kernel
