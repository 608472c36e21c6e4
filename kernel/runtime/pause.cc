// SPDX-License-Identifier: Apache-2.0
//
// Communicators that stop working, for good (revoke) or for a while (suspend, resume), and go on existing.
#include <algorithm>
#include <string>

#include "kernel/runtime/control_call.h"
#include "kernel/runtime/lifecycle.h"

namespace sl::kernel {
namespace {

using State = Communicator::State;

// What speaks against suspending on this rank; empty: nothing.
std::string WhyNotSuspended(sl_comm_t* handle) {
  constexpr uint64_t kLookNs = 50'000'000;  // between two looks whether it is aborted
  const uint64_t deadline_ns = NowNs() + handle->comm.config().timeout_ns;
  while (!DrainWithin(handle, std::min(deadline_ns, NowNs() + kLookNs))) {
    if (handle->comm.cancelled()) return "has aborted it";
    if (NowNs() >= deadline_ns) return "has operations that do not end";
  }
  const uint32_t graphs = handle->graphs();
  if (graphs == 0) return "";
  return "has " + std::to_string(graphs) + " captured graph" + (graphs == 1 ? "" : "s") +
         " whose operations use the memory; destroy them first";
}

Status Agree(sl_comm_t* handle, const char* call, uint64_t turn, const std::string& objection) {
  for (;;) {
    SL_ASSIGN(const bool is_agreed, handle->comm.AgreeToPause(call, turn, objection));
    if (is_agreed) return {};
    turn = handle->comm.TakeTurn();
  }
}

}  // namespace

Status RevokeComm(sl_comm_t* handle) {
  const State state = handle->comm.state.load();
  if (state != State::kReady && state != State::kSuspended) {
    return {SL_ERR_STATE, "revoke of a communicator that is not ready, or was finalized"};
  }
  if (handle->revoked.load()) return {SL_ERR_INVALID, "the communicator was revoked before"};
  SL_TRY(CheckIdle(handle));  // behind what waits for peers it would wait, too
  return RunCall(handle, handle->nonblocking, [handle]() -> Status {
    handle->comm.Revoke();
    if (!DrainWithin(handle, NowNs() + kStopNs)) {
      return {SL_ERR_TIMEOUT, "operations of the revoked communicator did not stop within 1 s"};
    }
    handle->revoked.store(true);
    return {};
  });
}

Status SuspendComm(sl_comm_t* handle) {
  Communicator& comm = handle->comm;
  if (!handle->revoked.load()) SL_TRY(comm.Health());
  State state = State::kReady;
  if (!comm.state.compare_exchange_strong(state, State::kSuspended)) {
    return {SL_ERR_STATE, state == State::kSuspended ? "the communicator is suspended already"
                                                     : "suspend of a communicator that is not ready, or was finalized"};
  }
  const uint64_t turn = comm.TakeTurn();
  const auto call = [handle, turn]() -> Status {
    Communicator& own = handle->comm;
    Status suspended = Agree(handle, kSuspendCall, turn, WhyNotSuspended(handle));
    if (!suspended.ok()) {
      own.state.store(State::kReady);
      return suspended;
    }
    handle->last_choice = nullptr;
    suspended = own.ReleaseHeap(own.TakeTurn());  // which nobody else takes now
    if (!suspended.ok()) own.Fail(suspended);
    return suspended;
  };
  return RunCall(handle, handle->nonblocking, call, [handle, turn](const Status& why) {
    handle->comm.Decline(turn, kSuspendCall, why);
    handle->comm.state.store(State::kReady);
  });
}

Status ResumeComm(sl_comm_t* handle) {
  Communicator& comm = handle->comm;
  SL_TRY(CheckIdle(handle));
  if (comm.state.load() != State::kSuspended) return {SL_ERR_STATE, "resume of a communicator that is not suspended"};
  if (!handle->revoked.load()) SL_TRY(comm.Health());
  const uint64_t turn = comm.TakeTurn();
  const auto call = [handle, turn]() -> Status {
    SL_TRY(Agree(handle, kResumeCall, turn, ""));
    Status resumed = handle->comm.RemakeHeap();
    if (resumed.ok()) {
      handle->comm.state.store(State::kReady, std::memory_order_release);
    } else {
      handle->comm.Fail(resumed);
    }
    return resumed;
  };
  return RunCall(handle, handle->nonblocking, call,
                 [handle, turn](const Status& why) { handle->comm.Decline(turn, kResumeCall, why); });
}

}  // namespace sl::kernel
