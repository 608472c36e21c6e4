/* SPDX-License-Identifier: Apache-2.0
 *
 * sl.algorithm/1: what an algorithm can do, at what cost, and how: as a plan, which the kernel's engine runs
 * over links, as one launch on the device, which runs over symmetric memory, as copies between buffers that all ranks'
 * devices see, or as a sequence of other operations.
 *
 * size: the table of an interface stands in one file.
 *
 * Plans are data: they can be verified, simulated and run. A plan has lanes, which run concurrently; a lane is a list
 * of steps, run in order, once a round. Buffers are cut into blocks; every step works on the part of a block that
 * belongs to the current round, so that a ring over n ranks is a plan of constant size:
 *
 *   part(block, round) = elements [block * stride + round * chunk, +chunk) cut at block * stride + length(block)
 *
 * A step whose part is empty is skipped, together with its link traffic: both ends compute the same lengths.
 * Each direction of a link (peer and lane) belongs to one lane of the plan, which keeps its chunks in order. */
#ifndef SL_ALGORITHM_H
#define SL_ALGORITHM_H

#include "sl_module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sl_device.h. Plans need none of it; a module whose algorithm launches includes it and requires "sl.device/1". */
typedef struct sl_device_t sl_device_t;
typedef struct sl_device_ops_t sl_device_ops_t;
typedef struct sl_launch_t sl_launch_t;

#define SL_ALGORITHM_ID "sl.algorithm/1"
#define SL_ALGORITHM_REVISION 10u

typedef struct sl_algorithm_t sl_algorithm_t; /* one algorithm of one rank of one communicator */
typedef struct sl_plan_builder_t sl_plan_builder_t;

/* One operation as its caller stated it. Everything above `send`, but peer, is equal on all ranks, and so are
 * `symmetric` and `settings`; selection looks at nothing else. */
#define SL_OP_SEND_SYMMETRIC 1u /* all send buffers lie in a window that all ranks' devices see, at one offset */
#define SL_OP_RECV_SYMMETRIC 2u /* all receive buffers do */
typedef struct sl_op_t {
  uint32_t struct_size;
  sl_op_kind_t kind;
  sl_datatype_t datatype;
  sl_reduction_t reduction;
  int32_t root;   /* -1: none */
  int32_t peer;   /* send, recv; -1: none */
  uint64_t count; /* NCCL's count of the operation: per-rank where NCCL's is */
  const void* send;
  void* recv;
  uint64_t scalar_bits; /* SL_PREMUL_SUM: this rank's scalar, in the data type's format; ranks may differ */
  uint64_t seq;         /* filled by the kernel: n-th collective of the communicator, from 1; 0 for send and recv */
  uint64_t signature;   /* filled by the kernel: equal on two ranks exactly when their calls match */
  uint64_t capture;     /* since 2; filled by the kernel: 0: eager; n: the communicator's n-th stream capture */
  const void* scalar;   /* since 2: where SL_PREMUL_SUM's scalar lies in device memory, read when the operation runs;
                         * NULL: it is scalar_bits */
  uint32_t symmetric;   /* since 5; filled by the kernel: SL_OP_…_SYMMETRIC, of collectives */
  uint32_t settings;    /* since 10; 0: none; else the number of this call's own, which sl_settings_ops_t knows */
} sl_op_t;

/* The symmetric heap slice of one algorithm: rank r's memory starts at base + r * stride. Zeroed at creation. */
typedef struct sl_symmetric_t {
  uint8_t* base;
  uint64_t stride;
  uint64_t bytes; /* usable of each slice */
} sl_symmetric_t;

/* How the kernel and launches that no host thread watches tell each other of trouble: one per rank and communicator, in
 * memory that both the CPU and the device read and write (SL_MEMORY_HOST). Zero at creation. */
typedef struct sl_control_t {
  int32_t abort;     /* the kernel stores a status once: every spin looks now and then, gives up and ends quickly */
  uint32_t fault;    /* a launch that gives up stores 1 here, release, after the fields below; the first one only */
  int32_t peer;      /* rank it waited for; -1: none */
  uint32_t step;     /* what it waited for, in the algorithm's own numbering */
  uint64_t seen;     /* the word it looked at */
  uint64_t wanted;   /* and what it should have become */
  uint32_t asked;    /* the kernel counts up: who has waited for some 10 ms says for what, and waits on */
  uint32_t answered; /* `asked` as the first one saw it, release, after the fields above; none after a fault */
  uint32_t since;    /* since 8: `asked` as the one who waits saw it when this very wait first looked, some 10 ms after
                      * it began: it has lasted since before the next question. Stored before `answered`; 0: not known */
  uint32_t reserved;
} sl_control_t;

