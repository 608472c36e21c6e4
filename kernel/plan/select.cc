// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/events/printable.h"
#include "kernel/plan/signature.h"
#include "kernel/profile/profile.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kWays = 4;
constexpr uint32_t kSettingsRevision = 10;  // of sl.algorithm/1, since which algorithms know of calls' settings

const char* DeterminismName(uint32_t determinism) {
  constexpr const char* kNames[] = {"any bits", "same bits each run", "same bits on all ranks",
                                    "same bits at any number of ranks"};
  return determinism <= SL_DETERMINISM_WORLD_SIZE ? kNames[determinism] : "unknown determinism";
}

const char* RunName(uint32_t run) {
  constexpr const char* kNames[] = {"plan", "launch", "copies", "sequence"};
  return run <= SL_RUN_SEQUENCE ? kNames[run] : "unknown";
}

std::string Microseconds(uint64_t time_ns) { return fmt::format("{:.3f} us", static_cast<double>(time_ns) / 1000.0); }

// Time with what the processors are worth that are held all the while, as sl_comm_shape_t has it; at the end of the
// range it stays.
uint64_t Weighed(uint64_t time_ns, uint32_t processors, uint32_t weight) {
  const uint64_t factor = 1000 + uint64_t{weight} * processors;
  return time_ns > UINT64_MAX / factor ? UINT64_MAX : time_ns * factor;
}

uint64_t Plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// A run uses its plan.
bool IsHeld(const Choice& choice) {
  if (choice.plan != nullptr && choice.plan->held()) return true;
  return std::any_of(choice.parts.begin(), choice.parts.end(),
                     [](const PartChoice& part) { return IsHeld(*part.choice); });
}

bool Forbids(const SelectRule& rule, const std::string& name) {
  return std::find(rule.forbid.begin(), rule.forbid.end(), name) != rule.forbid.end();
}

}  // namespace

// What selection looks at, packed.
struct Selector::Key {
  uint64_t what = 0;  // symmetric buffers, kind, data type, reduction, root
  uint64_t count = 0;
  uint64_t call = 0;  // settings and peer

  static Key Of(const sl_op_t& op) {
    return {uint64_t{op.symmetric} << 56 | uint64_t{op.kind} << 48 | uint64_t{op.datatype & 0xff} << 40 |
                uint64_t{op.reduction & 0xff} << 32 | static_cast<uint32_t>(op.root),
            op.count, uint64_t{op.settings} << 32 | static_cast<uint32_t>(op.peer)};
  }
  bool operator==(const Key&) const = default;

