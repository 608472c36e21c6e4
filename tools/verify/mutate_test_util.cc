// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/mutate_test_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sl::verify {
namespace {

bool IsMemory(const sl_operand_t& operand) {
  return operand.buffer == SL_BUFFER_SEND || operand.buffer == SL_BUFFER_RECV || operand.buffer == SL_BUFFER_SCRATCH;
}
bool IsChunk(const sl_operand_t& operand) {
  return operand.buffer == SL_BUFFER_INBOX || operand.buffer == SL_BUFFER_OUTBOX;
}

// One mistake in one rank's plan. All draws come from one seed, so that it can be repeated on every rank.
class Mutator {
 public:
  Mutator(uint32_t seed, uint32_t ranks, Sketch* sketch) : random_(seed), ranks_(ranks), sketch_(sketch) {}

  bool Apply(Mutation mutation) {
    switch (mutation) {
      case Mutation::kChunk:
      case Mutation::kRounds:
      case Mutation::kCredits:
      case Mutation::kGeometry:
        return ApplyToFrame(mutation);
      default:
        return sketch_->lanes.empty() ? false : ApplyToLane(mutation);
    }
  }

 private:
  uint32_t Draw(size_t below) { return static_cast<uint32_t>(random_() % below); }
  uint64_t OffByOne(uint64_t value) { return Draw(2) == 0 || value == 0 ? value + 1 : value - 1; }

  bool ApplyToFrame(Mutation mutation) {
    sl_plan_desc_t& desc = sketch_->desc;
    if (mutation == Mutation::kChunk) {
      desc.chunk = OffByOne(desc.chunk);
    } else if (mutation == Mutation::kRounds) {
      desc.rounds = OffByOne(desc.rounds);
    } else if (mutation == Mutation::kCredits) {
      if (desc.credits < 2) return false;
      --desc.credits;
    } else {
      sl_geometry_t* const geometries[] = {&desc.send, &desc.recv, &desc.scratch};
      sl_geometry_t* geometry = geometries[Draw(3)];
      if (geometry->total == 0) return false;
      uint64_t* const fields[] = {&geometry->stride, &geometry->length, &geometry->total};
      uint64_t* field = fields[Draw(3)];
      *field = OffByOne(*field);
    }
    return true;
  }

  bool ApplyToLane(Mutation mutation) {
    lane_ = &sketch_->lanes[Draw(sketch_->lanes.size())];
    if (lane_->empty()) return false;
    at_ = Draw(lane_->size());
    step_ = &(*lane_)[at_];
    switch (mutation) {
      case Mutation::kDropWait:
        return step_->kind == SL_STEP_WAIT && Drop();
      case Mutation::kDropRelease:
        return step_->kind == SL_STEP_RELEASE && Drop();
      case Mutation::kDropStep:
        return step_->kind != SL_STEP_WAIT && step_->kind != SL_STEP_RELEASE && step_->kind != SL_STEP_REPEAT && Drop();
      case Mutation::kRepeatStep:
        return step_->kind != SL_STEP_REPEAT && Insert(at_, *step_);
      case Mutation::kSwapSteps:
        return Swap(at_ + 1);
      case Mutation::kMoveStep:
        return Move(Draw(lane_->size()));
      case Mutation::kRepeatCount:
        return step_->kind == SL_STEP_REPEAT && Set(&step_->count, static_cast<uint32_t>(OffByOne(step_->count)));
      case Mutation::kRepeatLength:
        return step_->kind == SL_STEP_REPEAT && Set(&step_->length, static_cast<uint32_t>(OffByOne(step_->length)));
      default:
        return step_->kind != SL_STEP_REPEAT && ApplyToStep(mutation);
    }
  }

