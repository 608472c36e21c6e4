// SPDX-License-Identifier: Apache-2.0
//
// Selection: which algorithm serves an operation, and why. A pure function of what all ranks know alike (operation,
// count, type, shape of the communicator, profile), so that every rank chooses the same one without asking.
//
// What speaks, strongest first: what a rule or the wanted determinism excludes; a rule that pins; the least measured
// time, where the profile has one of any algorithm that can serve; the least estimate. Where the cheapest is one of a
// module's algorithms, a rule may prefer another one of that module: the module's author, or a site that measured,
// knows which of them is quicker, while estimates still compare the module with others. A measured time and an estimate
// are not compared: where one algorithm was measured, others that were not are passed over. Times are weighed by the
// processors that the algorithms hold, as the shape of the communicator says (processor_weight); where it wants none
// held (processor_free), who holds some is looked at only when all do. A call's own settings (call_settings.h) go
// before the shape's and the profile's; they are part of what choices are cached by.
//
// thread: calls on one Selector do not overlap; Find() is [data], the rest is [control].
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/plan/call_settings.h"
#include "kernel/plan/copy_list.h"
#include "kernel/plan/cost_table.h"
#include "kernel/plan/part_list.h"
#include "kernel/plan/plan.h"
#include "kernel/plan/spread.h"
#include "kernel/profile/settings.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::kernel {

// One algorithm of this communicator. The tables and objects outlive the Selector.
struct Candidate {
  std::string name;  // what profiles call it
  const sl_algorithm_ops_t* ops = nullptr;
  sl_algorithm_t* algorithm = nullptr;
  uint32_t revision = SL_ALGORITHM_REVISION;  // of sl.algorithm/1 that it speaks
  std::string module = {};                    // that provides it; "": unknown
  const SettingsView* view = nullptr;         // what it is shown of calls' settings; NULL: nothing
};

struct SelectSettings {
  std::vector<SelectRule> rules;  // of the profile, in its order; a forbidden algorithm is not chosen though pinned
  const Measured* measured = nullptr;          // of the profile; lives as long as the Selector; NULL: nothing
  uint32_t determinism = SL_DETERMINISM_NONE;  // least class wanted
  const CallSettingsTable* calls = nullptr;    // lives as long as the Selector; NULL: no call has settings
  bool runs_plans = true;                      // the engine reaches the communicator's memory
  bool is_relayed = false;                     // by way of pinned host memory, as people are told
  bool runs_copies = false;                    // ranks signal each other from their streams
  bool runs_sequences = false;                 // streams keep the order of launches, which reach all ranks' memory
  uint32_t cache_sets = 64;                    // of 4 choices each; rounded up to a power of two
};

struct PartChoice;

// The answer. `plan` is there for SL_RUN_PLAN only, `copies` for SL_RUN_COPIES and `parts` for SL_RUN_SEQUENCE.
struct Choice {
  uint32_t index = 0;          // of the candidate, which records name it by
  const char* name = nullptr;  // of the candidate
  uint32_t tag = 0;            // AlgorithmTag of it
  const sl_algorithm_ops_t* ops = nullptr;
  sl_algorithm_t* algorithm = nullptr;
  uint32_t revision = SL_ALGORITHM_REVISION;  // of the candidate
  uint32_t run = SL_RUN_PLAN;
  uint32_t settings = 0;  // of the operation, as they hold: without what nothing could satisfy
  std::unique_ptr<const Plan> plan;
  CopyList copies;
  std::vector<PartChoice> parts;  // in their order
  sl_estimate_t estimate{};       // the algorithm's own; of a sequence with what its parts take
  std::string reason;             // one clause: cheapest, pinned by which rule, or fallen back and why
};

// A part of a sequence and who serves it: no sequence.
struct PartChoice {
  sl_part_t part;
  std::unique_ptr<const Choice> choice;
};

