// SPDX-License-Identifier: Apache-2.0
// An all-reduce in which every rank sends all it has to everybody and adds up in the order of ranks, an all-gather by
// copies, and a broadcast by two of its halves; right, but for what the one BROKEN_… that is defined says.
#include <algorithm>
#include <cstdio>

#include "sdk/datatype.h"
#include "sdk/plan_writer.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "tests/conform/modules/frame.h"

struct sl_algorithm_t {
  const sl_host_t* host;
  const sl_comm_shape_t* shape;
};

namespace {

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
#if defined(BROKEN_UNASKED_DEVICE)
    sl_device_info_t info{};
    info.struct_size = sizeof(info);
    env->device_ops->info(env->device, &info);  // the module does not require sl.device/1
#endif
    *out_algorithm = new sl_algorithm_t{instance->host, env->shape};
    return {};
  });
}
void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
#if !defined(BROKEN_NO_REASON)
  std::snprintf(out->reason, sizeof(out->reason), "all to all");
#endif
  const bool is_symmetric = SL_HAS(op, sl_op_t, symmetric) && (op->symmetric & SL_OP_RECV_SYMMETRIC) != 0;
  const bool is_copied = op->kind == SL_OP_ALL_GATHER && is_symmetric;
  const bool is_halved = op->kind == SL_OP_BROADCAST && op->count >= 2;
  if (op->kind != SL_OP_ALL_REDUCE && !is_copied && !is_halved) return SL_ERR_UNSUPPORTED;
  if (algorithm->shape->size < 2) return SL_ERR_UNSUPPORTED;
  out->run = is_copied ? SL_RUN_COPIES : is_halved ? SL_RUN_SEQUENCE : SL_RUN_PLAN;
  out->time_ns = 1000 + op->count;
  out->determinism = SL_DETERMINISM_RANK;
#if defined(BROKEN_RANK_ESTIMATE)
  out->time_ns += algorithm->shape->rank;
#elif defined(BROKEN_POINTER_ESTIMATE)
  out->time_ns += op->send != nullptr ? 1 : 0;
#elif defined(BROKEN_FLAT_ESTIMATE)
  out->time_ns = 1000;
#elif defined(BROKEN_ODD_RUN)
  out->run = 7;
#endif
  return SL_OK;
}

// The n-th rank whose contribution is added.
uint32_t Turn(uint32_t n, const sl_comm_shape_t& shape) {
#if defined(BROKEN_OWN_FIRST)
  return (shape.rank + n) % shape.size;  // another order on every rank
#else
  return n + 0 * shape.rank;
#endif
}

void Write(const sl_comm_shape_t& shape, sl::PlanWriter* writer) {
  const sl_operand_t all = sl::SendBlock(0);
  for (uint32_t peer = 0; peer < shape.size; ++peer) {
    if (peer == shape.rank) continue;
    writer->Reserve(peer, all);
    writer->Reduce(all, SL_STEP_A_RAW, all, sl::kNoOperand, sl::Outbox(peer));  // who contributes scales
    writer->Put(peer, all);
  }
  for (uint32_t n = 0; n < shape.size; ++n) {
    const uint32_t from = Turn(n, shape);
    const bool is_last = n + 1 == shape.size;
    const bool is_own = from == shape.rank;
    bool adds_own = is_own;
#if defined(BROKEN_OWN_TWICE)
    adds_own = is_own || is_last;  // instead of what the last rank sent
#endif
    if (!is_own) writer->Wait(from, all);
    const sl_operand_t share = adds_own ? all : sl::Inbox(from);
    const sl_operand_t to = is_last ? sl::RecvBlock(0) : sl::ScratchBlock(0);
    if (n == 0) {
      writer->Reduce(all, adds_own ? SL_STEP_A_RAW : 0, share, sl::kNoOperand, to);
    } else {
      const uint32_t flags = (adds_own ? SL_STEP_B_RAW : 0) | (is_last ? SL_STEP_FINAL : 0);
      writer->Reduce(all, flags, sl::ScratchBlock(0), share, to);
    }
#if !defined(BROKEN_NO_RELEASE)
    if (!is_own) writer->Release(from, all);
#endif
  }
}

