// SPDX-License-Identifier: Apache-2.0
//
// sl.algorithm/1, checked. Purity is asserted by asking again; the builder of plans is replaced by one of ours, which
// knows the order of its calls and when plan() has returned.
#include <algorithm>
#include <utility>
#include <vector>

#include "modules/checker/call.h"
#include "sdk/datatype.h"

namespace sl::checker {
namespace {

constexpr Interface kInterface = Interface::kAlgorithm;
constexpr size_t kRemembered = 256;  // operations of one algorithm whose estimate is remembered
constexpr uint32_t kLeastRoom = 4096;

// What selection may look at.
struct OpKey {
  uint32_t kind, datatype, reduction, symmetric, settings;
  int32_t root, peer;
  uint64_t count;
  auto operator<=>(const OpKey&) const = default;  // NOLINT(modernize-use-nullptr): its 0 is no pointer
};

// Callers of earlier releases know no symmetric buffers.
uint32_t SymmetricOf(const sl_op_t& op) { return SL_HAS(&op, sl_op_t, symmetric) ? op.symmetric : 0; }

// As symmetric buffers. Where it has a name now, callers of earlier releases have 0.
uint32_t SettingsOf(const sl_op_t& op) { return SL_HAS(&op, sl_op_t, settings) ? op.settings : 0; }

struct Answer {
  sl_status_t status = SL_OK;
  uint32_t run = 0;
  uint64_t time_ns = 0;
  uint32_t processors = 0;
  uint32_t determinism = 0;
  uint64_t scratch_bytes = 0;
  bool operator==(const Answer&) const = default;
};

Answer AnswerOf(sl_status_t status, const sl_estimate_t& estimate) {
  if (status != SL_OK) return {.status = status};
  return {status, estimate.run, estimate.time_ns, estimate.processors, estimate.determinism, estimate.scratch_bytes};
}

struct AlgorithmFacts final : Facts {
  AlgorithmFacts() { remembered.reserve(kRemembered); }
  uint32_t rank = 0;
  uint32_t size = 1;
  bool on_host = true;
  std::vector<std::pair<OpKey, Answer>> remembered;  // by key; never more than there is room for
};

struct BuilderFacts final : Facts {
  const sl_plan_builder_ops_t* ops = nullptr;
  bool described = false;
  uint32_t lanes = 0;
};

void CheckOp(Frame& frame, const sl_op_t& op) {
  const auto size = static_cast<int64_t>(frame.object(0)->As<AlgorithmFacts>()->size);
  if (op.kind < SL_OP_KIND_COUNT && op.datatype < SL_DATATYPE_COUNT && op.reduction < SL_REDUCTION_COUNT &&
      op.root >= -1 && op.root < size && op.peer >= -1 && op.peer < size) {
    return;
  }
  frame.Break(RuleId::kTypeRange, "operation %u, type %u, reduction %u, root %d, peer %d on %u ranks", op.kind,
              op.datatype, op.reduction, op.root, op.peer, static_cast<uint32_t>(size));
}

// Asked as every other rank of the host would ask.
struct DemandHook : NoHook {
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [instance, shape, demand] = values;
    if (status != SL_OK || shape->local_size != shape->size || shape->size < 2) return;
    sl_comm_shape_t other = {};
    std::memcpy(&other, shape, std::min<size_t>(shape->struct_size, sizeof other));
    other.rank = (shape->rank + 1) % shape->size;
    other.local_rank = other.rank;
    sl_demand_t again = {};
    again.struct_size = sizeof again;
    if (frame.ops<sl_algorithm_ops_t>()->demand(instance, &other, &again) == SL_OK &&
        again.symmetric_bytes == demand->symmetric_bytes) {
      return;
    }
    frame.Break(RuleId::kDemandDiffers, "rank %u needs %llu bytes, rank %u %llu", shape->rank,
                static_cast<unsigned long long>(demand->symmetric_bytes), other.rank,
                static_cast<unsigned long long>(again.symmetric_bytes));
  }
};

struct CreateHook : MakingHook<AlgorithmFacts> {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    frame.CheckSize(std::get<1>(values)->shape, sizeof(sl_comm_shape_t), 1);
    MakingHook::Before(frame, values);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    AlgorithmFacts* facts = Remember(frame);
    if (facts == nullptr) return;
    const sl_comm_shape_t* shape = std::get<1>(values)->shape;
    facts->rank = shape->rank;
    facts->size = shape->size;
    facts->on_host = shape->device_kind == SL_DEVICE_HOST;
    frame.made()->rank = static_cast<int32_t>(shape->rank);
  }
};

