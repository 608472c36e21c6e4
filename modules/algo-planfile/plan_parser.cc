// SPDX-License-Identifier: Apache-2.0
//
// The grammar of plan files: a head of `key value` lines, then `rank`, its `lane`s and their steps, one a line.
#include <algorithm>
#include <utility>

#include "line.h"
#include "plan_file.h"
#include "sdk/datatype.h"
#include "sdk/plan_writer.h"

namespace sl::algo_planfile {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& path) { plan_.path = path; }

  Result<PlanFile> Parse(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++number_;
      Line line(text.substr(0, end), Place());
      if (!line.empty()) {
        Read(&line);
        line.End();
        SL_TRY(line.status());
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    SL_TRY(Finish());
    return std::move(plan_);
  }

 private:
  std::string Place() const { return plan_.path + ":" + std::to_string(number_); }
  Status Fail(const std::string& text) const { return {SL_ERR_CONFIG, Place() + ": " + text}; }

  void Read(Line* line) {
    if (!versioned_) {
      line->Expect("starling-plan");
      line->Number("the version of the format", 1, 1);
      versioned_ = true;
    } else if (line->Take("rank")) {
      BeginRank(line);
    } else if (rank_ < 0) {
      ReadHead(line);
    } else if (line->Take("lane")) {
      BeginLane(line);
    } else {
      ReadStep(line);
    }
  }

  void ReadHead(Line* line) {
    const std::string key = line->Word("a key");
    if (key == "name") {
      plan_.name = line->Word("the name");
    } else if (key == "collective") {
      plan_.kind = line->Choice("the collective", {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                                   "all_to_all", "gather", "scatter"});
    } else if (key == "ranks") {
      plan_.ranks = static_cast<uint32_t>(line->Number("the number of ranks", 2, kMaxRanks));
    } else if (key == "root") {
      plan_.root = static_cast<int32_t>(line->Number("the root", 0, kMaxRanks - 1));
    } else if (key == "blocks") {
      plan_.blocks = static_cast<uint32_t>(line->Number("the number of blocks", 1, kMaxBlocks));
    } else if (key == "scratch") {
      plan_.scratch_blocks = static_cast<uint32_t>(line->Number("the number of scratch blocks", 0, kMaxBlocks));
    } else if (key == "credits") {
      plan_.credits = static_cast<uint32_t>(line->Number("the number of credits", 1, kMaxBlocks));
    } else if (key == "chunk_bytes") {
      plan_.chunk_bytes = line->Number("the largest chunk in bytes", 8, uint64_t{1} << 40);
    } else if (key == "determinism") {
      plan_.determinism = line->Choice("the determinism", {"none", "run", "rank", "world_size"});
    } else if (key == "bytes") {
      plan_.min_bytes = line->Number("the smallest size in bytes", 0, UINT64_MAX);
      plan_.max_bytes = line->Number("the largest size in bytes", plan_.min_bytes, UINT64_MAX);
    } else {
      line->Fail("'" + key +
                 "' is no key of a plan's head; those are name, collective, ranks, root, blocks, scratch, " +
                 "credits, chunk_bytes, determinism and bytes, and `rank 0` begins the steps");
    }
  }

  // What the head as a whole must say; known when the first rank begins.
  void CheckHead(Line* line) {
    const bool rooted = plan_.kind == SL_OP_BROADCAST || plan_.kind == SL_OP_REDUCE || plan_.kind == SL_OP_GATHER ||
                        plan_.kind == SL_OP_SCATTER;
    const bool whole = plan_.kind == SL_OP_ALL_REDUCE || plan_.kind == SL_OP_BROADCAST || plan_.kind == SL_OP_REDUCE;
    if (plan_.name.empty()) line->Fail("the head lacks `name NAME`");
    if (plan_.ranks == 0) line->Fail("the head lacks `ranks N`");
    if (rooted && (plan_.root < 0 || static_cast<uint32_t>(plan_.root) >= plan_.ranks)) {
      line->Fail("the head lacks `root RANK`, one of the ranks, which this collective needs");
    }
    if (!rooted && plan_.root >= 0) line->Fail("this collective has no root; take the line `root` out");
    if (!whole && plan_.blocks != 1) {
      line->Fail("`blocks` is for all_reduce, broadcast and reduce; the others have one block a rank");
    }
    // For another root blocks are counted on modulo the ranks, so nothing else may set that number.
    if ((plan_.kind == SL_OP_GATHER || plan_.kind == SL_OP_SCATTER) && plan_.scratch_blocks > plan_.ranks) {
      line->Fail("`scratch` of a gather or scatter must not exceed the number of ranks");
    }
    plan_.lanes.resize(plan_.ranks);
  }

  void BeginRank(Line* line) {
    if (rank_ < 0) CheckHead(line);
    if (!line->status().ok()) return;
    EndLane(line);
    const auto expected = static_cast<uint64_t>(rank_ + 1);
    if (expected == plan_.ranks) return line->Fail("there are more ranks than the head says");
    line->Number("the rank, which follow each other from 0,", expected, expected);
    rank_ = static_cast<int64_t>(expected);
    waits_ = puts_ = 0;
  }

  void BeginLane(Line* line) {
    EndLane(line);
    const auto link_lane = static_cast<uint32_t>(line->Number("the lane of the links", 0, 255));
    plan_.link_lanes = std::max(plan_.link_lanes, link_lane + 1);
    plan_.lanes[Rank()].push_back({link_lane, {}});
  }

  void ReadStep(Line* line) {
    if (plan_.lanes[Rank()].empty()) return line->Fail("a step stands before the rank's first `lane`");
    const uint32_t word =
        line->Choice("the step", {"repeat", "wait", "reserve", "copy", "reduce", "put", "release", "end"});
    if (word == 7) return EndRepeat(line);
    if (++steps_ > kMaxSteps) return line->Fail("more than a million steps; write what repeats as a repeat");
    sl_step_t step{};
    step.struct_size = sizeof(step);
    step.kind = word;
    step.peer = -1;
    step.lane = plan_.lanes[Rank()].back().link_lane;
    switch (step.kind) {
      case SL_STEP_REPEAT:
        return BeginRepeat(line, step);
      case SL_STEP_COPY:
      case SL_STEP_REDUCE:
        ReadCombination(line, &step);
        break;
      default:
        step.peer = Peer(line);
        if (step.kind == SL_STEP_PUT && line->Take("=")) step.a = Source(line);
        break;
    }
    ReadShape(line, &step);
    Count(step);
    Steps()->push_back(step);
  }

  // copy DST [DST] = SOURCE; reduce DST [DST] = [raw] SOURCE [op [raw] SOURCE] [final].
  void ReadCombination(Line* line, sl_step_t* step) {
    const bool reduces = step->kind == SL_STEP_REDUCE;
    step->dst = Target(line);
    if (line->NextIsOperand()) step->dst2 = Target(line);
    line->Expect("=");
    if (reduces && line->Take("raw")) step->flags |= SL_STEP_A_RAW;
    step->a = Source(line);
    if (reduces && line->Take("op")) {
      if (line->Take("raw")) step->flags |= SL_STEP_B_RAW;
      step->b = Source(line);
    }
    if (reduces && line->Take("final")) step->flags |= SL_STEP_FINAL;
  }

  // The block whose part the step moves: `of BLOCK`, else the first block that the step names.
  void ReadShape(Line* line, sl_step_t* step) {
    if (line->Take("of")) {
      step->shape = Checked(line, line->Operand());
      if (!IsMemory(step->shape)) line->Fail("after `of` a block of send, recv or scratch must stand");
      return;
    }
    for (const sl_operand_t& operand : {step->a, step->b, step->dst, step->dst2}) {
      if (!IsMemory(operand)) continue;
      step->shape = operand;
      return;
    }
    line->Fail("say whose part this step moves: `of send[BLOCK]`, `of recv[BLOCK]` or `of scratch[BLOCK]`");
  }

  void BeginRepeat(Line* line, sl_step_t step) {
    if (repeat_ != kNoRepeat) return line->Fail("a repeat inside a repeat; end the first one before");
    step.count = static_cast<uint32_t>(line->Number("how often", 1, kMaxRepeat));
    repeat_ = Steps()->size();
    repetitions_ = step.count;
    Steps()->push_back(step);
  }

  void EndRepeat(Line* line) {
    if (repeat_ == kNoRepeat) return line->Fail("`end` without a `repeat` before it");
    sl_step_t& repeat = (*Steps())[repeat_];
    repeat.length = static_cast<uint32_t>(Steps()->size() - repeat_ - 1);
    if (repeat.length == 0) line->Fail("nothing stands between `repeat` and `end`");
    repeat_ = kNoRepeat;
    repetitions_ = 1;
  }

  void EndLane(Line* line) {
    if (repeat_ != kNoRepeat) line->Fail("the `repeat` of the lane before has no `end`");
  }

  int32_t Peer(Line* line) {
    const auto peer = static_cast<int32_t>(line->Number("the peer", 0, plan_.ranks - 1));
    if (peer == rank_) line->Fail("rank " + std::to_string(peer) + " is this rank itself; links lead to other ranks");
    return peer;
  }

  sl_operand_t Source(Line* line) {
    const sl_operand_t operand = Checked(line, line->Operand());
    if (operand.buffer == SL_BUFFER_OUTBOX) line->Fail("an outbox can only be written");
    return operand;
  }

  sl_operand_t Target(Line* line) {
    const sl_operand_t operand = Checked(line, line->Operand());
    if (operand.buffer == SL_BUFFER_INBOX) line->Fail("an inbox can only be read");
    if (operand.buffer == SL_BUFFER_SEND) line->Fail("the send buffer is the caller's and can only be read");
    return operand;
  }

  // Ranks and blocks that exist. Where a repeat leads is checked by the kernel.
  sl_operand_t Checked(Line* line, sl_operand_t operand) {
    if (!line->status().ok()) return operand;
    if (!IsMemory(operand)) {
      if (operand.peer >= static_cast<int64_t>(plan_.ranks) || operand.peer == rank_) {
        line->Fail("rank " + std::to_string(operand.peer) + " is not another rank of the " +
                   std::to_string(plan_.ranks));
      }
      return operand;
    }
    const auto rank = static_cast<uint32_t>(rank_);
    const uint64_t blocks = operand.buffer == SL_BUFFER_SEND   ? SendBlocks(plan_, rank)
                            : operand.buffer == SL_BUFFER_RECV ? RecvBlocks(plan_, rank)
                                                               : plan_.scratch_blocks;
    if (operand.block >= blocks) {
      line->Fail("block " + std::to_string(operand.block) + " is not there, this buffer has " + std::to_string(blocks) +
                 " on rank " + std::to_string(rank) + ", from 0");
    }
    return operand;
  }

  // Keeps count of what the busiest rank does.
  void Count(const sl_step_t& step) {
    if (step.kind == SL_STEP_WAIT) waits_ += repetitions_;
    if (step.kind == SL_STEP_PUT) puts_ += repetitions_;
    plan_.waits = std::max(plan_.waits, waits_);
    plan_.puts = std::max(plan_.puts, puts_);
  }

  Status Finish() const {
    if (!versioned_) return Fail("the file is empty; it must begin with `starling-plan 1`");
    if (repeat_ != kNoRepeat) return Fail("the file ends inside a repeat; write `end`");
    if (rank_ + 1 != static_cast<int64_t>(plan_.ranks) || rank_ < 0) {
      return Fail("the file ends before rank " + std::to_string(rank_ + 1) + "; every rank must be there");
    }
    return {};
  }

  uint32_t Rank() const { return static_cast<uint32_t>(rank_); }
  std::vector<sl_step_t>* Steps() { return &plan_.lanes[Rank()].back().steps; }

  static constexpr size_t kNoRepeat = SIZE_MAX;

  PlanFile plan_;
  uint64_t number_ = 0;
  bool versioned_ = false;
  int64_t rank_ = -1;          // -1: in the head
  size_t repeat_ = kNoRepeat;  // where the open repeat stands
  uint64_t repetitions_ = 1;   // of the step being read
  uint64_t steps_ = 0;         // of the whole file
  uint64_t waits_ = 0;         // of this rank
  uint64_t puts_ = 0;
};

}  // namespace

Result<PlanFile> ParsePlan(std::string_view text, const std::string& path) { return Parser(path).Parse(text); }

}  // namespace sl::algo_planfile
