// SPDX-License-Identifier: Apache-2.0
//
// What each kind of step does to symbols.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernel/plan/part.h"
#include "tools/verify/machine.h"

namespace sl::verify {
namespace {

bool IsMemory(uint32_t buffer) {
  return buffer == SL_BUFFER_SEND || buffer == SL_BUFFER_RECV || buffer == SL_BUFFER_SCRATCH;
}

}  // namespace

bool Machine::Execute(Process* process, const kernel::PlanStep& step, uint64_t elements) {
  switch (step.data.kind) {
    case SL_STEP_WAIT:
      return Wait(process, step, elements);
    case SL_STEP_RESERVE:
      return Reserve(process, step.link);
    case SL_STEP_COPY:
      return Copy(process, step, elements);
    case SL_STEP_REDUCE:
      return Reduce(process, step, elements);
    case SL_STEP_PUT:
      return Put(process, step, elements);
    default:
      return Release(process, step);
  }
}

// A chunk in hand stays in hand.
bool Machine::Wait(Process* process, const kernel::PlanStep& step, uint64_t elements) {
  Link& used = link(*process, step.link);
  if (used.has_inbox) return KeepsBlock(*process, used.inbox.block);
  Channel& channel = channels_[used.in];
  if (channel.queue.empty()) {
    Block(process, Waits::kForChunk, used.in);
    return false;
  }
  const Chunk& chunk = channel.queue.front();
  if (chunk.elements != elements) {
    Fail(Fault::kLength, *process,
         fmt::format("the chunk that rank {} sent has {} elements", channel.from, chunk.elements),
         fmt::format("{} elements, the part of this step", elements));
    wrong_->notes.push_back(fmt::format("it was sent by rank {} lane {} step {} ({}) round {} repetition {}",
                                        chunk.sent.rank, chunk.sent.lane, chunk.sent.step, StepOf(chunk.sent),
                                        chunk.sent.round, chunk.sent.repetition));
    return false;
  }
  used.inbox = std::move(channel.queue.front());
  channel.queue.erase(channel.queue.begin());
  ++channel.taken;
  used.has_inbox = true;
  if (test_.folds.ranks && !Turn(*process, static_cast<uint32_t>(step.data.peer), &used.inbox)) return false;
  if (!KeepsBlock(*process, used.inbox.block)) return false;
  for (size_t i = 0; i < used.inbox.clock.size(); ++i) {
    process->clock[i] = std::max(process->clock[i], used.inbox.clock[i]);
  }
  return true;
}

bool Machine::Reserve(Process* process, uint32_t link_index) {
  Link& used = link(*process, link_index);
  if (used.has_outbox) return KeepsBlock(*process, used.outbox_block);
  const Channel& channel = channels_[used.out];
  if (channel.posted - channel.released == credits_) {
    Block(process, Waits::kForRoom, used.out);
    return false;
  }
  used.has_outbox = true;
  used.outbox_block = block_;
  used.outbox.clear();
  return true;
}

bool Machine::Put(Process* process, const kernel::PlanStep& step, uint64_t elements) {
  const Range outbox = {"the outbox", SL_BUFFER_OUTBOX, step.link, 0};
  if (step.data.a.buffer != SL_BUFFER_NONE) {
    if (!Reserve(process, step.link)) return false;
    if (!Read(process, RangeOf(*process, step.data.a, step.a_link, "a"), elements, &a_)) return false;
    if (!Write(process, outbox, elements, a_)) return false;
  }
  Link& used = link(*process, step.link);
  Channel& channel = channels_[used.out];
  if (!used.has_outbox) {
    return Fail(Fault::kChunk, *process, fmt::format("no chunk to rank {} is reserved", channel.to),
                "a RESERVE before this step");
  }
  if (!KeepsBlock(*process, used.outbox_block)) return false;
  const uint64_t written = CountOf(used.outbox);
  if (written < elements) {
    return FailAt(Fault::kUnwritten, *process, outbox, written,
                  fmt::format("only {} of the chunk's {} elements are written", written, elements),
                  "every element of a chunk to be written before it is sent");
  }
  Chunk chunk;
  chunk.content = written == elements ? std::exchange(used.outbox, {}) : FirstOf(used.outbox, elements);
  chunk.elements = elements;
  chunk.block = used.outbox_block;
  chunk.sent = PlaceOf(*process);
  chunk.clock = process->clock;
  if (!process->clock.empty()) ++process->clock[static_cast<size_t>(process - processes_.data())];
  channel.queue.push_back(std::move(chunk));
  ++channel.posted;
  ++chunks_;
  used.has_outbox = false;
  Wake(channel.receiver);
  return true;
}

bool Machine::Release(Process* process, const kernel::PlanStep& step) {
  Link& used = link(*process, step.link);
  Channel& channel = channels_[used.in];
  if (!used.has_inbox) {
    return Fail(Fault::kChunk, *process, fmt::format("no chunk of rank {} is in hand", channel.from),
                "a WAIT before this step");
  }
  if (!KeepsBlock(*process, used.inbox.block)) return false;
  used.has_inbox = false;
  ++channel.released;
  Wake(channel.sender);
  return true;
}

bool Machine::Copy(Process* process, const kernel::PlanStep& step, uint64_t elements) {
  const Range source = RangeOf(*process, step.data.a, step.a_link, "a");
  const Range targets[] = {RangeOf(*process, step.data.dst, step.dst_link, "dst"),
                           RangeOf(*process, step.data.dst2, step.dst2_link, "dst2")};
  if (!CheckOverlap(*process, targets[0], targets[1], elements)) return false;
  if (!Read(process, source, elements, &a_)) return false;
  for (const Range& target : targets) {
    // What is copied onto itself is not written.
    if (target.buffer == SL_BUFFER_NONE || IsSame(*process, source, target)) continue;
    if (!CheckOverlap(*process, source, target, elements) || !Write(process, target, elements, a_)) return false;
  }
  return true;
}

bool Machine::Reduce(Process* process, const kernel::PlanStep& step, uint64_t elements) {
  const Range a = RangeOf(*process, step.data.a, step.a_link, "a");
  const Range b = RangeOf(*process, step.data.b, step.b_link, "b");
  const Range targets[] = {RangeOf(*process, step.data.dst, step.dst_link, "dst"),
                           RangeOf(*process, step.data.dst2, step.dst2_link, "dst2")};
  const uint32_t flags = step.data.flags;
  const bool joins = b.buffer != SL_BUFFER_NONE;
  if (scales_ && !joins && (flags & SL_STEP_B_RAW) != 0) {
    return Fail(Fault::kFlag, *process, "B_RAW is set, and there is no b", "flags for operands that are there");
  }
  if (!CheckOverlap(*process, targets[0], targets[1], elements)) return false;
  if (!Read(process, a, elements, &a_)) return false;
  if (!Prepare(*process, a, (flags & SL_STEP_A_RAW) != 0, joins, &a_)) return false;
  if (joins) {
    if (!Read(process, b, elements, &b_)) return false;
    if (!Prepare(*process, b, (flags & SL_STEP_B_RAW) != 0, joins, &b_)) return false;
    Join(PlaceOf(*process));
  } else {
    result_ = a_;
  }
  if ((flags & SL_STEP_FINAL) != 0 && !Finish(*process, &result_)) return false;
  const bool changes = joins || (scales_ && flags != 0);
  for (const Range& target : targets) {
    if (target.buffer == SL_BUFFER_NONE) continue;
    const bool same = IsSame(*process, a, target);
    if (same && !changes) continue;
    if (!same && !CheckOverlap(*process, a, target, elements)) return false;
    if (joins && !IsSame(*process, b, target) && !CheckOverlap(*process, b, target, elements)) return false;
    if (!Write(process, target, elements, result_)) return false;
  }
  return true;
}

// result_ = a_ op b_, piece by piece.
void Machine::Join(const Place& place) {
  result_.clear();
  size_t i = 0, j = 0;
  uint64_t used_a = 0, used_b = 0;
  while (i < a_.size() && j < b_.size()) {
    const uint64_t count = std::min(a_[i].elements - used_a, b_[j].elements - used_b);
    Append(&result_, count, expressions_->Join(a_[i].value, b_[j].value, place));
    used_a += count;
    used_b += count;
    if (used_a == a_[i].elements) ++i, used_a = 0;
    if (used_b == b_[j].elements) ++j, used_b = 0;
  }
}

// Checks an operand's RAW flag against what it holds, and scales it. Flags mean nothing where nothing is scaled.
bool Machine::Prepare(const Process& process, const Range& range, bool raw, bool joins, Pieces* pieces) {
  if (!scales_) return true;
  uint64_t position = 0;
  for (Piece& piece : *pieces) {
    const NodeId node = piece.value.node;
    const Expressions::Kind kind = expressions_->kind(node);
    const bool input = kind == Expressions::Kind::kInput;
    const char* wants = nullptr;
    if (raw && !expressions_->IsInput(piece.value, process.rank)) wants = "this rank's own input, as the RAW flag says";
    if (!raw && input && joins) wants = "a contribution that was scaled, or the RAW flag on it";
    if (joins && kind == Expressions::Kind::kFinished)
      wants = "a result that is not finished yet: FINAL belongs to the last step";
    if (wants != nullptr) {
      const auto index = static_cast<int64_t>(position) + piece.value.shift;
      return FailAt(Fault::kFlag, process, range, range.offset + position,
                    fmt::format("{} holds {}", range.name, expressions_->ToText(piece.value, index)), wants);
    }
    if (raw) piece.value.node = expressions_->Scaled(node, PlaceOf(process));
    position += piece.elements;
  }
  return true;
}

// The result is complete: divides it.
bool Machine::Finish(const Process& process, Pieces* pieces) {
  if (!scales_) return true;
  uint64_t position = 0;
  for (Piece& piece : *pieces) {
    const NodeId node = piece.value.node;
    const Expressions::Kind kind = expressions_->kind(node);
    const bool complete = expressions_->inputs(node) == test_.ranks.size();
    if (!complete || kind == Expressions::Kind::kFinished || kind == Expressions::Kind::kInput) {
      const auto index = static_cast<int64_t>(position) + piece.value.shift;
      return Fail(Fault::kFlag, process,
                  fmt::format("what FINAL finishes is {}", expressions_->ToText(piece.value, index)),
                  fmt::format("{} scaled contributions, not finished before", test_.ranks.size()));
    }
    piece.value.node = expressions_->Finished(node, PlaceOf(process));
    position += piece.elements;
  }
  return true;
}

Machine::Range Machine::RangeOf(const Process& process, const sl_operand_t& operand, uint32_t link_index,
                                const char* name) const {
  if (!IsMemory(operand.buffer)) return {name, operand.buffer, link_index, 0};
  const sl_plan_desc_t& desc = plan(process).desc();
  const uint32_t block = kernel::BlockAt(operand.block, operand.block_step, process.repetition, desc.block_modulus);
  const sl_geometry_t& geometry = plan(process).geometry(operand.buffer);
  return {name, operand.buffer, link_index, kernel::BlockStart(geometry, block) + process.round * desc.chunk};
}

bool Machine::IsSame(const Process& process, const Range& source, const Range& target) const {
  if (!IsMemory(source.buffer) || !IsMemory(target.buffer)) return false;
  const Memory& memory = memories_[process.rank];
  const Memory::Position from = memory.PositionOf(source.buffer, source.offset);
  const Memory::Position to = memory.PositionOf(target.buffer, target.offset);
  return from.space == to.space && from.offset == to.offset;
}

bool Machine::CheckOverlap(const Process& process, const Range& source, const Range& target, uint64_t elements) {
  if (!IsMemory(source.buffer) || !IsMemory(target.buffer)) {
    const bool same_chunk = source.buffer == SL_BUFFER_OUTBOX && target.buffer == SL_BUFFER_OUTBOX;
    if (!same_chunk || source.link != target.link) return true;
  } else {
    const Memory& memory = memories_[process.rank];
    const Memory::Position from = memory.PositionOf(source.buffer, source.offset);
    const Memory::Position to = memory.PositionOf(target.buffer, target.offset);
    const bool apart = from.offset + elements <= to.offset || to.offset + elements <= from.offset;
    if (from.space != to.space || apart) return true;
  }
  return FailAt(Fault::kOverlap, process, target, target.offset,
                fmt::format("{} and {}, {} elements each, overlap", source.name, target.name, elements),
                "ranges that are apart, or a target that is its source exactly");
}

bool Machine::Touch(const Process& process, const Range& range, uint64_t elements, bool writes) {
  if (races_.empty()) return true;
  const auto number = static_cast<uint32_t>(&process - processes_.data());
  const Memory::Position at = memories_[process.rank].PositionOf(range.buffer, range.offset);
  const auto conflict = races_[process.rank].Touch(at.space, at.offset, at.offset + elements,
                                                   {number, writes, PlaceOf(process)}, process.clock);
  if (!conflict) return true;
  const Place& earlier = conflict->earlier;
  return FailAt(Fault::kRace, process, range, range.offset + (conflict->offset - at.offset),
                fmt::format("this step {} it, and lane {} step {} ({}) round {} repetition {} {} it",
                            writes ? "writes" : "reads", earlier.lane, earlier.step, StepOf(earlier), earlier.round,
                            earlier.repetition, conflict->earlier_writes ? "writes" : "reads"),
                "a chunk that orders the two steps, or one lane for both");
}

bool Machine::Read(Process* process, const Range& range, uint64_t elements, Pieces* out) {
  if (range.buffer == SL_BUFFER_INBOX) {
    const Link& used = link(*process, range.link);
    if (!used.has_inbox) {
      return FailAt(Fault::kChunk, *process, range, 0,
                    fmt::format("no chunk of rank {} is in hand", channels_[used.in].from), "a WAIT before this step");
    }
    if (used.inbox.elements < elements) {
      return FailAt(Fault::kLength, *process, range, used.inbox.elements,
                    fmt::format("the chunk in hand has {} elements", used.inbox.elements),
                    fmt::format("{} elements, the part of this step", elements));
    }
    if (!KeepsBlock(*process, used.inbox.block)) return false;
    *out = used.inbox.elements == elements ? used.inbox.content : FirstOf(used.inbox.content, elements);
    return true;
  }
  const Memory& memory = memories_[process->rank];
  if (!memory.Contains(range.buffer, range.offset, elements)) {
    return FailAt(Fault::kOverrun, *process, range, range.offset,
                  fmt::format("{} reads {} elements from here", range.name, elements), "a range inside the buffer");
  }
  if (!Touch(*process, range, elements, false)) return false;
  uint64_t unwritten = 0;
  if (memory.Read(range.buffer, range.offset, elements, out, &unwritten)) return true;
  return FailAt(Fault::kUnwritten, *process, range, unwritten,
                fmt::format("{} reads it, and nothing has written it", range.name),
                "a step before this one that writes it");
}

bool Machine::Write(Process* process, const Range& range, uint64_t elements, const Pieces& pieces) {
  if (range.buffer == SL_BUFFER_OUTBOX) {
    Link& used = link(*process, range.link);
    if (!used.has_outbox) {
      return FailAt(Fault::kChunk, *process, range, 0,
                    fmt::format("no chunk to rank {} is reserved", channels_[used.out].to),
                    "a RESERVE before this step");
    }
    if (!KeepsBlock(*process, used.outbox_block)) return false;
    Pieces whole = pieces;
    uint64_t position = 0;
    for (const Piece& piece : used.outbox) {
      // What an earlier, longer write left behind this one.
      const uint64_t end = position + piece.elements;
      if (end > elements) Append(&whole, end - std::max(position, elements), piece.value);
      position = end;
    }
    used.outbox = std::move(whole);
    return true;
  }
  Memory& memory = memories_[process->rank];
  if (!memory.Contains(range.buffer, range.offset, elements)) {
    return FailAt(Fault::kOverrun, *process, range, range.offset,
                  fmt::format("{} writes {} elements from here", range.name, elements), "a range inside the buffer");
  }
  if (!Touch(*process, range, elements, true)) return false;
  memory.Write(range.buffer, range.offset, pieces, PlaceOf(*process));
  return true;
}

}  // namespace sl::verify
