// SPDX-License-Identifier: Apache-2.0
//
// Modules in words: JSON for tools, TOML for the effective profile.
#pragma once

#include <string>
#include <string_view>

#include "kernel/loader/choice.h"

namespace sl::kernel {

// What is not UTF-8, as a file's name need not be, becomes U+FFFD: JSON could not hold it.
std::string QuoteJson(std::string_view text);

// One module as a JSON object. `state` is a word such as "active"; `reason` says why it is not in use, "" when it is.
std::string DescribeModule(const LoadedModule& module, const std::vector<OptionValue>* options,
                           const std::string& state, const std::string& reason);
// A refused file as a JSON object.
std::string DescribeRefusal(const Refusal& refusal);
// {"folders": […], "modules": […], "refused": […], "problems": […], "kernel_keys": "…"}: problems are the lines of
// `status`, kernel_keys is the reference page of the kernel's own keys, Markdown.
std::string DescribeAll(const std::vector<std::string>& modules, const std::vector<std::string>& refusals,
                        const Status& status);

// [modules.<name>], what the profile's `entry` (NULL: none) demands of its file, and its options, effective values with
// their origins.
std::string OptionsToToml(const ChosenModule& chosen, const ModuleEntry* entry);
// [modules.<name>] of a module that the profile leaves out.
std::string DisabledToToml(const ModuleEntry& entry);

}  // namespace sl::kernel
