// SPDX-License-Identifier: Apache-2.0
//
// Checks of what a module says about itself, before any of it is used.
#pragma once

#include <string>

#include "sdk/status.h"
#include "sl_module.h"

namespace sl::kernel {

// SL_OK, or why the module of file `path` is refused: "path: refused: what it offers, what was wanted".
Status CheckDescription(const std::string& path, const sl_module_t* table);

}  // namespace sl::kernel