/* Memory of this rank that its peers load from and store to where it lies: buffers of callers, mapped at first use. */
typedef struct sl_reach_t sl_reach_t;
typedef struct sl_reach_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Where every rank's device sees [memory, memory + bytes): out_addresses[r] for rank r, for this rank `memory`
   * itself. Valid until the operation has run; for one of a capture (not 0), as long as the memory is allocated. Ranks
   * may be answered differently: an algorithm agrees with its peers on what all of them can do.
   * thread: [data]   blocking: bounded, when an allocation is used for the first time; else never
   * returns: SL_OK | SL_ERR_UNSUPPORTED not to be had: go another way   since: 3 */
  sl_status_t (*addresses)(sl_reach_t* reach, const void* memory, uint64_t bytes, uint64_t capture,
                           uint64_t* out_addresses);
} sl_reach_ops_t;

/* What single calls want otherwise than their communicator (sl_op_t::settings): for one algorithm. */
typedef struct sl_settings_t sl_settings_t;
typedef struct sl_op_settings_t {
  uint32_t struct_size;
  uint32_t processors_min; /* these four in place of those of sl_comm_shape_t */
  uint32_t processors_max;
  uint32_t processor_weight;
  uint32_t processor_free;
  uint32_t reserved;
} sl_op_settings_t;
typedef struct sl_settings_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Fills at most out_settings->struct_size bytes.   thread: [data]   blocking: never
   * returns: SL_OK | SL_ERR_NOT_FOUND no such number   since: 10 */
  sl_status_t (*get)(sl_settings_t* settings, uint32_t number, sl_op_settings_t* out_settings);
  /* Whether a call may be served by this way of the algorithm, of those that it knows by name, such as "two_shot". One
   * that asks is responsible for its ways: estimate() refuses what none of those serves that are allowed.
   * thread: [data]   blocking: never   returns: 0 or 1, not a status   since: 10 */
  int32_t (*allows)(sl_settings_t* settings, uint32_t number, const char* way);
} sl_settings_ops_t;

/* The communicator as an algorithm sees it. */
typedef struct sl_comm_shape_t {
  uint32_t struct_size;
  uint32_t rank;
  uint32_t size;
  uint32_t local_rank; /* among the ranks of this host */
  uint32_t local_size;
  uint32_t domain_size; /* ranks that share loads and stores with this one; equals size when all do */
  uint32_t device_kind;
  uint32_t processors;       /* CPUs this host gives to its local ranks */
  uint32_t link_chunk_bytes; /* the largest part a link carries at once; a plan's chunk must not exceed it */
  uint32_t lanes;            /* how many lanes links may have */
  uint32_t link_slots;       /* chunks a link holds each way before its sender waits; 0: not known yet */
  uint32_t heap_on_host;     /* since 6; 1: the symmetric heap lies in host memory, over the devices' bus; no atomics */
  const char* const* host_of; /* size entries; equal text, equal host */
  /* Since 4: of the processors of the device (SMs), how many an operation holds. Equal on all ranks; min <= max. */
  uint32_t processors_min;   /* no fewer, where it can use them */
  uint32_t processors_max;   /* no more; 0: not bound */
  uint32_t processor_weight; /* what one is worth, in thousandths of the time that it is held: the better of two ways
                              * has less time_ns * (1000 + processor_weight * processors). 0: only time counts */
  uint32_t processor_free;   /* since 5; 1: a way that holds none is better than any that does */
} sl_comm_shape_t;

typedef struct sl_demand_t {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t symmetric_bytes; /* of each rank; 0: none */
} sl_demand_t;

