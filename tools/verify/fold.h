// SPDX-License-Identifier: Apache-2.0
//
// Proves cases by small ones that stand for them: one column for all elements (column.h), and one rank for all where
// the case holds rank 0's plan alone (rotation.h). What has been proved once is remembered, since counts, types and
// chunks that differ fold to the same column.
//
// Only proofs come out of it: where a fold is not proved, the case is to be executed, and shows what is wrong itself.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "tools/verify/column.h"
#include "tools/verify/rank_set.h"
#include "tools/verify/verify.h"

namespace sl::verify {

class Folder {
 public:
  // False: not proved this way, which says nothing about the case.   throws: std::bad_alloc only
  bool Prove(const Case& test);

  // Executed so far.
  uint64_t steps() const { return steps_; }

 private:
  struct Known {
    PlanSet column;
    std::optional<bool> proved[2];  // by placement
  };
  Known* Find(const Case& test, const Column& column);

  std::deque<Known> known_;  // the latest ones
  uint64_t steps_ = 0;
};

}  // namespace sl::verify
