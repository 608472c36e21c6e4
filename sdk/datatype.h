// SPDX-License-Identifier: Apache-2.0
//
// Facts about data types, reductions and operations that every room needs: sizes and names.
#pragma once

#include <cstddef>

#include "sl_base.h"

namespace sl {

// The tables lie outside of the functions: a constant array inside of one is built on the stack at every call where
// code is position-independent.
inline constexpr unsigned char kDatatypeBytes[SL_DATATYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
inline constexpr const char* kDatatypeNames[SL_DATATYPE_COUNT] = {"int8",    "uint8",    "int32",   "uint32",
                                                                  "int64",   "uint64",   "float16", "float32",
                                                                  "float64", "bfloat16", "fp8e4m3", "fp8e5m2"};
inline constexpr const char* kReductionNames[SL_REDUCTION_COUNT] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
inline constexpr const char* kOpKindNames[SL_OP_KIND_COUNT] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "all_to_all", "gather",     "scatter",        "send",      "recv"};

// Bytes of one element; 0 for a number that is no data type.
constexpr size_t DatatypeBytes(sl_datatype_t datatype) {
  return datatype < SL_DATATYPE_COUNT ? kDatatypeBytes[datatype] : 0;
}

constexpr const char* DatatypeName(sl_datatype_t datatype) {
  return datatype < SL_DATATYPE_COUNT ? kDatatypeNames[datatype] : "unknown type";
}

constexpr const char* ReductionName(sl_reduction_t reduction) {
  return reduction < SL_REDUCTION_COUNT ? kReductionNames[reduction] : "unknown reduction";
}

constexpr const char* OpKindName(sl_op_kind_t kind) {
  return kind < SL_OP_KIND_COUNT ? kOpKindNames[kind] : "unknown operation";
}

// True for the operations whose result depends on a reduction.
constexpr bool HasReduction(sl_op_kind_t kind) {
  return kind == SL_OP_ALL_REDUCE || kind == SL_OP_REDUCE_SCATTER || kind == SL_OP_REDUCE;
}

// True for the operations of two ranks, a send and the receive at its other end. All other operations are collectives.
constexpr bool IsTransfer(sl_op_kind_t kind) { return kind == SL_OP_SEND || kind == SL_OP_RECV; }
constexpr bool IsCollective(sl_op_kind_t kind) { return !IsTransfer(kind); }

}  // namespace sl
