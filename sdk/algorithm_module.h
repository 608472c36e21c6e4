// SPDX-License-Identifier: Apache-2.0
//
// The functions behind the C tables of a module whose algorithms are C++ objects: allocation, guards and the calls
// themselves. What is left to its module.cc is options, names, and two functions that make things:
//
//   struct sl_instance_t { const sl_host_t* host; … };                       one opened module; movable
//   struct sl_algorithm_t {                                                  one algorithm of one rank
//     const sl_host_t* const host;
//     sl_status_t Estimate(const sl_op_t&, sl_estimate_t*) const;
//     sl::Status Plan(const sl_op_t&, const sl_plan_builder_ops_t*, sl_plan_builder_t*) const;    if it plans
//     sl_status_t Launch(const sl_op_t&, void* args, sl_launch_t*);                               if it launches
//     sl::Status Copies(const sl_op_t&, std::span<sl_copy_t>, uint32_t* out_count) const;         if it copies
//     sl::Status Parts(const sl_op_t&, std::span<sl_part_t>, uint32_t* out_count) const;          if it sequences
//     sl::Status Retract(uint64_t deadline_ns);               if peers are told where buffers lie; put into its table
//   };
//   sl::Result<sl_instance_t> Open(const sl_host_t*, const sl::OptionReader&);
//   sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t&, const sl_algorithm_env_t&);
//
// Exceptions of all of these but Launch stop here. A module with several algorithms has one Make for each.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "sdk/module.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl {

// open(), quiesce() and close() of a module whose instance is what `kOpen` returns.
template <auto kOpen, typename Instance = sl_instance_t>
struct InstanceCalls {
  static sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, Instance** out) {
    return Guard(host, [&]() -> Status {
      SL_ASSIGN(Instance instance, kOpen(host, OptionReader(args)));
      *out = new Instance(std::move(instance));
      return {};
    });
  }
  static sl_status_t Quiesce(Instance*, uint64_t) { return SL_OK; }
  static void Close(Instance* instance) { delete instance; }
};

// The slots of an algorithm whose objects are what `kMake` returns.
template <auto kMake, typename Instance = sl_instance_t, typename Algorithm = sl_algorithm_t>
struct AlgorithmCalls {
  static sl_status_t Create(Instance* instance, const sl_algorithm_env_t* env, Algorithm** out) {
    return Guard(instance->host, [&]() -> Status {
      SL_ASSIGN(std::unique_ptr<Algorithm> algorithm, kMake(*instance, *env));
      *out = algorithm.release();
      return {};
    });
  }
  static void Destroy(Algorithm* algorithm) { delete algorithm; }
  static sl_status_t Estimate(Algorithm* algorithm, const sl_op_t* op, sl_estimate_t* out) {
    return Guard(algorithm->host, [&] { return Status(algorithm->Estimate(*op, out)); });
  }
  static sl_status_t Plan(Algorithm* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                          sl_plan_builder_t* builder) {
    return Guard(algorithm->host, [&] { return algorithm->Plan(*op, ops, builder); });
  }
  static sl_status_t Launch(Algorithm* algorithm, const sl_op_t* op, void* args, uint32_t, sl_launch_t* out) {
    return algorithm->Launch(*op, args, out);
  }
  static sl_status_t Copies(Algorithm* algorithm, const sl_op_t* op, sl_copy_t* out_copies, uint32_t capacity,
                            uint32_t* out_count) {
    return Guard(algorithm->host, [&] { return algorithm->Copies(*op, std::span(out_copies, capacity), out_count); });
  }
  static sl_status_t Parts(Algorithm* algorithm, const sl_op_t* op, sl_part_t* out_parts, uint32_t* out_count) {
    return Guard(algorithm->host,
                 [&] { return algorithm->Parts(*op, std::span(out_parts, SL_MOST_PARTS), out_count); });
  }
  static sl_status_t Retract(Algorithm* algorithm, uint64_t deadline_ns) {
    return Guard(algorithm->host, [&] { return algorithm->Retract(deadline_ns); });
  }
};

// The table of an algorithm that plans; it needs nothing of the symmetric heap.
template <auto kMake>
inline constexpr sl_algorithm_ops_t kPlanningOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = nullptr,
    .create = AlgorithmCalls<kMake>::Create,
    .destroy = AlgorithmCalls<kMake>::Destroy,
    .estimate = AlgorithmCalls<kMake>::Estimate,
    .plan = AlgorithmCalls<kMake>::Plan,
    .launch = nullptr,
    .launch_group = nullptr,
    .copies = nullptr,
    .parts = nullptr,
    .retract = nullptr,
};

// The table of an algorithm that launches, with what it asks of the symmetric heap.
template <auto kMake, decltype(sl_algorithm_ops_t::demand) kDemand>
inline constexpr sl_algorithm_ops_t kLaunchingOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = kDemand,
    .create = AlgorithmCalls<kMake>::Create,
    .destroy = AlgorithmCalls<kMake>::Destroy,
    .estimate = AlgorithmCalls<kMake>::Estimate,
    .plan = nullptr,
    .launch = AlgorithmCalls<kMake>::Launch,
    .launch_group = nullptr,
    .copies = nullptr,
    .parts = nullptr,
    .retract = nullptr,
};

// The table of an algorithm whose operations are lists of copies; it needs nothing of the symmetric heap.
template <auto kMake>
inline constexpr sl_algorithm_ops_t kCopyingOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = nullptr,
    .create = AlgorithmCalls<kMake>::Create,
    .destroy = AlgorithmCalls<kMake>::Destroy,
    .estimate = AlgorithmCalls<kMake>::Estimate,
    .plan = nullptr,
    .launch = nullptr,
    .launch_group = nullptr,
    .copies = AlgorithmCalls<kMake>::Copies,
    .parts = nullptr,
    .retract = nullptr,
};

// The table of an algorithm whose operations are sequences of others; it needs nothing of the symmetric heap.
template <auto kMake>
inline constexpr sl_algorithm_ops_t kSequencingOps = {
    .struct_size = sizeof(sl_algorithm_ops_t),
    .reserved = 0,
    .demand = nullptr,
    .create = AlgorithmCalls<kMake>::Create,
    .destroy = AlgorithmCalls<kMake>::Destroy,
    .estimate = AlgorithmCalls<kMake>::Estimate,
    .plan = nullptr,
    .launch = nullptr,
    .launch_group = nullptr,
    .copies = nullptr,
    .parts = AlgorithmCalls<kMake>::Parts,
    .retract = nullptr,
};

// An algorithm's line in the module's list of what it provides; flags are SL_INTERFACE_…. `revision_min`: the oldest
// kernels that it runs on speak that revision; dev::kVigilRevision if its launches use a Vigil.
constexpr sl_provide_t ProvideAlgorithm(const char* name, const sl_algorithm_ops_t* ops, uint32_t flags = 0,
                                        uint32_t revision_min = 1) {
  return {sizeof(sl_provide_t), flags, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, revision_min, ops, name};
}

}  // namespace sl