  bool ApplyToStep(Mutation mutation) {
    sl_operand_t* const operands[] = {&step_->a, &step_->b, &step_->dst, &step_->dst2};
    sl_operand_t* operand = operands[Draw(4)];
    switch (mutation) {
      case Mutation::kPeer:
        if (IsChunk(*operand)) return SetPeer(&operand->peer);
        return step_->kind != SL_STEP_COPY && step_->kind != SL_STEP_REDUCE && SetPeer(&step_->peer);
      case Mutation::kBlock:
        return IsMemory(*operand) && SetBlock(operand);
      case Mutation::kBlockStep:
        return IsMemory(*operand) && SetBlockStep(operand);
      case Mutation::kShape:
        return Draw(2) == 0 ? SetBlock(&step_->shape) : SetBlockStep(&step_->shape);
      case Mutation::kBuffer:
        return SetBuffer(operand);
      case Mutation::kSwapOperands:
        if (step_->b.buffer == SL_BUFFER_NONE) return false;
        std::swap(step_->a, step_->b);
        step_->flags = (step_->flags & SL_STEP_FINAL) | (step_->flags & SL_STEP_A_RAW ? SL_STEP_B_RAW : 0) |
                       (step_->flags & SL_STEP_B_RAW ? SL_STEP_A_RAW : 0);
        return true;
      case Mutation::kFlag:
        if (step_->kind != SL_STEP_REDUCE) return false;
        step_->flags ^= 1u << Draw(3);
        return true;
      case Mutation::kOperation:
        return SetOperation();
      case Mutation::kSecondTarget:
        if (step_->dst2.buffer == SL_BUFFER_NONE) return false;
        if (Draw(2) == 0) step_->dst = step_->dst2;
        step_->dst2 = kNothing;
        return true;
      case Mutation::kLinkLane:
        return step_->kind != SL_STEP_COPY && step_->kind != SL_STEP_REDUCE && Set(&step_->lane, 1 - step_->lane);
      default:
        return false;
    }
  }

  static bool Set(uint32_t* field, uint32_t value) {
    *field = value;
    return true;
  }

  bool SetPeer(int32_t* peer) {
    *peer = static_cast<int32_t>((static_cast<uint32_t>(*peer) + 1 + Draw(ranks_ - 1)) % ranks_);
    return true;
  }

  bool SetBlock(sl_operand_t* operand) {
    const uint32_t modulus = sketch_->desc.block_modulus;
    if (modulus < 2) return false;
    operand->block = (operand->block + 1 + Draw(modulus - 1)) % modulus;
    return true;
  }

  bool SetBlockStep(sl_operand_t* operand) {
    const int32_t before = operand->block_step;
    operand->block_step = static_cast<int32_t>(Draw(5)) - 2;
    return operand->block_step != before && operand->buffer != SL_BUFFER_NONE;
  }

  bool SetBuffer(sl_operand_t* operand) {
    if (operand->buffer == SL_BUFFER_NONE) return false;
    const uint32_t before = operand->buffer;
    operand->buffer = SL_BUFFER_SEND + Draw(5);
    if (IsChunk(*operand) && operand->peer < 0) operand->peer = static_cast<int32_t>(Draw(ranks_));
    return operand->buffer != before;
  }

  // Forgets one operand of a reduction, or reduces what is to be copied.
  bool SetOperation() {
    if (step_->kind == SL_STEP_REDUCE && step_->b.buffer != SL_BUFFER_NONE) {
      if (Draw(2) == 0) step_->a = step_->b;
      step_->b = kNothing;
      step_->kind = SL_STEP_COPY;
      step_->flags = 0;
      return true;
    }
    if (step_->kind != SL_STEP_COPY || !IsMemory(step_->dst)) return false;
    step_->kind = SL_STEP_REDUCE;
    step_->b = step_->dst;
    return true;
  }

  // A REPEAT around a step keeps its other steps.
  void Resize(size_t at, int32_t by) {
    for (size_t i = 0; i < at && i < lane_->size(); ++i) {
      sl_step_t& step = (*lane_)[i];
      if (step.kind == SL_STEP_REPEAT && at <= i + step.length) step.length += static_cast<uint32_t>(by);
    }
  }

  bool Drop() {
    Resize(at_, -1);
    for (const sl_step_t& step : *lane_) {
      if (step.kind == SL_STEP_REPEAT && step.length == 0) return false;
    }
    lane_->erase(lane_->begin() + at_);
    return true;
  }

  bool Insert(size_t at, sl_step_t step) {
    Resize(at, 1);
    lane_->insert(lane_->begin() + static_cast<long>(at), step);
    return true;
  }

  bool Swap(size_t with) {
    if (with >= lane_->size()) return false;
    std::swap((*lane_)[at_], (*lane_)[with]);
    return true;
  }

  bool Move(size_t to) {
    const sl_step_t step = *step_;
    if (to == at_ || step.kind == SL_STEP_REPEAT || !Drop()) return false;
    return Insert(std::min(to, lane_->size()), step);
  }

