// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that people make in plans, made on purpose and at random.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tools/verify/sketch_test_util.h"

namespace sl::verify {

enum class Mutation : uint8_t {
  kPeer,          // another rank in a step or a chunk operand
  kDropWait,      // a WAIT left out
  kDropRelease,   // a RELEASE left out
  kDropStep,      // any other step left out
  kRepeatStep,    // a step twice
  kSwapSteps,     // two neighbours in the other order
  kMoveStep,      // a step somewhere else in its lane
  kBlock,         // an operand's block off by one or more
  kBlockStep,     // an operand that moves in a REPEAT otherwise than it should
  kShape,         // the part of another block
  kBuffer,        // another buffer
  kSwapOperands,  // b op a
  kFlag,          // a flag set or cleared
  kOperation,     // a REDUCE that copies, a COPY that takes its operand from elsewhere
  kSecondTarget,  // dst2 left out
  kRepeatCount,   // a REPEAT once more or less
  kRepeatLength,  // a REPEAT of one step more or less
  kChunk,         // chunks off by one
  kRounds,        // one round more or less
  kCredits,       // fewer credits than needed
  kGeometry,      // stride, length or total of a buffer off by one
  kLinkLane,      // another lane of the link
  kCount,
};
const char* MutationName(Mutation mutation);

// Makes one mistake in these plans: in one rank's, or the same one in all where `everywhere`. Says which, in words; ""
// when the plans have no place for it, and they may then be anything.
std::string Mutate(Mutation mutation, bool everywhere, std::mt19937* random, std::vector<Sketch>* sketches);

}  // namespace sl::verify
