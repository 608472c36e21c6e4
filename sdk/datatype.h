// SPDX-License-Identifier: Apache-2.0
//
// Facts about data types, reductions and operations that every room needs: sizes and names.
#pragma once

#include <cstddef>

#include "sl_base.h"

namespace sl {

// Bytes of one element; 0 for a number that is no data type.
constexpr size_t DatatypeBytes(sl_datatype_t datatype) {
  constexpr unsigned char kBytes[SL_DATATYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < SL_DATATYPE_COUNT ? kBytes[datatype] : 0;
}

constexpr const char* DatatypeName(sl_datatype_t datatype) {
  constexpr const char* kNames[SL_DATATYPE_COUNT] = {"int8",    "uint8",   "int32",   "uint32",   "int64",   "uint64",
                                                     "float16", "float32", "float64", "bfloat16", "fp8e4m3", "fp8e5m2"};
  return datatype < SL_DATATYPE_COUNT ? kNames[datatype] : "unknown type";
}

constexpr const char* ReductionName(sl_reduction_t reduction) {
  constexpr const char* kNames[SL_REDUCTION_COUNT] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
  return reduction < SL_REDUCTION_COUNT ? kNames[reduction] : "unknown reduction";
}

constexpr const char* OpKindName(sl_op_kind_t kind) {
  constexpr const char* kNames[SL_OP_KIND_COUNT] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                                    "all_to_all", "gather",     "scatter",        "send",      "recv"};
  return kind < SL_OP_KIND_COUNT ? kNames[kind] : "unknown operation";
}

// True for the operations whose result depends on a reduction.
constexpr bool HasReduction(sl_op_kind_t kind) {
  return kind == SL_OP_ALL_REDUCE || kind == SL_OP_REDUCE_SCATTER || kind == SL_OP_REDUCE;
}

// True for the operations of two ranks, a send and the receive at its other end. All other operations are collectives.
constexpr bool IsTransfer(sl_op_kind_t kind) { return kind == SL_OP_SEND || kind == SL_OP_RECV; }
constexpr bool IsCollective(sl_op_kind_t kind) { return !IsTransfer(kind); }

}  // namespace sl
