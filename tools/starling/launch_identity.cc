// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_identity.h"

#include <cstdlib>
#include <sstream>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

Identity FromStarling(const char* text) {
  Identity self;
  std::istringstream fields(text);
  bool good = static_cast<bool>(fields >> self.process >> self.processes >> self.segment_fd);
  if (!good || self.process < 0 || self.process >= self.processes || self.segment_fd < 0) {
    throw CommandError(kExitUsage, "STARLING_TOOL_LAUNCH is set by starling itself; unset it");
  }
  unsetenv(kLaunchVariable);
  return self;
}

}  // namespace

Identity DetectIdentity() {
  const char* text = std::getenv(kLaunchVariable);
  if (text && *text) return FromStarling(text);
  Identity self;
  try {
    self.place = launch::FindPlace();
  } catch (const launch::EnvironmentError& error) {
    throw CommandError(kExitUsage, error.what());
  }
  if (!self.place) return self;
  self.process = self.place->rank;
  self.processes = self.place->size;
  self.one_host = self.place->one_host;
  self.key = self.place->key;
  return self;
}

}  // namespace sl::tools
