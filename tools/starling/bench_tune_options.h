// SPDX-License-Identifier: Apache-2.0
// The command line of `starling bench --tune`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/starling/bench_types.h"

namespace sl::tools {

struct TuneOptions {
  std::string file;                     // the profile that the costs are written into
  std::vector<Collective> collectives;  // all when none is named
  std::vector<int> ranks;               // --ranks; 2 and as many as processors
  std::vector<int> gpus;                // --gpus: ranks are GPUs, and families of kernels are measured
  size_t min_bytes = 4;                 // -b
  size_t max_bytes = 16u << 20;         // -e; on GPUs 256 MiB
  size_t step_factor = 4;               // -f
  DataType type = DataType::kFloat;     // -d; on GPUs bfloat16
  double budget_s = 60;                 // --budget, for everything
  int repeat = 5;                       // --repeat: samples of each point, if time allows
  int timeout_s = 60;                   // -T
};

// One thing to measure. `bytes` are those that selection counts, Shape::bytes.
struct TunePoint {
  Collective collective;
  size_t bytes;
};

// True when the arguments after `bench` ask for tuning.
bool AsksToTune(const std::vector<std::string>& arguments);

// Throws CommandError: usage with a message, or, for --help, good with the text.
TuneOptions ParseTuneOptions(const std::vector<std::string>& arguments);

// Every point over so many ranks, small sizes of all collectives first: what a budget cuts off is the large ones.
std::vector<TunePoint> TunePoints(const TuneOptions& options, int ranks);

}  // namespace sl::tools
