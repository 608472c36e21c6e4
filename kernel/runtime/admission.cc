// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/admission.h"

#include <string>

#include "kernel/runtime/check_op.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

Status WhyUnusable(const Communicator& comm) {
  if (comm.cancelled()) return {SL_ERR_ABORTED, "the communicator was aborted"};
  if (comm.revoked()) return {SL_ERR_ABORTED, comm.revoked()};
  const auto state = comm.state.load(std::memory_order_acquire);
  if (state == Communicator::State::kReady) return comm.Health();
  if (state == Communicator::State::kJoining) {
    return {SL_ERR_STATE, "the communicator is still being set up; wait until its state is ready"};
  }
  if (state == Communicator::State::kSuspended) {
    return {SL_ERR_STATE, "the communicator is suspended; resume it on all ranks first"};
  }
  return {SL_ERR_STATE, "the communicator was finalized; no operation may follow"};
}

}  // namespace

Status TwoCallsAtOnce() {
  return {SL_ERR_STATE, "two threads call on one communicator at once; give each its own, or let them take turns"};
}

Status WhyNotStarted(const Communicator& comm, const char* what) {
  const Status why = WhyUnusable(comm);
  return why.ok() ? why : Status(why.code(), std::string(what) + " not started: " + why.message());
}

Status AdmitOperation(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  return Admit(handle, OpKindName(op.kind), stream, [&] { return CheckOp(handle->comm, op); });
}

}  // namespace sl::kernel
