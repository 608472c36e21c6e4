// SPDX-License-Identifier: Apache-2.0
//
// Operations. The hot path, Issue(), is inlined into each function with its constants: a handful of compares, one
// descriptor on the stack, one call through the kernel's table; no lock, allocation or string. Whatever does not pass
// goes to Refuse(), which finds out again, slowly, what is wrong.
#include <cstdint>

#include "modules/frontend-nccl/coll_config.h"
#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/group.h"
#include "modules/frontend-nccl/red_op.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/thread.h"
#include "sdk/datatype.h"

namespace sl::frontend_nccl {
namespace {

static_assert(static_cast<int>(ncclFloat8e5m2) == SL_FLOAT8E5M2 && static_cast<int>(ncclBfloat16) == SL_BFLOAT16,
              "NCCL's data types and the kernel's have equal numbers");
static_assert(static_cast<int>(ncclNumTypes) == SL_DATATYPE_COUNT, "and there are equally many");
static_assert(static_cast<int>(ncclSum) == SL_SUM && static_cast<int>(ncclProd) == SL_PROD &&
                  static_cast<int>(ncclMax) == SL_MAX && static_cast<int>(ncclMin) == SL_MIN &&
                  static_cast<int>(ncclAvg) == SL_AVG,
              "and so have the reductions");

constexpr int kNone = -1;

// Which ranks an operation's buffers belong to.
enum class Who : uint8_t { kNobody, kRoot, kAll };

// What is constant about a function.
struct Kind {
  const char* function;
  sl_op_kind_t op;
  Who sends;
  Who receives;
  bool reduces;
  bool has_root;
  bool has_peer;
  bool multiplies;  // one buffer holds `count` elements for every rank
};

// What the program passed. Enumerations as numbers, since a program may pass any.
struct Call {
  const void* send;
  void* recv;
  size_t count;
  unsigned datatype;
  unsigned reduction;
  int target;  // root or peer
  ncclComm_t comm;
  cudaStream_t stream;
};

constexpr Kind kAllReduce = {"ncclAllReduce", SL_OP_ALL_REDUCE, Who::kAll, Who::kAll, true, false, false, false};
constexpr Kind kReduce = {"ncclReduce", SL_OP_REDUCE, Who::kAll, Who::kRoot, true, true, false, false};
constexpr Kind kBroadcast = {"ncclBroadcast", SL_OP_BROADCAST, Who::kRoot, Who::kAll, false, true, false, false};
constexpr Kind kBcast = {"ncclBcast", SL_OP_BROADCAST, Who::kAll, Who::kAll, false, true, false, false};
constexpr Kind kAllGather = {"ncclAllGather", SL_OP_ALL_GATHER, Who::kAll, Who::kAll, false, false, false, true};
constexpr Kind kReduceScatter = {
    "ncclReduceScatter", SL_OP_REDUCE_SCATTER, Who::kAll, Who::kAll, true, false, false, true};
constexpr Kind kAlltoAll = {"ncclAlltoAll", SL_OP_ALL_TO_ALL, Who::kAll, Who::kAll, false, false, false, true};
constexpr Kind kGather = {"ncclGather", SL_OP_GATHER, Who::kAll, Who::kRoot, false, true, false, true};
constexpr Kind kScatter = {"ncclScatter", SL_OP_SCATTER, Who::kRoot, Who::kAll, false, true, false, true};
constexpr Kind kSend = {"ncclSend", SL_OP_SEND, Who::kAll, Who::kNobody, false, false, true, false};
constexpr Kind kRecv = {"ncclRecv", SL_OP_RECV, Who::kNobody, Who::kAll, false, false, true, false};

template <typename Enumeration>
constexpr unsigned Number(Enumeration value) {
  return static_cast<unsigned>(value);
}

inline bool Needs(Who who, const Call& call, const ncclComm* comm) {
  return who == Who::kAll || (who == Who::kRoot && comm->rank == call.target);
}

// True when a buffer of all ranks' parts cannot be addressed.
inline bool TooLarge(const Kind& kind, const Call& call, const ncclComm* comm) {
  size_t bytes = 0;
  size_t parts = DatatypeBytes(call.datatype) * (kind.multiplies ? static_cast<size_t>(comm->size) : 1);
  return __builtin_mul_overflow(call.count, parts, &bytes) || bytes > static_cast<size_t>(PTRDIFF_MAX);
}

constexpr unsigned kBuiltinOps = ncclNumOps;

// ---- What is wrong, in words ----

ncclResult_t RefuseBuffers(const Kind& kind, const Call& call, const ncclComm* comm) {
  if (TooLarge(kind, call, comm)) {
    return Fail(ncclInvalidArgument, "%s: argument count is %zu elements of %s, more than memory can hold",
                kind.function, call.count, DatatypeName(call.datatype));
  }
  const bool send_missing = call.send == nullptr && Needs(kind.sends, call, comm);
  return Fail(ncclInvalidArgument,
              "%s: argument %s is NULL on rank %d with a count of %zu; pass a buffer of %s elements", kind.function,
              send_missing ? "sendbuff" : "recvbuff", comm->rank, call.count, DatatypeName(call.datatype));
}

ncclResult_t RefuseReduction(const Kind& kind, const Call& call, const ncclComm* comm) {
  const RedOp* op = comm->cold->red_ops.Find(call.reduction);
  if (op == nullptr) {
    return Fail(ncclInvalidArgument,
                "%s: argument op is %d, neither ncclSum (0) to ncclAvg (4) nor an operator that "
                "ncclRedOpCreatePreMulSum made for this communicator and nobody destroyed",
                kind.function, static_cast<int>(call.reduction));
  }
  return Fail(ncclInvalidArgument, "%s: argument op was created for %s, but datatype is %s; create one for each type",
              kind.function, DatatypeName(op->datatype), DatatypeName(call.datatype));
}

// Finds the first thing wrong, in the order NCCL looks; ncclSuccess when nothing is any more, since a non-blocking
// communicator became ready meanwhile.
ncclResult_t FindFault(const Kind& kind, const Call& call) {
  const Pin comm = CheckComm(kind.function, call.comm);
  const ncclResult_t ready = RequireReady(kind.function, comm);
  if (ready != ncclSuccess) return ready;
  if (call.datatype >= SL_DATATYPE_COUNT) {
    return Fail(ncclInvalidArgument, "%s: argument datatype is %d, must be 0 (ncclInt8) to 11 (ncclFloat8e5m2)",
                kind.function, static_cast<int>(call.datatype));
  }
  if ((kind.has_root || kind.has_peer) && (call.target < 0 || call.target >= comm->size)) {
    return Fail(ncclInvalidArgument, "%s: argument %s is %d, must be a rank of the communicator, 0 to %d",
                kind.function, kind.has_root ? "root" : "peer", call.target, comm->size - 1);
  }
  if (kind.reduces && call.reduction >= kBuiltinOps) {
    const RedOp* made = comm->cold->red_ops.Find(call.reduction);
    if (made == nullptr || static_cast<unsigned>(made->datatype) != call.datatype)
      return RefuseReduction(kind, call, comm);
  }
  const bool no_send = call.send == nullptr && Needs(kind.sends, call, comm);
  const bool no_recv = call.recv == nullptr && Needs(kind.receives, call, comm);
  if (TooLarge(kind, call, comm) || (call.count > 0 && (no_send || no_recv))) {
    return RefuseBuffers(kind, call, comm);
  }
  return ncclSuccess;
}

// ---- The hot path ----

inline sl_op_t OpOf(const Kind& kind, const Call& call) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind.op;
  op.datatype = call.datatype;
  op.reduction = SL_SUM;
  op.root = kind.has_root ? call.target : kNone;
  op.peer = kind.has_peer ? call.target : kNone;
  op.count = call.count;
  op.send = call.send;
  op.recv = call.recv;
  return op;
}

// The operator's number as the kernel wants it. False: unknown, made for another type, or its communicator is ending.
inline bool Reduction(const Call& call, ncclComm* comm, sl_op_t* op) {
  if (call.reduction < kBuiltinOps) [[likely]] {
    op->reduction = call.reduction;
    return true;
  }
  const Pin pin(comm);
  if (IsEnding(comm)) return false;
  const RedOp* made = comm->cold->red_ops.Find(call.reduction);
  if (made == nullptr || static_cast<unsigned>(made->datatype) != call.datatype) return false;
  op->reduction = SL_PREMUL_SUM;
  op->scalar_bits = made->scalar_bits;
  op->scalar = made->device_scalar;
  return true;
}

inline bool ArgumentsGood(const Kind& kind, const Call& call, const ncclComm* comm) {
  if (call.datatype >= SL_DATATYPE_COUNT) return false;
  if ((kind.has_root || kind.has_peer) && static_cast<unsigned>(call.target) >= static_cast<unsigned>(comm->size)) {
    return false;
  }
  if (call.count > 0) {
    if (kind.sends != Who::kNobody && call.send == nullptr && Needs(kind.sends, call, comm)) return false;
    if (kind.receives != Who::kNobody && call.recv == nullptr && Needs(kind.receives, call, comm)) return false;
  }
  return !TooLarge(kind, call, comm);
}

[[gnu::cold, gnu::noinline]] ncclResult_t Grouped(const Kind& kind, const PendingOp& pending) {
  const ncclResult_t submitted = SubmitOp(kind.function, pending);
  return submitted == ncclSuccess ? submitted : NoteInGroup(submitted);
}

// While another thread is in a call on the communicator, which is refused, or was a moment ago. A group's call marks
// itself, so the kernel finds out which.
[[gnu::cold, gnu::noinline]] ncclResult_t IssueBeside(const Kind& kind, const PendingOp& pending) {
  const Pin comm(pending.comm);
  if (const ncclResult_t ready = RequireReady(kind.function, comm); ready != ncclSuccess) return ready;
  const sl_group_entry_t entry{comm->kernel, &pending.op, pending.stream, pending.tag, pending.launched};
  const sl_status_t status = LoadedRuntime().enqueue_group(&entry, 1);
  return status == SL_OK ? ncclSuccess : FailWith(kind.function, status);
}

[[gnu::cold, gnu::noinline]] ncclResult_t Refuse(const Kind& kind, const Call& call, bool* out_retry) {
  const ncclResult_t fault = FindFault(kind, call);
  *out_retry = fault == ncclSuccess;
  return NoteInGroup(fault);
}

// `attempt` bounds the retry of a communicator that has just become ready.
[[gnu::always_inline]] inline ncclResult_t Issue(const Kind& kind, const Call& call) {
  for (int attempt = 0;; ++attempt) {
    ncclComm* comm = Live(call.comm);
    if (comm != nullptr && comm->phase.load(std::memory_order_acquire) == kReady) [[likely]] {
      PendingOp pending;
      pending.comm = comm;
      pending.stream = reinterpret_cast<sl_stream_t*>(call.stream);
      pending.op = OpOf(kind, call);
      if (ArgumentsGood(kind, call, comm) && (!kind.reduces || Reduction(call, comm, &pending.op))) [[likely]] {
        if (t_group_depth != 0) return Grouped(kind, pending);
        if (!OpMark::Set(comm)) [[unlikely]]
          return IssueBeside(kind, pending);
        if (OpMark::MayIssue(comm)) [[likely]] {
          const sl_status_t status = LoadedRuntime().enqueue(comm->kernel, &pending.op, pending.stream);
          OpMark::Clear(comm);
          return status == SL_OK ? ncclSuccess : FailWith(kind.function, status);
        }
        OpMark::Clear(comm);
      }
    }
    bool retry = false;
    const ncclResult_t fault = Refuse(kind, call, &retry);
    if (!retry) return fault;
    if (attempt > 0) return Fail(ncclInternalError, "%s: the communicator keeps changing its state", kind.function);
  }
}

// ---- With settings of the call's own ----

ncclResult_t IssueAs(const Kind& kind, const Call& call, const ncclCollConfig_t& user) {
  const Pin comm = CheckComm(kind.function, call.comm);
  if (const ncclResult_t ready = RequireReady(kind.function, comm); ready != ncclSuccess) return ready;
  CallConfig config;
  if (const ncclResult_t read = ReadCallConfig(kind.function, user, comm, &config); read != ncclSuccess) return read;
  if (const ncclResult_t fault = FindFault(kind, call); fault != ncclSuccess) return fault;
  PendingOp pending{comm, reinterpret_cast<sl_stream_t*>(call.stream), OpOf(kind, call), config.tag, config.launched};
  if (kind.reduces && !Reduction(call, comm, &pending.op)) return RefuseReduction(kind, call, comm);
  pending.op.settings = config.settings;
  if (t_group_depth != 0) return SubmitOp(kind.function, pending);
  const sl_group_entry_t entry{comm->kernel, &pending.op, pending.stream, pending.tag, pending.launched};
  const sl_status_t status = LoadedRuntime().enqueue_group(&entry, 1);
  if (status == SL_OK) return ncclSuccess;
  const ncclResult_t failed = FailWith(kind.function, status);
  return status == SL_ERR_UNSUPPORTED && config.is_forced ? ncclInvalidArgument : failed;
}

ncclResult_t IssueConfigured(const Kind& kind, const Call& call, const ncclCollConfig_t* config) {
  if (config == nullptr) return Issue(kind, call);
  return NoteInGroup(Guarded(kind.function, [&] { return IssueAs(kind, call, *config); }));
}

// The same function under its other name.
constexpr Kind Named(Kind kind, const char* function) {
  kind.function = function;
  return kind;
}

}  // namespace
}  // namespace sl::frontend_nccl

