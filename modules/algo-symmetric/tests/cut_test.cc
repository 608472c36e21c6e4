// SPDX-License-Identifier: Apache-2.0
//
// Where ranges that begin anywhere are cut: nothing is left out, done twice, or loaded from outside.
#include "modules/algo-symmetric/kernels/cut.h"

#include <gtest/gtest.h>

#include <random>

#include "modules/algo-symmetric/kernels/direct/bulk_spread.h"
#include "modules/algo-symmetric/kernels/direct/spread.h"
#include "modules/algo-symmetric/kernels/direct/unit_cut.h"
#include "modules/algo-symmetric/kernels/move_pieces.h"

namespace sl::algo_symmetric {
namespace {

using namespace kernels;  // NOLINT(google-build-using-namespace): what is tested

const uint8_t* At(uint64_t address) { return reinterpret_cast<const uint8_t*>(address); }

TEST(Cut, FindsWhereVectorsAndLinesBegin) {
  for (uint64_t there = 4096; there < 4096 + kWireLineBytes; ++there) {
    for (uint64_t to = 8192; to < 8192 + kWireLineBytes; ++to) {
      const uint64_t head = HeadOf(At(there), At(to));
      ASSERT_LT(head, kWireLineBytes);
      ASSERT_EQ((to + head) % kVectorBytes, 0u);
      ASSERT_EQ((there + head) / kVectorBytes * kVectorBytes % kWireLineBytes, 0u) << "the vectors that are loaded";
    }
    EXPECT_EQ((there + HeadOf(At(there), At(there))) % kWireLineBytes, 0u);
    EXPECT_EQ((there + ToVector(At(there))) % kVectorBytes, 0u);
  }
}

TEST(Cut, IntoPiecesThatBeginAtLinesButTheFirst) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bytes = 1 + random() % 100000;
    const uint32_t piece_bytes = random() % 8 == 0 ? 0 : 4096 * (1 + random() % 3);
    const auto head = static_cast<uint32_t>(random() % kWireLineBytes);
    const Pieces pieces{bytes, piece_bytes, head};
    const uint64_t count = piece_bytes == 0 ? 1 : (bytes + piece_bytes - 1) / piece_bytes;
    uint64_t end = 0;
    for (uint64_t piece = 0; piece < count; ++piece) {
      ASSERT_EQ(pieces.Begin(piece), end);
      ASSERT_TRUE(piece == 0 || end == bytes || (end - head) % kWireLineBytes == 0) << end;
      end = pieces.End(piece);
    }
    ASSERT_EQ(end, bytes);
  }
}

TEST(Cut, LoadsVectorsFromWithinTheRangeAlone) {
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t range = 1 + random() % 600;
    const uint64_t begin = random() % range;
    const uint64_t bytes = random() % (range - begin + 1);
    const uint64_t from = 1024 + random() % 64;
    const uint64_t to = 8192 + random() % 64;
    const uint64_t shift = ShiftOf(At(from), At(to));
    const Vectors vectors =
        Vectors::Of(bytes, HeadOf(At(to + begin), At(to + begin)), shift != 0, begin, range - begin - bytes);
    ASSERT_LE(vectors.first + vectors.bytes(), bytes);
    if (vectors.count == 0) {
      ASSERT_EQ(vectors.first, bytes);
      continue;
    }
    ASSERT_EQ((to + begin + vectors.first) % kVectorBytes, 0u);
    const uint64_t loaded = from + begin + vectors.first - shift;
    ASSERT_EQ(loaded % kVectorBytes, 0u);
    ASSERT_GE(loaded, from);
    ASSERT_LE(loaded + vectors.bytes() + (shift != 0 ? kVectorBytes : 0), from + range);
    ASSERT_LT(bytes - vectors.first - vectors.bytes(), 2 * kVectorBytes) << "what goes byte by byte at the end";
  }
}