typedef struct sl_algorithm_env_t {
  uint32_t struct_size;
  uint32_t reserved;
  const sl_comm_shape_t* shape;      /* lives as long as the algorithm */
  const sl_device_ops_t* device_ops; /* the communicator's device; both NULL unless the module requires sl.device/1 */
  sl_device_t* device;
  sl_symmetric_t symmetric; /* as demanded; base NULL when the ranks share no memory */
  sl_control_t* control;    /* since 2; NULL on devices whose launches the host watches (SL_DEVICE_RUNS_HOST_KERNELS) */
  const sl_reach_ops_t* reach_ops; /* since 3; both NULL where peers do not reach the memory of callers */
  sl_reach_t* reach;
  const sl_settings_ops_t* settings_ops; /* since 10; both NULL where no call has settings of its own */
  sl_settings_t* settings;
} sl_algorithm_env_t;

/* How the result depends on order: what a profile can demand. */
#define SL_DETERMINISM_NONE 0u
#define SL_DETERMINISM_RUN 1u        /* same call, same bits */
#define SL_DETERMINISM_RANK 2u       /* and the same bits on every rank */
#define SL_DETERMINISM_WORLD_SIZE 3u /* and for any number of ranks: joined along aligned powers of two */

#define SL_RUN_PLAN 0u
#define SL_RUN_LAUNCH 1u
#define SL_RUN_COPIES 2u   /* since 5 */
#define SL_RUN_SEQUENCE 3u /* since 7 */
typedef struct sl_estimate_t {
  uint32_t struct_size;
  uint32_t run;        /* SL_RUN_… */
  uint64_t time_ns;    /* expected, this operation alone; of a sequence, beyond what its parts take */
  uint32_t processors; /* SMs held; on the host 0 */
  uint32_t determinism;
  uint64_t scratch_bytes;
  char reason[96]; /* why this cost, or why not: one clause */
} sl_estimate_t;

/* Plans. */
#define SL_BUFFER_NONE 0u
#define SL_BUFFER_SEND 1u    /* the caller's send buffer; read only */
#define SL_BUFFER_RECV 2u    /* the caller's receive buffer */
#define SL_BUFFER_SCRATCH 3u /* plan.scratch_bytes, private to the run */
#define SL_BUFFER_INBOX 4u   /* the chunk that waits on the link from `peer` */
#define SL_BUFFER_OUTBOX 5u  /* the reserved chunk on the link to `peer` */

typedef struct sl_operand_t { /* never grows */
  uint32_t buffer;            /* SL_BUFFER_… */
  uint32_t block;             /* block at the first repetition */
  int32_t block_step;         /* added at each repetition, modulo plan.block_modulus */
  int32_t peer;               /* INBOX, OUTBOX: rank at the other end */
} sl_operand_t;

/* Steps. The part's length is that of `shape`. Operands of a step are the same range or do not overlap at all. */
#define SL_STEP_REPEAT 0u  /* the next `length` steps run `count` times; not nested */
#define SL_STEP_WAIT 1u    /* until a chunk from `peer` is here; it becomes INBOX(peer); nothing with one in hand */
#define SL_STEP_RESERVE 2u /* until the link to `peer` has room: OUTBOX(peer); nothing with one reserved */
#define SL_STEP_COPY 3u    /* dst (and dst2) <- a */
#define SL_STEP_REDUCE 4u  /* dst (and dst2) <- a op b, in that order; b NONE: only scaling */
#define SL_STEP_PUT 5u     /* OUTBOX(peer) goes on its way; `a` not NONE: waits for room and puts the part of `a` */
#define SL_STEP_RELEASE 6u /* INBOX(peer) may be reused by its sender */
#define SL_STEP_LAUNCH 7u  /* reserved: a kernel of the algorithm's image */
#define SL_STEP_KIND_COUNT 8u

/* Flags of REDUCE: which operands are a rank's own contribution; whether the result is complete. Always the truth. */
#define SL_STEP_A_RAW 1u
#define SL_STEP_B_RAW 2u
#define SL_STEP_FINAL 4u

typedef struct sl_step_t {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t flags;
  int32_t peer;    /* WAIT, RESERVE, PUT, RELEASE */
  uint32_t lane;   /* of the link; both ends name the same */
  uint32_t length; /* REPEAT */
  uint32_t count;  /* REPEAT; may be 0 */
  uint32_t reserved;
  sl_operand_t a;
  sl_operand_t b;
  sl_operand_t dst;
  sl_operand_t dst2;
  sl_operand_t shape; /* whose geometry gives the part; its buffer is SEND, RECV or SCRATCH */
} sl_step_t;

