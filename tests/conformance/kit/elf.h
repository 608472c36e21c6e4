// SPDX-License-Identifier: Apache-2.0
//
// What a shared object exports, read from its file.
#pragma once

#include <string>
#include <vector>

#include "sdk/status.h"

namespace sl::conform {

// Names of the dynamic symbols that the file defines, version nodes left out.
Result<std::vector<std::string>> ExportedSymbols(const std::string& path);

}  // namespace sl::conform
