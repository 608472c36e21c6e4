// SPDX-License-Identifier: Apache-2.0
//
// The signature of an operation: what all its ranks must agree about, packed into the 64 bits that travel with every
// chunk and packet, so that a mismatch is found by whoever receives it and both sides' arguments can be printed.
//
//   bits 63…60 kind   59…56 data type   55…52 reduction (15: none)   51…36 root (0xffff: none)   35…0 count, saturating
//
// A call with settings of its own (sl_op_t::settings) adds 6 to the reduction (14: none), and the bits that a count
// seldom needs say which settings: 35…24 a hash of their number, 23 the count is large, 22…0 the count, or a hash of
// it.
//
// A receive carries the signature of the send it pairs with, so the two compare equal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sl_algorithm.h"

namespace sl::kernel {

constexpr uint32_t kSignatureMaxRanks = 0xffff;  // roots above it would not fit
constexpr uint64_t kSignatureMaxCount = (uint64_t{1} << 36) - 1;

// Pure, no allocation.
uint64_t EncodeSignature(const sl_op_t& op);

// The arguments in words: "all_reduce of 1024 float32, sum", "broadcast of 8 int8 from root 2". Never fails, whatever
// the bits: they may come from a stranger.
std::string DescribeSignature(uint64_t signature);

// One sentence that tells both sides apart: "rank 3 called … but rank 1 called …".
std::string DescribeMismatch(uint32_t rank, uint64_t own, uint32_t peer, uint64_t theirs);

// What stands for an algorithm's name beside a signature, 32 bits; 0: that of no name.
uint32_t AlgorithmTag(std::string_view name);

// A rank and the algorithm that it has chosen.
struct RankChoice {
  std::string rank;
  std::string algorithm;
};
// What is wrong where two ranks have chosen different ones for one operation, and what to do about it.
std::string DescribeChoices(const RankChoice& one, const RankChoice& other);

// Elements that rank `rank` of `size` reads from its send buffer and writes to its receive buffer; 0 where the buffer
// takes no part. SL_OP_* as NCCL counts them. Saturates at UINT64_MAX.
uint64_t SendElements(const sl_op_t& op, uint32_t rank, uint32_t size);
uint64_t RecvElements(const sl_op_t& op, uint32_t rank, uint32_t size);

// The size by which people and profile rules speak of an operation: bytes of the largest buffer any rank has in it,
// equal on all ranks. Saturates.
uint64_t OpBytes(const sl_op_t& op, uint32_t size);

}  // namespace sl::kernel
