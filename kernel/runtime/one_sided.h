// SPDX-License-Identifier: Apache-2.0
//
// Puts, signals and waits for them: copies into peers' windows and words that streams write and wait for
// (kernel/memory/signal_board.h). No kernel runs for them, and no peer's thread. As other operations of a communicator
// they run in the order of their issue; they are not numbered, since nobody answers them.
#pragma once

#include <span>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// As sl_runtime_ops_t::put_signal and wait_signals; errors with text.
struct Put {
  const void* memory;
  uint64_t bytes;  // 0: a signal alone
  sl_comm_window_t* window;
  uint64_t offset;
};
Status PutSignal(sl_comm_t* handle, const Put& put, uint32_t peer, sl_stream_t* stream);
Status WaitSignals(sl_comm_t* handle, std::span<const sl_signal_count_t> counts, sl_stream_t* stream);

}  // namespace sl::kernel