  uint64_t Hash() const {
    uint64_t hash = (what ^ std::rotl(count, 24) ^ std::rotl(call, 8)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    return (hash * 0xbf58476d1ce4e5b9u) >> 32;
  }
};

struct Selector::Slot {
  Key key;
  std::unique_ptr<Choice> choice;
  uint32_t used = 0;  // clock_ at the last use
};

// What is to be said about one candidate.
struct Selector::Verdict {
  sl_estimate_t estimate{};
  std::optional<uint64_t> measured_ns;
  bool is_derived = false;      // measured_ns: from those of parts
  std::string excluded;         // "": it may be chosen
  bool is_passed_over = false;  // others are better whatever they cost
  std::vector<PartDecision> parts;
};

struct Selector::Decision {
  std::vector<Verdict> verdicts;  // as candidates_
  bool by_measure = false;        // a measured time was there to choose by
  const Candidate* chosen = nullptr;
  const Candidate* compared = nullptr;  // whose cost stands for it
  std::string reason;
  uint32_t settings = 0;  // Choice::settings
  uint32_t weight = 0;    // of processors, and whether none are wanted held: the call's, or the shape's
  bool is_free = false;
  std::string selected;  // the algorithms that the call insists on; "": any
};

// Of a sequence.
struct Selector::PartDecision {
  sl_part_t part;
  Decision decision;
};

Selector::Selector(std::vector<Candidate> candidates, SelectSettings settings, const sl_comm_shape_t* shape)
    : candidates_(std::move(candidates)),
      settings_(std::move(settings)),
      shape_(shape),
      spread_(SpreadOf(*shape)),
      costs_(settings_.measured, *shape, spread_) {
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
  const uint64_t sets = std::bit_ceil(uint64_t{std::max(settings_.cache_sets, 1u)});
  slots_ = std::vector<Slot>(sets * kWays);
  set_mask_ = sets - 1;
}

Selector::~Selector() = default;

Selector::Verdict& Selector::VerdictOf(const Candidate* candidate, Decision* decision) const {
  return decision->verdicts[static_cast<size_t>(candidate - candidates_.data())];
}

const Choice* Selector::Find(const sl_op_t& op) {
  const Key key = Key::Of(op);
  Slot* set = &slots_[(key.Hash() & set_mask_) * kWays];
  for (uint32_t way = 0; way < kWays; ++way) {
    if (set[way].key == key && set[way].choice != nullptr) [[likely]] {
      set[way].used = ++clock_;
      return set[way].choice.get();
    }
  }
  return nullptr;
}

const Choice* Selector::Store(const sl_op_t& op, std::unique_ptr<Choice> choice) {
  const Key key = Key::Of(op);
  Slot* set = &slots_[(key.Hash() & set_mask_) * kWays];
  Slot* victim = set;
  for (uint32_t way = 0; way < kWays; ++way) {
    if (set[way].choice == nullptr) {
      victim = &set[way];
      break;
    }
    if (clock_ - set[way].used > clock_ - victim->used) victim = &set[way];
  }
  if (victim->choice != nullptr) retired_.push_back(std::move(victim->choice));
  *victim = {key, std::move(choice), ++clock_};
  return victim->choice.get();
}

void Selector::CollectSlow() {
  std::erase_if(retired_, [](const std::unique_ptr<Choice>& choice) { return !IsHeld(*choice); });
}

bool Selector::Applies(const SelectRule& rule, const sl_op_t& op, uint64_t bytes) const {
  const bool kind = rule.ops.empty() || std::any_of(rule.ops.begin(), rule.ops.end(), [&](sl_op_kind_t stated) {
                      return stated == op.kind || (IsTransfer(stated) && IsTransfer(op.kind));
                    });
  const auto within = [](uint64_t value, uint64_t least, uint64_t most) { return value >= least && value <= most; };
  return kind && within(bytes, rule.min_bytes, rule.max_bytes) &&
         within(shape_->size, rule.min_ranks, rule.max_ranks) &&
         within(spread_.hosts, rule.min_hosts, rule.max_hosts) && spread_.fewest >= rule.min_ranks_per_host &&
         spread_.most <= rule.max_ranks_per_host &&
         shape_->device_kind == rule.device_kind.value_or(shape_->device_kind);
}

Selector::Verdict Selector::Judge(const Candidate& candidate, const sl_op_t& op, uint64_t bytes, Place place) const {
  Verdict verdict;
  verdict.estimate.struct_size = sizeof(sl_estimate_t);
  const CallSettings* const call = CallOf(op);
  const uint32_t times_asked = candidate.view != nullptr ? candidate.view->times_asked() : 0;
  const sl_status_t status =
      CallModule("estimate", candidate.ops->estimate, candidate.algorithm, &op, &verdict.estimate);
  verdict.estimate.reason[sizeof(verdict.estimate.reason) - 1] = '\0';
  verdict.measured_ns = costs_.TimeNs(op.kind, candidate.name, bytes);
  if (verdict.excluded = ForbiddenBy(candidate, op, bytes); !verdict.excluded.empty()) return verdict;
  if (status == SL_ERR_EXCEPTION) {
    verdict.excluded = "cannot: " + Printable(ModuleFailure(status).message());
  } else if (verdict.estimate.run == SL_RUN_SEQUENCE && !settings_.runs_sequences) {  // of what it refuses, too
    verdict.excluded = "cannot: sequences need devices of one host that order their launches themselves";
  } else if (status != SL_OK) {
    const char* reason = verdict.estimate.reason[0] != '\0' ? verdict.estimate.reason : StatusName(status);
    verdict.excluded = "cannot: " + Printable(reason);
  } else if (verdict.estimate.run == SL_RUN_COPIES && IsTransfer(op.kind)) {
    verdict.excluded = "cannot: lists of copies are for collectives";
  } else if (verdict.estimate.run != SL_RUN_SEQUENCE) {
    verdict.excluded = WhyNot(verdict.estimate);
  } else if (IsTransfer(op.kind)) {
    verdict.excluded = "cannot: sequences are for collectives";
  } else if (place == Place::kPart) {
    verdict.excluded = "cannot: a sequence is no part of another";
  } else {
    JudgeParts(candidate, op, &verdict);
    if (verdict.excluded.empty()) verdict.excluded = WhyNot(verdict.estimate);
  }
  if (call == nullptr || !verdict.excluded.empty()) return verdict;
  const bool asked = candidate.view != nullptr && candidate.view->times_asked() != times_asked;
  if ((op.settings & kPartBit) == 0 && !asked && !call->ways.Allows(candidate.name, "")) {
    verdict.excluded = fmt::format("is not of \"{}\", which this call asks for", call->ways_text);
  } else if (call->binds && verdict.estimate.processors != 0 && candidate.revision < kSettingsRevision) {
    verdict.excluded = fmt::format("cannot: this call bounds its SMs, and it speaks revision {} of {}, not {}",
                                   candidate.revision, SL_ALGORITHM_ID, kSettingsRevision);
  }
  return verdict;
}

// NULL: it has none.
const CallSettings* Selector::CallOf(const sl_op_t& op) const {
  return op.settings == 0 || settings_.calls == nullptr ? nullptr : settings_.calls->Find(op.settings);
}

// By a rule of the call or of the profile; "": by none.
std::string Selector::ForbiddenBy(const Candidate& candidate, const sl_op_t& op, uint64_t bytes) const {
  const auto forbids = [&](const SelectRule& rule) {
    return Applies(rule, op, bytes) && Forbids(rule, candidate.name);
  };
  const CallSettings* const call = CallOf(op);
  if (call != nullptr && call->rule && forbids(*call->rule)) return "is forbidden by " + call->rule->place;
  const auto rule = std::find_if(settings_.rules.begin(), settings_.rules.end(), forbids);
  return rule == settings_.rules.end() ? std::string() : "is forbidden by " + rule->place;
}

// The first rule that pins: the call's, then the profile's. NULL: none.
const SelectRule* Selector::PinOf(const sl_op_t& op, uint64_t bytes) const {
  const auto pins = [&](const SelectRule& rule) { return !rule.algorithm.empty() && Applies(rule, op, bytes); };
  const CallSettings* const call = CallOf(op);
  if (call != nullptr && call->rule && pins(*call->rule)) return &*call->rule;
  const auto rule = std::find_if(settings_.rules.begin(), settings_.rules.end(), pins);
  return rule == settings_.rules.end() ? nullptr : &*rule;
}

// A sequence takes what its parts take, one after the other, and is as good as the worst of them.
void Selector::JudgeParts(const Candidate& candidate, const sl_op_t& op, Verdict* verdict) const {
  const Result<std::vector<sl_part_t>> parts = ListParts(*candidate.ops, candidate.algorithm, op, *shape_);
  if (!parts.ok()) {
    verdict->excluded = "cannot: " + Printable(parts.status().message());
    return;
  }
  sl_estimate_t& whole = verdict->estimate;
  bool are_measured = true;
  uint64_t measured_ns = whole.time_ns;
  for (const sl_part_t& part : parts.value()) {
    verdict->parts.push_back({part, Decide(PartOp(part, op), Place::kPart)});
    Decision& decision = verdict->parts.back().decision;
    if (decision.chosen == nullptr) {
      verdict->excluded = fmt::format("cannot: nobody serves its {}", OpKindName(part.kind));
      return;
    }
    const Verdict& chosen = VerdictOf(decision.chosen, &decision);
    const Verdict& compared = VerdictOf(decision.compared, &decision);
    whole.time_ns = Plus(whole.time_ns, compared.estimate.time_ns);
    whole.processors = std::max(whole.processors, chosen.estimate.processors);
    whole.determinism = std::min(whole.determinism, chosen.estimate.determinism);
    whole.scratch_bytes = std::max(whole.scratch_bytes, chosen.estimate.scratch_bytes);
    are_measured = are_measured && compared.measured_ns.has_value();
    measured_ns = Plus(measured_ns, compared.measured_ns.value_or(0));
  }
  if (verdict->measured_ns || !are_measured) return;
  verdict->measured_ns = measured_ns;
  verdict->is_derived = true;
}

// This communicator cannot run it so, or the profile does not want it; "": neither.
std::string Selector::WhyNot(const sl_estimate_t& estimate) const {
  if (estimate.run > SL_RUN_SEQUENCE) return fmt::format("cannot: unknown kind of run {}", estimate.run);
  if (estimate.run == SL_RUN_PLAN && !settings_.runs_plans) {
    return "cannot: plans run over memory that the CPU reaches, and this communicator's is a device's";
  }
  if (estimate.run == SL_RUN_LAUNCH && settings_.is_relayed) {
    return "cannot: its launches reach no other memory, and this communicator's devices do not share any";
  }
  if (estimate.run == SL_RUN_COPIES && settings_.is_relayed) {
    return "cannot: its copies reach no other memory, and this communicator's devices do not share any";
  }
  if (estimate.run == SL_RUN_COPIES && !settings_.runs_copies) {
    return "cannot: copies need GPUs of one host that signal each other from their streams";
  }
  if (estimate.determinism >= settings_.determinism) return {};
  return fmt::format("gives {}, the profile wants {}", DeterminismName(estimate.determinism),
                     DeterminismName(settings_.determinism));
}

// Where the communicator wants no processors held: all that hold some, if there is another way.
std::string Selector::PassOverHolders(Decision* decision) const {
  const auto is_free = [](const Verdict& verdict) {
    return verdict.excluded.empty() && verdict.estimate.processors == 0;
  };
  if (!decision->is_free || std::none_of(decision->verdicts.begin(), decision->verdicts.end(), is_free)) {
    return {};
  }
  std::string names;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    Verdict& verdict = decision->verdicts[i];
    verdict.is_passed_over = verdict.excluded.empty() && verdict.estimate.processors != 0;
    if (verdict.is_passed_over) {
      names += (names.empty() ? "; passed over as they hold SMs: " : ", ") + candidates_[i].name;
    }
  }
  return names;
}