struct EstimateHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckOp(frame, *std::get<1>(values));
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [algorithm, op, estimate] = values;
    const bool terminated = std::memchr(estimate->reason, 0, sizeof estimate->reason) != nullptr;
    if (status == SL_ERR_UNSUPPORTED && estimate->reason[0] == 0) {
      frame.Break(RuleId::kEstimateReason, "no reason is given");
    } else if ((status == SL_OK || status == SL_ERR_UNSUPPORTED) && !terminated) {
      frame.Break(RuleId::kTextOpen, "the reason has no end");
    }
    auto* facts = frame.object(0)->template As<AlgorithmFacts>();
    if (status == SL_OK && (estimate->run > SL_RUN_SEQUENCE || estimate->determinism > SL_DETERMINISM_WORLD_SIZE ||
                            (facts->on_host && estimate->processors != 0))) {
      frame.Break(RuleId::kEstimateFacts, "run %u, determinism %u, %u processors", estimate->run, estimate->determinism,
                  estimate->processors);
    }
    const Answer answer = AnswerOf(status, *estimate);
    AskAgain(frame, algorithm, *op, answer);
    Remember(frame, facts, *op, answer);
  }

 private:
  static Answer Ask(Frame& frame, sl_algorithm_t* algorithm, const sl_op_t& op) {
    sl_estimate_t again = {};
    again.struct_size = sizeof again;
    return AnswerOf(frame.ops<sl_algorithm_ops_t>()->estimate(algorithm, &op, &again), again);
  }

  static void AskAgain(Frame& frame, sl_algorithm_t* algorithm, const sl_op_t& op, const Answer& answer) {
    if (Ask(frame, algorithm, op) != answer) {
      return frame.Break(RuleId::kEstimateImpure, "asked twice in a row, it answers differently");
    }
    // Addresses that differ in everything, and cannot be read.
    sl_op_t other = {};
    std::memcpy(&other, &op, std::min<size_t>(op.struct_size, sizeof other));
    other.send = reinterpret_cast<const void*>(uintptr_t{1});
    other.recv = reinterpret_cast<void*>(uintptr_t{35});
    if (Ask(frame, algorithm, other) == answer) return;
    frame.Break(RuleId::kEstimateLooks, "with other buffers it answers differently");
  }

  static void Remember(Frame& frame, AlgorithmFacts* facts, const sl_op_t& op, const Answer& answer) {
    const OpKey key = {op.kind, op.datatype, op.reduction, SymmetricOf(op), SettingsOf(op), op.root, op.peer, op.count};
    auto& remembered = facts->remembered;
    const auto known = std::lower_bound(remembered.begin(), remembered.end(), key,
                                        [](const auto& one, const OpKey& wanted) { return one.first < wanted; });
    if (known == remembered.end() || known->first != key) {
      if (remembered.size() < kRemembered) remembered.emplace(known, key, answer);
    } else if (known->second != answer) {
      frame.Break(RuleId::kEstimateImpure, "it answered differently before: %llu ns, now %llu",
                  static_cast<unsigned long long>(known->second.time_ns),
                  static_cast<unsigned long long>(answer.time_ns));
    }
  }
};

struct DescribeHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values&) {
    auto* facts = frame.object(0)->template As<BuilderFacts>();
    if (facts->described || facts->lanes != 0) frame.Break(RuleId::kPlanFrame, "the plan has a frame already");
    facts->described = true;
  }
};

