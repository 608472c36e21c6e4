// SPDX-License-Identifier: Apache-2.0
//
// Symbolic proof of plans: do these plans, one a rank, compute their operation? The plans are executed once on symbols
// instead of numbers; docs/verify.md says why one execution settles every interleaving, every number of credits and
// every input, and what is not proved.
//
//   Case test{.ranks = {{plan0, op}, {plan1, op}}, .in_place = true};
//   const Verdict verdict = Verify(test);
//   if (!verdict.proved()) puts(ToText(*verdict.counter_example).c_str());
//
// thread: pure; calls on different cases may overlap.   throws: std::bad_alloc only
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/plan/plan.h"
#include "sl_algorithm.h"

namespace sl::verify {

// What one rank does. Pointers in `op` are not looked at.
struct RankPlan {
  const kernel::Plan* plan = nullptr;  // NULL: the rank takes no part, as most do in a send and its receive
  sl_op_t op{};                        // as this rank called it; zero where it takes no part
};

// What a case stands for besides itself (docs/verify.md, "Folding"). Where that cannot be proved although nothing need
// be wrong, the verdict is kNotFolded.
struct Folds {
  // Rank r's plan is rank 0's with all ranks moved up by r, modulo their number; only rank 0's plan is there. Where
  // `moves_inputs`, blocks of send buffers move along, and every block is one element.
  bool ranks = false;
  bool moves_inputs = false;
  // The plans may have any number of rounds: each ends as it began, with nothing in hand and nothing reserved.
  bool rounds = false;
  // Any blocks may be absent: no step takes data from one block to another, and chunks keep to their block.
  bool blocks = false;
};

struct Case {
  std::vector<RankPlan> ranks;                 // by rank; the plans outlive the call
  bool in_place = false;                       // by NCCL's rules: docs/verify.md lists where the buffers overlap
  uint32_t determinism = SL_DETERMINISM_NONE;  // the class that the algorithm declares
  uint64_t step_limit = uint64_t{1} << 32;     // steps of all ranks after which the question stays open
  Folds folds;
};

// What a plan can do wrong.
enum class Fault : uint8_t {
  kMismatch,   // the ranks' operations or plans do not belong together
  kChunk,      // uses a chunk that it does not hold, or keeps one
  kLength,     // the two ends of a link disagree about a chunk's length
  kDeadlock,   // lanes wait for each other, or for what nobody sends
  kLeftover,   // a chunk is sent that nobody takes
  kOverrun,    // leaves its buffer
  kOverlap,    // reads and writes ranges of one step that overlap without being the same
  kUnwritten,  // reads what nothing has written
  kRace,       // two lanes touch the same elements, and nothing orders them
  kFlag,       // a flag of REDUCE is wrong: a contribution scaled twice or never, a result finished too early or twice
  kValue,      // an element of the result is not what the operation asks for
  kOrder,      // the result depends on order more than the algorithm declares
  kLimit,      // not wrong, but not proved within the limit of steps
  kNotFolded,  // not wrong, but not proved for all that the case stands for
};
const char* FaultName(Fault fault);

// A step as it is executed: the n-th step of a lane, in a round, at a repetition of its REPEAT.
struct Place {
  uint32_t rank = 0;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint32_t repetition = 0;
  uint64_t round = 0;
};

// The first thing that goes wrong.
struct CounterExample {
  Fault fault = Fault::kValue;
  uint32_t rank = 0;
  std::optional<Place> place;        // where; none where no step is to blame
  std::string step;                  // that step in words
  uint32_t buffer = SL_BUFFER_NONE;  // SL_BUFFER_…, where elements are the matter
  uint64_t element = 0;              // of that buffer
  std::string holds;                 // what is, in words
  std::string wants;                 // what should be
  std::vector<std::string> notes;    // more that helps: the other side of a race, who waits for whom
};

// For people, several lines, ends in a newline.
std::string ToText(const CounterExample& wrong);

struct Verdict {
  std::optional<CounterExample> counter_example;
  uint32_t credits = 1;                        // chunks each direction of a link held
  uint32_t determinism = SL_DETERMINISM_NONE;  // the strongest class found; set when proved
  uint64_t steps = 0;                          // executed, by all ranks
  uint64_t chunks = 0;                         // that went over links
  bool proved() const { return !counter_example; }
};

Verdict Verify(const Case& test);

// The operation, as the first rank that takes part called it.
const sl_op_t& OperationOf(const Case& test);

}  // namespace sl::verify
