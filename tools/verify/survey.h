// SPDX-License-Identifier: Apache-2.0
//
// Every plan of an algorithm: asks it for the plans of one collective on one number of ranks, at counts, types,
// reductions, roots and placements that cut them in every way, and proves each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/verify/fold.h"
#include "tools/verify/rank_set.h"
#include "tools/verify/verify.h"

namespace sl::verify {

// A case that failed, in words.
struct Failure {
  std::string what;  // "ring all_reduce of 17 float32, sum, 4 ranks, in place"
  std::string text;  // the counter-example, or what plan() said; ends in a newline
  std::optional<CounterExample> counter_example;
};

// One algorithm, collective and number of ranks.
struct SurveyRow {
  std::string algorithm;
  sl_op_kind_t kind = SL_OP_ALL_REDUCE;
  uint32_t ranks = 0;
  uint64_t proved = 0;    // cases, all of these included
  uint64_t folded = 0;    // of them, proved by a smaller case that stands for them
  uint64_t rotated = 0;   // of them, proved as rotations of a case with another root
  uint64_t launches = 0;  // cases served by a launch: there is no plan to prove
  uint64_t refused = 0;   // cases that the algorithm does not serve
  uint64_t steps = 0;     // executed
  double seconds = 0;
  std::string reason;              // why there was nothing to prove, in the algorithm's words
  std::optional<Failure> failure;  // the first; the row ends there
};

// Counts worth trying with links of `chunk` elements: nothing, less than a rank's share, around every boundary, several
// chunks and rounds, nothing round. Ascending.
std::vector<uint64_t> CountsFor(sl_op_kind_t kind, uint32_t ranks, uint64_t chunk);

// How cases are proved.
enum class Effort : uint8_t {
  kFold,     // by a smaller case where one stands for them, and execution where none does
  kExecute,  // all ranks and all rounds of every case that is no rotation of another
};

class Survey {
 public:
  // `counts` in place of CountsFor(), unless empty.
  // returns: SL_ERR_UNSUPPORTED the algorithm is not for this shape, and whatever its create() says
  static Result<std::unique_ptr<Survey>> Open(const Algorithm& algorithm, const CommShape& shape,
                                              std::vector<uint64_t> counts, Effort effort = Effort::kFold);

  // Every case of one operation; send stands for a send and its receive.
  SurveyRow Run(sl_op_kind_t kind) const;

 private:
  struct Question {  // cases that differ in root or peers, and in placement
    sl_op_t op;
    uint32_t determinism;
  };
  struct Progress {
    SurveyRow row;
    Folder folder;
  };

  Survey(std::string name, const CommShape& shape, std::unique_ptr<RankSet> ranks, std::vector<uint64_t> counts,
         Effort effort)
      : name_(std::move(name)),
        shape_(shape),
        ranks_(std::move(ranks)),
        counts_(std::move(counts)),
        folds_(effort == Effort::kFold && shape.ranks > 1) {}
  std::optional<Question> Ask(const sl_op_t& op, SurveyRow* row) const;
  bool ProveQuestion(const Question& question, Progress* progress) const;
  bool ProveAlike(const Question& question, Progress* progress) const;
  bool ProveRoots(const Question& question, Progress* progress) const;
  bool ProvePairs(const Question& question, SurveyRow* row) const;
  bool ProveSet(const Question& question, const sl_op_t& op, PlanSet* set, Progress* progress) const;
  bool Fold(const Question& question, PlanSet* set, Progress* progress) const;
  bool Execute(const Question& question, const sl_op_t& op, PlanSet* set, SurveyRow* row) const;
  bool FailToPlan(const sl_op_t& op, const Status& status, SurveyRow* row) const;
  std::string NameOf(const sl_op_t& op, const std::string& placement) const;

  const std::string name_;
  const CommShape shape_;
  const std::unique_ptr<RankSet> ranks_;
  const std::vector<uint64_t> counts_;
  const bool folds_;
};

}  // namespace sl::verify
