// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "kernel/profile/keys.h"
#include "kernel/profile/measured_reader.h"
#include "kernel/profile/problems.h"
#include "sdk/toml_depth.h"

namespace sl::kernel {
namespace {

constexpr size_t kMostLevels = 256;  // of one key below the others, as toml++ has it of nested values

}  // namespace

class ProfileReader {
 public:
  ProfileReader(const std::string& file, Profile* profile) : problems_(file), profile_(profile) {}

  Status Read(std::string_view text) {
    if (const size_t line = LineOfDeepKey(text, kMostLevels); line != 0) {
      return Status(SL_ERR_CONFIG, fmt::format("{}:{}:1: a key more than {} levels deep; no key of a profile is",
                                               problems_.file(), line, kMostLevels));
    }
    toml::parse_result parsed = toml::parse(text, problems_.file());
    if (!parsed) {
      const toml::parse_error& error = parsed.error();
      return Status(SL_ERR_CONFIG, fmt::format("{}: {}", At(error.source()), error.description()));
    }
    const toml::table& root = parsed.table();
    ReadVersion(root);
    for (const auto& [key, node] : root) ReadTopLevel(key, node);
    return problems_.ToStatus();
  }

 private:
  std::string At(const toml::source_region& source) const { return problems_.At(source); }
  void Add(const toml::source_region& source, const std::string& what) { problems_.Add(source, what); }
  void Add(const toml::source_region& source, const Status& status) { problems_.Add(source, status); }

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
      return Add({{1, 1}, {1, 1}, nullptr}, "profile_version is missing; begin the file with profile_version = 1");
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
    if (name == "measured") return ReadMeasured(node, &profile_->measured_, &problems_);
    for (const Key& known : KernelKeys()) {
      if (*known.section == '\0' && name == known.option.name) return ReadKey(known, node);
    }
    const std::vector<std::string> sections = KeySections();
    if (std::find(sections.begin(), sections.end(), name) != sections.end()) return ReadSection(name, node);
    std::vector<std::string> all = {"profile_version", "layers", "enable", "modules", "select", "measured"};
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
    entry.name = entry.module = name.str();
    entry.place = At(name.source());
    const std::string prefix = "modules." + entry.name;
    for (const auto& [key, node] : table) {
      const std::string full = prefix + "." + std::string(key.str());
      if (key.str() == "enabled") {
        if (const auto* value = node.as_boolean()) entry.enabled = value->get();
        if (!node.is_boolean())
          Add(node.source(), fmt::format("{} must be true or false, not {}", full, TypeName(node)));
      } else if (key.str() == "module") {
        ReadText(full, node, &entry.module, &problems_);
      } else if (key.str() == "version") {
        ReadText(full, node, &entry.version, &problems_);
        entry.version_place = At(node.source());
      } else if (key.str() == "path") {
        ReadText(full, node, &entry.path, &problems_);
      } else if (key.str() == "sha256") {
        ReadText(full, node, &entry.sha256, &problems_);
        CheckHash(full, node, &entry.sha256);
      } else if (key.str() == "options") {
        ReadOptions(full, node, &entry);
      } else {
        const std::vector<std::string> known = {"module", "enabled", "version", "path", "sha256", "options"};
        Add(key.source(), fmt::format("unknown key {}{}; options of the module belong into [{}.options]", full,
                                      NearestHint(key.str(), known), prefix));
      }
    }
    profile_->modules_[entry.name] = std::move(entry);
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
    constexpr uint64_t kBytes = std::numeric_limits<int64_t>::max();
    constexpr uint64_t kRanks = std::numeric_limits<uint32_t>::max();
    SelectRule rule;
    rule.place = At(table.source());
    const struct {
      const char* what;
      uint64_t most;
      uint64_t* minimum;
      uint64_t* maximum;
    } limits[] = {{"bytes", kBytes, &rule.min_bytes, &rule.max_bytes},
                  {"ranks", kRanks, &rule.min_ranks, &rule.max_ranks},
                  {"hosts", kRanks, &rule.min_hosts, &rule.max_hosts},
                  {"ranks_per_host", kRanks, &rule.min_ranks_per_host, &rule.max_ranks_per_host}};
    std::vector<std::string> known = {"op", "device", "algorithm", "prefer", "forbid"};
    std::map<std::string, std::pair<uint64_t, uint64_t*>> counts;
    for (const auto& limit : limits) {
      counts[std::string("min_") + limit.what] = {limit.most, limit.minimum};
      counts[std::string("max_") + limit.what] = {limit.most, limit.maximum};
    }
    for (const auto& [name, count] : counts) known.push_back(name);
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const std::string full = "select." + name;
      if (const auto count = counts.find(name); count != counts.end()) {
        ReadCount(full, node, 0, count->second.first, count->second.second, &problems_);
      } else if (name == "op") {
        ReadOps(node, &rule.ops);
      } else if (name == "device") {
        rule.device_kind = 0;
        ReadDeviceKind(full, node, &*rule.device_kind, &problems_);
      } else if (name == "algorithm") {
        ReadText(full, node, &rule.algorithm, &problems_);
      } else if (name == "prefer") {
        ReadText(full, node, &rule.prefer, &problems_);
      } else if (name == "forbid") {
        std::vector<NamedPlace> names;
        ReadNames(full, node, &names);
        for (const NamedPlace& forbidden : names) rule.forbid.push_back(forbidden.name);
      } else {
        Add(key.source(), fmt::format("unknown key {}{}", full, NearestHint(name, known)));
      }
    }
    for (const auto& limit : limits) {
      if (*limit.minimum <= *limit.maximum) continue;
      Add(table.source(), fmt::format("this rule's min_{0} is above its max_{0}", limit.what));
    }
    if (rule.algorithm.empty() && rule.prefer.empty() && rule.forbid.empty()) {
      Add(table.source(), "this rule says nothing; give it algorithm, prefer or forbid");
    }
    if (!rule.algorithm.empty() && !rule.prefer.empty()) {
      Add(table.source(), "this rule has both algorithm and prefer; give it one of them");
    }
    profile_->select_.push_back(std::move(rule));
  }

  void ReadOps(const toml::node& node, std::vector<sl_op_kind_t>* out) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return ReadOp(node, out);
    if (array->empty()) Add(node.source(), "select.op is empty; leave it out to mean all operations");
    for (const toml::node& element : *array) ReadOp(element, out);
  }

  void ReadOp(const toml::node& node, std::vector<sl_op_kind_t>* out) {
    sl_op_kind_t kind = SL_OP_KIND_COUNT;
    ReadOpName("select.op", node, &kind, &problems_);
    if (kind != SL_OP_KIND_COUNT) out->push_back(kind);
  }

  Problems problems_;
  Profile* const profile_;
};

Status ReadProfileText(std::string_view toml, const std::string& file, Profile* profile) {
  return ProfileReader(file, profile).Read(toml);
}

}  // namespace sl::kernel
