// SPDX-License-Identifier: Apache-2.0
// What a module says about itself: texts, options, provided and required interfaces, tables.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"
#include "tests/conformance/kit/module.h"
#include "tests/conformance/kit/overlay.h"
#include "tests/conformance/module/suite.h"

namespace sl::conform::module {
namespace {

struct Slot {
  const char* name;
  size_t offset;
};

// What the headers say about a table. An interface that is not listed is one among modules only.
struct Interface {
  const char* id;
  uint32_t revision;
  size_t bytes;
  std::vector<Slot> mandatory;
  bool stable = false;
};

const std::vector<Interface>& Interfaces() {
  static const std::vector<Interface> all = {
      {SL_DEVICE_ID,
       SL_DEVICE_REVISION,
       sizeof(sl_device_ops_t),
       {{"open", offsetof(sl_device_ops_t, open)}, {"close", offsetof(sl_device_ops_t, close)}}},
      {SL_TRANSPORT_ID,
       SL_TRANSPORT_REVISION,
       sizeof(sl_transport_ops_t),
       {{"open", offsetof(sl_transport_ops_t, open)}, {"close", offsetof(sl_transport_ops_t, close)}}},
      {SL_ALGORITHM_ID,
       SL_ALGORITHM_REVISION,
       sizeof(sl_algorithm_ops_t),
       {{"create", offsetof(sl_algorithm_ops_t, create)},
        {"destroy", offsetof(sl_algorithm_ops_t, destroy)},
        {"estimate", offsetof(sl_algorithm_ops_t, estimate)}},
       true},
      {SL_FAULT_ID,
       SL_FAULT_REVISION,
       sizeof(sl_fault_ops_t),
       {{"create", offsetof(sl_fault_ops_t, create)}, {"destroy", offsetof(sl_fault_ops_t, destroy)}}},
      {SL_OBSERVER_ID,
       SL_OBSERVER_REVISION,
       sizeof(sl_observer_ops_t),
       {{"create", offsetof(sl_observer_ops_t, create)}, {"destroy", offsetof(sl_observer_ops_t, destroy)}}},
      {SL_TOPOLOGY_ID,
       SL_TOPOLOGY_REVISION,
       sizeof(sl_topology_ops_t),
       {{"create", offsetof(sl_topology_ops_t, create)}, {"destroy", offsetof(sl_topology_ops_t, destroy)}}},
  };
  return all;
}

const Interface* FindInterface(std::string_view id) {
  for (const Interface& interface : Interfaces()) {
    if (id == interface.id) return &interface;
  }
  return nullptr;
}

// "sl.device" of "sl.device/1".
std::string_view NounOf(std::string_view id) { return id.substr(0, id.find('/')); }

// How many letters are to be put in, taken out or replaced to make one of the other.
size_t LettersBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

// The interface that an unknown id most likely means; NULL: an interface among modules.
const Interface* NearestInterface(std::string_view id) {
  constexpr size_t kMostLetters = 3;
  const Interface* nearest = nullptr;
  size_t best = kMostLetters + 1;
  for (const Interface& interface : Interfaces()) {
    const size_t letters = LettersBetween(NounOf(id), NounOf(interface.id));
    if (letters < best) nearest = &interface;
    best = std::min(best, letters);
  }
  return id.starts_with("sl.") ? nearest : nullptr;
}

bool IsText(const char* text) { return text != nullptr && *text != '\0' && std::string_view(text).size() < 4096; }
bool IsOneLine(const char* text) { return IsText(text) && std::string_view(text).find('\n') == std::string_view::npos; }

void Identity(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  trial.Require(table.magic == SL_MODULE_MAGIC, "its magic is {:#018x}, must be {:#018x}", table.magic,
                SL_MODULE_MAGIC);
  trial.Require(table.container_version == SL_CONTAINER_VERSION, "its container version is {}, must be {}",
                table.container_version, SL_CONTAINER_VERSION);
  constexpr size_t kBytes = offsetof(sl_module_t, close) + sizeof(table.close);
  trial.Require(table.struct_size >= kBytes, "its struct_size is {}, must be {} or more", table.struct_size, kBytes);
  trial.Expect(table.reserved == 0, "reserved is {}, must be 0", table.reserved);
  trial.Expect(table.open != nullptr, "it has no open, which is mandatory");
  trial.Expect(table.close != nullptr, "it has no close, which is mandatory");
  trial.Expect(IsOneLine(table.vendor), "vendor is missing or not one line");
  trial.Expect(IsOneLine(table.summary), "summary is missing or not one line");
  if (trial.Expect(IsOneLine(table.version), "version is missing")) {
    static const std::regex kVersion(R"(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)");
    trial.Expect(std::regex_match(table.version, kVersion), "version is \"{}\", must be like 1.2.0", table.version);
  }
  if (trial.Expect(IsOneLine(table.name), "name is missing")) {
    const std::string stem = std::filesystem::path(module.path()).stem().string();
    const std::string versioned = std::string(table.name) + "-" + (table.version != nullptr ? table.version : "");
    trial.Expect(stem == table.name || stem == versioned, "it says it is {}, but its file is {}.so", table.name, stem);
  }
}

void CheckOption(Trial& trial, const sl_module_t& table, uint32_t index, std::set<std::string>* names) {
  const sl_option_t* option = table.options[index];
  const Scope scope(fmt::format("option {}", index));
  trial.Require(option != nullptr, "is NULL");
  constexpr size_t kBytes = offsetof(sl_option_t, choices) + sizeof(option->choices);
  trial.Require(option->struct_size >= kBytes, "its struct_size is {}, must be {} or more", option->struct_size,
                kBytes);
  trial.Require(IsText(option->name) && option->default_text != nullptr && option->unit != nullptr,
                "name, unit or default_text is missing");
  const Scope named(option->name);
  static const std::regex kName("[a-z][a-z0-9]*(_[a-z0-9]+)*");
  trial.Expect(std::regex_match(option->name, kName), "its name is not snake_case");
  trial.Expect(names->insert(option->name).second, "is declared twice");
  trial.Expect(IsOneLine(option->doc), "doc must be one line");
  trial.Require(option->type <= SL_OPTION_CHOICE, "its type is {}, must be 0 to {}", option->type, SL_OPTION_CHOICE);
  if (option->type == SL_OPTION_INT || option->type == SL_OPTION_FLOAT) {
    trial.Expect(std::isfinite(option->minimum) && std::isfinite(option->maximum), "its range is not finite");
    trial.Expect(option->minimum <= option->maximum, "its range is {} to {}, which is none", option->minimum,
                 option->maximum);
  }
  trial.Require(option->type != SL_OPTION_CHOICE || IsText(option->choices), "is a choice without choices");
}

void Options(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  trial.Require(table.option_count == 0 || table.options != nullptr, "it counts {} options, but has no array",
                table.option_count);
  std::set<std::string> names;
  for (uint32_t i = 0; i < table.option_count; ++i) CheckOption(trial, table, i, &names);
  OptionValues values(table);
  for (uint32_t i = 0; i < table.option_count; ++i) {
    const sl_option_t& option = *table.options[i];
    trial.Expect(values.Set(i, option.default_text) && values.Fits(i),
                 "option {}: its default \"{}\" is not of its type or range", option.name, option.default_text);
  }
}

void CheckTable(Trial& trial, const Interface& interface, const void* ops) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, ops, sizeof(bytes));
  constexpr size_t kSlotBytes = sizeof(void (*)());
  trial.Require(bytes >= 2 * sizeof(uint32_t) + kSlotBytes && bytes % kSlotBytes == 0,
                "the table's struct_size is {}, which is no whole number of slots", bytes);
  uint32_t reserved = 0;
  std::memcpy(&reserved, static_cast<const char*>(ops) + sizeof(bytes), sizeof(reserved));
  trial.Expect(reserved == 0, "the table's second word is reserved and must be 0, it is {}", reserved);
  trial.Expect(bytes <= interface.bytes, "the table has {} bytes, revision {} knows {}", bytes, interface.revision,
               interface.bytes);
  for (const Slot& slot : interface.mandatory) {
    trial.Expect(HasSlot(ops, slot.offset), "the table has no {}, which is mandatory", slot.name);
  }
}