TEST(Cut, IntoUnitsAtLinesOfWhereTheyGo) {
  std::mt19937 random(13);
  for (int i = 0; i < 2000; ++i) {
    const UnitCut cut{1 + random() % 100000, static_cast<uint32_t>(random() % kWireLineBytes)};
    const uint32_t length = 1024 << random() % 4;
    const uint64_t count = (cut.bytes + kWireLineBytes - 1 + length - 1) / length;  // as if of the greatest skew
    uint64_t end = 0;
    for (uint64_t unit = 0; unit < count; ++unit) {
      ASSERT_EQ(cut.Begin(unit, length), end);
      ASSERT_TRUE(unit == 0 || end == cut.bytes || (end + cut.skew) % length == 0) << end;
      end = cut.End(unit, length);
    }
    ASSERT_EQ(end, cut.bytes);
  }
}

std::vector<uint8_t> RandomBytes(uint64_t bytes, std::mt19937& random) {
  std::vector<uint8_t> all(bytes);
  for (uint8_t& byte : all) byte = static_cast<uint8_t>(random());
  return all;
}

// To several places that are aligned differently, some of which are not there.
TEST(Cut, MovesToPlacesOfAnyAlignment) {
  std::mt19937 random(17);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = 1 + random() % 900;
    const std::vector<uint8_t> source = RandomBytes(bytes + 16, random);
    const uint8_t* from = source.data() + random() % 16;
    std::vector<std::vector<uint8_t>> images(4);
    uint8_t* places[4] = {};
    for (uint32_t t = 0; t < 4; ++t) {
      images[t].assign(bytes + 32, 0x5A);
      if (random() % 4 != 0) places[t] = images[t].data() + (random() % 2 == 0 ? 1 : 1 + random() % 16);
    }
    const Spread<ManyPlaces> spread{from, {places, 4}, random() % 2 == 0};
    const uint32_t piece_bytes = 128 * (1 + random() % 3);
    const Pieces pieces = spread.Cut(bytes, piece_bytes);
    for (uint64_t piece = 0; piece * piece_bytes < bytes; ++piece) {
      SpreadBytes(dev::Block::Whole(0), spread, bytes, pieces.Begin(piece), pieces.End(piece));
    }
    for (uint32_t t = 0; t < 4; ++t) {
      if (places[t] == nullptr) continue;
      ASSERT_EQ(std::memcmp(places[t], from, bytes), 0);
      ASSERT_EQ(places[t][-1], 0x5A);
      ASSERT_EQ(places[t][bytes], 0x5A);
    }
  }
}

// Every piece once; those of the peers one peer after another, of this rank as many meanwhile as of one peer.
TEST(Cut, DrawsBulkPiecesOfOnePeerAfterAnother) {
  for (uint32_t ranges : {1u, 2u, 4u, 8u}) {
    for (uint32_t pieces : {1u, 2u, 3u, 7u, 64u}) {
      uint32_t own = 0;
      for (uint32_t drawn = 0; drawn < ranges * pieces; ++drawn) {
        const DrawnPiece piece = DrawnPiece::Of(drawn, ranges, pieces);
        const bool is_own = piece.range + 1 == ranges;
        ASSERT_EQ(is_own ? piece.number : piece.range * pieces + piece.number, is_own ? own : drawn - own);
        ASSERT_LT(piece.number, pieces);
        if (is_own) ++own;
        ASSERT_EQ(own, (drawn + 1) / ranges);
      }
    }
  }
}

// To one place, whatever the alignment: nothing before or behind it.
TEST(Cut, MovesToOnePlace) {
  std::mt19937 random(19);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t bytes = 1 + random() % 900;
    const std::vector<uint8_t> source = RandomBytes(bytes + 16, random);
    const uint8_t* from = source.data() + random() % 16;
    std::vector<uint8_t> image(bytes + 32, 0x5A);
    uint8_t* to = image.data() + 1 + random() % 16;
    MoveBytes(dev::Block::Whole(0), from, to, bytes);
    ASSERT_EQ(std::memcmp(to, from, bytes), 0);
    ASSERT_EQ(to[-1], 0x5A);
    ASSERT_EQ(to[bytes], 0x5A);
  }
}

}  // namespace
}  // namespace sl::algo_symmetric
