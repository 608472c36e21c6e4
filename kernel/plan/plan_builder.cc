// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernel/plan/part.h"
#include "kernel/plan/plan.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// Offsets in bytes stay far below 2^63, so that part arithmetic never overflows.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

bool Exceeds(uint64_t a, uint64_t b, uint64_t limit) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > limit;
}

const char* KindName(uint32_t kind) {
  constexpr const char* kNames[] = {"repeat", "wait", "reserve", "copy", "reduce", "put", "release", "launch"};
  return kind < SL_STEP_KIND_COUNT ? kNames[kind] : "unknown kind";
}

bool IsMemory(uint32_t buffer) {
  return buffer == SL_BUFFER_SEND || buffer == SL_BUFFER_RECV || buffer == SL_BUFFER_SCRATCH;
}
bool IsSource(uint32_t buffer) { return IsMemory(buffer) || buffer == SL_BUFFER_INBOX; }
bool IsTarget(uint32_t buffer) {
  return buffer == SL_BUFFER_RECV || buffer == SL_BUFFER_SCRATCH || buffer == SL_BUFFER_OUTBOX;
}

// Runs one builder call as a C function; texts and vectors are all that can throw here.
template <typename Call>
sl_status_t Slot(sl_plan_builder_t* builder, Call call) noexcept {
  try {
    return call(reinterpret_cast<PlanBuilder*>(builder)).code();
  } catch (...) {
    return SL_ERR_MEMORY;
  }
}

// A struct of the module, which may be older or newer than the kernel: what it does not have is zero.
template <typename T>
T Sized(const T* theirs) {
  T ours{};
  if (theirs != nullptr) std::memcpy(&ours, theirs, std::min<size_t>(theirs->struct_size, sizeof(T)));
  return ours;
}

sl_status_t DescribeSlot(sl_plan_builder_t* builder, const sl_plan_desc_t* desc) {
  return Slot(builder, [&](PlanBuilder* self) { return self->Describe(Sized(desc)); });
}
sl_status_t BeginLaneSlot(sl_plan_builder_t* builder) {
  return Slot(builder, [](PlanBuilder* self) { return self->BeginLane(); });
}
sl_status_t AddStepSlot(sl_plan_builder_t* builder, const sl_step_t* step) {
  return Slot(builder, [&](PlanBuilder* self) { return self->AddStep(Sized(step)); });
}

constexpr sl_plan_builder_ops_t kOps = {sizeof(sl_plan_builder_ops_t), 0, DescribeSlot, BeginLaneSlot, AddStepSlot};

}  // namespace

const sl_plan_builder_ops_t* PlanBuilder::Ops() { return &kOps; }

PlanBuilder::PlanBuilder(const PlanFrame& frame) : frame_(frame), plan_(new Plan()) {
  plan_->algorithm_tag_ = AlgorithmTag(frame.algorithm);
  plan_->rank_ = frame.rank;
  plan_->size_ = frame.size;
  plan_->element_bytes_ = static_cast<uint32_t>(DatatypeBytes(frame.op.datatype));
}

PlanBuilder::~PlanBuilder() = default;

Status PlanBuilder::Keep(Status status) {
  if (!status.ok() && error_.ok()) error_ = status;
  return status;
}

std::string PlanBuilder::Place() const {
  const auto lanes = static_cast<uint32_t>(plan_->lane_ends_.size());
  if (lanes == 0) return fmt::format("plan of rank {}", frame_.rank);
  const uint32_t begin = lanes == 1 ? 0 : plan_->lane_ends_[lanes - 2];
  return fmt::format("plan of rank {} lane {} step {}", frame_.rank, lanes - 1, plan_->lane_ends_.back() - begin);
}

Status PlanBuilder::Fail(const std::string& text) {
  return Status(SL_ERR_INVALID, fmt::format("{}: {}", Place(), text));
}