void Provides(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  trial.Require(table.provide_count == 0 || table.provides != nullptr, "it counts {} provided, but has no array",
                table.provide_count);
  std::set<std::pair<std::string, std::string>> names;
  for (uint32_t i = 0; i < table.provide_count; ++i) {
    const sl_provide_t* provide = table.provides[i];
    const Scope scope(fmt::format("provided interface {}", i));
    constexpr size_t kBytes = offsetof(sl_provide_t, name) + sizeof(provide->name);
    trial.Require(provide != nullptr && provide->struct_size >= kBytes, "is NULL or shorter than {} bytes", kBytes);
    trial.Require(IsText(provide->id) && IsText(provide->name) && provide->ops != nullptr,
                  "id, name or table is missing");
    const Scope named(fmt::format("{} {}", provide->id, provide->name));
    static const std::regex kId("[a-z0-9_.-]+/[1-9][0-9]*");
    trial.Expect(std::regex_match(provide->id, kId), "the id must be like sl.device/1");
    trial.Expect(names.emplace(provide->id, provide->name).second, "is provided twice");
    trial.Expect(provide->revision_min >= 1 && provide->revision_min <= provide->revision,
                 "revisions {} to {} are none", provide->revision_min, provide->revision);
    constexpr uint32_t kFlags = SL_INTERFACE_LAYER | SL_INTERFACE_ON_REQUEST;
    trial.Expect((provide->flags & ~kFlags) == 0, "flags are {:#x}, of which {:#x} are unknown", provide->flags,
                 provide->flags & ~kFlags);
    if (const Interface* interface = FindInterface(provide->id)) CheckTable(trial, *interface, provide->ops);
  }
}