// Of measured times where there is one, else of estimates; the first name of equals.
void Selector::ChooseCheapest(Decision* decision) const {
  std::string passed_over = PassOverHolders(decision);
  decision->by_measure = std::any_of(decision->verdicts.begin(), decision->verdicts.end(), [](const Verdict& verdict) {
    return verdict.excluded.empty() && !verdict.is_passed_over && verdict.measured_ns && !verdict.is_derived;
  });
  uint32_t possible = 0;
  uint32_t compared = 0;
  uint64_t least = 0;
  std::string unmeasured;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Verdict& verdict = decision->verdicts[i];
    if (!verdict.excluded.empty()) continue;
    ++possible;
    if (verdict.is_passed_over) continue;
    if (decision->by_measure && !verdict.measured_ns) {
      unmeasured += (unmeasured.empty() ? "; passed over as not measured: " : ", ") + candidates_[i].name;
      continue;
    }
    ++compared;
    const uint64_t time_ns = decision->by_measure ? *verdict.measured_ns : verdict.estimate.time_ns;
    const uint64_t cost = Weighed(time_ns, verdict.estimate.processors, decision->weight);
    if (decision->chosen != nullptr && cost >= least) continue;
    least = cost;
    decision->chosen = &candidates_[i];
  }
  if (possible == 1) {
    decision->reason = "the only one possible";
  } else if (possible > 1) {
    decision->reason = fmt::format("the cheapest of {}{}{}{}", compared, decision->by_measure ? " measured" : "",
                                   passed_over, unmeasured);
    if (decision->weight != 0) {
      decision->reason += fmt::format("; an SM is worth {} thousandths of its time", decision->weight);
    }
  }
}

