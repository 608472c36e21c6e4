/* SPDX-License-Identifier: Apache-2.0
 *
 * vendor-module-c: an all-reduce over a star, in C11 with nothing but the headers. Rank 0 adds up what the others send,
 * in the order of their ranks, and sends the sum to all of them: two hops, right for few bytes and few ranks. */
#include <stdio.h>
#include <stdlib.h>

#include "sl_algorithm.h"

struct sl_instance_t {
  const sl_host_t* host;
};

struct sl_algorithm_t {
  const sl_comm_shape_t* shape; /* lives as long as the algorithm */
};

static const uint32_t element_bytes[SL_DATATYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static const sl_operand_t send_block = {SL_BUFFER_SEND, 0, 0, -1};
static const sl_operand_t recv_block = {SL_BUFFER_RECV, 0, 0, -1};

static sl_status_t create(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm) {
  sl_algorithm_t* algorithm = malloc(sizeof *algorithm);
  if (algorithm == NULL) return instance->host->set_error(instance->host->ctx, SL_ERR_MEMORY, "out of host memory");
  algorithm->shape = env->shape;
  *out_algorithm = algorithm;
  return SL_OK;
}

static void destroy(sl_algorithm_t* algorithm) { free(algorithm); }

static sl_status_t estimate(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out) {
  const sl_comm_shape_t* shape = algorithm->shape;
  const char* refusal = op->kind != SL_OP_ALL_REDUCE        ? "all-reduce only"
                        : op->datatype >= SL_DATATYPE_COUNT ? "a data type of a later release"
                        : shape->size > 16                  ? "a star is for 16 ranks at most"
                                                            : NULL;
  snprintf(out->reason, sizeof out->reason, "%s", refusal ? refusal : "two hops through rank 0");
  if (refusal) return SL_ERR_UNSUPPORTED;
  out->run = SL_RUN_PLAN;
  out->determinism = SL_DETERMINISM_RANK;
  /* A hop takes 800 ns; rank 0 handles every other rank's bytes twice, at 6 bytes/ns. */
  out->time_ns = 1600 + 2 * (shape->size - 1) * op->count * element_bytes[op->datatype] / 6;
  return SL_OK;
}

/* Steps with the part of recv's only block; the first error stays. */
typedef struct writer_t {
  const sl_plan_builder_ops_t* ops;
  sl_plan_builder_t* builder;
  sl_status_t status;
} writer_t;

static void add(writer_t* writer, sl_step_t step) {
  step.struct_size = sizeof(step);
  step.shape = recv_block;
  if (writer->status == SL_OK) writer->status = writer->ops->add_step(writer->builder, &step);
}

static sl_operand_t inbox(uint32_t peer) { return (sl_operand_t){SL_BUFFER_INBOX, 0, 0, (int32_t)peer}; }
static sl_operand_t outbox(uint32_t peer) { return (sl_operand_t){SL_BUFFER_OUTBOX, 0, 0, (int32_t)peer}; }

static void on_link(writer_t* writer, uint32_t kind, uint32_t peer) {
  add(writer, (sl_step_t){.kind = kind, .peer = (int32_t)peer});
}

static void write_center(writer_t* writer, uint32_t size) {
  if (size == 1) {
    const uint32_t flags = SL_STEP_A_RAW | SL_STEP_FINAL;
    add(writer, (sl_step_t){.kind = SL_STEP_REDUCE, .flags = flags, .a = send_block, .dst = recv_block});
  }
  for (uint32_t peer = 1; peer < size; ++peer) {
    const uint32_t flags = (peer == 1 ? SL_STEP_A_RAW : 0) | (peer == size - 1 ? SL_STEP_FINAL : 0);
    const sl_operand_t sum = peer == 1 ? send_block : recv_block;
    on_link(writer, SL_STEP_WAIT, peer);
    add(writer, (sl_step_t){.kind = SL_STEP_REDUCE, .flags = flags, .a = sum, .b = inbox(peer), .dst = recv_block});
    on_link(writer, SL_STEP_RELEASE, peer);
  }
  for (uint32_t peer = 1; peer < size; ++peer) {
    on_link(writer, SL_STEP_RESERVE, peer);
    add(writer, (sl_step_t){.kind = SL_STEP_COPY, .a = recv_block, .dst = outbox(peer)});
    on_link(writer, SL_STEP_PUT, peer);
  }
}

static void write_leaf(writer_t* writer) {
  on_link(writer, SL_STEP_RESERVE, 0);
  add(writer, (sl_step_t){.kind = SL_STEP_REDUCE, .flags = SL_STEP_A_RAW, .a = send_block, .dst = outbox(0)});
  on_link(writer, SL_STEP_PUT, 0);
  on_link(writer, SL_STEP_WAIT, 0);
  add(writer, (sl_step_t){.kind = SL_STEP_COPY, .a = inbox(0), .dst = recv_block});
  on_link(writer, SL_STEP_RELEASE, 0);
}

static sl_status_t plan(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* ops,
                        sl_plan_builder_t* builder) {
  const sl_comm_shape_t* shape = algorithm->shape;
  const uint64_t largest = shape->link_chunk_bytes / element_bytes[op->datatype];
  const sl_geometry_t whole = {op->count, op->count, op->count};
  sl_plan_desc_t desc = {.struct_size = sizeof desc, .block_modulus = 1, .send = whole, .recv = whole, .credits = 1};
  desc.chunk = op->count == 0 ? 1 : op->count < largest ? op->count : largest;
  desc.rounds = (op->count + desc.chunk - 1) / desc.chunk;
  writer_t writer = {ops, builder, ops->describe(builder, &desc)};
  if (writer.status == SL_OK) writer.status = ops->begin_lane(builder);
  if (shape->rank == 0) {
    write_center(&writer, shape->size);
  } else {
    write_leaf(&writer);
  }
  return writer.status;
}

static sl_status_t module_open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  (void)args;
  sl_instance_t* instance = malloc(sizeof *instance);
  if (instance == NULL) return host->set_error(host->ctx, SL_ERR_MEMORY, "out of host memory");
  instance->host = host;
  *out_instance = instance;
  return SL_OK;
}

static sl_status_t module_quiesce(sl_instance_t* instance, uint64_t deadline_ns) {
  (void)instance, (void)deadline_ns;
  return SL_OK;
}

static void module_close(sl_instance_t* instance) { free(instance); }

static const sl_algorithm_ops_t ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .estimate = estimate, .plan = plan};
static const sl_provide_t provide = {.struct_size = sizeof provide,
                                     .id = SL_ALGORITHM_ID,
                                     .revision = 1,
                                     .revision_min = 1,
                                     .ops = &ops,
                                     .name = "star"};
static const sl_provide_t* const provides[] = {&provide};

static const sl_module_t module = {
    .struct_size = sizeof module,
    .container_version = SL_CONTAINER_VERSION,
    .magic = SL_MODULE_MAGIC,
    .name = "vendor-module-c",
    .version = "1.0.0",
    .vendor = "A Vendor",
    .summary = "all-reduce over a star, in C",
    .build_id = SL_ABI_BUILD_ID,
    .provides = provides,
    .provide_count = 1,
    .open = module_open,
    .quiesce = module_quiesce,
    .close = module_close,
};

sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  if (hello == NULL || out_module == NULL || hello->magic != SL_MODULE_MAGIC) return SL_ERR_INVALID;
  if (hello->container_min > SL_CONTAINER_VERSION || hello->container_max < SL_CONTAINER_VERSION) {
    return SL_ERR_UNSUPPORTED;
  }
  *out_module = &module;
  return SL_OK;
}
