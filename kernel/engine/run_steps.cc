// SPDX-License-Identifier: Apache-2.0
//
// What each kind of step does. Bounds were checked when the plan was built; what is checked here is what came from
// outside: chunks, and links.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernel/engine/run.h"
#include "kernel/events/ring.h"
#include "kernel/plan/part.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {
namespace {

// Chunks from this size on are announced at once; smaller ones together, when the run stops to wait.
constexpr uint64_t kNotifyBytes = 8192;

void CopyUnlessSame(void* dst, const void* src, uint64_t bytes) {
  if (dst != nullptr && dst != src) std::memcpy(dst, src, bytes);
}

}  // namespace

sl_status_t Run::Wait(LaneState* lane, const PlanStep& step, uint64_t bytes) {
  LinkState& state = links_[step.link];
  lane->blocked_link = step.link;
  if (state.inbox != nullptr) return SL_OK;
  if (!state.recv_turn) {
    lane->blocked = Blocked::kTurn;
    if (!state.link->IsRecvTurn(state.recv_ticket)) return SL_ERR_AGAIN;
    state.recv_turn = true;
  }
  lane->blocked = Blocked::kChunk;
  Chunk chunk{};
  const sl_status_t status = state.link->Peek(&chunk);
  if (status == SL_ERR_AGAIN) return status;
  if (status != SL_OK) return FailLink(*lane, step.link, status);
  if (chunk.header->signature != op_.signature) {
    return FailAt(*lane, SL_ERR_MISMATCH,
                  DescribeMismatch(pool_->context().rank, op_.signature, state.link->peer(), chunk.header->signature));
  }
  if (chunk.header->algorithm != algorithm_) {
    const auto choice = [this](uint32_t rank, uint32_t tag) {
      return RankChoice{fmt::format("rank {}", rank), pool_->context().algorithm_name(tag)};
    };
    return FailAt(*lane, SL_ERR_MISMATCH,
                  DescribeChoices(choice(pool_->context().rank, algorithm_),
                                  choice(state.link->peer(), chunk.header->algorithm)));
  }
  if (chunk.header->bytes != bytes) {
    return FailAt(
        *lane, SL_ERR_MISMATCH,
        fmt::format("rank {} sent a chunk of {} bytes where {} are due; do all ranks run the same version and "
                    "profile?",
                    state.link->peer(), chunk.header->bytes, bytes));
  }
  lane->blocked = Blocked::kNo;
  state.inbox = chunk.payload;
  state.inbox_bytes = bytes;
  return SL_OK;
}

sl_status_t Run::Reserve(LaneState* lane, uint32_t link) {
  LinkState& state = links_[link];
  lane->blocked_link = link;
  if (state.outbox != nullptr) return SL_OK;
  if (!state.send_turn) {
    lane->blocked = Blocked::kTurn;
    if (!state.link->IsSendTurn(state.send_ticket)) return SL_ERR_AGAIN;
    state.send_turn = true;
  }
  lane->blocked = Blocked::kCredit;
  void* payload = nullptr;
  const sl_status_t status = state.link->Reserve(&payload);
  if (status == SL_ERR_AGAIN) return status;
  if (status != SL_OK) return FailLink(*lane, link, status);
  lane->blocked = Blocked::kNo;
  state.outbox = static_cast<uint8_t*>(payload);
  return SL_OK;
}

sl_status_t Run::Put(LaneState* lane, const PlanStep& step, uint64_t bytes) {
  LinkState& state = links_[step.link];
  if (step.data.a.buffer != SL_BUFFER_NONE) {
    if (const sl_status_t status = Reserve(lane, step.link); status != SL_OK) return status;
    const uint8_t* source = Address(*lane, step.data.a, step.a_link, bytes);
    if (source == nullptr) return FailChunk(*lane);
    std::memcpy(state.outbox, source, bytes);
  }
  if (state.outbox == nullptr) return FailChunk(*lane);
  const sl_status_t status = state.link->Post(static_cast<uint32_t>(bytes), {op_.seq, op_.signature, algorithm_});
  lane->blocked_link = step.link;
  lane->blocked = Blocked::kCredit;
  if (status == SL_ERR_AGAIN) return status;
  if (status != SL_OK) return FailLink(*lane, step.link, status);
  lane->blocked = Blocked::kNo;
  state.outbox = nullptr;
  ++state.posted;
  if (EventWanted(SL_EVENT_CHUNK_POST)) [[unlikely]] {
    Record(SL_EVENT_CHUNK_POST, step.data.peer, step.data.lane, bytes, state.posted, lane->round);
  }
  Announce(&state, bytes);
  return SL_OK;
}

