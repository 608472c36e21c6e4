// SPDX-License-Identifier: Apache-2.0
// `starling bench --tune FILE`.
#pragma once

#include <string>
#include <vector>

namespace sl::tools {

// `arguments` are those after `bench`. Returns an exit code; throws CommandError.
int Tune(const std::vector<std::string>& arguments);

}  // namespace sl::tools
