// SPDX-License-Identifier: Apache-2.0
//
// Collectives that are lists of copies (SL_RUN_COPIES): the device's copy engines move everything, and no kernel runs.
// On the caller's stream of every rank:
//
//   gate kBegin | copies of phase 0 | (gate kMiddle | copies of phase 1 |) gate kEnd
//
// At a gate all ranks meet (kernel/memory/signal_board.h): nothing is stored in a rank's memory before it has come to
// the operation, and when its stream goes on all copies to and from its memory have ended. A copy comes before the word
// that its stream writes behind it, and what the other's stream does after it has seen that word comes behind the copy;
// the device orders them in both places. What stays at home in phase 0 waits for no peer: it is copied on a stream
// beside, from before the first gate to behind the last.
//
// Nothing here depends on a counter: what is captured is what runs at once, but for the gates, of which captured
// operations have their own. A stream that is released (abort, loss of a rank) runs through all gates, and its copies
// go where they were told to: what a failed operation writes is undefined.
//
// thread: whoever issues, one at a time.
#pragma once

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// Issues the operation, which was entered, served by `choice`. After an error the communicator has failed, since peers
// may wait for the rest.   [data]
Status IssueCopies(const Pending& pending, const Choice& choice, const IssueOrder& order, sl_stream_t* stream);

// The streams for what stays at home; where there are none it goes with the rest.   [control]
void MakeSideStreams(sl_comm_t* handle);
void DestroySideStreams(sl_comm_t* handle);

}  // namespace sl::kernel