Status PlanBuilder::Describe(const sl_plan_desc_t& desc) { return Keep(CheckDesc(desc)); }

Status PlanBuilder::CheckDesc(const sl_plan_desc_t& desc) {
  if (described_) return Fail("described twice");
  if (desc.struct_size < SL_PLAN_DESC_SIZE_1_0) {
    return Fail(fmt::format("desc.struct_size is {}, wanted at least {}", desc.struct_size, SL_PLAN_DESC_SIZE_1_0));
  }
  const uint64_t bytes = plan_->element_bytes_;
  if (bytes == 0) return Fail(fmt::format("operation has unknown data type {}", frame_.op.datatype));
  if (desc.block_modulus == 0) return Fail("block_modulus is 0, it must be at least 1");
  if (desc.rounds == 0 && frame_.op.count != 0) {
    return Fail(
        fmt::format("rounds is 0, so that nothing is done about {} elements; it must be at least 1", frame_.op.count));
  }
  if (desc.rounds != 0 && desc.chunk == 0) return Fail("chunk is 0 although there are rounds");
  if (frame_.size > 1 && Exceeds(desc.chunk, bytes, frame_.link_chunk_bytes)) {
    return Fail(fmt::format("chunk of {} elements of {} bytes exceeds a link's {} bytes", desc.chunk, bytes,
                            frame_.link_chunk_bytes));
  }
  if (Exceeds(desc.chunk, bytes, kMaxBytes) || Exceeds(desc.rounds, desc.chunk * bytes, kMaxBytes)) {
    return Fail(fmt::format("{} rounds of {} elements are too many", desc.rounds, desc.chunk));
  }
  if (frame_.size > 1 && frame_.link_slots != 0 && desc.credits > frame_.link_slots) {
    return Fail(
        fmt::format("credits: the plan needs links of {} slots, these have {}", desc.credits, frame_.link_slots));
  }
  const struct {
    const char* name;
    const sl_geometry_t& geometry;
    uint64_t available;
  } buffers[] = {{"send", desc.send, SendElements(frame_.op, frame_.rank, frame_.size)},
                 {"recv", desc.recv, RecvElements(frame_.op, frame_.rank, frame_.size)},
                 {"scratch", desc.scratch, desc.scratch_bytes / bytes}};
  for (const auto& buffer : buffers) {
    if (Exceeds(buffer.geometry.stride, bytes * desc.block_modulus, kMaxBytes)) {
      return Fail(fmt::format("{}.stride {} is too large", buffer.name, buffer.geometry.stride));
    }
    if (buffer.geometry.total > buffer.available) {
      return Fail(fmt::format("{}.total {} exceeds the buffer's {} elements", buffer.name, buffer.geometry.total,
                              buffer.available));
    }
  }
  plan_->desc_ = desc;
  described_ = true;
  return Status();
}

Status PlanBuilder::BeginLane() {
  if (!described_) return Keep(Fail("begin_lane before describe"));
  if (repeat_steps_ != 0) return Keep(Fail(fmt::format("the lane ends {} steps inside a repeat", repeat_steps_)));
  SL_TRY(Keep(CheckRoom()));
  plan_->lane_ends_.push_back(static_cast<uint32_t>(plan_->steps_.size()));
  return Status();
}

Status PlanBuilder::CheckRoom() {
  if (plan_->steps_.size() + plan_->lane_ends_.size() < kMostPlanSteps) return Status();
  return Fail(fmt::format("lanes and steps are more than {}; let steps repeat with strides", kMostPlanSteps));
}

Status PlanBuilder::AddStep(const sl_step_t& step) { return Keep(Add(step)); }

