// SPDX-License-Identifier: Apache-2.0
//
// Variables that look like ours and mean nothing: most often a misspelt one, whose value would be ignored silently.
#pragma once

#include <string>
#include <vector>

#include "kernel/loader/catalog.h"

namespace sl::kernel {

// A message for each STARLING_… variable of the environment that no key and no option of a module reads, with the
// nearest one that is read. Variables of modules that were found but whose tables were not read are not judged, nor are
// STARLING_TOOL_…, which our programs hand to their children.
std::vector<std::string> StrayVariables(const Catalog& catalog);

}  // namespace sl::kernel
