// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/interleave_test_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "kernel/plan/part.h"
#include "kernel/plan/signature.h"
#include "tools/verify/result.h"

namespace sl::verify {
namespace {

using Numbers = std::vector<uint64_t>;

// One direction of a link, and what each end has in hand.
struct Pipe {
  std::deque<Numbers> queue;
  uint32_t in_use = 0;  // credits
  bool has_inbox = false;
  bool has_outbox = false;
  Numbers inbox;
  Numbers outbox;
};

struct Lane {
  uint32_t rank;
  const kernel::Plan* plan;
  std::span<const kernel::PlanStep> steps;
  uint64_t round = 0;
  uint32_t step = 0;
  uint32_t repeat_first = 0;
  uint32_t repeat_end = 0;
  uint64_t repetition = 0;
  uint64_t repetitions = 0;
};

enum class Outcome { kMoved, kWaits, kEnded, kWrong };

class Execution {
 public:
  Execution(const Case& test, uint32_t credits, uint32_t seed) : test_(test), credits_(credits), random_(seed) {
    const auto ranks = static_cast<uint32_t>(test.ranks.size());
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto& [plan, op] = test.ranks[rank];
      const uint64_t sent = kernel::SendElements(op, rank, ranks), received = kernel::RecvElements(op, rank, ranks);
      Rank& own = ranks_.emplace_back();
      own.shared = test.in_place && sent != 0 && received != 0;
      own.recv = Random(own.shared ? std::max(sent, received) : received);
      own.input = Random(sent);
      own.scratch = Random(plan->desc().scratch_bytes / plan->element_bytes());
      if (own.shared && sent < received) own.send_base = rank * op.count;
      if (own.shared && received < sent) own.recv_base = rank * op.count;
      own.send = own.input;
      if (own.shared)
        std::copy(own.input.begin(), own.input.end(), own.recv.begin() + static_cast<long>(own.send_base));
      for (uint32_t lane = 0; lane < plan->lane_count(); ++lane) lanes_.push_back({rank, plan, plan->lane(lane)});
    }
  }

  std::string Run() {
    std::vector<size_t> open(lanes_.size());
    for (size_t i = 0; i < open.size(); ++i) open[i] = i;
    size_t waiting = 0;
    while (!open.empty()) {
      if (waiting == open.size()) return "stuck";
      // Those that wait stand in front; they are looked at again as soon as anybody has moved.
      const size_t at = waiting + random_() % (open.size() - waiting);
      switch (Advance(&lanes_[open[at]])) {
        case Outcome::kWrong:
          return wrong_;
        case Outcome::kWaits:
          std::swap(open[at], open[waiting++]);
          break;
        case Outcome::kEnded:
          open.erase(open.begin() + static_cast<long>(at));
          [[fallthrough]];
        case Outcome::kMoved:
          waiting = 0;
      }
    }
    for (const auto& [key, pipe] : pipes_) {
      if (!pipe.queue.empty() || pipe.has_inbox) return "a chunk is left";
    }
    return Compare();
  }

 private:
  struct Rank {
    Numbers send, recv, scratch;
    Numbers input;
    uint64_t send_base = 0, recv_base = 0;
    bool shared = false;
  };

  Numbers Random(uint64_t count) {
    Numbers numbers(count);
    for (uint64_t& number : numbers) number = uint64_t{random_()} << 32 | random_();
    return numbers;
  }

  Outcome Wrong(const std::string& what) {
    wrong_ = what;
    return Outcome::kWrong;
  }

  Pipe& PipeOf(uint32_t from, int32_t to, uint32_t lane) { return pipes_[{from, static_cast<uint32_t>(to), lane}]; }
  Pipe& InOf(const Lane& lane, int32_t peer, uint32_t link_lane) {
    return PipeOf(static_cast<uint32_t>(peer), static_cast<int32_t>(lane.rank), link_lane);
  }

  Outcome Advance(Lane* lane) {
    const sl_plan_desc_t& desc = lane->plan->desc();
    if (lane->step == lane->steps.size()) {
      lane->step = 0;
      if (!lane->steps.empty()) ++lane->round;
    }
    if (lane->round >= desc.rounds || lane->steps.empty()) return Outcome::kEnded;
    const sl_step_t& step = lane->steps[lane->step].data;
    if (step.kind == SL_STEP_REPEAT) {
      lane->repeat_first = ++lane->step;
      lane->repeat_end = lane->step + step.length;
      lane->repetitions = step.count;
      if (step.count == 0) lane->step = lane->repeat_end, lane->repeat_end = 0;
      return Outcome::kMoved;
    }
    const uint32_t block =
        kernel::BlockAt(step.shape.block, step.shape.block_step, lane->repetition, desc.block_modulus);
    const kernel::Part part = kernel::PartOf(lane->plan->geometry(step.shape.buffer), block, desc.chunk, lane->round);
    if (part.elements != 0) {
      const Outcome outcome = Execute(*lane, step, part.elements);
      if (outcome != Outcome::kMoved) return outcome;
    }
    if (++lane->step == lane->repeat_end) {
      const bool again = ++lane->repetition < lane->repetitions;
      lane->step = again ? lane->repeat_first : lane->step;
      if (!again) lane->repetition = lane->repeat_end = 0;
    }
    return Outcome::kMoved;
  }

