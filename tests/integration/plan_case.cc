// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/plan_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernel/engine/reference_reduce_test_util.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint8_t kCanary = 0xa5;
constexpr uint64_t kGuardBytes = 64;

int32_t LogDisabled(void*, sl_log_level_t) { return 0; }
void Log(void*, sl_log_level_t, const char*) {}
sl_status_t SetError(void*, sl_status_t status, const char*) { return status; }
uint64_t Now(void*) { return 0; }
void EmitRecord(void*, const sl_record_t*) {}
const void* FindService(void*, const char*) { return nullptr; }
constexpr uint64_t kNoEvents = 0;
const sl_host_t kHost = {sizeof(sl_host_t), 0,   nullptr,    LogDisabled, Log,
                         SetError,          Now, &kNoEvents, EmitRecord,  FindService};

// One rank's buffers. In place, one lies inside the other.
struct Buffers {
  std::vector<uint8_t> send_memory;
  std::vector<uint8_t> recv_memory;
  uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
};

double Contribution(const PlanCase& test, uint32_t rank, uint64_t index) {
  if (test.reduction == SL_PROD && HasReduction(test.kind)) return rank == index % test.ranks ? 2 : 1;
  return static_cast<double>(1 + (rank * 7 + index * 3) % 4);
}

double Scalar(uint32_t rank) { return rank % 2 + 1; }

double Reduced(const PlanCase& test, uint64_t index) {
  double result = 0;
  for (uint32_t rank = 0; rank < test.ranks; ++rank) {
    double value = Contribution(test, rank, index);
    if (test.reduction == SL_PREMUL_SUM) value *= Scalar(rank);
    if (rank == 0) {
      result = value;
    } else if (test.reduction == SL_PROD) {
      result *= value;
    } else if (test.reduction == SL_MAX) {
      result = std::max(result, value);
    } else if (test.reduction == SL_MIN) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  if (test.reduction == SL_AVG) {
    result /= test.ranks;
    if (Precision(test.datatype) == 0) result = std::trunc(result);
  }
  return result;
}

// Element `index` of rank `rank`'s receive buffer after the operation.
double Expected(const PlanCase& test, uint32_t rank, uint64_t index) {
  const uint64_t block = test.count == 0 ? 0 : index / test.count;
  const uint64_t within = test.count == 0 ? 0 : index % test.count;
  const auto root = static_cast<uint32_t>(test.root);
  switch (test.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_REDUCE:
      return Reduced(test, index);
    case SL_OP_REDUCE_SCATTER:
      return Reduced(test, rank * test.count + index);
    case SL_OP_ALL_GATHER:
    case SL_OP_GATHER:
      return Contribution(test, static_cast<uint32_t>(block), within);
    case SL_OP_ALL_TO_ALL:
      return Contribution(test, static_cast<uint32_t>(block), rank * test.count + within);
    case SL_OP_BROADCAST:
      return Contribution(test, root, index);
    default:  // scatter
      return Contribution(test, root, rank * test.count + index);
  }
}

uint8_t* Place(std::vector<uint8_t>* memory, uint64_t bytes) {
  memory->assign(bytes + 2 * kGuardBytes, kCanary);
  return memory->data() + kGuardBytes;
}

Buffers MakeBuffers(const PlanCase& test, uint32_t rank) {
  const sl_op_t op = OpOf(test);
  const uint64_t bytes = DatatypeBytes(test.datatype);
  const uint64_t send_count = SendElements(op, rank, test.ranks);
  const uint64_t recv_count = RecvElements(op, rank, test.ranks);
  Buffers buffers;
  if (!test.in_place || recv_count == 0 || send_count == 0) {
    buffers.send = Place(&buffers.send_memory, send_count * bytes);
    buffers.recv = Place(&buffers.recv_memory, recv_count * bytes);
  } else {
    buffers.recv = buffers.send = Place(&buffers.recv_memory, std::max(send_count, recv_count) * bytes);
    if (send_count < recv_count) buffers.send += rank * test.count * bytes;
    if (recv_count < send_count) buffers.recv += rank * test.count * bytes;
  }
  for (uint64_t i = 0; i < send_count; ++i) {
    WriteElement(buffers.send, i, test.datatype, Contribution(test, rank, i));
  }
  return buffers;
}

bool GuardsHold(const std::vector<uint8_t>& memory) {
  const auto is_canary = [](uint8_t byte) { return byte == kCanary; };
  return memory.empty() || (std::all_of(memory.begin(), memory.begin() + kGuardBytes, is_canary) &&
                            std::all_of(memory.end() - kGuardBytes, memory.end(), is_canary));
}

std::string CheckRank(const PlanCase& test, uint32_t rank, const Buffers& buffers) {
  const sl_op_t op = OpOf(test);
  if (!GuardsHold(buffers.send_memory) || !GuardsHold(buffers.recv_memory)) return "wrote outside its buffers";
  if (!test.in_place) {
    for (uint64_t i = 0; i < SendElements(op, rank, test.ranks); ++i) {
      if (ReadElement(buffers.send, i, test.datatype) != Contribution(test, rank, i)) return "changed its send buffer";
    }
  }
  // Every operation rounds once; so does the scaling.
  const double tolerance = HasReduction(test.kind) ? (test.ranks + 2) * Precision(test.datatype) : 0;
  for (uint64_t i = 0; i < RecvElements(op, rank, test.ranks); ++i) {
    const double expected = Expected(test, rank, i);
    const double actual = ReadElement(buffers.recv, i, test.datatype);
    if (!(std::fabs(actual - expected) <= tolerance * std::fabs(expected))) {
      return fmt::format("element {} is {}, not {}", i, actual, expected);
    }
  }
  return "";
}

}  // namespace

