// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "kernel/events/last_error.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay_graph.h"
#include "kernel/runtime/relay_job.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kWordsBytes = 4096;
constexpr uint64_t kAreaAlignment = 4096;
// The largest element: every rank's block must have room for one.
constexpr uint64_t kElementBytes = 8;
// For estimates, which all ranks must make alike: two copies begun, a word each way, a nap of the progress thread; and
// what a GPU's x16 slot of PCIe 4.0 carries.
constexpr uint64_t kRelayNs = 30'000;
constexpr uint64_t kBytesPerNs = 25;

static_assert(Relay::kSlots * sizeof(RelayWords) <= kWordsBytes);

// Copies into slots run ahead of copies out of them by as many pieces as there are slots, also where the device runs
// all that it was given in the order in which it was given.
constexpr uint32_t kAhead = Relay::kSlots - 1;

}  // namespace

Relay::Relay(sl_comm_t* handle) : handle_(handle), device_(handle->comm.device()) {}

Result<std::unique_ptr<Relay>> Relay::Open(sl_comm_t* handle) {
  std::unique_ptr<Relay> relay(new Relay(handle));
  if ((relay->device_.info.capabilities & SL_DEVICE_CAN_WRITE_VALUE) == 0) {
    return Status(SL_ERR_UNSUPPORTED, std::string(relay->device_.info.name) +
                                          " does not reach the memory of all ranks, and cannot go through the host for "
                                          "want of stream memory operations; use ranks that share an NVLink or PCIe "
                                          "domain, or a newer driver");
  }
  SL_TRY(relay->TakeRoom(handle->comm.process()->profile().settings().comm.relay_bytes));
  SL_TRY(relay->MakeStreams());
  return relay;
}

Status Relay::TakeRoom(uint64_t bytes) {
  room_.area_bytes = bytes / (uint64_t{2} * kSlots) / kAreaAlignment * kAreaAlignment;
  if (room_.area_bytes < handle_->comm.size() * kElementBytes) {
    return {SL_ERR_CONFIG, "comm.relay_bytes = " + std::to_string(bytes) + " is too little for " +
                               std::to_string(handle_->comm.size()) + " ranks, which need " +
                               std::to_string(2 * kSlots * (handle_->comm.size() * kElementBytes + kAreaAlignment))};
  }
  SL_ASSIGN(uint8_t * memory, TakeMemory(kWordsBytes + uint64_t{2} * kSlots * room_.area_bytes));
  room_.words = new (memory) RelayWords[kSlots]{};
  room_.areas = memory + kWordsBytes;
  return {};
}

// Of the host, for both; kept to the end.
Result<uint8_t*> Relay::TakeMemory(uint64_t bytes) {
  void* memory = nullptr;
  SL_TRY(StatusOf(device_.ops->allocate(device_.handle, SL_MEMORY_HOST, bytes, &memory)));
  memory_.push_back(memory);
  taken_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return static_cast<uint8_t*>(memory);
}

Status Relay::MakeStreams() {
  for (sl_stream_t** stream : {&in_stream_, &out_stream_}) {
    SL_TRY(StatusOf(device_.ops->stream_create(device_.handle, stream)));
  }
  for (sl_event_t** event : {&begin_event_, &end_event_}) {
    SL_TRY(StatusOf(device_.ops->event_create(device_.handle, event)));
  }
  for (sl_event_t*& event : taken_events_) SL_TRY(StatusOf(device_.ops->event_create(device_.handle, &event)));
  return {};
}

Relay::~Relay() {
  for (sl_stream_t* stream : {in_stream_, out_stream_}) {
    if (stream != nullptr) device_.ops->stream_destroy(device_.handle, stream);
  }
  for (sl_event_t* event : {begin_event_, end_event_}) {
    if (event != nullptr) device_.ops->event_destroy(device_.handle, event);
  }
  for (sl_event_t* event : taken_events_) {
    if (event != nullptr) device_.ops->event_destroy(device_.handle, event);
  }
  for (void* memory : memory_) device_.ops->release(device_.handle, memory);
}

RelayJob* Relay::TakeJob() {
  const std::lock_guard lock(mutex_);
  if (free_jobs_.empty()) return jobs_.emplace_back(std::make_unique<RelayJob>(this)).get();
  RelayJob* job = free_jobs_.back();
  free_jobs_.pop_back();
  return job;
}

void Relay::GiveJob(RelayJob* job) {
  const std::lock_guard lock(mutex_);
  free_jobs_.push_back(job);
}

Result<RelayJob*> Relay::Begin(std::span<Pending* const> ops, sl_stream_t* stream) {
  RelayJob* job = TakeJob();
  Status begun = OrNoMemory([&] { return job->Prepare(ops, last_turn_ + 1, stream); });
  if (begun.ok()) begun = OrNoMemory([&] { return job->Submit(); });
  if (!begun.ok()) {
    job->DropPlans();
    GiveJob(job);
    return begun;
  }
  last_turn_ += job->pieces().count();
  return job;
}

Status Relay::Enqueue(RelayJob* job) {
  Status enqueued = OrNoMemory([&] { return job->pieces().count() == 1 ? EnqueueWhole(job) : EnqueueStep(job); });
  if (enqueued.code() == SL_ERR_AGAIN) return enqueued;
  if (!enqueued.ok()) handle_->comm.FailLaunches(enqueued);
  job->Release();
  return enqueued;
}

// In two turns: several ranks of one thread may share a hardware queue, in which no wait may come before what ends it.
Status Relay::EnqueueWhole(RelayJob* job) {
  if ((*job->step())++ != 0) return TakeOut(job->pieces(), 0, job->stream());
  SL_TRY(BringIn(job->pieces(), 0, job->stream()));
  return Status(SL_ERR_AGAIN);
}

