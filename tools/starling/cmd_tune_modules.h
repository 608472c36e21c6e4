// SPDX-License-Identifier: Apache-2.0
// Which algorithms a tuning measures, and profiles in which one of them serves alone.
#pragma once

#include <string>
#include <vector>

#include "tools/starling/bench_tune_file.h"

namespace sl::tools {

struct TunedModules {
  std::vector<std::string> algorithms;
  std::vector<std::string> versions;  // "name version" of those that have algorithms
};

// The algorithms that communicators of `ranks` have on devices of this kind ("host", "cuda") by the profile with this
// text; `file` is what people call it. Adds it to `scratch`. Throws CommandError.
TunedModules FindModules(const std::string& text, const std::string& file, const std::string& device, int ranks,
                         Scratch* scratch);

// A profile in which only `algorithm` may serve: forbidding the others holds against pins, too.
std::string OnlyProfile(const std::string& base, const std::vector<std::string>& algorithms,
                        const std::string& algorithm);

}  // namespace sl::tools