Status PlanBuilder::Add(const sl_step_t& step) {
  if (plan_->lane_ends_.empty()) return Fail("add_step before begin_lane");
  SL_TRY(CheckRoom());
  if (step.struct_size < SL_STEP_SIZE_1_0) {
    return Fail(fmt::format("step.struct_size is {}, wanted at least {}", step.struct_size, SL_STEP_SIZE_1_0));
  }
  PlanStep added{step, kNoLink, kNoLink, kNoLink, kNoLink, kNoLink};
  if (step.kind == SL_STEP_REPEAT) {
    SL_TRY(CheckRepeat(step));
  } else {
    SL_TRY(CheckStep(step));
    SL_TRY(CheckBounds(step));
    SL_TRY(AddLinks(&added));
    if (repeat_steps_ != 0 && --repeat_steps_ == 0) repetitions_ = 1;
  }
  plan_->steps_.push_back(added);
  ++plan_->lane_ends_.back();
  plan_->has_reduce_ |= step.kind == SL_STEP_REDUCE;
  return Status();
}

Status PlanBuilder::CheckRepeat(const sl_step_t& step) {
  if (repeat_steps_ != 0) return Fail("repeat inside a repeat");
  if (step.length == 0) return Fail("repeat of length 0, it must be at least 1");
  repeat_steps_ = step.length;
  repetitions_ = step.count;
  return Status();
}

Status PlanBuilder::CheckStep(const sl_step_t& step) {
  const bool reduces = step.kind == SL_STEP_REDUCE;
  if (step.kind >= SL_STEP_LAUNCH) return Fail(fmt::format("kind {} ({})", step.kind, KindName(step.kind)));
  constexpr uint32_t kAllFlags = SL_STEP_A_RAW | SL_STEP_B_RAW | SL_STEP_FINAL;
  if ((step.flags & ~(reduces ? kAllFlags : 0)) != 0) {
    return Fail(fmt::format("{}: flags 0x{:x} are not for this kind", KindName(step.kind), step.flags));
  }
  if (reduces && !HasReduction(frame_.op.kind)) {
    return Fail(fmt::format("reduce in {}, which has no reduction", OpKindName(frame_.op.kind)));
  }
  if (!IsMemory(step.shape.buffer)) {
    return Fail(
        fmt::format("{}: shape.buffer {} is not send, recv or scratch", KindName(step.kind), step.shape.buffer));
  }
  return CheckOperands(step);
}

Status PlanBuilder::CheckOperands(const sl_step_t& step) {
  const bool moves = step.kind == SL_STEP_COPY || step.kind == SL_STEP_REDUCE;
  const bool puts = step.kind == SL_STEP_PUT;
  const struct {
    const char* name;
    const sl_operand_t& operand;
    bool optional;
    bool allowed;
  } operands[] = {
      {"a", step.a, !moves, (moves || puts) && IsSource(step.a.buffer)},
      {"b", step.b, true, step.kind == SL_STEP_REDUCE && IsSource(step.b.buffer)},
      {"dst", step.dst, !moves, moves && IsTarget(step.dst.buffer)},
      {"dst2", step.dst2, true, moves && IsTarget(step.dst2.buffer)},
      {"shape", step.shape, false, true},
  };
  for (const auto& [name, operand, optional, allowed] : operands) {
    if (operand.buffer == SL_BUFFER_NONE ? !optional : !allowed) {
      return Fail(fmt::format("{}: {}.buffer {} is not possible here", KindName(step.kind), name, operand.buffer));
    }
    if (IsMemory(operand.buffer) && operand.block >= plan_->desc_.block_modulus) {
      return Fail(fmt::format("{}: {}.block {} is not below block_modulus {}", KindName(step.kind), name, operand.block,
                              plan_->desc_.block_modulus));
    }
  }
  return Status();
}

