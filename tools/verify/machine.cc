// SPDX-License-Identifier: Apache-2.0
//
// Control: which step comes next, who waits for whom, and how lanes end.
#include "tools/verify/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/plan/part.h"
#include "kernel/plan/signature.h"

namespace sl::verify {
namespace {

constexpr size_t kMaxNotes = 8;

// Rounds in which any step has a part; in later ones every step is skipped.
uint64_t UsefulRounds(const sl_plan_desc_t& desc) {
  uint64_t rounds = 0;
  for (const sl_geometry_t* geometry : {&desc.send, &desc.recv, &desc.scratch}) {
    rounds = std::max(rounds, kernel::RoundsFor(std::min(geometry->length, geometry->total), desc.chunk));
  }
  return std::min(rounds, desc.rounds);
}

bool HasManyLanes(const Case& test) {
  return std::any_of(test.ranks.begin(), test.ranks.end(),
                     [](const RankPlan& part) { return part.plan != nullptr && part.plan->lane_count() > 1; });
}

}  // namespace

std::string StepTextAt(const Case& test, const Place& place) {
  const kernel::Plan* plan = test.ranks[place.rank].plan;
  if (plan == nullptr || place.lane >= plan->lane_count()) return "";
  const auto steps = plan->lane(place.lane);
  return place.step < steps.size() ? kernel::StepText(steps[place.step].data) : "the end of the lane";
}

Machine::Machine(const Case& test, uint32_t credits, Expressions* expressions)
    : test_(test),
      credits_(credits),
      expressions_(expressions),
      scales_(OperationOf(test).reduction == SL_AVG || OperationOf(test).reduction == SL_PREMUL_SUM) {
  const uint32_t executed = test.folds.ranks ? 1 : size();
  for (uint32_t rank = 0; rank < executed; ++rank) AddRank(rank);
  if (HasManyLanes(test)) AddClocks();
}

// Clocks know the lanes of all ranks, also of those that are not executed.
void Machine::AddClocks() {
  races_.assign(memories_.size(), Races(Memory::kSpaces));
  const size_t lanes = processes_.size() * (test_.folds.ranks ? size() : 1);
  for (size_t i = 0; i < processes_.size(); ++i) {
    processes_[i].clock.resize(lanes);
    processes_[i].clock[i] = 1;
  }
}

void Machine::AddRank(uint32_t rank) {
  const auto& [rank_plan, op] = test_.ranks[rank];
  const uint64_t scratch = rank_plan == nullptr ? 0 : rank_plan->desc().scratch_bytes / rank_plan->element_bytes();
  memories_.emplace_back(MemoryLayout::Of(op, rank, size(), scratch, test_.in_place), expressions_->Input(rank));
  first_link_.push_back(static_cast<uint32_t>(links_.size()));
  if (rank_plan == nullptr) return;
  const auto first_process = static_cast<uint32_t>(processes_.size());
  for (const kernel::PlanLink& used : rank_plan->links()) {
    Link state;
    if (used.send_lane != kernel::kNoLink) {
      state.out = ChannelOf(rank, used.peer, used.lane);
      channels_[state.out].sender = first_process + used.send_lane;
    }
    if (used.recv_lane != kernel::kNoLink) {
      // Ranks are folded: turned by -peer, the link from the peer is one from rank 0.
      state.in =
          test_.folds.ranks ? ChannelOf(rank, size() - used.peer, used.lane) : ChannelOf(used.peer, rank, used.lane);
      channels_[state.in].receiver = first_process + used.recv_lane;
    }
    links_.push_back(std::move(state));
  }
  for (uint32_t lane = 0; lane < rank_plan->lane_count(); ++lane) {
    Process process{rank, lane};
    process.rounds = UsefulRounds(rank_plan->desc());
    processes_.push_back(std::move(process));
  }
}

uint32_t Machine::ChannelOf(uint32_t from, uint32_t to, uint32_t link_lane) {
  static_assert(kernel::kSignatureMaxRanks <= UINT16_MAX, "two ranks and a lane fit one key");
  const uint64_t key = uint64_t{from} << 48 | uint64_t{to} << 32 | link_lane;
  const auto [found, is_new] = channel_numbers_.try_emplace(key, static_cast<uint32_t>(channels_.size()));
  if (is_new) channels_.push_back({from, to, link_lane, kNone, kNone, 0, 0, 0, {}});
  return found->second;
}

std::optional<CounterExample> Machine::Run() {
  for (uint32_t i = 0; i < processes_.size(); ++i) runnable_.push_back(i);
  while (!runnable_.empty()) {
    Process& process = processes_[runnable_.front()];
    runnable_.pop_front();
    if (!Advance(&process)) return wrong_;
  }
  if (FindDeadlock() || FindLeftover()) return wrong_;
  return std::nullopt;
}

// Runs a lane until it waits or ends; false when something is wrong.
bool Machine::Advance(Process* process) {
  const kernel::Plan& own = plan(*process);
  const sl_plan_desc_t& desc = own.desc();
  const auto steps = own.lane(process->lane);
  process->waits = Waits::kNo;
  for (; process->round < process->rounds; ++process->round, process->step = 0) {
    while (process->step < steps.size()) {
      const kernel::PlanStep& step = steps[process->step];
      if (step.data.kind == SL_STEP_REPEAT) {
        BeginRepeat(process, step.data);
        continue;
      }
      const sl_operand_t& shape = step.data.shape;
      const uint32_t block = kernel::BlockAt(shape.block, shape.block_step, process->repetition, desc.block_modulus);
      const kernel::Part part = kernel::PartOf(own.geometry(shape.buffer), block, desc.chunk, process->round);
      if (steps_ == test_.step_limit) {
        return Fail(Fault::kLimit, *process, fmt::format("more than {} steps were executed", test_.step_limit),
                    "the plans to end before that; raise the limit to find out");
      }
      block_ = block;
      if (part.elements != 0 && !Execute(process, step, part.elements)) return !wrong_;
      ++steps_;
      EndStep(process);
    }
  }
  return EndLane(process);
}

void Machine::BeginRepeat(Process* process, const sl_step_t& step) const {
  ++process->step;
  if (step.count == 0) {
    process->step += step.length;
    return;
  }
  process->repeat_first = process->step;
  process->repeat_end = process->step + step.length;
  process->repetitions = step.count;
}

void Machine::EndStep(Process* process) const {
  if (++process->step != process->repeat_end) return;
  if (++process->repetition < process->repetitions) {
    process->step = process->repeat_first;
    return;
  }
  process->repetition = 0;
  process->repeat_end = 0;
}

bool Machine::EndLane(Process* process) {
  const auto links = plan(*process).links();
  process->step = static_cast<uint32_t>(plan(*process).lane(process->lane).size());
  for (uint32_t i = 0; i < links.size(); ++i) {
    if (links[i].recv_lane != process->lane || !link(*process, i).has_inbox) continue;
    return Fail(Fault::kChunk, *process, fmt::format("the lane ends with a chunk of rank {} in hand", links[i].peer),
                "a RELEASE for every WAIT");
  }
  if (test_.folds.rounds && !LeavesNothing(*process)) return false;
  process->done = true;
  return true;
}

void Machine::Block(Process* process, Waits waits, uint32_t channel) {
  process->waits = waits;
  process->channel = channel;
}

void Machine::Wake(uint32_t process) {
  if (process == kNone || processes_[process].waits == Waits::kNo) return;
  processes_[process].waits = Waits::kNo;
  runnable_.push_back(process);
}

std::string Machine::WaitText(const Process& process) const {
  const Place place = PlaceOf(process);
  const Channel& channel = channels_[process.channel];
  const std::string what = process.waits == Waits::kForChunk
                               ? fmt::format("waits for chunk {} of rank {}", channel.taken + 1, channel.from)
                               : fmt::format("waits for room at rank {}, which holds {} of its {} chunks", channel.to,
                                             credits_, channel.posted);
  return fmt::format("rank {} lane {} step {} ({}) round {} {}", place.rank, place.lane, place.step, StepOf(place),
                     place.round, what);
}

// Nobody can run. Follows who waits for whom until somebody has ended, or comes up again.
bool Machine::FindDeadlock() {
  const auto blocked = [](const Process& process) { return !process.done; };
  const auto first = std::find_if(processes_.begin(), processes_.end(), blocked);
  if (first == processes_.end()) return false;
  std::vector<uint32_t> chain;
  auto next = static_cast<uint32_t>(first - processes_.begin());
  while (next != kNone && !processes_[next].done && std::find(chain.begin(), chain.end(), next) == chain.end()) {
    chain.push_back(next);
    const Channel& channel = channels_[processes_[next].channel];
    next = processes_[next].waits == Waits::kForChunk ? channel.sender : channel.receiver;
  }
  const Process& last = processes_[chain.back()];
  const Channel& channel = channels_[last.channel];
  if (next != kNone && !processes_[next].done) {
    chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), next));
    Fail(Fault::kDeadlock, processes_[next], fmt::format("{} lanes wait for each other", chain.size()),
         fmt::format("an order of steps that ends with {} chunks on a link", credits_));
  } else if (last.waits == Waits::kForChunk) {
    Fail(Fault::kDeadlock, last, fmt::format("it waits for chunk {} of rank {}", channel.taken + 1, channel.from),
         channel.sender == kNone
             ? fmt::format("rank {} to send it; it sends nothing on link lane {}", channel.from, channel.link_lane)
             : fmt::format("rank {} to send it; it ends after {}", channel.from, channel.posted));
  } else {
    Fail(Fault::kDeadlock, last, fmt::format("it waits for room at rank {}", channel.to),
         channel.receiver == kNone
             ? fmt::format("rank {} to take its chunks; it takes none on link lane {}", channel.to, channel.link_lane)
             : fmt::format("rank {} to take its chunks; it ends after {}", channel.to, channel.released));
  }
  for (size_t i = 0; i < chain.size() && i < kMaxNotes; ++i) {
    wrong_->notes.push_back(WaitText(processes_[chain[i]]));
  }
  if (chain.size() > kMaxNotes) wrong_->notes.push_back(fmt::format("and {} more", chain.size() - kMaxNotes));
  return true;
}

