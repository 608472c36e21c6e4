// SPDX-License-Identifier: Apache-2.0
//
// A family is one way in which kernels serve collectives on GPUs: what it can serve, how it cuts that over a grid, what
// that costs, and which kernel runs. Each has a file of its own here. All of it is a pure function of the operation and
// of settings that are equal on all ranks: peers rely on each other's cutting alike.
#pragma once

#include <array>
#include <cstdint>

#include "modules/algo-symmetric/choice.h"

namespace sl::algo_symmetric {

// What the kernels of a family take part in.
enum class Protocol : uint32_t {
  kOneShot,  // packets to whoever takes the data; arguments are Args, as of two shots
  kTwoShot,  // packets to whoever reduces or hands on a block, then to all
  kRounds,   // stages in the slice, or callers' buffers where all ranks reach them; arguments are LongArgs
  kUnits,    // contributions stored to whoever reduces them; LongArgs
};

// A kernel of an image (image_shelf.h).
struct KernelRef {
  uint32_t image;
  uint32_t kernel;
};

struct Family {
  const char* name;   // its provider
  const char* words;  // for people
  Protocol protocol;
  bool is_lamport;  // of packets: their format
  bool is_direct;   // blocks of all ranks meet, and move or reduce what lies in callers' buffers
  // Why it cannot serve `op` over `size` ranks, in one clause; NULL: it can.
  const char* (*refuses)(const sl_op_t& op, uint32_t size, const GpuSettings& settings);
  // The launch of one rank, with its cost. Only of what it does not refuse. Ranks differ in `pattern` and `direct`
  // alone.
  Choice (*cut)(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings);
  // Of an operation that reduces or moves elements of this type.
  KernelRef (*kernel)(bool reduces, sl_datatype_t datatype);

  bool is_packets() const { return protocol == Protocol::kOneShot || protocol == Protocol::kTwoShot; }
};

namespace families {
extern const Family kOneShot;
extern const Family kTwoShot;
extern const Family kStaged;
extern const Family kDirect;
extern const Family kLamportOneShot;
extern const Family kLamportTwoShot;
extern const Family kBulk;
extern const Family kPush;
}  // namespace families

// As `family` cuts it.
inline Choice Cut(const Family& family, const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  Choice choice = family.cut(op, rank, size, settings);
  choice.family = &family;
  return choice;
}

inline constexpr std::array<const Family*, 8> kFamilies = {
    &families::kOneShot,        &families::kTwoShot,        &families::kStaged, &families::kDirect,
    &families::kLamportOneShot, &families::kLamportTwoShot, &families::kBulk,   &families::kPush};

}  // namespace sl::algo_symmetric
