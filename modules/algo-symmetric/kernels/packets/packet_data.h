// SPDX-License-Identifier: Apache-2.0
//
// The data of packets: from and to callers' buffers (packet_ends.h), and the reduction of what came.
#pragma once

#include "modules/algo-symmetric/kernels/packets/packet_ends.h"
#include "modules/algo-symmetric/kernels/slice.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

template <typename F, typename Data, uint32_t kUnit>
SL_HD void ScaleUnit(uint64_t scalar, Data (&data)[kUnit]) {
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) data[k] = dev::Scaled<F>(data[k], scalar);
}

// Units of every rank that meet in shared memory at a time.
template <typename Format>
SL_HD uint32_t UnitsThatFit(uint32_t ranks) {
  return kSharedBytes / sizeof(typename Format::Data) / Format::kUnit / ranks;
}

// Calls by<kReduction>(average_over). Sums come before all others, and averages apart from them: a jump by a table, or
// a reciprocal that nobody needs, takes longer than what is done then.
template <typename By>
SL_HD void ByReduction(sl_reduction_t reduction, uint32_t average_over, const By& by) {
  const bool is_sum = reduction != SL_PROD && reduction != SL_MAX && reduction != SL_MIN;
  if (is_sum && average_over == 0) return by.template operator()<SL_SUM>(0);
  if (is_sum) return by.template operator()<SL_SUM>(average_over);
  if (reduction == SL_PROD) return by.template operator()<SL_PROD>(0);
  if (reduction == SL_MAX) return by.template operator()<SL_MAX>(0);
  by.template operator()<SL_MIN>(0);
}

// Reduces packet i of every rank, shared[rank * count + i], in rank order, and hands the result to store(i, packet).
template <typename F, sl_reduction_t kReduction, typename Data, typename StoreSum>
SL_HD void ReducePacketsBy(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                           uint32_t average_over, const StoreSum& store) {
  constexpr uint32_t kAbreast = 7;  // besides the first; loaded before the first of them is needed
  for (uint32_t i = block.thread(); i < count; i += block.threads()) {
    dev::Accumulator<F, kReduction, sizeof(Data)> sum;
    sum.Start(shared[i]);
    for (uint32_t first = 1; first < ranks; first += kAbreast) {
      Data of_rank[kAbreast];
      SL_UNROLL
      for (uint32_t r = 0; r < kAbreast; ++r) {
        if (first + r < ranks) of_rank[r] = shared[(first + r) * count + i];
      }
      SL_UNROLL
      for (uint32_t r = 0; r < kAbreast; ++r) {
        if (first + r < ranks) sum.Add(of_rank[r]);
      }
    }
    store(i, sum.Finish(average_over));
  }
}

// Two ranks' packets of a unit: `first` becomes their reduction.
template <typename F, sl_reduction_t kReduction, typename Data, uint32_t kUnit>
SL_HD void ReducePairBy(Data (&first)[kUnit], const Data (&second)[kUnit], uint32_t average_over) {
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    dev::Accumulator<F, kReduction, sizeof(Data)> sum;
    sum.Start(first[k]);
    sum.Add(second[k]);
    first[k] = sum.Finish(average_over);
  }
}

template <typename F, typename Data, uint32_t kUnit>
SL_HD void ReducePair(Data (&first)[kUnit], const Data (&second)[kUnit], sl_reduction_t reduction,
                      uint32_t average_over) {
  ByReduction(reduction, average_over,
              [&]<sl_reduction_t kReduction>(uint32_t over) { ReducePairBy<F, kReduction>(first, second, over); });
}

// Up to kRanks ranks' packets, in rank order: the first becomes their reduction.
template <typename F, sl_reduction_t kReduction, typename Data, uint32_t kRanks>
SL_HD void ReduceRanksBy(Data (&of_rank)[kRanks], uint32_t ranks, uint32_t average_over) {
  dev::Accumulator<F, kReduction, sizeof(Data)> sum;
  sum.Start(of_rank[0]);
  SL_UNROLL
  for (uint32_t r = 1; r < kRanks; ++r) {
    if (kRanks == 2 || r < ranks) sum.Add(of_rank[r]);
  }
  of_rank[0] = sum.Finish(average_over);
}

template <typename F, typename Data, uint32_t kRanks>
SL_HD void ReduceRanks(Data (&of_rank)[kRanks], uint32_t ranks, sl_reduction_t reduction, uint32_t average_over) {
  ByReduction(reduction, average_over,
              [&]<sl_reduction_t kReduction>(uint32_t over) { ReduceRanksBy<F, kReduction>(of_rank, ranks, over); });
}

template <typename F, typename Data, typename StoreSum>
SL_HD void ReducePackets(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                         sl_reduction_t reduction, uint32_t average_over, const StoreSum& store) {
  ByReduction(reduction, average_over, [&]<sl_reduction_t kReduction>(uint32_t over) {
    ReducePacketsBy<F, kReduction>(block, shared, ranks, count, over, store);
  });
}

}  // namespace sl::algo_symmetric::kernels
