// SPDX-License-Identifier: Apache-2.0
//
// Which family serves a collective on GPUs, by size, where a profile says so: the option gpu_choices, as `starling
// bench
// --tune` writes it. One row for an operation and a number of ranks:
//
//   all_reduce 4: one_shot 65536, two_shot 262144, direct 1048576 on 8, direct
//
// Up to 65536 bytes one_shot, up to 262144 two_shot, up to 1 MiB direct on at most 8 SMs, and direct above. Rows end
// with a semicolon or the line. Bytes are those of the longer buffer of a rank, as nccl-tests counts them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_symmetric {

enum class Family : uint32_t { kOneShot, kTwoShot, kStaged, kDirect, kLamportOneShot, kLamportTwoShot, kBulk, kPush };
constexpr uint32_t kFamilies = 8;
constexpr bool IsOneShot(Family family) { return family == Family::kOneShot || family == Family::kLamportOneShot; }
constexpr bool IsTwoShot(Family family) { return family == Family::kTwoShot || family == Family::kLamportTwoShot; }
constexpr bool IsLamport(Family family) {
  return family == Family::kLamportOneShot || family == Family::kLamportTwoShot;
}
// Of ranks whose blocks meet, and that move or reduce what lies in callers' buffers.
constexpr bool IsDirect(Family family) {
  return family == Family::kDirect || family == Family::kBulk || family == Family::kPush;
}
// For people, and as options call it.
const char* FamilyName(Family family);
const char* FamilyOption(Family family);

class ChoiceTable {
 public:
  struct Entry {
    uint64_t most_bytes;
    Family family;
    uint32_t blocks;  // of a staged or direct grid, at most; 0: as many as elsewhere
  };

  // returns: SL_OK | SL_ERR_INVALID with what is wrong where
  static Result<ChoiceTable> Parse(std::string_view text);

  // NULL: nothing is said of it.
  const Entry* Find(sl_op_kind_t kind, uint32_t ranks, uint64_t bytes) const;

 private:
  struct Row {
    sl_op_kind_t kind;
    uint32_t ranks;
    std::vector<Entry> entries;  // bytes ascending; the last one has no bound
  };
  static Result<Row> ParseRow(std::string_view text);

  std::vector<Row> rows_;
};

}  // namespace sl::algo_symmetric
