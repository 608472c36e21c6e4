// SPDX-License-Identifier: Apache-2.0
//
// Executes the plans of all ranks once, on symbols. Lanes are processes that run until they wait; links are queues of
// bounded length. It does what the engine does (kernel/engine/run_steps.cc), and refuses what the engine could only do
// wrong: unwritten elements, races, wrong flags.
//
// Which lane runs next does not matter (docs/verify.md), so whoever can run does.
//
// Where ranks are folded, only rank 0 is executed, and all others do the same at the same time, turned: what rank p has
// sent to rank 0 is what rank 0 has sent to rank -p, turned by p. So the link to a peer comes back as the link from the
// opposite one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/verify/expression.h"
#include "tools/verify/memory.h"
#include "tools/verify/races.h"
#include "tools/verify/verify.h"

namespace sl::verify {

class Machine {
 public:
  // `expressions` and `test` outlive the machine.
  Machine(const Case& test, uint32_t credits, Expressions* expressions);

  // Runs all lanes to their ends; what goes wrong first, if anything does. Once.
  std::optional<CounterExample> Run();

  const Memory& memory(uint32_t rank) const { return memories_[rank]; }
  uint64_t steps() const { return steps_; }
  uint64_t chunks() const { return chunks_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class Waits : uint8_t { kNo, kForChunk, kForRoom };

  struct Chunk {
    Pieces content;
    uint64_t elements = 0;
    uint32_t block = 0;  // of the steps that made it
    Place sent;
    Clock clock;
  };
  // One direction of a link. Invariant: queue.size() == posted - taken, and posted - released <= credits.
  struct Channel {
    uint32_t from;
    uint32_t to;
    uint32_t link_lane;
    uint32_t sender = kNone;  // processes; kNone: no lane of that rank uses it
    uint32_t receiver = kNone;
    uint64_t posted = 0;
    uint64_t taken = 0;
    uint64_t released = 0;
    std::vector<Chunk> queue;
  };
  // A plan's link, in the order of Plan::links().
  struct Link {
    uint32_t out = kNone;  // channels
    uint32_t in = kNone;
    bool has_inbox = false;
    bool has_outbox = false;
    Chunk inbox;
    Pieces outbox;  // as far as it was written
    uint32_t outbox_block = 0;
  };
  struct Process {
    uint32_t rank;
    uint32_t lane;
    uint32_t step = 0;
    uint32_t repeat_first = 0;
    uint32_t repeat_end = 0;   // 0: not inside a REPEAT
    uint32_t channel = kNone;  // it waits for
    uint64_t rounds = 0;
    uint64_t round = 0;
    uint64_t repetition = 0;
    uint64_t repetitions = 0;
    Waits waits = Waits::kNo;
    bool done = false;
    Clock clock{};  // empty where no rank has two lanes
  };
  // An operand at this repetition and round.
  struct Range {
    const char* name;  // "a", "dst"
    uint32_t buffer;
    uint32_t link;
    uint64_t offset;
  };

  const kernel::Plan& plan(const Process& process) const { return *test_.ranks[process.rank].plan; }
  Link& link(const Process& process, uint32_t index) { return links_[first_link_[process.rank] + index]; }
  uint32_t ChannelOf(uint32_t from, uint32_t to, uint32_t link_lane);
  void AddRank(uint32_t rank);
  void AddClocks();

  // machine.cc: control.
  bool Advance(Process* process);
  void BeginRepeat(Process* process, const sl_step_t& step) const;
  void EndStep(Process* process) const;
  bool EndLane(Process* process);
  bool FindDeadlock();
  bool FindLeftover();
  void Wake(uint32_t process);
  void Block(Process* process, Waits waits, uint32_t channel);
  std::string WaitText(const Process& process) const;

  // machine_steps.cc: each returns false when the lane waits, or when something is wrong (wrong_ says).
  bool Execute(Process* process, const kernel::PlanStep& step, uint64_t elements);
  bool Wait(Process* process, const kernel::PlanStep& step, uint64_t elements);
  bool Reserve(Process* process, uint32_t link_index);
  bool Put(Process* process, const kernel::PlanStep& step, uint64_t elements);
  bool Release(Process* process, const kernel::PlanStep& step);
  bool Copy(Process* process, const kernel::PlanStep& step, uint64_t elements);
  bool Reduce(Process* process, const kernel::PlanStep& step, uint64_t elements);
  Range RangeOf(const Process& process, const sl_operand_t& operand, uint32_t link_index, const char* name) const;
  bool CheckOverlap(const Process& process, const Range& source, const Range& target, uint64_t elements);
  bool IsSame(const Process& process, const Range& source, const Range& target) const;
  bool Read(Process* process, const Range& range, uint64_t elements, Pieces* out);
  bool Write(Process* process, const Range& range, uint64_t elements, const Pieces& pieces);
  bool Touch(const Process& process, const Range& range, uint64_t elements, bool writes);
  bool Prepare(const Process& process, const Range& range, bool raw, bool joins, Pieces* pieces);
  bool Finish(const Process& process, Pieces* pieces);
  void Join(const Place& place);

  // machine_folds.cc: what folding adds.
  uint32_t size() const { return static_cast<uint32_t>(test_.ranks.size()); }
  bool Turn(const Process& process, uint32_t sender, Chunk* chunk);
  bool KeepsBlock(const Process& process, uint32_t chunk_block);
  bool LeavesNothing(const Process& process);

  Place PlaceOf(const Process& process) const;
  std::string StepOf(const Place& place) const;
  bool Fail(Fault fault, const Process& process, std::string holds, std::string wants);
  bool FailAt(Fault fault, const Process& process, const Range& range, uint64_t element, std::string holds,
              std::string wants);

  const Case& test_;
  const uint32_t credits_;
  Expressions* const expressions_;
  const bool scales_;  // AVG and PREMUL_SUM: flags count
  std::vector<Memory> memories_;
  std::vector<Races> races_;          // empty where no rank has two lanes
  std::vector<uint32_t> first_link_;  // by rank, of links_
  std::vector<Link> links_;
  std::vector<Channel> channels_;
  std::unordered_map<uint64_t, uint32_t> channel_numbers_;  // by both ranks and the link's lane
  std::vector<Process> processes_;
  std::deque<uint32_t> runnable_;
  Pieces a_, b_, result_;  // of the step being executed
  uint32_t block_ = 0;     // whose part it works on
  uint64_t steps_ = 0;
  uint64_t chunks_ = 0;
  std::optional<CounterExample> wrong_;
};

// A step of a case in words; "the end of the lane" behind the last.
std::string StepTextAt(const Case& test, const Place& place);

}  // namespace sl::verify
