// SPDX-License-Identifier: Apache-2.0
//
// The one table of the kernel's own keys. Reading, checking, the environment, printing and the reference page are all
// made from it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernel/profile/settings.h"
#include "kernel/profile/value.h"

namespace sl::kernel {

struct Key {
  const char* section;  // "" for the top level
  sl_option_t option;
  void (*store)(Settings& settings, const OptionValue& value);
  bool per_rank;              // ranks of a communicator may differ in it
  const char* nccl_variable;  // read when the STARLING_ one is not set; NULL: none

  std::string FullName() const;
};

std::span<const Key> KernelKeys();

// The table's sections without "", each once, in order; and the names of one section's keys.
std::vector<std::string> KeySections();
std::vector<std::string> KeyNames(std::string_view section);

// The reference page, Markdown.
std::string KeysReference();

}  // namespace sl::kernel
