// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/plan.h"

#include <fmt/format.h>

namespace sl::kernel {
namespace {

const char* BufferName(uint32_t buffer) {
  constexpr const char* kNames[] = {"nothing", "send", "recv", "scratch", "in", "out"};
  return buffer <= SL_BUFFER_OUTBOX ? kNames[buffer] : "?";
}

std::string OperandText(const sl_operand_t& operand) {
  switch (operand.buffer) {
    case SL_BUFFER_NONE:
      return "nothing";
    case SL_BUFFER_INBOX:
    case SL_BUFFER_OUTBOX:
      return fmt::format("{}({})", BufferName(operand.buffer), operand.peer);
    default:
      break;
  }
  if (operand.block_step == 0) return fmt::format("{}[{}]", BufferName(operand.buffer), operand.block);
  return fmt::format("{}[{} {:+}i]", BufferName(operand.buffer), operand.block, operand.block_step);
}

std::string TargetText(const sl_step_t& step) {
  std::string text = OperandText(step.dst);
  if (step.dst2.buffer != SL_BUFFER_NONE) text += fmt::format(", {}", OperandText(step.dst2));
  return text;
}

std::string PeerText(const sl_step_t& step) {
  return step.lane == 0 ? fmt::format("rank {}", step.peer) : fmt::format("rank {} link lane {}", step.peer, step.lane);
}

std::string ReduceText(const sl_step_t& step) {
  std::string text = fmt::format("reduce   {} <- {}", TargetText(step), OperandText(step.a));
  if ((step.flags & SL_STEP_A_RAW) != 0) text += " raw";
  if (step.b.buffer != SL_BUFFER_NONE) text += fmt::format(" op {}", OperandText(step.b));
  if ((step.flags & SL_STEP_B_RAW) != 0) text += " raw";
  if ((step.flags & SL_STEP_FINAL) != 0) text += ", final";
  return text;
}

}  // namespace

std::string StepText(const sl_step_t& step) {
  switch (step.kind) {
    case SL_STEP_REPEAT:
      return fmt::format("repeat   the next {} steps {} times", step.length, step.count);
    case SL_STEP_WAIT:
      return fmt::format("wait     {}", PeerText(step));
    case SL_STEP_RESERVE:
      return fmt::format("reserve  {}", PeerText(step));
    case SL_STEP_COPY:
      return fmt::format("copy     {} <- {}", TargetText(step), OperandText(step.a));
    case SL_STEP_REDUCE:
      return ReduceText(step);
    case SL_STEP_PUT:
      if (step.a.buffer == SL_BUFFER_NONE) return fmt::format("put      {}", PeerText(step));
      return fmt::format("put      {} <- {}", PeerText(step), OperandText(step.a));
    case SL_STEP_RELEASE:
      return fmt::format("release  {}", PeerText(step));
    default:
      return fmt::format("kind {}", step.kind);
  }
}

const sl_geometry_t& Plan::geometry(uint32_t buffer) const {
  if (buffer == SL_BUFFER_SEND) return desc_.send;
  return buffer == SL_BUFFER_RECV ? desc_.recv : desc_.scratch;
}

std::span<const PlanStep> Plan::lane(uint32_t index) const {
  const uint32_t begin = index == 0 ? 0 : lane_ends_[index - 1];
  return {steps_.data() + begin, lane_ends_[index] - begin};
}

std::string Plan::ToText() const {
  std::string text = fmt::format("plan of rank {} of {}: {} rounds of {} elements of {} bytes, blocks modulo {}\n",
                                 rank_, size_, desc_.rounds, desc_.chunk, element_bytes_, desc_.block_modulus);
  for (uint32_t buffer : {SL_BUFFER_SEND, SL_BUFFER_RECV, SL_BUFFER_SCRATCH}) {
    const sl_geometry_t& g = geometry(buffer);
    if (g.total == 0) continue;
    text +=
        fmt::format("  {:<8} {} elements, blocks of {} every {}\n", BufferName(buffer), g.total, g.length, g.stride);
  }
  if (desc_.credits > 1) text += fmt::format("  needs links of {} slots\n", desc_.credits);
  if (desc_.scratch_bytes != 0) text += fmt::format("  scratch takes {} bytes\n", desc_.scratch_bytes);
  for (uint32_t i = 0; i < lane_count(); ++i) {
    text += fmt::format("lane {}\n", i);
    uint32_t number = 0;
    uint32_t repeat_end = 0;
    for (const PlanStep& step : lane(i)) {
      const char* indent = number < repeat_end ? "  " : "";
      text += fmt::format("{:4}  {}{}", number, indent, StepText(step.data));
      if (step.data.kind == SL_STEP_REPEAT) {
        repeat_end = number + 1 + step.data.length;
      } else {
        text += fmt::format("  | {}", OperandText(step.data.shape));
      }
      text += '\n';
      ++number;
    }
  }
  return text;
}

}  // namespace sl::kernel
