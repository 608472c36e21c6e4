// SPDX-License-Identifier: Apache-2.0
//
// Whose code a thread was in when it crashed: the module on its stack, and the slot it was called through.
#pragma once

namespace sl::conform {

struct Culprit {
  char module[128];  // "my-observer 1.2.0", or the file's name
  char slot[128];    // "consume() of sl.observer/1 mine"; "" when its frame is not on the stack
};

// In the handler of a crash, of a program of our own: it asks the loader and unwinds, which is not safe in every
// handler, so an alarm ends the process if it takes long. False when no module is on the stack.
bool FindCulprit(Culprit* out) noexcept;

}  // namespace sl::conform
