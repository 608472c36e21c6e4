// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/variables.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "modules/frontend-nccl/runtime.h"
#include "sdk/environment.h"

namespace sl::frontend_nccl {

const Variable* FindVariable(const char* name) {
  size_t count = 0;
  const Variable* table = Variables(&count);
  const Variable* at = std::lower_bound(table, table + count, name, [](const Variable& variable, const char* wanted) {
    return std::strcmp(variable.name, wanted) < 0;
  });
  return at != table + count && std::strcmp(at->name, name) == 0 ? at : nullptr;
}

namespace {

// What a process was given, as it was when somebody first asked: a thread of the program may change its environment
// while others ask. A child of fork() asks anew. Leaked on purpose: texts stay valid.
struct Given {
  pid_t process = getpid();
  std::vector<std::optional<std::string>> texts;  // in the order of the table
};

constinit std::atomic<const Given*> g_given{nullptr};

const Given& TheGiven() {
  const Given* given = g_given.load(std::memory_order_acquire);
  if (given != nullptr && given->process == getpid()) return *given;
  size_t count = 0;
  const Variable* table = Variables(&count);
  auto* fresh = new Given;
  for (size_t i = 0; i < count; ++i) {
    const char* text = SettingText(table[i].name);
    fresh->texts.push_back(text != nullptr && *text != '\0' ? std::optional<std::string>(text) : std::nullopt);
  }
  if (g_given.compare_exchange_strong(given, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was faster
  return *given;
}

}  // namespace

const char* VariableText(const char* name) {
  const Variable* variable = FindVariable(name);
  if (variable == nullptr) return nullptr;
  size_t count = 0;
  const auto& text = TheGiven().texts[static_cast<size_t>(variable - Variables(&count))];
  return text ? text->c_str() : nullptr;
}

void ForgetVariables() {
  delete g_given.exchange(nullptr);
  ForgetSettingFiles();
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