using sl::frontend_nccl::Issue;
using sl::frontend_nccl::IssueConfigured;
namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kAllReduce, {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(op), 0, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kReduce, {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(op), root, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kBroadcast,
               {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
            cudaStream_t stream) {
  return Issue(fe::kBcast, {buff, buff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kAllGather,
               {sendbuff, recvbuff, sendcount, fe::Number(datatype), fe::Number(ncclSum), 0, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kReduceScatter,
               {sendbuff, recvbuff, recvcount, fe::Number(datatype), fe::Number(op), 0, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kAlltoAll, {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), 0, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kGather, {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kScatter,
               {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclComm_t comm, cudaStream_t stream) {
  return Issue(fe::kSend, {sendbuff, nullptr, count, fe::Number(datatype), fe::Number(ncclSum), peer, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
            cudaStream_t stream) {
  return Issue(fe::kRecv, {nullptr, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), peer, comm, stream});
}

SL_NCCL_API(ncclResult_t, ncclAllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kAllReduce, "ncclAllReduceConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(op), 0, comm, stream}, config);
}

SL_NCCL_API(ncclResult_t, ncclBroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kBroadcast, "ncclBroadcastConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream},
                         config);
}

SL_NCCL_API(ncclResult_t, ncclReduceConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kReduce, "ncclReduceConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(op), root, comm, stream}, config);
}

SL_NCCL_API(ncclResult_t, ncclAllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kAllGather, "ncclAllGatherConfig"),
                         {sendbuff, recvbuff, sendcount, fe::Number(datatype), fe::Number(ncclSum), 0, comm, stream},
                         config);
}

SL_NCCL_API(ncclResult_t, ncclReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kReduceScatter, "ncclReduceScatterConfig"),
                         {sendbuff, recvbuff, recvcount, fe::Number(datatype), fe::Number(op), 0, comm, stream},
                         config);
}

SL_NCCL_API(ncclResult_t, ncclAlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kAlltoAll, "ncclAlltoAllConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), 0, comm, stream},
                         config);
}

SL_NCCL_API(ncclResult_t, ncclGatherConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kGather, "ncclGatherConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream},
                         config);
}

SL_NCCL_API(ncclResult_t, ncclScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return IssueConfigured(fe::Named(fe::kScatter, "ncclScatterConfig"),
                         {sendbuff, recvbuff, count, fe::Number(datatype), fe::Number(ncclSum), root, comm, stream},
                         config);
}
