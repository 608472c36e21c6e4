// SPDX-License-Identifier: Apache-2.0
#include <toml++/toml.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "kernel/profile/keys.h"
#include "kernel/profile/reader.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

const char* TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return node.is_array_of_tables() ? "an array of tables" : "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

}  // namespace

class ProfileReader {
 public:
  ProfileReader(const std::string& file, Profile* profile) : file_(file), profile_(profile) {}

  Status Read(std::string_view text) {
    toml::parse_result parsed = toml::parse(text, file_);
    if (!parsed) {
      const toml::parse_error& error = parsed.error();
      return Status(SL_ERR_CONFIG, fmt::format("{}: {}", At(error.source()), error.description()));
    }
    const toml::table& root = parsed.table();
    ReadVersion(root);
    for (const auto& [key, node] : root) ReadTopLevel(key, node);
    if (problems_.empty()) return Status();
    std::sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
      return a.line != b.line ? a.line < b.line : a.column < b.column;
    });
    std::string message;
    for (const Problem& problem : problems_) message += (message.empty() ? "" : "\n") + problem.text;
    return Status(SL_ERR_CONFIG, message);
  }

 private:
  struct Problem {
    uint32_t line;
    uint32_t column;
    std::string text;
  };

  std::string At(const toml::source_region& source) const {
    return fmt::format("{}:{}:{}", file_, source.begin.line, source.begin.column);
  }

  void Add(const toml::source_region& source, const std::string& what) {
    problems_.push_back({source.begin.line, source.begin.column, At(source) + ": " + what});
  }

  // The text of a failed check already begins with its place.
  void Add(const toml::source_region& source, const Status& status) {
    problems_.push_back({source.begin.line, source.begin.column, status.message()});
  }

  RawValue Raw(const toml::node& node) const {
    RawValue raw;
    raw.type_name = TypeName(node);
    raw.place = At(node.source());
    if (const auto* value = node.as_boolean()) {
      raw.kind = RawValue::Kind::kBool;
      raw.integer = value->get() ? 1 : 0;
    } else if (const auto* integer = node.as_integer()) {
      raw.kind = RawValue::Kind::kInt;
      raw.integer = integer->get();
    } else if (const auto* real = node.as_floating_point()) {
      raw.kind = RawValue::Kind::kFloat;
      raw.real = real->get();
    } else if (const auto* text = node.as_string()) {
      raw.kind = RawValue::Kind::kString;
      raw.text = text->get();
    }
    return raw;
  }

  void ReadVersion(const toml::table& root) {
    const toml::node* node = root.get("profile_version");
    if (node == nullptr) {
      problems_.push_back(
          {1, 1, fmt::format("{}:1:1: profile_version is missing; begin the file with profile_version = 1", file_)});
      return;
    }
    const auto* version = node->as_integer();
    if (version == nullptr) {
      Add(node->source(), fmt::format("profile_version must be the integer 1, not {}", TypeName(*node)));
    } else if (version->get() != 1) {
      Add(node->source(), fmt::format("profile_version is {}, but this build reads version 1", version->get()));
    }
  }

  void ReadTopLevel(const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    if (name == "profile_version") return;
    if (name == "layers") return ReadNames(name, node, &profile_->layers_);
    if (name == "enable") {
      profile_->lists_modules_ = true;
      return ReadNames(name, node, &profile_->enable_);
    }
    if (name == "modules") return ReadModules(node);
    if (name == "select") return ReadRules(node);
    for (const Key& known : KernelKeys()) {
      if (*known.section == '\0' && name == known.option.name) return ReadKey(known, node);
    }
    const std::vector<std::string> sections = KeySections();
    if (std::find(sections.begin(), sections.end(), name) != sections.end()) return ReadSection(name, node);
    std::vector<std::string> all = {"profile_version", "layers", "enable", "modules", "select"};
    for (const std::string& word : KeyNames("")) all.push_back(word);
    all.insert(all.end(), sections.begin(), sections.end());
    Add(key.source(),
        fmt::format("unknown {} {}{}", node.is_table() ? "section" : "key", name, NearestHint(name, all)));
  }

  void ReadKey(const Key& key, const toml::node& node) {
    Result<OptionValue> value = CheckValue(key.option, key.FullName(), Raw(node));
    if (!value.ok()) return Add(node.source(), value.status());
    profile_->values_[key.FullName()] = value.Take();
  }

  const toml::table* Table(const std::string& name, const toml::node& node) {
    if (node.is_table()) return node.as_table();
    Add(node.source(), fmt::format("{} must be a table, written [{}], not {}", name, name, TypeName(node)));
    return nullptr;
  }

  void ReadSection(const std::string& section, const toml::node& node) {
    const toml::table* table = Table(section, node);
    if (table == nullptr) return;
    for (const auto& [key, value] : *table) {
      const auto keys = KernelKeys();
      const auto known = std::find_if(keys.begin(), keys.end(), [&, &name = key](const Key& k) {
        return section == k.section && name.str() == k.option.name;
      });
      if (known != keys.end()) {
        ReadKey(*known, value);
      } else {
        Add(key.source(),
            fmt::format("unknown key {}.{}{}", section, key.str(), NearestHint(key.str(), KeyNames(section))));
      }
    }
  }

  // An array of distinct, non-empty strings.
  void ReadNames(const std::string& name, const toml::node& node, std::vector<NamedPlace>* out) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return Add(node.source(), fmt::format("{} must be an array of strings, not {}", name, TypeName(node)));
    }
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      if (text == nullptr || text->get().empty()) {
        Add(element.source(),
            fmt::format("{} must hold names, not {}", name, text == nullptr ? TypeName(element) : "an empty string"));
        continue;
      }
      const auto same = [&](const NamedPlace& other) { return other.name == text->get(); };
      if (std::any_of(out->begin(), out->end(), same)) {
        Add(element.source(), fmt::format("{} names {} twice", name, text->get()));
        continue;
      }
      out->push_back({text->get(), At(element.source())});
    }
  }

  void ReadModules(const toml::node& node) {
    const toml::table* table = Table("modules", node);
    if (table == nullptr) return;
    for (const auto& [key, value] : *table) {
      if (const toml::table* module = Table("modules." + std::string(key.str()), value)) ReadModule(key, *module);
    }
  }

  void ReadModule(const toml::key& name, const toml::table& table) {
    ModuleEntry entry;
    entry.name = name.str();
    entry.place = At(name.source());
    const std::string prefix = "modules." + entry.name;
    for (const auto& [key, node] : table) {
      const std::string full = prefix + "." + std::string(key.str());
      if (key.str() == "enabled") {
        if (const auto* value = node.as_boolean()) entry.enabled = value->get();
        if (!node.is_boolean())
          Add(node.source(), fmt::format("{} must be true or false, not {}", full, TypeName(node)));
      } else if (key.str() == "version") {
        ReadText(full, node, &entry.version);
        entry.version_place = At(node.source());
      } else if (key.str() == "path") {
        ReadText(full, node, &entry.path);
      } else if (key.str() == "sha256") {
        ReadText(full, node, &entry.sha256);
        CheckHash(full, node, &entry.sha256);
      } else if (key.str() == "options") {
        ReadOptions(full, node, &entry);
      } else {
        const std::vector<std::string> known = {"enabled", "version", "path", "sha256", "options"};
        Add(key.source(), fmt::format("unknown key {}{}; options of the module belong into [{}.options]", full,
                                      NearestHint(key.str(), known), prefix));
      }
    }
    profile_->modules_[entry.name] = std::move(entry);
  }

  void ReadText(const std::string& name, const toml::node& node, std::string* out) {
    if (const auto* text = node.as_string()) {
      *out = text->get();
    } else {
      Add(node.source(), fmt::format("{} must be a string, not {}", name, TypeName(node)));
    }
  }

  void CheckHash(const std::string& name, const toml::node& node, std::string* hash) {
    if (!node.is_string()) return;
    std::transform(hash->begin(), hash->end(), hash->begin(), [](unsigned char c) { return std::tolower(c); });
    const bool hex = hash->find_first_not_of("0123456789abcdef") == std::string::npos;
    if (hash->size() != 64 || !hex) Add(node.source(), fmt::format("{} must be 64 hexadecimal digits", name));
  }

  void ReadOptions(const std::string& name, const toml::node& node, ModuleEntry* entry) {
    const toml::table* table = Table(name, node);
    if (table == nullptr) return;
    for (const auto& [key, value] : *table) {
      entry->options[std::string(key.str())] = Raw(value);
      entry->option_key_places[std::string(key.str())] = At(key.source());
    }
  }

  void ReadRules(const toml::node& node) {
    const toml::array* rules = node.as_array();
    if (rules == nullptr) {
      return Add(node.source(),
                 fmt::format("select must be an array of tables, written [[select]], not {}", TypeName(node)));
    }
    for (const toml::node& rule : *rules) {
      if (rule.is_table()) {
        ReadRule(*rule.as_table());
      } else {
        Add(rule.source(), fmt::format("a select rule must be a table, not {}", TypeName(rule)));
      }
    }
  }

  void ReadRule(const toml::table& table) {
    SelectRule rule;
    rule.place = At(table.source());
    uint64_t min_ranks = 0;
    uint64_t max_ranks = std::numeric_limits<uint32_t>::max();
    for (const auto& [key, node] : table) {
      if (key.str() == "op") {
        ReadOps(node, &rule.ops);
      } else if (key.str() == "min_bytes") {
        ReadCount("select.min_bytes", node, std::numeric_limits<int64_t>::max(), &rule.min_bytes);
      } else if (key.str() == "max_bytes") {
        ReadCount("select.max_bytes", node, std::numeric_limits<int64_t>::max(), &rule.max_bytes);
      } else if (key.str() == "min_ranks") {
        ReadCount("select.min_ranks", node, max_ranks, &min_ranks);
      } else if (key.str() == "max_ranks") {
        ReadCount("select.max_ranks", node, std::numeric_limits<uint32_t>::max(), &max_ranks);
      } else if (key.str() == "algorithm") {
        ReadText("select.algorithm", node, &rule.algorithm);
      } else if (key.str() == "forbid") {
        std::vector<NamedPlace> names;
        ReadNames("select.forbid", node, &names);
        for (const NamedPlace& name : names) rule.forbid.push_back(name.name);
      } else {
        const std::vector<std::string> known = {"op",        "min_bytes", "max_bytes", "min_ranks",
                                                "max_ranks", "algorithm", "forbid"};
        Add(key.source(), fmt::format("unknown key select.{}{}", key.str(), NearestHint(key.str(), known)));
      }
    }
    rule.min_ranks = static_cast<uint32_t>(min_ranks);
    rule.max_ranks = static_cast<uint32_t>(max_ranks);
    if (rule.min_bytes > rule.max_bytes) Add(table.source(), "this rule's min_bytes is above its max_bytes");
    if (rule.min_ranks > rule.max_ranks) Add(table.source(), "this rule's min_ranks is above its max_ranks");
    if (rule.algorithm.empty() && rule.forbid.empty()) {
      Add(table.source(), "this rule says nothing; give it algorithm or forbid");
    }
    profile_->select_.push_back(std::move(rule));
  }

  void ReadCount(const std::string& name, const toml::node& node, uint64_t maximum, uint64_t* out) {
    const auto* value = node.as_integer();
    if (value == nullptr) return Add(node.source(), fmt::format("{} must be an integer, not {}", name, TypeName(node)));
    if (value->get() < 0 || static_cast<uint64_t>(value->get()) > maximum) {
      return Add(node.source(), fmt::format("{} is {}, but must be 0 to {}", name, value->get(), maximum));
    }
    *out = static_cast<uint64_t>(value->get());
  }

  void ReadOps(const toml::node& node, std::vector<sl_op_kind_t>* out) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return ReadOp(node, out);
    for (const toml::node& element : *array) ReadOp(element, out);
  }

  void ReadOp(const toml::node& node, std::vector<sl_op_kind_t>* out) {
    const auto* text = node.as_string();
    if (text == nullptr) {
      return Add(node.source(), fmt::format("select.op must be an operation's name, not {}", TypeName(node)));
    }
    std::vector<std::string> known;
    for (sl_op_kind_t kind = 0; kind < SL_OP_KIND_COUNT; ++kind) {
      if (text->get() == OpKindName(kind)) return out->push_back(kind);
      known.emplace_back(OpKindName(kind));
    }
    Add(node.source(), fmt::format("unknown operation {}{}", text->get(), NearestHint(text->get(), known)));
  }

  const std::string file_;
  Profile* const profile_;
  std::vector<Problem> problems_;
};

Status ReadProfileText(std::string_view toml, const std::string& file, Profile* profile) {
  return ProfileReader(file, profile).Read(toml);
}

}  // namespace sl::kernel
