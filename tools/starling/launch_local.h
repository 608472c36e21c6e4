// SPDX-License-Identifier: Apache-2.0
// Starts the processes of a measurement on this host and stays with them: they die with the launcher, a rank that dies
// or hangs ends the others in bounded time and is named, and nothing is left behind.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sl::tools {

inline constexpr int kMaxLocalProcesses = 256;

struct LaunchSpec {
  std::vector<std::string> command;  // program (a path) and arguments, the same for every process
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  int processes = 1;
  int workers = 1;            // processes times threads: barrier participants
  int timeout_s = 60;         // without progress of any worker
  bool bind = true;           // each process to a CPU of its own, when there are enough: as mpirun does for few ranks
  int turns = 1;              // so many equal sets of processes, one at work at a time: the sets share CPUs
  bool quiet_stdout = false;  // the children's standard output is thrown away
};

struct LaunchResult {
  int exit_code = 0;       // 0 good, 1 failure, 2 bad usage
  std::string failure;     // who failed first and how; empty when good
  bool explained = false;  // the process ended by itself and has said why
};

// Blocks until all have ended. Must be called from the main thread: the children's death signal follows it.
LaunchResult LaunchLocal(const LaunchSpec& spec);

// The path of the running executable.
std::string SelfPath();

}  // namespace sl::tools