struct BeginLaneHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values&) {
    auto* facts = frame.object(0)->template As<BuilderFacts>();
    if (!facts->described) frame.Break(RuleId::kPlanFrame, "a lane begins before the plan has a frame");
    ++facts->lanes;
  }
};

struct AddStepHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    if (frame.object(0)->template As<BuilderFacts>()->lanes != 0) return;
    frame.Break(RuleId::kPlanLane, "a step of kind %u before any lane", std::get<1>(values)->kind);
  }
};

struct PlanHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto& [algorithm, op, builder_ops, given] = values;
    CheckOp(frame, *op);
    BuilderFacts* facts = builder.Begin(frame, &given);
    if (facts == nullptr) return;
    facts->ops = builder_ops;
    builder_ops = &kBuilderOps;
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values&) {
    if (status != SL_OK || builder.facts().described) return;
    frame.Break(RuleId::kPlanFrame, "success, but the plan was never described");
  }

  static const sl_plan_builder_ops_t kBuilderOps;
  Lent<BuilderFacts> builder;
};

struct LaunchHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto& [algorithm, op, args, capacity, launch] = values;
    CheckOp(frame, *op);
    if (capacity >= kLeastRoom && reinterpret_cast<uintptr_t>(args) % 16 == 0) return;
    frame.Break(RuleId::kLaunchRoom, "%u bytes at %p", capacity, args);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [algorithm, op, args, capacity, launch] = values;
    if (status == SL_OK) CheckFilled(frame, *launch, args, capacity);
  }

  static void CheckFilled(Frame& frame, const sl_launch_t& launch, const void* args, uint32_t capacity) {
    const auto begin = reinterpret_cast<uintptr_t>(args);
    const auto at = reinterpret_cast<uintptr_t>(launch.args);
    const bool inside = launch.args_bytes == 0 ||
                        (at >= begin && launch.args_bytes <= capacity && at - begin <= capacity - launch.args_bytes);
    if (launch.image != nullptr && inside) return;
    frame.Break(RuleId::kLaunchFacts, "image %p, %u bytes of arguments at %p, room for %u at %p",
                static_cast<void*>(launch.image), launch.args_bytes, launch.args, capacity, args);
  }
};

struct LaunchGroupHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    auto& [algorithm, ops, count, args, capacity, launch] = values;
    for (uint32_t i = 0; i < count; ++i) CheckOp(frame, ops[i]);
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [algorithm, ops, count, args, capacity, launch] = values;
    if (status == SL_OK) LaunchHook::CheckFilled(frame, *launch, args, capacity);
  }
};

// How many blocks of the operation a rank's buffer holds.
uint32_t BlocksOf(uint32_t buffer, const sl_op_t& op, uint32_t rank, uint32_t size) {
  const bool is_root = op.root == static_cast<int32_t>(rank);
  const bool sends = buffer == SL_BUFFER_SEND;
  switch (op.kind) {
    case SL_OP_ALL_GATHER:
      return sends ? 1 : size;
    case SL_OP_REDUCE_SCATTER:
      return sends ? size : 1;
    case SL_OP_ALL_TO_ALL:
      return size;
    case SL_OP_BROADCAST:
      return sends && !is_root ? 0 : 1;
    case SL_OP_SCATTER:
      return !sends ? 1 : is_root ? size : 0;
    case SL_OP_GATHER:
    case SL_OP_REDUCE:
      return sends ? 1 : !is_root ? 0 : op.kind == SL_OP_GATHER ? size : 1;
    default:
      return 1;
  }
}