/* Block k of a buffer: starts at k * stride, has min(length, total - k * stride) elements, none if negative. */
typedef struct sl_geometry_t {
  uint64_t stride;
  uint64_t length;
  uint64_t total;
} sl_geometry_t;

typedef struct sl_plan_desc_t {
  uint32_t struct_size;
  uint32_t block_modulus; /* block arithmetic is modulo this; usually the number of ranks */
  uint64_t chunk;         /* elements of one part, at most link_chunk_bytes / element size */
  uint64_t rounds;        /* of every lane */
  uint64_t scratch_bytes;
  sl_geometry_t send;
  sl_geometry_t recv;
  sl_geometry_t scratch;
  uint32_t credits; /* chunks a link must hold each way so that the plan never waits for itself; 0 reads as 1. A ring
                     * that keeps an inbox while it reserves needs 2 */
  uint32_t reserved;
} sl_plan_desc_t;

typedef struct sl_plan_builder_ops_t {
  uint32_t struct_size;
  uint32_t reserved;
  /* Says the plan's frame; once, first.   thread: as plan(), which calls it   owns: copies `desc`
   * returns: SL_OK | SL_ERR_INVALID with the field named   since: 1 */
  sl_status_t (*describe)(sl_plan_builder_t* builder, const sl_plan_desc_t* desc);
  /* Begins the next lane; steps are added to it.   thread: as plan()   returns: SL_OK | SL_ERR_STATE before describe()
   * since: 1 */
  sl_status_t (*begin_lane)(sl_plan_builder_t* builder);
  /* Appends a step; checked at once: kind, peer, operands, repeat lengths.   thread: as plan()   owns: copies `step`
   * returns: SL_OK | SL_ERR_INVALID with lane, step and field named   since: 1 */
  sl_status_t (*add_step)(sl_plan_builder_t* builder, const sl_step_t* step);
} sl_plan_builder_ops_t;

/* Copies. The kernel issues those of a rank to its stream in their order; what stays at home it may issue beside the
 * others of its phase. All ranks have begun the operation before the first copy of any, and all copies have ended
 * before it ends anywhere. One of the two ranks is the one that copies; the other's buffer must be symmetric, by
 * op->symmetric. All ranks have as many phases: who moves nothing in the last one lists a copy of 0 bytes. */
#define SL_COPY_PHASES 2u
typedef struct sl_copy_t {
  uint32_t struct_size;
  uint32_t phase; /* ascending; 1: begins once the copies of phase 0 of all ranks have ended */
  uint32_t from_rank;
  uint32_t from_buffer; /* SL_BUFFER_SEND or SL_BUFFER_RECV */
  uint64_t from;        /* bytes from its beginning */
  uint32_t to_rank;
  uint32_t to_buffer;
  uint64_t to;
  uint64_t bytes; /* 0: nothing is copied */
} sl_copy_t;

/* Sequences. The parts are operations of the same communicator, data type, reduction and scalar, one after the other on
 * the caller's stream. The kernel selects who serves each, but not by another sequence, and adds what they take and
 * hold to the estimate. All ranks list as many, of equal kind, root, count and symmetric. On devices whose launches the
 * host watches, and where devices share no memory, there are no sequences. */
#define SL_MOST_PARTS 4u
typedef struct sl_part_t {
  uint32_t struct_size;
  sl_op_kind_t kind;    /* a collective; one that reduces only where the operation does */
  int32_t root;         /* -1: none */
  uint32_t symmetric;   /* SL_OP_…_SYMMETRIC, where the operation's buffer is and all ranks state one offset */
  uint64_t count;       /* not 0 */
  uint32_t send_buffer; /* SL_BUFFER_SEND or SL_BUFFER_RECV */
  uint32_t recv_buffer; /* SL_BUFFER_RECV */
  uint64_t send;        /* bytes from the beginning of the buffer; whole elements */
  uint64_t recv;
} sl_part_t;