sl_status_t Run::Release(LaneState* lane, const PlanStep& step) {
  LinkState& state = links_[step.link];
  if (state.inbox == nullptr) return FailChunk(*lane);
  const sl_status_t status = state.link->Release();
  if (status != SL_OK) return FailLink(*lane, step.link, status);
  state.inbox = nullptr;
  ++state.taken;
  if (EventWanted(SL_EVENT_CHUNK_DONE)) [[unlikely]] {
    Record(SL_EVENT_CHUNK_DONE, step.data.peer, step.data.lane, state.inbox_bytes, state.taken, lane->round);
  }
  Announce(&state, state.inbox_bytes);
  return SL_OK;
}

void Run::Announce(LinkState* state, uint64_t bytes) {
  if (bytes >= kNotifyBytes) {
    state->link->Notify();
  } else {
    state->notify = true;
    notify_any_ = true;
  }
}

void Run::NotifyPeers() {
  if (!notify_any_) return;
  notify_any_ = false;
  for (LinkState& state : links_) {
    if (std::exchange(state.notify, false)) state.link->Notify();
  }
}

// Where the current part of an operand is; NULL when it is a chunk the lane does not hold, or a shorter one.
uint8_t* Run::Address(const LaneState& lane, const sl_operand_t& operand, uint32_t link, uint64_t bytes) {
  uint8_t* base = nullptr;
  switch (operand.buffer) {
    case SL_BUFFER_INBOX:
      // The engine never writes there; the builder allows an inbox as a source only.
      return links_[link].inbox_bytes >= bytes ? const_cast<uint8_t*>(links_[link].inbox) : nullptr;
    case SL_BUFFER_OUTBOX:
      return links_[link].outbox;
    case SL_BUFFER_SEND:
      base = static_cast<uint8_t*>(const_cast<void*>(op_.send));
      break;
    case SL_BUFFER_RECV:
      base = static_cast<uint8_t*>(op_.recv);
      break;
    default:
      base = scratch_.data();
      break;
  }
  const sl_plan_desc_t& desc = plan_->desc();
  const uint32_t block = BlockAt(operand.block, operand.block_step, lane.repetition, desc.block_modulus);
  const uint64_t offset = BlockStart(plan_->geometry(operand.buffer), block) + lane.round * desc.chunk;
  return base + offset * plan_->element_bytes();
}

sl_status_t Run::Copy(const LaneState& lane, const PlanStep& step, uint64_t bytes) {
  const uint8_t* source = Address(lane, step.data.a, step.a_link, bytes);
  uint8_t* dst = Address(lane, step.data.dst, step.dst_link, bytes);
  const bool twice = step.data.dst2.buffer != SL_BUFFER_NONE;
  uint8_t* dst2 = twice ? Address(lane, step.data.dst2, step.dst2_link, bytes) : nullptr;
  if (source == nullptr || dst == nullptr || (twice && dst2 == nullptr)) return FailChunk(lane);
  CopyUnlessSame(dst, source, bytes);
  CopyUnlessSame(dst2, source, bytes);
  return SL_OK;
}

sl_status_t Run::Reduce(const LaneState& lane, const PlanStep& step, uint64_t elements) {
  const uint64_t bytes = elements * plan_->element_bytes();
  const bool binary = step.data.b.buffer != SL_BUFFER_NONE;
  const bool twice = step.data.dst2.buffer != SL_BUFFER_NONE;
  const void* sources[2] = {Address(lane, step.data.a, step.a_link, bytes),
                            binary ? Address(lane, step.data.b, step.b_link, bytes) : nullptr};
  uint8_t* dst = Address(lane, step.data.dst, step.dst_link, bytes);
  uint8_t* dst2 = twice ? Address(lane, step.data.dst2, step.dst2_link, bytes) : nullptr;
  if (sources[0] == nullptr || (binary && sources[1] == nullptr) || dst == nullptr || (twice && dst2 == nullptr)) {
    return FailChunk(lane);
  }
  sl_reduce_scale_t scale{op_.scalar_bits, pool_->context().size, 0, 0};
  if (scale_inputs_) scale.premul_mask = step.data.flags & (SL_STEP_A_RAW | SL_STEP_B_RAW);
  if (scale_sum_ && (step.data.flags & SL_STEP_FINAL) != 0) scale.flags = SL_REDUCE_FINAL;
  const bool scales = scale.premul_mask != 0 || scale.flags != 0;
  if (!binary && !scales) {
    CopyUnlessSame(dst, sources[0], bytes);
    CopyUnlessSame(dst2, sources[0], bytes);
    return SL_OK;
  }
  reduce_(dst, dst2, sources, binary ? 2 : 1, elements, scales ? &scale : nullptr);
  return SL_OK;
}

}  // namespace sl::kernel