// Where nothing satisfies what the call asks for and does not insist on, as if it had not asked.
Selector::Decision Selector::Decide(const sl_op_t& op, Place place) const {
  Decision decision = DecideAsAsked(op, place);
  const CallSettings* const call = CallOf(op);
  if (call == nullptr || (op.settings & kPartBit) != 0 || call->ways.is_any() || decision.chosen != nullptr) {
    return decision;
  }
  if (call->is_forced) {
    decision.selected = call->ways_text;
    return decision;
  }
  sl_op_t unasked = op;
  unasked.settings |= kPartBit;
  decision = DecideAsAsked(unasked, place);
  decision.reason += fmt::format("; nothing serves \"{}\", which this call asks for", call->ways_text);
  return decision;
}

Selector::Decision Selector::DecideAsAsked(const sl_op_t& op, Place place) const {
  const uint64_t bytes = OpBytes(op, shape_->size);
  const CallSettings* const call = CallOf(op);
  Decision decision;
  decision.settings = op.settings;
  decision.weight = call != nullptr ? call->shown.processor_weight : shape_->processor_weight;
  decision.is_free = (call != nullptr ? call->shown.processor_free : shape_->processor_free) != 0;
  for (const Candidate& candidate : candidates_) decision.verdicts.push_back(Judge(candidate, op, bytes, place));
  ChooseCheapest(&decision);
  decision.compared = decision.chosen;
  if (!Pin(op, bytes, &decision)) Prefer(op, bytes, &decision);
  return decision;
}