struct CopiesHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckOp(frame, *std::get<1>(values));
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [algorithm, op, copies, capacity, count] = values;
    if (status != SL_OK && status != SL_ERR_LIMIT) return;
    if ((status == SL_OK) != (*count <= capacity)) {
      return frame.Break(RuleId::kCopyFacts, "status %d, %u copies, room for %u", status, *count, capacity);
    }
    uint32_t phase = 0;
    for (uint32_t i = 0; status == SL_OK && i < *count; ++i) {
      const sl_copy_t& copy = copies[i];
      const char* wrong = copy.phase < phase ? "its phase is over" : WrongCopy(frame, *op, copy);
      if (wrong != nullptr) return frame.Break(RuleId::kCopyFacts, "copy %u: %s", i, wrong);
      phase = copy.phase;
    }
  }

 private:
  static const char* WrongCopy(const Frame& frame, const sl_op_t& op, const sl_copy_t& copy) {
    const auto* facts = frame.object(0)->As<AlgorithmFacts>();
    if (copy.phase >= SL_COPY_PHASES) return "there is no such phase";
    if (copy.bytes == 0) return nullptr;
    if (copy.from_rank >= facts->size || copy.to_rank >= facts->size) return "there is no such rank";
    if (copy.from_rank != facts->rank && copy.to_rank != facts->rank) return "neither end is this rank's";
    const bool is_known = copy.from_buffer == SL_BUFFER_SEND || copy.from_buffer == SL_BUFFER_RECV;
    if (!is_known || copy.to_buffer != SL_BUFFER_RECV) return "a buffer is neither sent nor received";
    const char* wrong = WrongEnd(*facts, op, copy.from_rank, copy.from_buffer, copy.from, copy.bytes);
    return wrong != nullptr ? wrong : WrongEnd(*facts, op, copy.to_rank, copy.to_buffer, copy.to, copy.bytes);
  }

  static const char* WrongEnd(const AlgorithmFacts& facts, const sl_op_t& op, uint32_t rank, uint32_t buffer,
                              uint64_t offset, uint64_t bytes) {
    const uint64_t there = op.count * DatatypeBytes(op.datatype) * BlocksOf(buffer, op, rank, facts.size);
    if (offset > there || bytes > there - offset) return "it reaches out of a buffer";
    const uint32_t needed = buffer == SL_BUFFER_SEND ? SL_OP_SEND_SYMMETRIC : SL_OP_RECV_SYMMETRIC;
    const bool is_reached = rank == facts.rank || (SymmetricOf(op) & needed) != 0;
    return is_reached ? nullptr : "the other's buffer is not symmetric";
  }
};

struct PartsHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    CheckOp(frame, *std::get<1>(values));
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [algorithm, op, parts, count] = values;
    if (status != SL_OK) return;
    if (*count == 0 || *count > SL_MOST_PARTS) return frame.Break(RuleId::kPartFacts, "%u parts", *count);
    for (uint32_t i = 0; i < *count; ++i) {
      const char* wrong = WrongPart(*frame.object(0)->template As<AlgorithmFacts>(), *op, parts[i]);
      if (wrong != nullptr) return frame.Break(RuleId::kPartFacts, "part %u: %s", i, wrong);
    }
  }

 private:
  static const char* WrongPart(const AlgorithmFacts& facts, const sl_op_t& op, const sl_part_t& part) {
    if (part.struct_size < SL_PART_SIZE_1_6) return "its size is not said";
    if (part.kind >= SL_OP_KIND_COUNT || IsTransfer(part.kind)) return "no collective";
    if (part.root < -1 || part.root >= static_cast<int64_t>(facts.size)) return "there is no such root";
    if (HasReduction(part.kind) && !HasReduction(op.kind)) return "it reduces, and the operation does not";
    if (part.count == 0) return "it moves nothing";
    const bool is_known = part.send_buffer == SL_BUFFER_SEND || part.send_buffer == SL_BUFFER_RECV;
    if (!is_known || part.recv_buffer != SL_BUFFER_RECV) return "a buffer is neither sent nor received";
    sl_op_t alone = op;
    alone.kind = part.kind;
    alone.root = part.root;
    alone.count = part.count;
    const char* wrong = WrongEnd(facts, op, alone, part.send_buffer, part.send, SL_BUFFER_SEND);
    return wrong != nullptr ? wrong : WrongEnd(facts, op, alone, part.recv_buffer, part.recv, SL_BUFFER_RECV);
  }

  // What the part has as its buffer `its`, from `offset` on in the operation's `buffer`.
  static const char* WrongEnd(const AlgorithmFacts& facts, const sl_op_t& op, const sl_op_t& part, uint32_t buffer,
                              uint64_t offset, uint32_t its) {
    const uint64_t unit = DatatypeBytes(op.datatype);
    const uint64_t there = op.count * BlocksOf(buffer, op, facts.rank, facts.size) * unit;
    const uint64_t bytes = part.count * BlocksOf(its, part, facts.rank, facts.size) * unit;
    if (bytes == 0) return nullptr;
    if (offset % unit != 0) return "it begins within an element";
    return offset > there || bytes > there - offset ? "it reaches out of a buffer" : nullptr;
  }
};

