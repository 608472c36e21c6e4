// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/variables.h"

#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "modules/frontend-nccl/runtime.h"

namespace sl::frontend_nccl {

const Variable* FindVariable(const char* name) {
  size_t count = 0;
  const Variable* table = Variables(&count);
  const Variable* at = std::lower_bound(table, table + count, name, [](const Variable& variable, const char* wanted) {
    return std::strcmp(variable.name, wanted) < 0;
  });
  return at != table + count && std::strcmp(at->name, name) == 0 ? at : nullptr;
}

const char* VariableText(const char* name) {
  const char* text = secure_getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

bool ParseInteger(const char* text, int64_t* out_value) {
  for (const char* word : {"true", "t", "false", "f"}) {
    if (strcasecmp(text, word) == 0) {
      *out_value = word[0] == 't' ? 1 : 0;
      return true;
    }
  }
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 0);
  if (end == text || *end != '\0' || errno != 0) return false;
  *out_value = value;
  return true;
}

const char* HandlingName(Handling handling) {
  switch (handling) {
    case Handling::kHonoured:
      return "honoured";
    case Handling::kIgnored:
      return "ignored";
    case Handling::kWarned:
      return "warned";
  }
  return "";
}

void ReportVariables() {
  size_t count = 0;
  const Variable* table = Variables(&count);
  char line[512];
  for (size_t i = 0; i < count; ++i) {
    const Variable& variable = table[i];
    if (variable.handling == Handling::kHonoured || VariableText(variable.name) == nullptr) continue;
    const bool warned = variable.handling == Handling::kWarned;
    std::snprintf(line, sizeof(line), "%s is set %s: %s", variable.name, warned ? "in vain" : "and ignored",
                  variable.note);
    Log(warned ? SL_LOG_WARN : SL_LOG_DEBUG, line);
  }
}

std::string VariablesPage() {
  std::string page =
      "# NCCL variables\n\n"
      "Generated from modules/frontend-nccl/variable_table.cc; its test says how to renew this page.\n\n"
      "Starling's own variables and profiles are described in [operator.md](operator.md). What becomes of each "
      "variable "
      "that NCCL documents:\n\n"
      "- **honoured**: it acts here, as described.\n"
      "- **ignored**: it tunes machinery that does not exist here; leaving it set does no harm.\n"
      "- **warned**: it asks for something that will not happen; when it is set, the log says so once per process.\n\n"
      "| variable | here | default | what it does, or what to use instead |\n"
      "|---|---|---|---|\n";
  size_t count = 0;
  const Variable* table = Variables(&count);
  for (size_t i = 0; i < count; ++i) {
    const Variable& variable = table[i];
    page += std::string("| `") + variable.name + "` | " + HandlingName(variable.handling) + " | " +
            (*variable.default_text != '\0' ? std::string("`") + variable.default_text + "`" : std::string("–")) +
            " | " + variable.note + " |\n";
  }
  return page;
}

}  // namespace sl::frontend_nccl