RingModule::RingModule() {
  const sl_hello_t hello = {
      sizeof(sl_hello_t), 0, SL_MODULE_MAGIC, SL_CONTAINER_VERSION, SL_CONTAINER_VERSION, "0", ""};
  if (sl_module_query(&hello, &module_) != SL_OK) std::abort();
  std::vector<sl_option_value_t> values;
  std::vector<const sl_option_value_t*> pointers;
  for (uint32_t i = 0; i < module_->option_count; ++i) {
    values.push_back({sizeof(sl_option_value_t), module_->options[i]->type,
                      std::strtoll(module_->options[i]->default_text, nullptr, 10), 0, nullptr});
  }
  pointers.reserve(values.size());
  for (const sl_option_value_t& value : values) pointers.push_back(&value);
  sl_open_args_t args{};
  args.struct_size = sizeof(args);
  args.option_count = module_->option_count;
  args.options = pointers.data();
  if (module_->open(&kHost, &args, &instance_) != SL_OK) std::abort();
}

RingModule::~RingModule() { module_->close(instance_); }

const sl_algorithm_ops_t* RingModule::family(const std::string& name) const {
  for (uint32_t i = 0; i < module_->provide_count; ++i) {
    if (module_->provides[i]->name == name) return static_cast<const sl_algorithm_ops_t*>(module_->provides[i]->ops);
  }
  return nullptr;
}

RankAlgorithm::RankAlgorithm(const RingModule& module, const std::string& family, const sl_comm_shape_t& shape)
    : ops_(module.family(family)), shape_(shape) {
  sl_algorithm_env_t env{};
  env.struct_size = sizeof(env);
  env.shape = &shape_;
  if (ops_->create(module.instance(), &env, &algorithm_) != SL_OK) std::abort();
}

RankAlgorithm::~RankAlgorithm() { ops_->destroy(algorithm_); }

bool RankAlgorithm::Serves(const sl_op_t& op, sl_estimate_t* out_estimate) const {
  out_estimate->struct_size = sizeof(*out_estimate);
  return ops_->estimate(algorithm_, &op, out_estimate) == SL_OK;
}

