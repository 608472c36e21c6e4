// SPDX-License-Identifier: Apache-2.0
// Which process of a measurement this is, and who says so: starling itself (--ranks), mpirun, srun or torchrun.
#pragma once

#include <string>

namespace sl::tools {

struct Identity {
  enum class Launcher { kNone, kStarling, kOpenMpi, kPmi, kSlurm, kTorchrun };
  Launcher launcher = Launcher::kNone;
  int process = 0;  // of all processes
  int processes = 1;
  bool one_host = true;  // all processes run on this host
  std::string key;       // the same in every process of the job, as part of a file name; empty for kStarling
  int segment_fd = -1;   // kStarling: the inherited segment
};

// Reads the environment. STARLING_TOOL_LAUNCH is taken out of it, so that a program started from here does not join in.
// Throws CommandError (usage) when a variable holds nonsense.
Identity DetectIdentity();

const char* Name(Identity::Launcher launcher);

// The variable through which `starling` tells a child who it is: "<process> <processes> <descriptor>".
inline constexpr char kLaunchVariable[] = "STARLING_TOOL_LAUNCH";

}  // namespace sl::tools
