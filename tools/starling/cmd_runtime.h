// SPDX-License-Identifier: Apache-2.0
// libstarling.so as a command uses it: opened from ../lib beside the running executable, at the first need.
#pragma once

#include <functional>
#include <string>

#include "sl_runtime.h"

namespace sl::tools {

// The runtime's table. Throws CommandError (failure) naming the file that is missing or unfit. Never unloaded.
const sl_runtime_ops_t& Runtime();

// Runs a call of the two-call idiom. Throws CommandError with the runtime's own words; usage for SL_ERR_CONFIG and
// SL_ERR_NOT_FOUND, which are the profile's fault, else failure.
std::string FetchText(const std::function<sl_status_t(char* text, uint64_t capacity, uint64_t* out_needed)>& call);

// Throws CommandError with the runtime's words, as above, unless `status` is SL_OK.
void CheckRuntime(sl_status_t status);

// Runs the body of a command: prints what a CommandError says, on stderr unless its exit code is good.
int RunCommand(const char* name, const std::function<void()>& body);

}  // namespace sl::tools
