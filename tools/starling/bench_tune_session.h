// SPDX-License-Identifier: Apache-2.0
// One process of a tuning from its start to its exit code.
//
// For every algorithm there is a set of processes, the ranks of a communicator that only this algorithm may serve. The
// sets take turns, sample by sample, so that what disturbs the machine for a while disturbs all algorithms alike; who
// waits for its turn sleeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/starling/bench_tune_options.h"
#include "tools/starling/launch_identity.h"

namespace sl::tools {

// What the launcher tells every process.
struct TunePart {
  int ranks = 0;
  int64_t deadline_ns = 0;  // CLOCK_MONOTONIC; what is not measured by then is left out
  std::vector<std::string> algorithms;
  std::vector<std::string> profiles;  // in the order of `algorithms`: a file in which nothing else may serve
  std::string result_file;            // process 0 writes it

  std::string ToText() const;
  // The part of this process, from kTunePartVariable. Throws CommandError (usage) when it holds nonsense.
  static TunePart FromEnvironment();
};
inline constexpr char kTunePartVariable[] = "STARLING_TOOL_TUNE";

// One algorithm at one point.
struct TuneCell {
  bool refused = false;  // the algorithm does not serve it, or the profile forbids it
  uint64_t wrong = 0;    // elements
  std::vector<double> samples_us;
};

// Cells by point, then by algorithm; of points that were not reached they are empty.
using TuneCells = std::vector<std::vector<TuneCell>>;
TuneCells ReadTuneCells(const std::string& file);

// Measures, as the process of `part.ranks` times algorithms that `identity` says. Returns an exit code; failures print
// and end the process at once, since the others may be stuck inside the library.
int RunTuneProcess(const TuneOptions& options, const Identity& identity, const TunePart& part);

}  // namespace sl::tools