class Selector {
 public:
  // `shape` lives as long as the Selector.
  Selector(std::vector<Candidate> candidates, SelectSettings settings, const sl_comm_shape_t* shape);
  ~Selector();
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  // The cached choice, or NULL. Never allocates or locks.
  const Choice* Find(const sl_op_t& op);

  // The choice; estimates, and builds the plan, on a miss. Lives until the first Collect() after it fell out of the
  // cache and no run holds its plan.
  // returns: the choice | SL_ERR_UNSUPPORTED nobody serves it, with everybody's reason | what plan() returned
  Result<const Choice*> Select(const sl_op_t& op) {
    if (const Choice* choice = Find(op)) [[likely]]
      return choice;
    return SelectSlow(op);
  }

  // Frees choices that fell out of the cache and are not running. Call it where no choice is held that has not been
  // started: the communicator does, on entering an operation or group. Cheap when there is nothing to free.
  void Collect() {
    if (!retired_.empty()) [[unlikely]]
      CollectSlow();
  }

  // For people: every candidate with its estimate, its measured time where the profile has costs, kind of run and
  // reason, the chosen one marked, the rules that spoke. Ends in a newline. Looks at estimates afresh, builds no plan.
  std::string Explain(const sl_op_t& op) const;

  // The estimate of the algorithm that would be chosen, looked at afresh; its time is the measured one where there is
  // one.   returns: it | SL_ERR_UNSUPPORTED
  Result<sl_estimate_t> Estimate(const sl_op_t& op) const;

  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  struct Key;
  struct Slot;
  struct Verdict;
  struct Decision;
  struct PartDecision;
  enum class Place { kWhole, kPart };

  Result<const Choice*> SelectSlow(const sl_op_t& op);
  Decision Decide(const sl_op_t& op, Place place = Place::kWhole) const;
  Decision DecideAsAsked(const sl_op_t& op, Place place) const;
  Verdict Judge(const Candidate& candidate, const sl_op_t& op, uint64_t bytes, Place place) const;
  const CallSettings* CallOf(const sl_op_t& op) const;
  std::string ForbiddenBy(const Candidate& candidate, const sl_op_t& op, uint64_t bytes) const;
  const SelectRule* PinOf(const sl_op_t& op, uint64_t bytes) const;
  void JudgeParts(const Candidate& candidate, const sl_op_t& op, Verdict* verdict) const;
  std::string WhyNot(const sl_estimate_t& estimate) const;
  bool Applies(const SelectRule& rule, const sl_op_t& op, uint64_t bytes) const;
  std::string PassOverHolders(Decision* decision) const;
  void ChooseCheapest(Decision* decision) const;
  const Candidate* CandidateOf(const std::string& name) const;
  bool Pin(const sl_op_t& op, uint64_t bytes, Decision* decision) const;
  void Prefer(const sl_op_t& op, uint64_t bytes, Decision* decision) const;
  Verdict& VerdictOf(const Candidate* candidate, Decision* decision) const;
  std::string ReasonOf(const Decision& decision) const;
  Status Refusal(const sl_op_t& op, const Decision& decision) const;
  std::string WhatCould(const sl_op_t& op) const;
  Result<std::unique_ptr<const Plan>> MakePlan(const Candidate& candidate, const sl_op_t& op) const;
  Result<std::unique_ptr<Choice>> MakeChoice(const Decision& decision, const sl_op_t& asked) const;
  void TellOfHolders(const sl_op_t& op, const Decision& decision, const Choice& choice);
  const Choice* Store(const sl_op_t& op, std::unique_ptr<Choice> choice);
  void CollectSlow();

  std::vector<Candidate> candidates_;  // sorted by name
  SelectSettings settings_;
  const sl_comm_shape_t* shape_;
  const Spread spread_;
  const CostTable costs_;
  std::vector<Slot> slots_;  // sets of kWays
  std::vector<std::unique_ptr<Choice>> retired_;
  uint64_t set_mask_ = 0;
  uint32_t clock_ = 0;
  bool told_of_holders_ = false;
};

}  // namespace sl::kernel
