// SPDX-License-Identifier: Apache-2.0
//
// From TOML to Measured. Private to this floor.
#pragma once

#include "kernel/profile/measured.h"
#include "kernel/profile/problems.h"

namespace sl::kernel {

// Reads the section [measured]; what is wrong with it is added to `problems`.
void ReadMeasured(const toml::node& node, Measured* out, Problems* problems);

}  // namespace sl::kernel
