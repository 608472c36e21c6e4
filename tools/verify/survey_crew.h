// SPDX-License-Identifier: Apache-2.0
//
// Surveys side by side: every thread has algorithm objects of its own and proves one row at a time. What comes out, and
// in which order, does not depend on the threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/verify/survey.h"

namespace sl::verify {

// One row to be made.
struct SurveyTask {
  const Algorithm* algorithm = nullptr;
  CommShape shape;
  sl_op_kind_t kind = SL_OP_ALL_REDUCE;
};

struct SurveyPlan {
  std::vector<SurveyTask> tasks;
  std::vector<uint64_t> counts;  // in place of CountsFor(), unless empty
  Effort effort = Effort::kFold;
  uint32_t threads = 1;  // at least 1
};

// The rows, in the order of the tasks. `report` sees each as soon as it and all before it are there, on the calling
// thread. An algorithm that cannot be created gives rows that say so; where it is not for the shape, they fail for
// nothing. throws: what a survey throws, after all threads have ended
std::vector<SurveyRow> RunSurveys(const SurveyPlan& plan, const std::function<void(const SurveyRow&)>& report);

}  // namespace sl::verify