const Candidate* Selector::CandidateOf(const std::string& name) const {
  const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                  [&](const Candidate& candidate) { return candidate.name == name; });
  return found == candidates_.end() ? nullptr : &*found;
}

// As the rule of the call says, or the first that pins; false where none does.
bool Selector::Pin(const sl_op_t& op, uint64_t bytes, Decision* decision) const {
  const SelectRule* const pin = PinOf(op, bytes);
  if (pin == nullptr) return false;
  const Candidate* pinned = CandidateOf(pin->algorithm);
  const std::string excluded =
      pinned == nullptr ? "this communicator does not have it" : VerdictOf(pinned, decision).excluded;
  if (excluded.empty()) {
    decision->chosen = decision->compared = pinned;
    decision->reason = fmt::format("pinned by {}", pin->place);
    return true;
  }
  decision->reason +=
      fmt::format("; {} wants {}, but {}{}", pin->place, pin->algorithm, pinned == nullptr ? "" : "it ", excluded);
  return false;
}

// As the first rule says that prefers, if the cheapest is of the same module. The cheapest stays what is compared: a
// site that prefers another one has found that it takes no longer.
void Selector::Prefer(const sl_op_t& op, uint64_t bytes, Decision* decision) const {
  const auto rule = std::find_if(settings_.rules.begin(), settings_.rules.end(),
                                 [&](const SelectRule& one) { return !one.prefer.empty() && Applies(one, op, bytes); });
  if (rule == settings_.rules.end() || decision->chosen == nullptr || decision->chosen->name == rule->prefer) return;
  const Candidate* preferred = CandidateOf(rule->prefer);
  if (preferred == nullptr || preferred->module.empty() || preferred->module != decision->chosen->module) return;
  const Verdict& verdict = VerdictOf(preferred, decision);
  if (!verdict.excluded.empty()) {
    decision->reason += fmt::format("; {} prefers {}, but it {}", rule->place, preferred->name, verdict.excluded);
  } else if (!verdict.is_passed_over) {
    decision->reason += fmt::format("; preferred to {} by {}", decision->chosen->name, rule->place);
    decision->chosen = preferred;
  }
}

