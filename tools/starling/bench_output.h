// SPDX-License-Identifier: Apache-2.0
// Files that commands write at their end.
#pragma once

#include <string>

namespace sl::tools {

// Throws CommandError with `exit_code` when `path`, which `option` names, could not be written: asked before the work
// whose outcome would be lost. Empty paths are good. Makes and changes no file.
void CheckWritable(const std::string& path, const std::string& option, int exit_code);

}  // namespace sl::tools