Result<std::unique_ptr<Plan>> RankAlgorithm::MakePlan(const sl_op_t& op) const {
  PlanBuilder builder({shape_.rank, shape_.size, shape_.lanes, shape_.link_chunk_bytes, shape_.link_slots, op});
  const sl_status_t status = ops_->plan(algorithm_, &op, PlanBuilder::Ops(), builder.handle());
  auto plan = builder.Finish();
  if (plan.ok() && status != SL_OK) return Status(status, "plan() failed");
  return plan;
}

sl_comm_shape_t ShapeOf(uint32_t rank, uint32_t ranks, uint32_t chunk_bytes) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.rank = rank;
  shape.size = ranks;
  shape.local_rank = rank;
  shape.local_size = ranks;
  shape.domain_size = ranks;
  shape.device_kind = SL_DEVICE_HOST;
  shape.link_chunk_bytes = chunk_bytes;
  shape.lanes = 2;
  shape.link_slots = 8;
  return shape;
}

sl_op_t OpOf(const PlanCase& test) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = test.kind;
  op.datatype = test.datatype;
  op.reduction = test.reduction;
  op.root = test.root;
  op.peer = -1;
  op.count = test.count;
  op.seq = 1;
  return op;
}

std::string PlanCase::ToString() const {
  return fmt::format("{} {} of {} {} {} root {} on {} ranks{}", family, OpKindName(kind), count, DatatypeName(datatype),
                     ReductionName(reduction), root, ranks, in_place ? " in place" : "");
}

bool IsServed(const RingModule& module, const PlanCase& test) {
  sl_estimate_t estimate{};
  return RankAlgorithm(module, test.family, ShapeOf(0, test.ranks, test.chunk_bytes)).Serves(OpOf(test), &estimate);
}

std::string RunCase(const RingModule& module, const PlanCase& test) {
  std::vector<std::unique_ptr<Plan>> plans;
  uint32_t slots = 1;
  for (uint32_t rank = 0; rank < test.ranks; ++rank) {
    auto plan = RankAlgorithm(module, test.family, ShapeOf(rank, test.ranks, test.chunk_bytes)).MakePlan(OpOf(test));
    if (!plan.ok()) return plan.status().message();
    slots = std::max(slots, plan.value()->desc().credits);
    plans.push_back(plan.Take());
  }
  PlanWorld world(test.ranks, {test.chunk_bytes, slots, true});
  std::vector<std::vector<Buffers>> all(test.repeats);
  for (auto& buffers : all) {
    for (uint32_t rank = 0; rank < test.ranks; ++rank) {
      buffers.push_back(MakeBuffers(test, rank));
      sl_op_t op = OpOf(test);
      op.send = buffers[rank].send;
      op.recv = buffers[rank].recv;
      op.scalar_bits = ScalarBits(test.datatype, Scalar(rank));
      if (Status status = world.Start(rank, *plans[rank], op); !status.ok()) return status.message();
    }
  }
  if (std::string failure = world.Drive(test.first); !failure.empty()) return failure;
  for (const auto& buffers : all) {
    for (uint32_t rank = 0; rank < test.ranks; ++rank) {
      if (std::string wrong = CheckRank(test, rank, buffers[rank]); !wrong.empty()) {
        return fmt::format("rank {}: {}\n{}", rank, wrong, plans[rank]->ToText());
      }
      const bool same = test.kind != SL_OP_ALL_REDUCE || std::memcmp(buffers[rank].recv, buffers[0].recv,
                                                                     test.count * DatatypeBytes(test.datatype)) == 0;
      if (!same) return fmt::format("rank {} has other bits than rank 0", rank);
    }
  }
  return world.net().Drained() ? "" : "chunks are left on the links";
}

}  // namespace sl::kernel
