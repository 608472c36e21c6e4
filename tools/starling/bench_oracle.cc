// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_oracle.h"

#include <algorithm>
#include <cstring>

namespace sl::tools {
namespace {

// Calls piece(place in the table, offset from first, run) for the runs that make up [first, first + count).
template <typename Piece>
void ForRuns(size_t length, size_t first, size_t count, Piece piece) {
  for (size_t done = 0; done < count;) {
    size_t index = first + done;
    size_t block = index / length;
    size_t place = (index % length + block * Oracle::kRotation) % length;
    size_t run = std::min({count - done, length - index % length, length - place});
    piece(place, done, run);
    done += run;
  }
}

}  // namespace

Oracle::Oracle(DataType type, RedOp op, int ranks, uint64_t seed, size_t elements)
    : math_(MathOf(type)),
      op_(op),
      ranks_(ranks),
      seed_(seed),
      width_(SizeOf(type)),
      length_(std::clamp<size_t>(elements, 1, kPeriod)),
      inputs_(static_cast<size_t>(ranks)) {}

const std::vector<unsigned char>& Oracle::InputTable(int rank) {
  std::vector<unsigned char>& table = inputs_[static_cast<size_t>(rank)];
  if (table.empty()) {
    table.resize(length_ * width_);
    for (size_t i = 0; i < length_; ++i) math_.Input(op_, ranks_, rank, seed_, i, &table[i * width_]);
  }
  return table;
}

void Oracle::MakeExpected() {
  if (!expected_.empty()) return;
  expected_.resize(length_ * width_);
  tolerance_.resize(length_);
  for (size_t i = 0; i < length_; ++i) {
    tolerance_[i] = math_.Expected(op_, ranks_, seed_, i, &expected_[i * width_]);
  }
}

void Oracle::Fill(int rank, size_t first, size_t count, void* out) {
  const std::vector<unsigned char>& table = InputTable(rank);
  auto* bytes = static_cast<unsigned char*>(out);
  ForRuns(length_, first, count, [&](size_t place, size_t offset, size_t run) {
    std::memcpy(bytes + offset * width_, &table[place * width_], run * width_);
  });
}

size_t Oracle::CheckInput(int rank, size_t first, size_t count, const void* got) {
  const std::vector<unsigned char>& table = InputTable(rank);
  const auto* bytes = static_cast<const unsigned char*>(got);
  size_t wrong = 0;
  ForRuns(length_, first, count, [&](size_t place, size_t offset, size_t run) {
    const unsigned char* have = bytes + offset * width_;
    const unsigned char* want = &table[place * width_];
    if (std::memcmp(have, want, run * width_) == 0) return;
    for (size_t i = 0; i < run; ++i) wrong += std::memcmp(have + i * width_, want + i * width_, width_) != 0;
  });
  return wrong;
}

size_t Oracle::CheckReduced(size_t first, size_t count, const void* got) {
  MakeExpected();
  const auto* bytes = static_cast<const unsigned char*>(got);
  size_t wrong = 0;
  ForRuns(length_, first, count, [&](size_t place, size_t offset, size_t run) {
    const unsigned char* have = bytes + offset * width_;
    const unsigned char* want = &expected_[place * width_];
    if (std::memcmp(have, want, run * width_) == 0) return;
    for (size_t i = 0; i < run; ++i) {
      if (std::memcmp(have + i * width_, want + i * width_, width_) == 0) continue;
      wrong += !math_.Close(have + i * width_, want + i * width_, tolerance_[place + i]);
    }
  });
  return wrong;
}

}  // namespace sl::tools
