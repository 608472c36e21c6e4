// SPDX-License-Identifier: Apache-2.0
//
// From TOML text to a Profile. Private to this floor.
#pragma once

#include <string>
#include <string_view>

#include "kernel/profile/profile.h"

namespace sl::kernel {

// Reads `toml` into `profile`, which holds the defaults. All errors found are reported together.
Status ReadProfileText(std::string_view toml, const std::string& file, Profile* profile);

}  // namespace sl::kernel