std::string Selector::ReasonOf(const Decision& decision) const {
  return decision.reason + (settings_.is_relayed ? "; through pinned host memory, as its devices share none" : "");
}

Status Selector::Refusal(const sl_op_t& op, const Decision& decision) const {
  std::string text = fmt::format("no algorithm{} serves {} over {} ranks",
                                 decision.selected.empty() ? "" : fmt::format(" of \"{}\"", decision.selected),
                                 DescribeSignature(EncodeSignature(op)), shape_->size);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    text += fmt::format("{} {}: {}", i == 0 ? ":" : ";", candidates_[i].name, decision.verdicts[i].excluded);
  }
  if (candidates_.empty()) text += ": the profile enables none; enable a module such as algo-ring";
  if (!decision.selected.empty()) text += "; " + WhatCould(op);
  return Status(SL_ERR_UNSUPPORTED, text);
}

// Says which algorithms could serve an operation whose call insists on others.
std::string Selector::WhatCould(const sl_op_t& op) const {
  sl_op_t unasked = op;
  unasked.settings |= kPartBit;
  const Decision decision = DecideAsAsked(unasked, Place::kWhole);
  std::string names;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Verdict& verdict = decision.verdicts[i];
    if (!verdict.excluded.empty()) continue;
    names +=
        fmt::format("{}{} ({})", names.empty() ? "" : ", ", candidates_[i].name, Printable(verdict.estimate.reason));
  }
  return names.empty() ? "nothing else could either" : "what could: " + names;
}

Result<std::unique_ptr<const Plan>> Selector::MakePlan(const Candidate& candidate, const sl_op_t& op) const {
  PlanBuilder builder(
      {shape_->rank, shape_->size, shape_->lanes, shape_->link_chunk_bytes, shape_->link_slots, op, candidate.name});
  ClearLastError();
  const sl_status_t status =
      CallModule("plan", candidate.ops->plan, candidate.algorithm, &op, PlanBuilder::Ops(), builder.handle());
  if (status != SL_OK) {
    const Status failure = ModuleFailure(status);
    return Status(failure.code(),
                  fmt::format("algorithm {} made no plan for {}: {}", candidate.name, OpKindName(op.kind),
                              builder.error().ok() ? failure.message() : builder.error().message()));
  }
  auto plan = builder.Finish();
  if (!plan.ok()) {
    return Status(SL_ERR_INTERNAL, fmt::format("algorithm {} made a wrong plan for {}: {}", candidate.name,
                                               OpKindName(op.kind), plan.status().message()));
  }
  return std::unique_ptr<const Plan>(plan.Take());
}

Result<const Choice*> Selector::SelectSlow(const sl_op_t& op) {
  const Decision decision = Decide(op);
  if (decision.chosen == nullptr) return Refusal(op, decision);
  SL_ASSIGN(std::unique_ptr<Choice> choice, MakeChoice(decision, op));
  TellOfHolders(op, decision, *choice);
  return Store(op, std::move(choice));
}