  std::mt19937 random_;
  const uint32_t ranks_;
  Sketch* const sketch_;
  std::vector<sl_step_t>* lane_ = nullptr;
  sl_step_t* step_ = nullptr;
  size_t at_ = 0;
};

bool IsSame(const sl_operand_t& a, const sl_operand_t& b) {
  if (a.buffer != b.buffer) return false;
  if (a.buffer == SL_BUFFER_NONE) return true;
  return IsMemory(a) ? a.block == b.block && a.block_step == b.block_step : a.peer == b.peer;
}

// Whether two steps cannot be told apart.
bool IsSame(const sl_step_t& a, const sl_step_t& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == SL_STEP_REPEAT) return a.length == b.length && a.count == b.count;
  return kernel::StepText(a) == kernel::StepText(b) && a.lane == b.lane && IsSame(a.shape, b.shape);
}

bool IsSame(const Sketch& a, const Sketch& b) {
  if (std::memcmp(&a.desc, &b.desc, sizeof(a.desc)) != 0 || a.lanes.size() != b.lanes.size()) return false;
  for (size_t i = 0; i < a.lanes.size(); ++i) {
    const auto same = [](const sl_step_t& x, const sl_step_t& y) { return IsSame(x, y); };
    const auto& x = a.lanes[i];
    const auto& y = b.lanes[i];
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

std::string Difference(const Sketch& before, const Sketch& after) {
  if (std::memcmp(&before.desc, &after.desc, sizeof(before.desc)) != 0) {
    const auto text = [](const sl_plan_desc_t& desc) {
      std::string out = fmt::format("chunk {} rounds {} credits {}", desc.chunk, desc.rounds, desc.credits);
      for (const sl_geometry_t* geometry : {&desc.send, &desc.recv, &desc.scratch}) {
        out += fmt::format(" {}/{}/{}", geometry->stride, geometry->length, geometry->total);
      }
      return out;
    };
    return fmt::format("{} -> {}", text(before.desc), text(after.desc));
  }
  std::string out;
  for (size_t lane = 0; lane < before.lanes.size(); ++lane) {
    const auto& a = before.lanes[lane];
    const auto& b = after.lanes[lane];
    size_t first = 0;
    while (first < a.size() && first < b.size() && IsSame(a[first], b[first])) ++first;
    if (first == a.size() && first == b.size()) continue;
    out +=
        fmt::format("lane {} step {}: {} -> {}", lane, first, first < a.size() ? kernel::StepText(a[first]) : "the end",
                    first < b.size() ? kernel::StepText(b[first]) : "the end");
    if (first < a.size() && first < b.size() && !IsSame(a[first].shape, b[first].shape)) {
      out += fmt::format(", shape {}[{} {:+}i] -> {}[{} {:+}i]", a[first].shape.buffer, a[first].shape.block,
                         a[first].shape.block_step, b[first].shape.buffer, b[first].shape.block,
                         b[first].shape.block_step);
    }
  }
  return out;
}

}  // namespace

const char* MutationName(Mutation mutation) {
  constexpr const char* kNames[] = {"peer",         "drop a wait",   "drop a release", "drop a step", "repeat a step",
                                    "swap steps",   "move a step",   "block",          "block step",  "shape",
                                    "buffer",       "swap operands", "flag",           "operation",   "second target",
                                    "repeat count", "repeat length", "chunk",          "rounds",      "credits",
                                    "geometry",     "link lane"};
  return kNames[static_cast<size_t>(mutation)];
}

std::string Mutate(Mutation mutation, bool everywhere, std::mt19937* random, std::vector<Sketch>* sketches) {
  const std::vector<Sketch> before = *sketches;
  const auto ranks = static_cast<uint32_t>(sketches->size());
  const auto seed = static_cast<uint32_t>((*random)());
  const auto first = static_cast<uint32_t>((*random)() % ranks);
  std::string text;
  for (uint32_t i = 0; i < (everywhere ? ranks : 1); ++i) {
    const uint32_t rank = (first + i) % ranks;
    if (!Mutator(seed, ranks, &(*sketches)[rank]).Apply(mutation)) (*sketches)[rank] = before[rank];
    if (!text.empty() || IsSame(before[rank], (*sketches)[rank])) continue;
    text =
        fmt::format("rank {}{} {}", rank, everywhere ? " and others" : "", Difference(before[rank], (*sketches)[rank]));
  }
  return text;
}

}  // namespace sl::verify
