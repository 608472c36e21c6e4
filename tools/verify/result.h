// SPDX-License-Identifier: Apache-2.0
//
// What an operation's results must be, and whether they are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/verify/expression.h"
#include "tools/verify/memory.h"
#include "tools/verify/verify.h"

namespace sl::verify {

// Elements [begin, end) of a receive buffer: element p is `rank`'s input at p + shift, or all ranks' inputs there,
// combined.
struct Wanted {
  static constexpr uint32_t kAll = UINT32_MAX;
  uint64_t begin;
  uint64_t end;
  uint32_t rank;
  int64_t shift;
};

// What rank `rank` of `size` must have; in order, and nothing but its receive buffer.
std::vector<Wanted> WantedOf(const sl_op_t& op, uint32_t rank, uint32_t size);

class ResultCheck {
 public:
  ResultCheck(const Case& test, Expressions* expressions) : test_(test), expressions_(expressions) {}

  // The first element of rank `rank` that is wrong, if one is.
  std::optional<CounterExample> Check(uint32_t rank, const Memory& memory);
  // After every rank's Check: what the declared class does not allow, if anything; and the class found.
  std::optional<CounterExample> CheckOrder(uint32_t* out_class) const;

 private:
  bool IsRight(const Wanted& wanted, Value value) const;
  bool IsOrderFree() const;
  void Describe(const Wanted& wanted, Value value, uint64_t element, CounterExample* wrong) const;
  std::string Text(Value value, uint64_t element) const;
  std::optional<CounterExample> FindOtherOrder(uint32_t rank) const;
  std::optional<CounterExample> CheckFoldedOrder(uint32_t* out_class) const;
  bool IsEverywhereEqual() const;

  const Case& test_;
  Expressions* const expressions_;
  std::vector<Pieces> results_;  // of each rank
};

}  // namespace sl::verify