// Every operand must have room for the whole of the block that gives the length, at every repetition.
Status PlanBuilder::CheckBounds(const sl_step_t& step) {
  const sl_plan_desc_t& desc = plan_->desc_;
  const sl_geometry_t& shape = plan_->geometry(step.shape.buffer);
  const uint32_t distinct = std::min(repetitions_, desc.block_modulus);
  const struct {
    const char* name;
    const sl_operand_t& operand;
  } operands[] = {{"a", step.a}, {"b", step.b}, {"dst", step.dst}, {"dst2", step.dst2}};
  for (const auto& [name, operand] : operands) {
    if (!IsMemory(operand.buffer)) continue;
    const sl_geometry_t& geometry = plan_->geometry(operand.buffer);
    for (uint32_t i = 0; i < distinct; ++i) {
      const uint64_t length =
          BlockLength(shape, BlockAt(step.shape.block, step.shape.block_step, i, desc.block_modulus));
      if (length == 0) continue;
      const uint32_t block = BlockAt(operand.block, operand.block_step, i, desc.block_modulus);
      const uint64_t start = BlockStart(geometry, block);
      if (start > geometry.total || length > geometry.total - start) {
        return Fail(fmt::format("{}: {} block {} at repetition {}: {} elements from {} exceed its total {}",
                                KindName(step.kind), name, block, i, length, start, geometry.total));
      }
    }
  }
  return Status();
}

Status PlanBuilder::AddLinks(PlanStep* added) {
  const sl_step_t& step = added->data;
  const bool receives = step.kind == SL_STEP_WAIT || step.kind == SL_STEP_RELEASE;
  const bool sends = step.kind == SL_STEP_RESERVE || step.kind == SL_STEP_PUT;
  if (receives || sends) {
    SL_ASSIGN(added->link, LinkOf(step.peer, step.lane, sends));
  }
  const struct {
    const sl_operand_t& operand;
    uint32_t* link;
  } operands[] = {
      {step.a, &added->a_link}, {step.b, &added->b_link}, {step.dst, &added->dst_link}, {step.dst2, &added->dst2_link}};
  for (const auto& [operand, link] : operands) {
    if (operand.buffer != SL_BUFFER_INBOX && operand.buffer != SL_BUFFER_OUTBOX) continue;
    SL_ASSIGN(*link, LinkOf(operand.peer, step.lane, operand.buffer == SL_BUFFER_OUTBOX));
  }
  return Status();
}

Result<uint32_t> PlanBuilder::LinkOf(int32_t peer, uint32_t lane, bool sends) {
  if (peer < 0 || static_cast<uint32_t>(peer) >= frame_.size) {
    return Fail(fmt::format("peer {} is not a rank of {}", peer, frame_.size));
  }
  if (static_cast<uint32_t>(peer) == frame_.rank) return Fail(fmt::format("peer {} is this rank itself", peer));
  if (lane >= frame_.link_lanes) return Fail(fmt::format("lane {}: links have {} lanes", lane, frame_.link_lanes));
  auto& links = plan_->links_;
  auto found = std::find_if(links.begin(), links.end(), [&](const PlanLink& link) {
    return link.peer == static_cast<uint32_t>(peer) && link.lane == lane;
  });
  if (found == links.end()) {
    found = links.insert(links.end(), PlanLink{static_cast<uint32_t>(peer), lane, kNoLink, kNoLink});
  }
  const auto own_lane = static_cast<uint32_t>(plan_->lane_ends_.size() - 1);
  uint32_t& user = sends ? found->send_lane : found->recv_lane;
  if (user == kNoLink) user = own_lane;
  if (user != own_lane) {
    return Fail(fmt::format("lane {} of the plan already {} rank {} on link lane {}", user,
                            sends ? "sends to" : "receives from", peer, lane));
  }
  return static_cast<uint32_t>(found - links.begin());
}

Result<std::unique_ptr<Plan>> PlanBuilder::Finish() {
  SL_TRY(error_);
  if (!described_) return Fail("ends before describe");
  if (repeat_steps_ != 0) return Fail(fmt::format("ends {} steps inside a repeat", repeat_steps_));
  return std::move(plan_);
}

}  // namespace sl::kernel
