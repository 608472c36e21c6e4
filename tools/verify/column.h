// SPDX-License-Identifier: Apache-2.0
//
// One column for all elements (docs/verify.md, "Folding"). Where plans cut every buffer into blocks of one length S and
// each step moves position x of one block to position x of another, the elements at position x of all blocks, a column,
// never meet those of another. Then plans for blocks of one element, in one round, do to their elements what the plans
// at hand do to every column, however long blocks are and however many rounds they take.
//
// Blocks at the end of a vector may be shorter, or absent: cut. Then columns differ in which blocks they have. A column
// that has all blocks stands for the others where no step and no chunk takes data from one block to another, and a
// rank has one lane.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/verify/rank_set.h"
#include "tools/verify/verify.h"

namespace sl::verify {

struct Column {
  uint64_t block = 0;  // S, elements
  uint64_t count = 0;  // blocks in what the operation calls its count
  bool cut = false;
};

// How the plans of a case fall into columns, if they do. Looks at the plans that are there.
std::optional<Column> FindColumn(const Case& test);

// Plans of one element a block, with all steps of the case's, and the case that they make: it stands for any number of
// rounds, and where blocks are cut for any of them being absent.   returns: what the builder says
Result<PlanSet> MakeColumn(const Case& test, const Column& column);

// Whether MakeColumn() would make these plans.
bool IsColumnOf(const Case& made, const Case& test, const Column& column);

}  // namespace sl::verify
