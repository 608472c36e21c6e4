// SPDX-License-Identifier: Apache-2.0
//
// How operations that were met before are cut. Cutting takes a processor some fifty nanoseconds, of which an eager call
// has no more to give away.
#pragma once

#include <array>
#include <cstdint>

#include "modules/algo-symmetric/families/family.h"
#include "sdk/float_mode.h"

namespace sl::algo_symmetric {

// For one family and one rank of one communicator; one thread at a time.
class ChoiceCache {
 public:
  // What `cut` says of an operation, which is the same at every call. `number`: of the call's own settings, 0: none.
  // Valid until the next call.
  template <typename Cutting>
  const Choice& Of(const sl_op_t& op, uint32_t number, Cutting&& cut) {
    const Key key{op.count, op.kind, op.datatype, op.reduction, op.root, number};
    Slot& slot = slots_[key.Hash() % kSlots];
    if (!slot.is_used || !(slot.key == key)) {
      const FloatMode mode;  // all ranks cut alike, by costs that are rounded alike
      slot = {true, key, cut()};
    }
    return slot.choice;
  }

 private:
  static constexpr uint64_t kSlots = 32;

  // All of an operation that cutting looks at.
  struct Key {
    uint64_t count;
    sl_op_kind_t kind;
    sl_datatype_t datatype;
    sl_reduction_t reduction;
    int32_t root;
    uint32_t number;

    bool operator==(const Key&) const = default;
    // The multiplier of Fibonacci hashing (Knuth, TAOCP 3, 6.4), whose upper bits are the mixed ones.
    uint64_t Hash() const {
      const uint64_t what = uint64_t{kind} << 56 ^ uint64_t { datatype } << 48 ^ uint64_t { reduction } << 40 ^
                            static_cast<uint64_t>(static_cast<uint32_t>(root));
      return ((count ^ what ^ uint64_t{number} << 20) * 0x9e3779b97f4a7c15u) >> 32;
    }
  };
  struct Slot {
    bool is_used = false;
    Key key{};
    Choice choice{};
  };

  std::array<Slot, kSlots> slots_;
};

}  // namespace sl::algo_symmetric