typedef struct sl_algorithm_ops_t {
  uint32_t struct_size;
  uint32_t reserved;

  /* What a communicator of this shape needs from the symmetric heap; equal on all ranks.
   * thread: [any]   blocking: never   returns: SL_OK   since: 1 */
  sl_status_t (*demand)(sl_instance_t* instance, const sl_comm_shape_t* shape, sl_demand_t* out_demand);
  /* Makes the algorithm for one rank; mandatory.   thread: [init]   owns: borrows `env` during the call, its device and
   * memory until destroy()   returns: SL_OK | SL_ERR_UNSUPPORTED this shape is not for it   since: 1 */
  sl_status_t (*create)(sl_instance_t* instance, const sl_algorithm_env_t* env, sl_algorithm_t** out_algorithm);
  /* Mandatory. No work of the algorithm is under way.   thread: [control]   owns: frees `algorithm`   since: 1 */
  void (*destroy)(sl_algorithm_t* algorithm);
  /* Cost of an operation: pure, and equal on all ranks; pointers in `op` are not looked at. Mandatory.
   * thread: [control]   blocking: never
   * returns: SL_OK | SL_ERR_UNSUPPORTED with out_estimate->reason filled all the same, and run where it is
   * SL_RUN_SEQUENCE, so that people hear first whether there are sequences at all   since: 1 */
  sl_status_t (*estimate)(sl_algorithm_t* algorithm, const sl_op_t* op, sl_estimate_t* out_estimate);
  /* Builds the plan of this rank, in and out of place alike: pointers in `op` are not looked at. Once per cached op.
   * thread: [control]   owns: borrows everything   returns: SL_OK | the builder's first error | SL_ERR_UNSUPPORTED
   * since: 1 */
  sl_status_t (*plan)(sl_algorithm_t* algorithm, const sl_op_t* op, const sl_plan_builder_ops_t* builder_ops,
                      sl_plan_builder_t* builder);
  /* Fills the launch of an operation; the kernel launches it. args stay in `args` (args_capacity bytes, at least
   * 4,096, 16-byte aligned).   thread: [data]   owns: what out_launch points to lives as long as `args` and `algorithm`
   * returns: SL_OK | usage errors   since: 1 */
  sl_status_t (*launch)(sl_algorithm_t* algorithm, const sl_op_t* op, void* args, uint32_t args_capacity,
                        sl_launch_t* out_launch);
  /* Fills one launch for several operations of a group, in the order of their calls; its sends and receives then
   * progress together. Asked for on devices that run the launches of a stream one after the other.
   * thread: [data]   owns: as launch; borrows `ops` during the call
   * returns: SL_OK | SL_ERR_UNSUPPORTED not these together: they are launched one by one | SL_ERR_LIMIT more than the
   * arguments hold | usage errors   since: 2 */
  sl_status_t (*launch_group)(sl_algorithm_t* algorithm, const sl_op_t* ops, uint32_t count, void* args,
                              uint32_t args_capacity, sl_launch_t* out_launch);
  /* Lists the copies of this rank, phase after phase: pure, pointers in `op` are not looked at. Mandatory where
   * estimate() says SL_RUN_COPIES.   thread: [control]   blocking: never
   * returns: SL_OK | SL_ERR_LIMIT more than `capacity`: *out_count says how many   since: 5 */
  sl_status_t (*copies)(sl_algorithm_t* algorithm, const sl_op_t* op, sl_copy_t* out_copies, uint32_t capacity,
                        uint32_t* out_count);
  /* Lists the parts of this rank's operation in `out_parts`, which holds SL_MOST_PARTS: pure, pointers in `op` are not
   * looked at. Mandatory where estimate() says SL_RUN_SEQUENCE.   thread: [control]   blocking: never
   * returns: SL_OK   since: 7 */
  sl_status_t (*parts)(sl_algorithm_t* algorithm, const sl_op_t* op, sl_part_t* out_parts, uint32_t* out_count);
  /* Takes back where the caller's buffers lie, in peers' slices: launches of peers that begin later must touch none of
   * them, since the program may have freed them. Asked for after launches of this rank were given up; all of them have
   * ended, and the memory of the peers' slices is still there.   thread: [control]   blocking: until `deadline_ns`
   * returns: SL_OK | SL_ERR_UNSUPPORTED it tells peers of none | SL_ERR_TIMEOUT | errors of the device   since: 9 */
  sl_status_t (*retract)(sl_algorithm_t* algorithm, uint64_t deadline_ns);
} sl_algorithm_ops_t;

/* Release 1.0, closed: what is added later comes behind these sizes. Operands, geometries and symmetric slices lie
 * inside other structs, copies and parts in arrays, so they never grow. */
