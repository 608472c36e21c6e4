// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/stray_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "kernel/profile/keys.h"
#include "kernel/profile/value.h"

namespace sl::kernel {
namespace {

constexpr std::string_view kPrefix = "STARLING_";
constexpr std::string_view kToolPrefix = "STARLING_TOOL_";
// Read by name, not as a key of the profile: kernel/profile, kernel/loader, kernel/events, the NCCL front end.
constexpr const char* kByName[] = {"STARLING_PROFILE", "STARLING_PROFILE_PATH", "STARLING_MODULE_PATH",
                                   "STARLING_LAYERS",  "STARLING_LOG",          "STARLING_NCCL_VERSION"};

std::vector<std::string> KnownVariables(const Catalog& catalog) {
  std::vector<std::string> known(std::begin(kByName), std::end(kByName));
  for (const Key& key : KernelKeys()) known.push_back(VariableName(key.section, key.option.name));
  for (const auto& module : catalog.modules) {
    const sl_module_t& table = module->table();
    for (uint32_t i = 0; i < table.option_count; ++i) {
      known.push_back(VariableName(module->name(), table.options[i]->name));
    }
  }
  return known;
}

}  // namespace

std::vector<std::string> StrayVariables(const Catalog& catalog) {
  const std::vector<std::string> known = KnownVariables(catalog);
  const auto is_unread = [&catalog](std::string_view name) {
    return std::any_of(catalog.unread.begin(), catalog.unread.end(),
                       [name](const std::string& module) { return name.starts_with(VariableName(module, "")); });
  };
  std::vector<std::string> messages;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kToolPrefix) || is_unread(name)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = NearestName(name, known);
    messages.push_back(fmt::format("environment variable {} means nothing here and is ignored{}{}", name,
                                   nearest.empty() ? "" : "; nearest is ", nearest));
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

}  // namespace sl::kernel
