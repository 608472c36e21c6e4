// SPDX-License-Identifier: Apache-2.0
// The command line of `starling bench`: nccl-tests' options under their own letters, and a few of ours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/starling/bench_types.h"

namespace sl::tools {

// How the per-iteration times of the workers become the number in the table (-a).
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

struct BenchOptions {
  Collective collective = Collective::kAllReduce;
  // nccl-tests
  int threads = 1;                                   // -t, per process
  int ranks_per_thread = 1;                          // -g
  size_t min_bytes = 32u << 20;                      // -b
  size_t max_bytes = 32u << 20;                      // -e
  size_t step_bytes = 1u << 20;                      // -i
  size_t step_factor = 1;                            // -f; 1 = step by step_bytes
  int iterations = 20;                               // -n; 0 = by size
  int warmups = 1;                                   // -w; -1 = by size
  int aggregate = 1;                                 // -m
  int cycles = 1;                                    // -N
  int checks = 1;                                    // -c
  std::vector<RedOp> ops = {RedOp::kSum};            // -o
  std::vector<DataType> types = {DataType::kFloat};  // -d
  int root = 0;                                      // -r; -1 = every root in turn
  int blocking = 0;                                  // -z
  int graph_launches = 0;                            // -G
  bool cpu_time = false;                             // -C
  Average average = Average::kMean;                  // -a
  int local_register = 0;                            // -R
  std::string json_file;                             // -J
  size_t misalign = 0;                               // -u, elements
  bool per_iteration = false;                        // -I
  int timeout_s = 60;                                // -T
  std::vector<std::string> ignored;                  // given options that mean nothing on host memory
  // ours
  int ranks = 0;                       // --ranks; 0 = not given
  int repeat = 1;                      // --repeat: samples per size, the table shows the median
  double budget_ms = 0;                // --budget-ms: fewer iterations where one sample would take longer; 0 = off
  bool out_of_place_only = false;      // --out-of-place-only
  std::string profile;                 // --profile
  std::string id_file;                 // --id-file
  std::vector<std::string> libraries;  // --library; at least one after parsing

  int RanksPerProcess() const { return threads * ranks_per_thread; }
};

// Parses the arguments after `bench`. Throws CommandError: usage with a message, or, for --help, good with the text.
BenchOptions ParseBenchOptions(const std::vector<std::string>& arguments);

// "64", "8K", "32M", "1G", "1.5G" as bytes. Throws CommandError (usage) naming `option`.
size_t ParseSize(const std::string& option, const std::string& text);

// The sizes that -b, -e, -i and -f ask for.
std::vector<size_t> SizesOf(const BenchOptions& options);

// What -n 0 and -w -1 mean: enough iterations for a steady mean, few where each takes long. A pure function of the
// size, so that every program that is compared repeats alike.
int IterationsForSize(size_t bytes);
int WarmupsForSize(size_t bytes);

// The drop-in beside the running executable: ../lib/libnccl.so.2 in a build folder; where it is installed,
// ../lib/starling/nccl/libnccl.so.2, so that it never stands in the way of another NCCL.
std::string DefaultLibrary();

}  // namespace sl::tools