  Outcome Execute(const Lane& lane, const sl_step_t& step, uint64_t elements) {
    switch (step.kind) {
      case SL_STEP_WAIT: {
        Pipe& pipe = InOf(lane, step.peer, step.lane);
        if (pipe.has_inbox) return Outcome::kMoved;
        if (pipe.queue.empty()) return Outcome::kWaits;
        pipe.inbox = std::move(pipe.queue.front());
        pipe.queue.pop_front();
        pipe.has_inbox = true;
        return pipe.inbox.size() == elements ? Outcome::kMoved : Wrong("lengths differ");
      }
      case SL_STEP_RELEASE: {
        Pipe& pipe = InOf(lane, step.peer, step.lane);
        if (!pipe.has_inbox) return Wrong("no inbox to release");
        pipe.has_inbox = false;
        --pipe.in_use;
        return Outcome::kMoved;
      }
      case SL_STEP_RESERVE:
        return Reserve(lane, step, elements);
      case SL_STEP_PUT:
        return Put(lane, step, elements);
      default:
        return Move(lane, step, elements);
    }
  }

  Outcome Reserve(const Lane& lane, const sl_step_t& step, uint64_t elements) {
    Pipe& pipe = PipeOf(lane.rank, step.peer, step.lane);
    if (pipe.has_outbox) return Outcome::kMoved;
    if (pipe.in_use == credits_) return Outcome::kWaits;
    ++pipe.in_use;
    pipe.has_outbox = true;
    pipe.outbox = Random(std::max(elements, lane.plan->desc().chunk));
    return Outcome::kMoved;
  }

  Outcome Put(const Lane& lane, const sl_step_t& step, uint64_t elements) {
    Pipe& pipe = PipeOf(lane.rank, step.peer, step.lane);
    if (step.a.buffer != SL_BUFFER_NONE) {
      if (const Outcome outcome = Reserve(lane, step, elements); outcome != Outcome::kMoved) return outcome;
      const uint64_t* source = Find(lane, step.a, step.lane, elements);
      if (source == nullptr) return Wrong("no chunk in hand");
      std::copy(source, source + elements, pipe.outbox.begin());
    }
    if (!pipe.has_outbox) return Wrong("nothing reserved");
    pipe.has_outbox = false;
    pipe.queue.emplace_back(pipe.outbox.begin(), pipe.outbox.begin() + static_cast<long>(elements));
    return Outcome::kMoved;
  }

  Outcome Move(const Lane& lane, const sl_step_t& step, uint64_t elements) {
    const uint64_t* a = Find(lane, step.a, step.lane, elements);
    const uint64_t* b = Find(lane, step.b, step.lane, elements);
    if (a == nullptr || (b == nullptr && step.b.buffer != SL_BUFFER_NONE)) return Wrong("no chunk in hand");
    Numbers result(a, a + elements);
    if (b != nullptr) {
      for (uint64_t i = 0; i < elements; ++i) result[i] += b[i];
    }
    for (const sl_operand_t* target : {&step.dst, &step.dst2}) {
      if (target->buffer == SL_BUFFER_NONE) continue;
      uint64_t* to = Find(lane, *target, step.lane, elements);
      if (to == nullptr) return Wrong("nothing reserved");
      std::copy(result.begin(), result.end(), to);
    }
    return Outcome::kMoved;
  }

  // The first element of an operand; NULL: none, or a chunk that is not there.
  uint64_t* Find(const Lane& lane, const sl_operand_t& operand, uint32_t link_lane, uint64_t elements) {
    if (operand.buffer == SL_BUFFER_NONE) return nullptr;
    if (operand.buffer == SL_BUFFER_INBOX) {
      Pipe& pipe = InOf(lane, operand.peer, link_lane);
      return pipe.has_inbox && pipe.inbox.size() >= elements ? pipe.inbox.data() : nullptr;
    }
    if (operand.buffer == SL_BUFFER_OUTBOX) {
      Pipe& pipe = PipeOf(lane.rank, operand.peer, link_lane);
      return pipe.has_outbox ? pipe.outbox.data() : nullptr;
    }
    const sl_plan_desc_t& desc = lane.plan->desc();
    const uint32_t block = kernel::BlockAt(operand.block, operand.block_step, lane.repetition, desc.block_modulus);
    const uint64_t offset = block * lane.plan->geometry(operand.buffer).stride + lane.round * desc.chunk;
    Rank& own = ranks_[lane.rank];
    if (operand.buffer == SL_BUFFER_SCRATCH) return own.scratch.data() + offset;
    if (operand.buffer == SL_BUFFER_RECV) return own.recv.data() + own.recv_base + offset;
    return own.shared ? own.recv.data() + own.send_base + offset : own.send.data() + offset;
  }

  std::string Compare() const {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& own = ranks_[rank];
      for (const Wanted& wanted : WantedOf(test_.ranks[rank].op, rank, static_cast<uint32_t>(ranks_.size()))) {
        for (uint64_t i = wanted.begin; i < wanted.end; ++i) {
          uint64_t sum = 0;
          for (uint32_t from = 0; from < ranks_.size(); ++from) {
            const bool counts = wanted.rank == Wanted::kAll || wanted.rank == from;
            if (counts) sum += ranks_[from].input[static_cast<uint64_t>(static_cast<int64_t>(i) + wanted.shift)];
          }
          if (own.recv[own.recv_base + i] != sum) return fmt::format("rank {} element {} is wrong", rank, i);
        }
      }
    }
    return "";
  }

  const Case& test_;
  const uint32_t credits_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::vector<Lane> lanes_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Pipe> pipes_;
  std::string wrong_;
};

}  // namespace

std::string Interleave(const Case& test, uint32_t credits, uint32_t runs, uint32_t seed) {
  for (uint32_t run = 0; run < runs; ++run) {
    std::string wrong = Execution(test, credits, seed + run).Run();
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace sl::verify
