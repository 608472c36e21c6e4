// SPDX-License-Identifier: Apache-2.0
// `starling bench --tune FILE --gpus N,…`: what every algorithm costs on GPUs.
#pragma once

#include <string>
#include <vector>

#include "tools/starling/bench_tune_options.h"
#include "tools/starling/launch_identity.h"

namespace sl::tools {

// Measures every algorithm in a process of its own, since a profile is a process's, and writes [measured] into the
// profile; or, where `identity` is such a process's, measures. Returns an exit code; throws CommandError.
int TuneGpus(TuneOptions options, const std::vector<std::string>& arguments, const Identity& identity);

}  // namespace sl::tools
