// SPDX-License-Identifier: Apache-2.0
// Modules as the runtime describes them (sl_runtime.h, modules_text), printed for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sl::tools {

// The runtime's JSON for a profile, "" for the one in effect.
std::string ModulesJson(const std::string& profile);

// A section with the module's option table, Markdown.
std::string OptionsMarkdown(const nlohmann::json& module);

}  // namespace sl::tools