constexpr Call kDescribe = {.name = "describe", .interface = kInterface, .words = Words::kControl};
constexpr Call kBeginLane = {.name = "begin_lane", .interface = kInterface, .words = Words::kControl};
constexpr Call kAddStep = {.name = "add_step", .interface = kInterface, .words = Words::kControl};

constexpr sl_plan_builder_ops_t PlanHook::kBuilderOps = {
    .struct_size = sizeof(sl_plan_builder_ops_t),
    .reserved = 0,
    .describe = Checked<&sl_plan_builder_ops_t::describe, kDescribe, DescribeHook>,
    .begin_lane = Checked<&sl_plan_builder_ops_t::begin_lane, kBeginLane, BeginLaneHook>,
    .add_step = Checked<&sl_plan_builder_ops_t::add_step, kAddStep, AddStepHook>,
};

constexpr Call kDemand = {.name = "demand", .interface = kInterface, .words = Words::kControl, .outs = 1};
constexpr Call kCreate = {.name = "create", .interface = kInterface, .words = Words::kInit, .outs = 1, .makes = true};
constexpr Call kDestroy = {.name = "destroy", .interface = kInterface, .words = Words::kControl, .ends = true};
// Its reason is written on SL_ERR_UNSUPPORTED, too: no output in the sense of sl_base.h.
constexpr Call kEstimate = {.name = "estimate", .interface = kInterface, .words = Words::kControl};
constexpr Call kPlan = {.name = "plan", .interface = kInterface, .words = Words::kControl};
constexpr Call kLaunch = {.name = "launch", .interface = kInterface, .words = Words::kData, .outs = 1};
// The count is written on SL_ERR_LIMIT, too.
constexpr Call kCopies = {.name = "copies", .interface = kInterface, .words = Words::kControl};
constexpr Call kParts = {.name = "parts", .interface = kInterface, .words = Words::kControl, .outs = 1};
constexpr Call kRetract = {.name = "retract", .interface = kInterface, .words = Words::kControl};
constexpr Call kLaunchGroup = {.name = "launch_group", .interface = kInterface, .words = Words::kData, .outs = 1};

}  // namespace

template <>
const sl_plan_builder_ops_t* Frame::ops<sl_plan_builder_ops_t>() const {
  return objects_[0]->As<BuilderFacts>()->ops;
}

constexpr sl_algorithm_ops_t kAlgorithmOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = Checked<&sl_algorithm_ops_t::demand, kDemand, DemandHook>,
    .create = Checked<&sl_algorithm_ops_t::create, kCreate, CreateHook>,
    .destroy = Checked<&sl_algorithm_ops_t::destroy, kDestroy>,
    .estimate = Checked<&sl_algorithm_ops_t::estimate, kEstimate, EstimateHook>,
    .plan = Checked<&sl_algorithm_ops_t::plan, kPlan, PlanHook>,
    .launch = Checked<&sl_algorithm_ops_t::launch, kLaunch, LaunchHook>,
    .launch_group = Checked<&sl_algorithm_ops_t::launch_group, kLaunchGroup, LaunchGroupHook>,
    .copies = Checked<&sl_algorithm_ops_t::copies, kCopies, CopiesHook>,
    .parts = Checked<&sl_algorithm_ops_t::parts, kParts, PartsHook>,
    .retract = Checked<&sl_algorithm_ops_t::retract, kRetract>,
};

}  // namespace sl::checker
