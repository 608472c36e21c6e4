// SPDX-License-Identifier: Apache-2.0
//
// What every call passes before anything of it begins: no other call is inside, the communicator is usable, arguments
// and stream are good.
#pragma once

#include "kernel/runtime/handle.h"

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

// SL_OK when operations may be issued; else why `op`, or `what`, was not started.
Status CheckUsable(sl_comm_t* handle, const char* what);
Status CheckUsable(sl_comm_t* handle, const sl_op_t& op);

}  // namespace sl::kernel
