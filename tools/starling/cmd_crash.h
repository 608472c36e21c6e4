// SPDX-License-Identifier: Apache-2.0
// Modules run inside the commands: one that crashes is named.
#pragma once

namespace sl::tools {

// From now on a crash inside a module writes one line that names the module and the slot, and tells the launcher.
void NameCrashes();

}  // namespace sl::tools