bool Machine::FindLeftover() {
  for (const Channel& channel : channels_) {
    if (channel.queue.empty()) continue;
    CounterExample& wrong = wrong_.emplace();
    wrong.fault = Fault::kLeftover;
    wrong.rank = channel.from;
    wrong.place = channel.queue.front().sent;
    wrong.step = StepOf(*wrong.place);
    wrong.holds = fmt::format("{} of the {} chunks to rank {} on link lane {} are never taken", channel.queue.size(),
                              channel.posted, channel.to, channel.link_lane);
    wrong.wants = fmt::format("a WAIT and a RELEASE of rank {} for each of them", channel.to);
    return true;
  }
  return false;
}

Place Machine::PlaceOf(const Process& process) const {
  return {process.rank, process.lane, process.step, static_cast<uint32_t>(process.repetition), process.round};
}

std::string Machine::StepOf(const Place& place) const { return StepTextAt(test_, place); }

bool Machine::Fail(Fault fault, const Process& process, std::string holds, std::string wants) {
  CounterExample& wrong = wrong_.emplace();
  wrong.fault = fault;
  wrong.rank = process.rank;
  wrong.place = PlaceOf(process);
  wrong.step = StepOf(*wrong.place);
  wrong.holds = std::move(holds);
  wrong.wants = std::move(wants);
  return false;
}

bool Machine::FailAt(Fault fault, const Process& process, const Range& range, uint64_t element, std::string holds,
                     std::string wants) {
  Fail(fault, process, std::move(holds), std::move(wants));
  wrong_->buffer = range.buffer;
  wrong_->element = element;
  return false;
}

}  // namespace sl::verify