Result<std::unique_ptr<Choice>> Selector::MakeChoice(const Decision& decision, const sl_op_t& asked) const {
  sl_op_t op = asked;
  op.settings = decision.settings;
  const auto index = static_cast<uint32_t>(decision.chosen - candidates_.data());
  auto choice = std::make_unique<Choice>();
  choice->index = index;
  choice->name = decision.chosen->name.c_str();
  choice->tag = AlgorithmTag(decision.chosen->name);
  choice->ops = decision.chosen->ops;
  choice->algorithm = decision.chosen->algorithm;
  choice->revision = decision.chosen->revision;
  choice->estimate = decision.verdicts[index].estimate;
  choice->run = choice->estimate.run;
  choice->settings = decision.settings;
  choice->reason = ReasonOf(decision);
  if (choice->run == SL_RUN_PLAN) {
    SL_ASSIGN(choice->plan, MakePlan(*decision.chosen, op));
  } else if (choice->run == SL_RUN_COPIES) {
    Result<CopyList> copies = ListCopies(*choice->ops, choice->algorithm, op, *shape_);
    if (!copies.ok()) {
      return Status(copies.status().code(), fmt::format("algorithm {} listed no copies for {}: {}", choice->name,
                                                        OpKindName(op.kind), copies.status().message()));
    }
    choice->copies = copies.Take();
  } else if (choice->run == SL_RUN_SEQUENCE) {
    for (const auto& [part, its_decision] : decision.verdicts[index].parts) {
      SL_ASSIGN(std::unique_ptr<Choice> its_choice, MakeChoice(its_decision, PartOp(part, op)));
      choice->parts.push_back({part, std::move(its_choice)});
    }
  }
  return choice;
}

// Once: a program that wants no processors held learns that some are.
void Selector::TellOfHolders(const sl_op_t& op, const Decision& decision, const Choice& choice) {
  if (!decision.is_free || choice.estimate.processors == 0 || std::exchange(told_of_holders_, true)) return;
  Logf(SL_LOG_INFO, "rank {}: {} holds {} SMs, though none are wanted ({}: {})", shape_->rank,
       DescribeSignature(EncodeSignature(op)), choice.estimate.processors, choice.name, choice.reason);
}

Result<sl_estimate_t> Selector::Estimate(const sl_op_t& op) const {
  const Decision decision = Decide(op);
  if (decision.chosen == nullptr) return Refusal(op, decision);
  const Verdict& verdict = decision.verdicts[static_cast<size_t>(decision.chosen - candidates_.data())];
  sl_estimate_t estimate = verdict.estimate;
  estimate.time_ns = verdict.measured_ns.value_or(estimate.time_ns);
  return estimate;
}

std::string Selector::Explain(const sl_op_t& op) const {
  const Decision decision = Decide(op);
  const uint64_t bytes = OpBytes(op, shape_->size);
  std::string text =
      fmt::format("{}: {} bytes over {} ranks\n", DescribeSignature(EncodeSignature(op)), bytes, shape_->size);
  size_t width = 16;
  for (const Candidate& candidate : candidates_) width = std::max(width, candidate.name.size());
  if (decision.by_measure) text += fmt::format("  {:<{}} {:>13} {:>13}\n", "", width, "estimate", "measured");
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Verdict& verdict = decision.verdicts[i];
    const bool possible = verdict.excluded.empty();
    text += fmt::format("{} {:<{}} {:>13}", decision.chosen == &candidates_[i] ? "*" : " ", candidates_[i].name, width,
                        possible ? Microseconds(verdict.estimate.time_ns) : "-");
    if (decision.by_measure) {
      text += fmt::format(" {:>13}", verdict.measured_ns ? Microseconds(*verdict.measured_ns) : "-");
    }
    text += possible ? fmt::format("  {}, {}: {}", RunName(verdict.estimate.run),
                                   DeterminismName(verdict.estimate.determinism), Printable(verdict.estimate.reason))
                     : fmt::format("  {}", verdict.excluded);
    for (const PartDecision& part : verdict.parts) {
      if (!possible) break;
      text += fmt::format("{} {}", &part == verdict.parts.data() ? ", by" : " and", part.decision.chosen->name);
    }
    text += "\n";
  }
  if (decision.chosen == nullptr) return text + Refusal(op, decision).message() + "\n";
  text += fmt::format("chosen: {}, {}\n", decision.chosen->name, ReasonOf(decision));
  if (decision.by_measure) return text + fmt::format("measured at {}\n", costs_.Origin());
  if (costs_.exists())
    text += fmt::format("estimated, since {}; costs at {}\n", costs_.Absence(op.kind, bytes), costs_.Origin());
  return text;
}

}  // namespace sl::kernel
