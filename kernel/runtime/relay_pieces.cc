// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_pieces.h"

#include <algorithm>
#include <atomic>

#include "kernel/plan/scalar.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/judge.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/wait_check.h"
#include "sdk/datatype.h"

namespace sl::kernel {
uint64_t LoadRelayWord(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

void RelayRoom::RaiseEnd(uint64_t turn, uint64_t value) const {
  const std::atomic_ref<uint64_t> end(WordsOf(turn)->end);
  if (end.load(std::memory_order_relaxed) < value) end.store(value, std::memory_order_release);
}

Status RelayPieces::Prepare(std::span<Pending* const> ops, uint64_t area_bytes) {
  const Communicator& comm = handle_->comm;
  ops_.assign(ops.begin(), ops.end());
  stated_.clear();
  for (const Pending* pending : ops) stated_.push_back(pending->op);
  schedule_.parts.clear();
  schedule_.pieces.clear();
  for (uint32_t op = 0; op < stated_.size(); ++op) {
    if (IsCollective(stated_[op].kind)) CutCollective(stated_, op, comm.size(), area_bytes, &schedule_);
  }
  CutTransfers(stated_, comm.rank(), comm.size(), area_bytes, &schedule_);
  Status selected = OrNoMemory([this] { return SelectPlans(); });
  if (!selected.ok()) DropPlans();
  return selected;
}

// Choices may leave the selector's cache while the pieces are under way; held, their plans stay.
Status RelayPieces::SelectPlans() {
  active_.clear();
  active_.reserve(schedule_.parts.size());
  for (const RelayPart& part : schedule_.parts) {
    sl_op_t op = stated_[part.op];
    op.count = part.count;
    SL_ASSIGN(const Choice* choice, handle_->comm.selector()->Select(op));
    choice->plan->Hold();
    active_.push_back({choice->plan.get(), choice->index, nullptr});
    handle_->last_choice = choice;
    if (op.seq != 0 && part.first == 0) handle_->comm.op_log()->WriteChoice(op.seq, choice->tag);
  }
  return {};
}

void RelayPieces::DropPlans() {
  for (const Active& active : active_) active.plan->Drop();
  active_.clear();
}

void RelayPieces::PlaceIn(const RelayRoom& room, uint64_t first_turn, bool repeats) {
  room_ = room;
  first_turn_ = first_turn;
  repeats_ = repeats;
}

void RelayPieces::TellBegin() const {
  for (size_t i = 0; i < schedule_.parts.size(); ++i) {
    const RelayPart& part = schedule_.parts[i];
    if (part.first == 0) kernel::TellBegin(*ops_[part.op], active_[i].choice);
  }
}

void RelayPieces::Restart() {
  left_.clear();
  for (const RelayPiece& piece : schedule_.pieces) left_.push_back(piece.end - piece.first);
  begun_ = ended_ = 0;
  waiting_part_ = UINT32_MAX;
  failure_ = {};
  moved_ = false;
  // What a wait of an earlier replay has come to says nothing of those to come.
  for (Pending* pending : ops_) {
    pending->wait.Begin();
    pending->outcome = {};
  }
}

std::span<const RelayPart> RelayPieces::parts(uint32_t piece) const {
  const RelayPiece& of = schedule_.pieces[piece];
  return std::span(schedule_.parts).subspan(of.first, of.end - of.first);
}

bool RelayPieces::IsIn(uint32_t piece) const {
  return LoadRelayWord(room_.WordsOf(turn(piece))->start) >= value(piece);
}

sl_status_t RelayPieces::Poll(sl_wait_t* wait) {
  moved_ = false;
  waiting_part_ = UINT32_MAX;
  while (begun_ < count() && IsIn(begun_)) {
    moved_ = true;
    failure_ = OrNoMemory([this] { return BeginPiece(begun_++); });  // the thread has nobody who would catch it
    if (!failure_.ok()) return failure_.code();
  }
  for (uint32_t piece = ended_; piece < begun_; ++piece) {
    if (left_[piece] == 0) continue;
    if (const sl_status_t status = PollPiece(piece, wait); status != SL_OK) return status;
  }
  while (ended_ < begun_ && left_[ended_] == 0) ++ended_;
  if (ended_ == count()) return SL_OK;
  if (waiting_part_ == UINT32_MAX) {
    *wait = {};
    wait->struct_size = sizeof(*wait);
    wait->peer = -1;
    wait->what = "piece from the device";
  }
  return SL_ERR_AGAIN;
}

sl_op_t RelayPieces::OpOf(const RelayPart& part, uint64_t turn) const {
  sl_op_t op = stated_[part.op];
  op.count = part.count;
  op.send = room_.SendArea(turn) + part.send_at;
  op.recv = room_.RecvArea(turn) + part.recv_at;
  if (op.scalar != nullptr) {
    op.scalar = &room_.WordsOf(turn)->scalar;
    TakeScalar(&op);
  }
  return op;
}

Status RelayPieces::BeginPiece(uint32_t piece) {
  for (uint32_t part = schedule_.pieces[piece].first; part < schedule_.pieces[piece].end; ++part) {
    waiting_part_ = part;
    SL_TRY(
        handle_->comm.runs()->Start(*active_[part].plan, OpOf(schedule_.parts[part], turn(piece)), &active_[part].run));
  }
  waiting_part_ = UINT32_MAX;
  return {};
}

// SL_OK also when runs of it have to wait; `wait` is what the first of all waits for.
sl_status_t RelayPieces::PollPiece(uint32_t piece, sl_wait_t* wait) {
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
    handle_->comm.runs()->Finish(run);
    run = nullptr;
    --left_[piece];
  }
  if (left_[piece] == 0) room_.RaiseEnd(turn(piece), value(piece));
  return SL_OK;
}

// As of single operations, of the one that waits. While all wait for the device nothing is amiss.
sl_status_t RelayPieces::Check(const sl_wait_t* wait, uint64_t waited_ns) {
  if (waiting_part_ == UINT32_MAX) return SL_OK;
  Pending* pending = ops_[schedule_.parts[waiting_part_].op];
  pending->run = active_[waiting_part_].run;
  const sl_status_t status = CheckWait(pending, wait, waited_ns);
  pending->run = nullptr;
  return status;
}

void RelayPieces::Leave(sl_status_t status) {
  if (status != SL_OK) Blame(status);
  for (Pending* pending : ops_) {
    [[maybe_unused]] const Status outcome = kernel::Leave(pending, status);  // kept as the communicator's failure
    pending->run = nullptr;
  }
}

// Ends all runs, and brings the operation that failed, or waited when the job was ended, to the front with its reason.
void RelayPieces::Blame(sl_status_t status) {
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
    pending->outcome = status == SL_ERR_PEER_LOST ? NameTheLost(handle_->comm, found) : found;
  }
  for (Active& active : active_) {
    if (active.run != nullptr && active.run != run) handle_->comm.runs()->Finish(active.run, status);
    active.run = nullptr;
  }
  pending->run = run;  // Leave() finishes it
  std::swap(ops_[0], ops_[blamed]);
}

// Of the last turns, which stand for all before them.
void RelayPieces::RaiseEnds() const {
  for (uint32_t piece = count() - std::min(count(), room_.sets); piece < count(); ++piece) {
    room_.RaiseEnd(turn(piece), value(piece));
  }
}

void RelayPieces::LowerWords() const {
  for (uint32_t piece = 0; piece < count(); ++piece) {
    RelayWords* words = room_.WordsOf(turn(piece));
    std::atomic_ref<uint64_t>(words->start).store(0, std::memory_order_relaxed);
    std::atomic_ref<uint64_t>(words->end).store(0, std::memory_order_relaxed);
  }
}

}  // namespace sl::kernel
