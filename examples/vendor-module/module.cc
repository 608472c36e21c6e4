// SPDX-License-Identifier: Apache-2.0
//
// vendor-module: an all-reduce over two rings at once. The elements are cut into 2n blocks; even blocks travel upwards
// through the ranks, odd ones downwards, so that both directions of every link carry half of the bytes.
#include <algorithm>
#include <cstdio>

#include "sdk/datatype.h"
#include "sdk/module.h"
#include "sdk/plan_writer.h"
#include "sl_algorithm.h"

struct sl_instance_t {
  const sl_host_t* host;
};

struct sl_algorithm_t {
  const sl_host_t* host;
  const sl_comm_shape_t* shape;  // lives as long as the algorithm
};

namespace {

constexpr uint64_t kHopNs = 800, kBytesPerNs = 6;  // of a link, both directions together

// One rank of one ring: 0 goes to the next higher rank, 1 to the next lower one.
struct Ring {
  uint32_t direction, size, rank;
  uint32_t Ahead(uint32_t hops) const { return (rank + (direction == 0 ? hops : size - hops)) % size; }
  uint32_t Behind(uint32_t hops) const { return Ahead(size - hops); }
  // The block that starts at the rank `hops` behind this one. Repetitions go one rank further back.
  sl_operand_t Block(uint32_t buffer, uint32_t hops) const {
    return {buffer, 2 * Behind(hops) + direction, direction == 0 ? -2 : 2, -1};
  }

  // Sums go round once: a rank adds its share to what arrives and passes it on, and the last one keeps the complete
  // block. It starts the second trip, on which everybody keeps a copy.
  void Write(sl::PlanWriter* writer) const {
    const uint32_t next = Ahead(1), previous = Behind(1);
    const sl_operand_t first = Block(SL_BUFFER_SEND, 0);
    writer->Reserve(next, first);
    writer->Reduce(first, SL_STEP_A_RAW, first, sl::kNoOperand, sl::Outbox(next));
    writer->Put(next, first);
    writer->Repeat(size - 2, [&] {
      const sl_operand_t own = Block(SL_BUFFER_SEND, 1);
      const auto add = [&] { writer->Reduce(own, SL_STEP_B_RAW, sl::Inbox(previous), own, sl::Outbox(next)); };
      writer->Relay(previous, next, own, add);
    });
    const sl_operand_t share = Block(SL_BUFFER_SEND, size - 1);
    writer->Relay(previous, next, share, [&] {
      const sl_operand_t complete = Block(SL_BUFFER_RECV, size - 1);
      writer->Reduce(share, SL_STEP_B_RAW | SL_STEP_FINAL, sl::Inbox(previous), share, complete, sl::Outbox(next));
    });
    writer->Repeat(size - 2, [&] {
      const sl_operand_t own = Block(SL_BUFFER_RECV, 0);
      const auto keep = [&] { writer->Copy(own, sl::Inbox(previous), own, sl::Outbox(next)); };
      writer->Relay(previous, next, own, keep);
    });
    const sl_operand_t last = Block(SL_BUFFER_RECV, size - 2);
    writer->Wait(previous, last);
    writer->Copy(last, sl::Inbox(previous), last);
    writer->Release(previous, last);
  }
};

sl_status_t Create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_algorithm = new sl_algorithm_t{instance->host, env->shape};
    return {};
  });
}
void Destroy(sl_algorithm_t* algorithm) { delete algorithm; }

sl_status_t Estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  const sl_comm_shape_t& shape = *algorithm->shape;
  const char* refusal = op->kind != SL_OP_ALL_REDUCE ? "all-reduce only"
                        : shape.size < 2             ? "for two ranks and more"
                        : shape.lanes < 2            ? "two rings need links of two lanes"
                        : shape.link_slots == 1      ? "a ring needs links of two slots"
                                                     : nullptr;
  std::snprintf(out->reason, sizeof out->reason, "%s", refusal ? refusal : "two rings, half of the bytes each");
  if (refusal != nullptr) return SL_ERR_UNSUPPORTED;
  const uint64_t hop_bytes = op->count * sl::DatatypeBytes(op->datatype) / shape.size;
  out->run = SL_RUN_PLAN;
  out->determinism = SL_DETERMINISM_RANK;
  out->time_ns = 2 * (shape.size - 1) * (kHopNs + hop_bytes / kBytesPerNs);
  return SL_OK;
}

sl_status_t Plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                 sl_plan_builder_t* builder) {
  const sl_comm_shape_t& shape = *algorithm->shape;
  const uint64_t block = (op->count + 2 * shape.size - 1) / (2 * shape.size);
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof desc;
  desc.block_modulus = 2 * shape.size;
  desc.chunk = std::clamp<uint64_t>(block, 1, shape.link_chunk_bytes / sl::DatatypeBytes(op->datatype));
  desc.rounds = (block + desc.chunk - 1) / desc.chunk;
  desc.send = desc.recv = {block, block, op->count};
  desc.credits = 2;  // a rank keeps its inbox while it reserves the next outbox
  return sl::Guard(algorithm->host, [&]() -> sl::Status {
    sl::PlanWriter writer(ops, builder);
    writer.Begin(desc, 0);
    Ring{0, shape.size, shape.rank}.Write(&writer);
    writer.NextLane(1);
    Ring{1, shape.size, shape.rank}.Write(&writer);
    return sl::Status(writer.status());
  });
}

// Slot by slot: a table that grows at its end stays right.
constexpr sl_algorithm_ops_t MakeOps() {
  sl_algorithm_ops_t ops{};
  ops.struct_size = sizeof ops;
  ops.create = Create;
  ops.destroy = Destroy;
  ops.estimate = Estimate;
  ops.plan = Plan;
  return ops;
}
constexpr sl_algorithm_ops_t kOps = MakeOps();

sl_status_t Open(const sl_host_t* host, const sl_open_args_t*, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    *out_instance = new sl_instance_t{host};
    return {};
  });
}
sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {{sizeof(sl_provide_t), 0, SL_ALGORITHM_ID, 1, 1, &kOps, "two-rings"}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "A Vendor",
    .summary = "all-reduce over two rings of opposite direction",
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .quiesce = Quiesce,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
