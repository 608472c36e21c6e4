// SPDX-License-Identifier: Apache-2.0
// What a worker that crashes leaves for the launcher to say in place of what its operation was.
#pragma once

#include "tools/starling/launch_segment.h"

namespace sl::tools {

// The worker of this process whose `doing` is overwritten; the first one counts.
void BlameThrough(WorkerSlot* slot);
// In a signal handler.
void Blame(const char* text) noexcept;

}  // namespace sl::tools
