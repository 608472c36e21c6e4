// SPDX-License-Identifier: Apache-2.0
//
// A plan read from a file: the steps of every rank of one collective, for any number of elements. docs/plan-file.md
// describes the format. What is here has been checked as far as it can be without an operation; the kernel checks the
// rest, step by step, when it builds the plan of a rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_planfile {

// Bounds on what a file may ask for, so that a wrong one ends in an error and not in a full machine.
constexpr uint64_t kMaxFileBytes = 16u << 20;
constexpr uint64_t kMaxRanks = 1024;
constexpr uint64_t kMaxBlocks = 65536;
constexpr uint64_t kMaxSteps = 1'000'000;
constexpr uint64_t kMaxRepeat = 1'000'000;

struct PlanLane {
  uint32_t link_lane;
  std::vector<sl_step_t> steps;
};

struct PlanFile {
  std::string path;
  std::string name;
  sl_op_kind_t kind = SL_OP_ALL_REDUCE;
  uint32_t ranks = 0;
  int32_t root = -1;
  uint32_t blocks = 1;          // that `count` elements are cut into
  uint32_t scratch_blocks = 0;  // of the same length
  uint32_t credits = 1;
  uint64_t chunk_bytes = UINT64_MAX;  // the links' own limit holds, too
  uint32_t determinism = SL_DETERMINISM_RUN;
  uint64_t min_bytes = 0;  // sizes of the operation that it is for, inclusive
  uint64_t max_bytes = UINT64_MAX;
  std::vector<std::vector<PlanLane>> lanes;  // of every rank

  // What the busiest rank does in one round: waits in sequence, chunks put. A chunk is a block's share of a round.
  uint64_t waits = 0;
  uint64_t puts = 0;
  uint32_t link_lanes = 1;  // that links must have
};

// How many blocks a rank's buffer has in this plan; 0 when the collective gives it none.
uint64_t SendBlocks(const PlanFile& plan, uint32_t rank);
uint64_t RecvBlocks(const PlanFile& plan, uint32_t rank);

// Reads the text of a plan file; `path` names it in messages.
// returns: SL_ERR_CONFIG "path:line: what is wrong, what must stand there"
Result<PlanFile> ParsePlan(std::string_view text, const std::string& path);

// Reads plan files. `paths` are files and folders, separated by colons; of a folder every *.plan, in the order of
// names. returns: SL_ERR_NOT_FOUND nothing is there | SL_ERR_SYSTEM it cannot be read | SL_ERR_CONFIG as above
Result<std::vector<PlanFile>> LoadPlans(const std::string& paths);

}  // namespace sl::algo_planfile
