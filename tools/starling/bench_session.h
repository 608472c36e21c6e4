// SPDX-License-Identifier: Apache-2.0
// One process of a measurement from its start to its exit code.
#pragma once

#include "tools/starling/bench_options.h"
#include "tools/starling/launch_identity.h"

namespace sl::tools {

// Loads options.libraries.front(), joins the other processes, measures, and (on rank 0) prints the table and writes the
// JSON file. Returns an exit code. Throws CommandError before anything was measured; later failures print and end the
// process at once, since other threads may be stuck inside the library.
int RunBenchProcess(const BenchOptions& options, const Identity& identity);

}  // namespace sl::tools