sl_status_t Plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                 sl_plan_builder_t* builder) {
  const sl_comm_shape_t& shape = *algorithm->shape;
  const uint64_t element_bytes = sl::DatatypeBytes(op->datatype);
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = 1;
  desc.chunk = std::clamp<uint64_t>(op->count, 1, shape.link_chunk_bytes / element_bytes);
  desc.rounds = (op->count + desc.chunk - 1) / desc.chunk;
  desc.send = desc.recv = desc.scratch = {std::max<uint64_t>(op->count, 1), op->count, op->count};
  desc.scratch_bytes = op->count * element_bytes;
  desc.credits = 1;
  return sl::Guard(algorithm->host, [&]() -> sl::Status {
    sl::PlanWriter writer(ops, builder);
    writer.Begin(desc);
    Write(shape, &writer);
#if defined(BROKEN_DEAF)
    return {};
#else
    return sl::Status(writer.status());
#endif
  });
}

sl_copy_t CopyTo(uint32_t peer, const sl_comm_shape_t& shape, uint64_t bytes) {
  sl_copy_t copy = {sizeof(copy), 0, shape.rank, SL_BUFFER_SEND, 0, peer, SL_BUFFER_RECV, shape.rank * bytes, bytes};
#if defined(BROKEN_COPY_SHORT)
  if (bytes > 1 && peer == 1) --copy.bytes;
#elif defined(BROKEN_COPY_STRAY)
  ++copy.to;
#elif defined(BROKEN_COPY_PHASES)
  copy.phase = shape.rank == 0 ? 1 : 0;
#endif
  return copy;
}

sl_status_t Copies(sl_algorithm_t* algorithm, const sl_op_t* op, sl_copy_t* out_copies, uint32_t capacity,
                   uint32_t* out_count) {
  const sl_comm_shape_t& shape = *algorithm->shape;
  *out_count = shape.size;
  if (capacity < shape.size) return SL_ERR_LIMIT;
  for (uint32_t peer = 0; peer < shape.size; ++peer) {
    out_copies[peer] = CopyTo(peer, shape, op->count * sl::DatatypeBytes(op->datatype));
  }
  return SL_OK;
}

sl_part_t HalfOf(const sl_op_t& op, uint64_t begin, uint64_t count, uint32_t rank) {
  const uint64_t at = begin * sl::DatatypeBytes(op.datatype);
  sl_part_t part = {sizeof(part),   op.kind, op.root, op.symmetric & SL_OP_RECV_SYMMETRIC, count, SL_BUFFER_SEND,
                    SL_BUFFER_RECV, at,      at};
#if defined(BROKEN_PART_SHORT)
  if (begin != 0 && count > 1) --part.count;
#elif defined(BROKEN_PART_STRAY)
  if (begin != 0) part.recv += sl::DatatypeBytes(op.datatype);
#elif defined(BROKEN_PART_RANKS)
  if (begin == 0 && rank == 1) part.root = 1 - part.root;
#endif
  return part;
}

sl_status_t Parts(sl_algorithm_t* algorithm, const sl_op_t* op, sl_part_t* out_parts, uint32_t* out_count) {
  const uint64_t half = op->count / 2;
  out_parts[0] = HalfOf(*op, 0, half, algorithm->shape->rank);
  out_parts[1] = HalfOf(*op, half, op->count - half, algorithm->shape->rank);
  *out_count = 2;
  return SL_OK;
}

constexpr sl_algorithm_ops_t kOps{sizeof(kOps), 0,       nullptr, Create, Destroy, Estimate,
                                  Plan,         nullptr, nullptr, Copies, Parts,   nullptr};

}  // namespace

const sl_provide_t kProvide = {sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, 1, &kOps,
                               SL_MODULE_NAME};
