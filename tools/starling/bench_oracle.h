// SPDX-License-Identifier: Apache-2.0
// What every element of every buffer must be: inputs that each rank can compute for all ranks, and the reduction of
// them computed independently of the library under test.
//
// Element i of a rank's input depends on (seed, rank, i) through a table of kPeriod hashed values whose rotation
// changes every period, so a block that lands at a wrong place or comes from a wrong rank is seen. Odd elements of
// float reductions are small integers for which every order of summation is exact, so they are compared exactly; even
// ones are real numbers, compared within the rounding error that any order of `ranks` operations may make. Integers
// wrap and are compared exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/starling/bench_types.h"

namespace sl::tools {

// The arithmetic of one data type, behind one interface (see bench_oracle_types.cc).
class ElementMath {
 public:
  virtual ~ElementMath() = default;
  // Writes the input of `rank` at table place `index` to `out` (one element).
  virtual void Input(RedOp op, int ranks, int rank, uint64_t seed, size_t index, void* out) const = 0;
  // Reduces the inputs of all ranks at `index`: the expected element and how far off a result may be (0 = exact).
  virtual double Expected(RedOp op, int ranks, uint64_t seed, size_t index, void* out) const = 0;
  // True when `got` is `want` or no further from it than `tolerance`.
  virtual bool Close(const void* got, const void* want, double tolerance) const = 0;
  // Writes rank's multiplier of mulsum (one element).
  virtual void Scalar(int rank, void* out) const = 0;
};
const ElementMath& MathOf(DataType type);

class Oracle {
 public:
  static constexpr size_t kPeriod = 16381;   // a prime, so that no power-of-two block maps onto itself
  static constexpr size_t kRotation = 7919;  // how far the table turns each period

  // `op` is kNone for operations that copy; `elements` bounds the indices that will be asked for.
  Oracle(DataType type, RedOp op, int ranks, uint64_t seed, size_t elements);

  // Writes elements [first, first + count) of the input of `rank` to `out`.
  void Fill(int rank, size_t first, size_t count, void* out);

  // Return the number of wrong elements among `count` at `got`, which should be the input of `rank`, or the reduction
  // over all ranks, from index `first` on.
  size_t CheckInput(int rank, size_t first, size_t count, const void* got);
  size_t CheckReduced(size_t first, size_t count, const void* got);

 private:
  const std::vector<unsigned char>& InputTable(int rank);
  void MakeExpected();

  const ElementMath& math_;
  const RedOp op_;
  const int ranks_;
  const uint64_t seed_;
  const size_t width_;
  const size_t length_;                             // of the tables: kPeriod or less
  std::vector<std::vector<unsigned char>> inputs_;  // by rank, made when first needed
  std::vector<unsigned char> expected_;
  std::vector<double> tolerance_;
};

}  // namespace sl::tools