bool ProvidesNoun(const sl_module_t& table, std::string_view noun) {
  for (uint32_t i = 0; i < table.provide_count; ++i) {
    const char* id = table.provides[i]->id;
    if (FindInterface(id) != nullptr && NounOf(id) == noun) return true;
  }
  return false;
}

// A kernel refuses a module whose interface is almost one of its own. One of another major version may stand beside
// today's: nothing of it is tested, and the summary says so.
void KnownIds(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  for (uint32_t i = 0; i < table.provide_count; ++i) {
    const char* id = table.provides[i]->id;
    if (FindInterface(id) != nullptr) continue;
    const Interface* nearest = NearestInterface(id);
    trial.Expect(nearest == nullptr || ProvidesNoun(table, NounOf(nearest->id)),
                 "it provides {}, which no kernel of this release knows; did you mean {}?", id,
                 nearest == nullptr ? "" : nearest->id);
  }
}

bool Requires(const sl_module_t& table, std::string_view id) {
  for (uint32_t i = 0; i < table.require_count; ++i) {
    if (id == table.requirements[i]->id) return true;
  }
  return false;
}

void Requirements(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  trial.Require(table.require_count == 0 || table.requirements != nullptr, "it counts {} required, but has no array",
                table.require_count);
  for (uint32_t i = 0; i < table.require_count; ++i) {
    const sl_require_t* require = table.requirements[i];
    const Scope scope(fmt::format("requirement {}", i));
    constexpr size_t kBytes = offsetof(sl_require_t, revision_max) + sizeof(require->revision_max);
    trial.Require(require != nullptr && require->struct_size >= kBytes, "is NULL or shorter than {} bytes", kBytes);
    trial.Require(IsText(require->id), "has no id");
    const Interface* interface = FindInterface(require->id);
    const uint32_t newest = interface != nullptr ? interface->revision : require->revision_max;
    trial.Expect(require->revision_min >= 1 && require->revision_min <= require->revision_max, "{}: {} to {} are none",
                 require->id, require->revision_min, require->revision_max);
    trial.Expect(require->revision_min <= newest, "{}: it wants revision {}, today's is {}", require->id,
                 require->revision_min, newest);
    trial.Expect((require->flags & ~SL_REQUIRE_OPTIONAL) == 0, "{}: flags are {:#x}", require->id, require->flags);
  }
  for (uint32_t i = 0; i < table.provide_count; ++i) {
    const sl_provide_t& provide = *table.provides[i];
    const bool is_layer = (provide.flags & SL_INTERFACE_LAYER) != 0;
    trial.Expect(!is_layer || Requires(table, provide.id), "it is a layer of {} but does not require it", provide.id);
  }
}

bool IsDraft(std::string_view id) {
  const Interface* interface = FindInterface(id);
  return interface != nullptr && !interface->stable;
}

// Draft interfaces work only with the headers they were compiled with.
void BuildId(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_module_t& table = module.table();
  trial.Require(IsOneLine(table.build_id), "build_id is missing; say SL_ABI_BUILD_ID");
  bool uses_draft = false;
  for (uint32_t i = 0; i < table.provide_count; ++i) uses_draft |= IsDraft(table.provides[i]->id);
  for (uint32_t i = 0; i < table.require_count; ++i) uses_draft |= IsDraft(table.requirements[i]->id);
  trial.Expect(!uses_draft || std::string_view(table.build_id) == SL_ABI_BUILD_ID,
               "it was built with the draft headers {}, this kit with {}; rebuild it", table.build_id, SL_ABI_BUILD_ID);
}

}  // namespace

std::vector<Test> DescriptionTests() {
  return {
      {"Description.SaysWhoItIs", "magic, versions, texts and mandatory functions", Identity},
      {"Description.OptionsAreLegal", "names, types, ranges, docs, defaults inside their ranges", Options},
      {"Description.ProvidedTablesAreLegal", "ids, revisions, whole slots, mandatory ones filled", Provides},
      {"Description.InterfacesAreKnown", "an id beginning with sl. is one of this release, or clearly none", KnownIds},
      {"Description.RequirementsAreLegal", "ids and revisions; a layer requires what it wraps", Requirements},
      {"Description.BuildIdFitsDrafts", "draft interfaces need the very headers of this kit", BuildId},
  };
}

}  // namespace sl::conform::module
