// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "kernel/events/printable.h"
#include "kernel/profile/keys.h"

namespace sl::kernel {
namespace {

const char* OptionTypeName(sl_option_type_t type) {
  switch (type) {
    case SL_OPTION_BOOL:
      return "bool";
    case SL_OPTION_INT:
      return "int";
    case SL_OPTION_FLOAT:
      return "float";
    case SL_OPTION_STRING:
      return "string";
    default:
      return "choice";
  }
}

// As a key of a table's header: a dot in a name would begin a table of its own.
std::string HeaderKey(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c == '-' || c == '_' || (c < 0x80 && std::isalnum(c) != 0);
  });
  return bare ? name : QuoteToml(name);
}

std::string Text(const char* text) { return QuoteJson(text == nullptr ? "" : text); }

std::string JsonList(const std::vector<std::string>& items, const char* indent) {
  if (items.empty()) return "[]";
  return fmt::format("[\n{0}  {1}\n{0}]", indent, fmt::join(items, fmt::format(",\n{}  ", indent)));
}

std::string DescribeOption(const sl_option_t& option, const OptionValue* value) {
  std::string out = fmt::format(R"({{"name": {}, "type": "{}", "unit": {}, "default": {})", Text(option.name),
                                OptionTypeName(option.type), Text(option.unit), Text(option.default_text));
  if (option.type == SL_OPTION_INT || option.type == SL_OPTION_FLOAT) {
    out += fmt::format(R"(, "minimum": {}, "maximum": {})", option.minimum, option.maximum);
  }
  if (option.type == SL_OPTION_CHOICE) out += fmt::format(R"(, "choices": {})", Text(option.choices));
  out += fmt::format(R"(, "range": {}, "doc": {})", QuoteJson(DescribeType(option)), Text(option.doc));
  if (value != nullptr) {
    out += fmt::format(R"(, "value": {}, "origin": {}, "place": {})", QuoteJson(ToToml(*value)),
                       QuoteJson(OriginName(value->origin)), QuoteJson(value->place));
  }
  return out + "}";
}

std::string DescribeProvide(const LoadedModule& module, const sl_provide_t& provide) {
  return fmt::format(R"({{"id": {}, "name": {}, "revision": {}, "revision_min": {}, "layer": {}, "on_request": {}}})",
                     Text(provide.id), QuoteJson(module.NameOf(provide)), provide.revision, provide.revision_min,
                     (provide.flags & SL_INTERFACE_LAYER) != 0, (provide.flags & SL_INTERFACE_ON_REQUEST) != 0);
}

std::string DescribeRequirement(const sl_require_t& require) {
  return fmt::format(R"({{"id": {}, "revision_min": {}, "revision_max": {}, "optional": {}}})", Text(require.id),
                     require.revision_min, require.revision_max, (require.flags & SL_REQUIRE_OPTIONAL) != 0);
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const size_t bytes = BytesOfCharacter(text);
    if (bytes == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out + "\"";
}

std::string DescribeModule(const LoadedModule& module, const std::vector<OptionValue>* options,
                           const std::string& state, const std::string& reason) {
  const sl_module_t& table = module.table();
  std::vector<std::string> provides;
  for (uint32_t i = 0; i < table.provide_count; ++i) provides.push_back(DescribeProvide(module, *table.provides[i]));
  std::vector<std::string> requirements;
  for (uint32_t i = 0; i < table.require_count; ++i) {
    requirements.push_back(DescribeRequirement(*table.requirements[i]));
  }
  std::vector<std::string> option_texts;
  for (uint32_t i = 0; i < table.option_count; ++i) {
    option_texts.push_back(DescribeOption(*table.options[i], options == nullptr ? nullptr : &(*options)[i]));
  }
  const std::string head = fmt::format(
      R"("name": {}, "version": {}, "module": {}, "vendor": {}, "summary": {}, "path": {}, "sha256": {}, "build_id": {}, )"
      R"("container": {}, "state": {}, "reason": {})",
      QuoteJson(module.name()), Text(table.version), Text(table.name), Text(table.vendor), Text(table.summary),
      QuoteJson(module.path()), QuoteJson(module.hash()), Text(table.build_id), table.container_version,
      QuoteJson(state), QuoteJson(reason));
  return fmt::format(R"({{{}, "provides": {}, "requires": {}, "options": {}}})", head, JsonList(provides, "    "),
                     JsonList(requirements, "    "), JsonList(option_texts, "    "));
}

std::string DescribeRefusal(const Refusal& refusal) {
  return fmt::format(R"({{"name": {}, "path": {}, "reason": {}}})", QuoteJson(refusal.name), QuoteJson(refusal.path),
                     QuoteJson(refusal.status.message()));
}

std::string DescribeAll(const std::vector<std::string>& modules, const std::vector<std::string>& refusals,
                        const Status& status) {
  std::vector<std::string> folders;
  for (const std::string& folder : ModuleFolders()) folders.push_back(QuoteJson(folder));
  std::vector<std::string> problems;
  for (const std::string& line : SplitList(status.message(), '\n')) problems.push_back(QuoteJson(line));
  return fmt::format(
      "{{\n  \"folders\": {},\n  \"modules\": {},\n  \"refused\": {},\n  \"problems\": {},\n  \"kernel_keys\": "
      "{}\n}}\n",
      JsonList(folders, "  "), JsonList(modules, "  "), JsonList(refusals, "  "), JsonList(problems, "  "),
      QuoteJson(KeysReference()));
}

std::string OptionsToToml(const ChosenModule& chosen, const ModuleEntry* entry) {
  const sl_module_t& table = chosen.module->table();
  const std::string name = HeaderKey(chosen.module->name());
  std::string out = fmt::format("\n[modules.{}]  # {}, {}\n", name, table.version, chosen.module->path());
  if (!chosen.module->has_own_name()) out += fmt::format("module = {}\n", QuoteToml(table.name));
  if (entry != nullptr) {
    if (!entry->version.empty()) {
      out += fmt::format("version = {}  # {}\n", QuoteToml(entry->version), entry->version_place);
    }
    // Where it was found from the profile, which the reader of this may save elsewhere.
    std::error_code error;
    if (!entry->path.empty()) {
      const std::string path = std::filesystem::absolute(chosen.module->path(), error).lexically_normal().string();
      out += fmt::format("path = {}  # {}\n", QuoteToml(path), entry->place);
    }
    if (!entry->sha256.empty()) out += fmt::format("sha256 = {}  # {}\n", QuoteToml(entry->sha256), entry->place);
  }
  if (table.option_count > 0) out += fmt::format("[modules.{}.options]\n", name);
  for (uint32_t i = 0; i < table.option_count; ++i) {
    const OptionValue& value = chosen.options[i];
    const bool bare = value.origin == Origin::kDefault || value.origin == Origin::kApi;
    out += fmt::format("{} = {}  # {}\n", table.options[i]->name, ToToml(value),
                       bare ? OriginName(value.origin) : value.place);
  }
  return out;
}

std::string DisabledToToml(const ModuleEntry& entry) {
  return fmt::format("\n[modules.{}]\nenabled = false  # {}\n", HeaderKey(entry.name), entry.place);
}

}  // namespace sl::kernel
