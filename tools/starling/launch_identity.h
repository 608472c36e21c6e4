// SPDX-License-Identifier: Apache-2.0
// Which process of a measurement this is, and who says so: starling itself (--ranks), or a launcher.
#pragma once

#include <optional>
#include <string>

#include "tools/launch/place.h"

namespace sl::tools {

struct Identity {
  int process = 0;  // of all processes
  int processes = 1;
  bool one_host = true;                // all processes run on this host
  std::string key;                     // the same in every process of the job on this host, as part of a file name
  int segment_fd = -1;                 // from starling itself: the inherited segment
  std::optional<launch::Place> place;  // from a launcher

  bool from_starling() const { return segment_fd >= 0; }
};

// Reads the environment. STARLING_TOOL_LAUNCH is taken out of it, so that a program started from here does not join in.
// Throws CommandError (usage) when a variable holds nonsense or contradicts another.
Identity DetectIdentity();

// The variable through which `starling` tells a child who it is: "<process> <processes> <descriptor>".
inline constexpr char kLaunchVariable[] = "STARLING_TOOL_LAUNCH";

}  // namespace sl::tools