#define SL_OP_SIZE_1_0 72u
#define SL_COMM_SHAPE_SIZE_1_0 56u
#define SL_DEMAND_SIZE_1_0 16u
#define SL_ALGORITHM_ENV_SIZE_1_0 56u
#define SL_ESTIMATE_SIZE_1_0 128u
#define SL_OPERAND_SIZE_1_0 16u
#define SL_STEP_SIZE_1_0 112u
#define SL_PLAN_DESC_SIZE_1_0 112u
#define SL_PLAN_BUILDER_OPS_SIZE_1_0 32u
#define SL_ALGORITHM_OPS_SIZE_1_0 56u
/* Revision 2 added sl_control_t, capture and scalar of operations, control of environments, and launch_group. */
#define SL_OP_SIZE_1_1 88u
#define SL_ALGORITHM_ENV_SIZE_1_1 64u
#define SL_ALGORITHM_OPS_SIZE_1_1 64u
/* Revision 3 added sl_reach_ops_t, and reach of environments. */
#define SL_ALGORITHM_ENV_SIZE_1_2 80u
#define SL_REACH_OPS_SIZE_1_2 16u
/* Revision 4 added the bounds on processors of shapes. */
#define SL_COMM_SHAPE_SIZE_1_3 72u
/* Revision 5 added sl_copy_t, copies, symmetric of operations, and named processor_free of shapes, which was 0.
 * Revision 6 named heap_on_host of shapes, which was 0. */
#define SL_OP_SIZE_1_4 96u
#define SL_COPY_SIZE_1_4 48u
#define SL_ALGORITHM_OPS_SIZE_1_4 72u
/* Revision 7 added sl_part_t, and parts. */
#define SL_PART_SIZE_1_6 48u
#define SL_ALGORITHM_OPS_SIZE_1_6 80u
/* Revision 8 added since of sl_control_t. */
#define SL_CONTROL_SIZE_1_1 40u
#define SL_CONTROL_SIZE_1_7 48u
/* Revision 9 added retract. */
#define SL_ALGORITHM_OPS_SIZE_1_8 88u
/* Revision 10 added sl_op_settings_t, sl_settings_ops_t, both to environments, and named settings of operations, which
 * was 0. */
#define SL_ALGORITHM_ENV_SIZE_1_9 96u
#define SL_OP_SETTINGS_SIZE_1_9 24u
#define SL_SETTINGS_OPS_SIZE_1_9 24u
SL_ASSERT_SIZE(sl_op_settings_t, SL_OP_SETTINGS_SIZE_1_9);
SL_ASSERT_SIZE(sl_settings_ops_t, SL_SETTINGS_OPS_SIZE_1_9);
SL_ASSERT_SIZE(sl_control_t, SL_CONTROL_SIZE_1_7);
SL_ASSERT_SIZE(sl_op_t, SL_OP_SIZE_1_4);
SL_ASSERT_SIZE(sl_copy_t, SL_COPY_SIZE_1_4);
SL_ASSERT_SIZE(sl_comm_shape_t, SL_COMM_SHAPE_SIZE_1_3);
SL_ASSERT_SIZE(sl_demand_t, SL_DEMAND_SIZE_1_0);
SL_ASSERT_SIZE(sl_reach_ops_t, SL_REACH_OPS_SIZE_1_2);
SL_ASSERT_SIZE(sl_algorithm_env_t, SL_ALGORITHM_ENV_SIZE_1_9);
SL_ASSERT_SIZE(sl_estimate_t, SL_ESTIMATE_SIZE_1_0);
SL_ASSERT_SIZE(sl_operand_t, SL_OPERAND_SIZE_1_0);
SL_ASSERT_SIZE(sl_step_t, SL_STEP_SIZE_1_0);
SL_ASSERT_SIZE(sl_plan_desc_t, SL_PLAN_DESC_SIZE_1_0);
SL_ASSERT_SIZE(sl_plan_builder_ops_t, SL_PLAN_BUILDER_OPS_SIZE_1_0);
SL_ASSERT_SIZE(sl_part_t, SL_PART_SIZE_1_6);
SL_ASSERT_SIZE(sl_algorithm_ops_t, SL_ALGORITHM_OPS_SIZE_1_8);

#ifdef __cplusplus
}
#endif
#endif
