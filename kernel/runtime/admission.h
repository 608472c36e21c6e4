// SPDX-License-Identifier: Apache-2.0
//
// What every call passes before anything of it begins: no other call is inside, the communicator is usable, arguments
// and stream are good.
#pragma once

#include "kernel/runtime/handle.h"
#include "kernel/runtime/stream_order.h"

namespace sl::kernel {

// Marks the communicator as in use by a call; comm_abort waits for it. The exchange is the one locked instruction of
// the hot path: it orders the mark before the reading of `cancelled` (Dekker, partner in comm_abort). Where the caller
// of enqueue marks its calls, the exchange is the caller's.
// returns: false: another thread is inside, whose mark stays; the caller touches nothing and returns TwoCallsAtOnce()
inline bool BeginCall(sl_comm_t* handle) {
  if (handle->in_call().exchange(1, std::memory_order_seq_cst) != 0) [[unlikely]]
    return false;
  handle->CountCall();
  return true;
}
inline void EndCall(sl_comm_t* handle) { handle->in_call().store(0, std::memory_order_release); }

// The mark of a call on one communicator.
class InCall {
 public:
  explicit InCall(sl_comm_t* handle) : handle_(handle), is_alone_(BeginCall(handle)) {}
  ~InCall() {
    if (is_alone_) EndCall(handle_);
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

  bool is_alone() const { return is_alone_; }

 private:
  sl_comm_t* const handle_;
  const bool is_alone_;
};

// Operations of a communicator have an order, which two threads at once do not agree on.
[[gnu::cold]] Status TwoCallsAtOnce();

// Why `what` was not started, of a communicator that is not usable; SL_OK when it is after all.
[[gnu::cold]] Status WhyNotStarted(const Communicator& comm, const char* what);
// SL_OK when operations may be issued. `what`: people's name for the call.
inline Status CheckUsable(const Communicator& comm, const char* what) {
  const bool is_ready = comm.state.load(std::memory_order_acquire) == Communicator::State::kReady;
  if (is_ready && comm.healthy() && !comm.cancelled()) [[likely]]
    return {};
  return WhyNotStarted(comm, what);
}

// `check`: what else speaks against the call, before anything has begun.
template <typename Check>
Status Admit(sl_comm_t* handle, const char* what, sl_stream_t* stream, const Check& check) {
  SL_TRY(CheckUsable(handle->comm, what));
  SL_TRY(check());
  return CheckStream(handle, stream);
}

// The same of an operation, whose arguments are checked, too.
Status AdmitOperation(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream);

}  // namespace sl::kernel