Status Relay::EnqueueStep(RelayJob* job) {
  const RelayPieces& pieces = job->pieces();
  const uint32_t step = (*job->step())++;
  if (step == 0) {
    SL_TRY(StatusOf(device_.ops->event_record(device_.handle, begin_event_, job->stream())));
    SL_TRY(StatusOf(device_.ops->stream_wait_event(device_.handle, in_stream_, begin_event_)));
    SL_TRY(StatusOf(device_.ops->stream_wait_event(device_.handle, out_stream_, begin_event_)));
  }
  if (step < pieces.count()) {
    sl_event_t* taken = taken_events_[pieces.turn(step) % kSlots];
    if (step >= kSlots) SL_TRY(StatusOf(device_.ops->stream_wait_event(device_.handle, in_stream_, taken)));
    SL_TRY(BringIn(pieces, step, in_stream_));
  }
  if (step >= kAhead) {
    const uint32_t piece = step - kAhead;
    SL_TRY(TakeOut(pieces, piece, out_stream_));
    sl_event_t* taken = taken_events_[pieces.turn(piece) % kSlots];
    SL_TRY(StatusOf(device_.ops->event_record(device_.handle, taken, out_stream_)));
  }
  if (step + 1 < pieces.count() + kAhead) return Status(SL_ERR_AGAIN);
  SL_TRY(StatusOf(device_.ops->event_record(device_.handle, end_event_, out_stream_)));
  return StatusOf(device_.ops->stream_wait_event(device_.handle, job->stream(), end_event_));
}

// On the captured stream alone: a graph has no queue that could be full, and needs none beside the caller's.
Status Relay::EnqueueCaptured(const RelayPieces& pieces, sl_stream_t* stream) {
  for (uint32_t step = 0; step < pieces.count() + kAhead; ++step) {
    if (step < pieces.count()) SL_TRY(BringIn(pieces, step, stream));
    if (step >= kAhead) SL_TRY(TakeOut(pieces, step - kAhead, stream));
  }
  return {};
}

Status Relay::BringIn(const RelayPieces& pieces, uint32_t piece, sl_stream_t* stream) {
  const uint64_t turn = pieces.turn(piece);
  RelayWords* words = pieces.room().WordsOf(turn);
  for (const RelayPart& part : pieces.parts(piece)) {
    const sl_op_t& op = pieces.op(part);
    const uint64_t blocks = SendElements(op, handle_->comm.rank(), handle_->comm.size()) / op.count;
    SL_TRY(CopyBlocks(op, part, blocks, pieces.room().SendArea(turn) + part.send_at, nullptr, stream));
    if (op.scalar == nullptr) continue;
    SL_TRY(StatusOf(device_.ops->copy(device_.handle, stream, &words->scalar, op.scalar, DatatypeBytes(op.datatype))));
  }
  return StatusOf(device_.ops->stream_write_value(device_.handle, stream, &words->start, pieces.value(piece)));
}

Status Relay::TakeOut(const RelayPieces& pieces, uint32_t piece, sl_stream_t* stream) {
  const uint64_t turn = pieces.turn(piece);
  RelayWords* words = pieces.room().WordsOf(turn);
  SL_TRY(StatusOf(device_.ops->stream_wait_value(device_.handle, stream, &words->end, pieces.value(piece))));
  for (const RelayPart& part : pieces.parts(piece)) {
    const sl_op_t& op = pieces.op(part);
    const uint64_t blocks = RecvElements(op, handle_->comm.rank(), handle_->comm.size()) / op.count;
    SL_TRY(CopyBlocks(op, part, blocks, nullptr, pieces.room().RecvArea(turn) + part.recv_at, stream));
  }
  return {};
}

// Blocks lie one behind the other in the slot; in the caller's buffer, too, when the part is all of the operation.
Status Relay::CopyBlocks(const sl_op_t& op, const RelayPart& part, uint64_t blocks, uint8_t* into,
                         const uint8_t* out_of, sl_stream_t* stream) {
  const uint64_t element = DatatypeBytes(op.datatype);
  const uint64_t copies = part.count == op.count ? std::min<uint64_t>(blocks, 1) : blocks;
  const uint64_t bytes = part.count * element * (part.count == op.count ? blocks : 1);
  for (uint64_t copy = 0; copy < copies; ++copy) {
    const uint64_t there = (copy * op.count + part.first) * element;
    const uint64_t here = copy * bytes;
    void* dst = into != nullptr ? into + here : static_cast<uint8_t*>(op.recv) + there;
    const void* src = into != nullptr ? static_cast<const uint8_t*>(op.send) + there : out_of + here;
    SL_TRY(StatusOf(device_.ops->copy(device_.handle, stream, dst, src, bytes)));
  }
  return {};
}

sl_op_t Relay::PieceOf(const sl_op_t& op) const {
  sl_op_t piece = op;
  piece.count = std::min(op.count, RelayPieceCount(op, handle_->comm.size(), room_.area_bytes));
  return piece;
}

void Relay::AddCost(const sl_op_t& op, sl_estimate_t* estimate) const {
  const sl_op_t piece = PieceOf(op);
  const uint64_t pieces = piece.count == 0 ? 0 : (op.count + piece.count - 1) / piece.count;
  estimate->time_ns = estimate->time_ns * pieces + kRelayNs + 2 * OpBytes(piece, handle_->comm.size()) / kBytesPerNs;
}

}  // namespace sl::kernel
