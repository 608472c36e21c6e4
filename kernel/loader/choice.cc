// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "kernel/loader/stubs.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_transport.h"

namespace sl::kernel {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kNone = "none";

bool Contains(const std::vector<NamedPlace>& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(), [&](const NamedPlace& item) { return item.name == name; });
}

bool IsDisabled(const Profile& profile, const std::string& name) {
  const ModuleEntry* entry = profile.FindModule(name);
  return entry != nullptr && !entry->enabled;
}

class Chooser {
 public:
  Chooser(const Profile& profile, const Catalog& catalog, ModuleChoice* choice)
      : profile_(profile), catalog_(catalog), choice_(*choice) {}

  Status Choose() {
    for (const std::string& name : Names()) ChooseVersion(name);
    ReportRefusals();
    CheckDisabled();
    CheckUnlisted();
    SortLayers();
    SettleExclusive();
    SettleNames();
    CheckRoles();
    CheckUnasked();
    CheckRules();
    CheckMeasured();
    DropUseless();
    for (ChosenModule& chosen : choice_.modules) ReadOptions(&chosen);
    for (ChosenModule& chosen : choice_.layers) ReadOptions(&chosen);
    return problems_.empty() ? Status() : Status(SL_ERR_CONFIG, fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  // Every name found or asked for, once, sorted.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    std::vector<std::string> wanted;
    const bool listed = WantedNames(profile_, &wanted);
    for (const std::string& name : wanted) names.insert(name);
    if (!listed) {
      for (const NamedPlace& layer : profile_.layers()) names.insert(layer.name);
      for (const auto& module : catalog_.modules) names.insert(module->name());
      for (const auto& [name, entry] : profile_.modules()) names.insert(name);
    }
    std::erase_if(names, [this](const std::string& name) { return IsDisabled(profile_, name); });
    return names;
  }

  void ChooseVersion(const std::string& name) {
    const ModuleEntry* entry = profile_.FindModule(name);
    const bool asked = IsAskedFor(profile_, name);
    Result<VersionConstraint> constraint = VersionConstraint::Parse(entry == nullptr ? "" : entry->version);
    if (!constraint.ok()) {
      problems_.push_back(
          fmt::format("{}: modules.{}.version: {}", entry->version_place, name, constraint.status().message()));
      return;
    }
    LoadedModule* best = nullptr;
    std::vector<std::string> others;
    for (const auto& module : catalog_.modules) {
      if (module->name() != name) continue;
      if (!constraint.value().Allows(module->version())) {
        others.push_back(fmt::format("{} ({})", module->version().ToString(), module->path()));
      } else if (best == nullptr || module->version() > best->version()) {
        best = module.get();
      } else if (module->version() == best->version()) {
        choice_.warnings.push_back(fmt::format("{} is left out: {} is module {} {}, too, and comes first",
                                               module->path(), best->path(), name, best->version().ToString()));
      }
    }
    if (best != nullptr) return Take(best, asked);
    if (!others.empty()) {
      problems_.push_back(fmt::format("{}: module {} is wanted in version \"{}\", found {}", entry->version_place, name,
                                      entry->version, fmt::join(others, ", ")));
    } else if (asked && !IsRefused(name)) {
      const std::string module = entry == nullptr ? name : entry->module;
      problems_.push_back(fmt::format("{}: there is no module {} in {}{}", profile_.PlaceOf(name), module,
                                      fmt::join(ModuleFolders(), ", "), NearestHint(module, FoundModules())));
    }
  }

  void Take(LoadedModule* module, bool asked) {
    ChosenModule chosen{module, asked, {}, {}};
    for (uint32_t i = 0; i < module->table().provide_count; ++i) chosen.serves.push_back(module->table().provides[i]);
    const std::string name = module->name();
    const bool in_layers = Contains(profile_.layers(), name);
    if (module->is_layer()) {
      if (in_layers) choice_.layers.push_back(std::move(chosen));
      if (!in_layers && Contains(profile_.enable(), name)) {
        problems_.push_back(fmt::format("{}: {} is a layer; name it in layers", profile_.PlaceOf(name), name));
      }
      return;
    }
    if (in_layers) problems_.push_back(fmt::format("{}: {} is not a layer", LayerPlace(name), name));
    if (asked || !module->is_on_request()) choice_.modules.push_back(std::move(chosen));
  }

  std::string LayerPlace(const std::string& name) const {
    for (const NamedPlace& layer : profile_.layers()) {
      if (layer.name == name) return layer.place;
    }
    return "";
  }

  std::vector<std::string> FoundModules() const {
    std::set<std::string> names;
    for (const ModuleCandidate& candidate : FindCandidates(profile_)) names.insert(candidate.module);
    return {names.begin(), names.end()};
  }

  bool IsRefused(const std::string& name) const {
    return std::any_of(catalog_.refusals.begin(), catalog_.refusals.end(),
                       [&](const Refusal& refusal) { return refusal.name == name; });
  }

  bool IsChosen(const std::string& name) const {
    const auto same = [&](const ChosenModule& chosen) { return chosen.module->name() == name; };
    return std::any_of(choice_.modules.begin(), choice_.modules.end(), same) ||
           std::any_of(choice_.layers.begin(), choice_.layers.end(), same);
  }

  // A refused file is an error when the profile asks for the module and no other file serves it.
  void ReportRefusals() {
    std::vector<std::string> left_out;
    for (const Refusal& refusal : catalog_.refusals) {
      if (IsDisabled(profile_, refusal.name)) continue;
      if (IsAskedFor(profile_, refusal.name) && !IsChosen(refusal.name)) {
        problems_.push_back(fmt::format("{}: {}", profile_.PlaceOf(refusal.name), refusal.status.message()));
      } else {
        left_out.push_back(refusal.name);
      }
    }
    // Their neighbours are used all the same; what is wrong with each is told where somebody looks for it.
    if (left_out.empty()) return;
    choice_.warnings.push_back(
        fmt::format("{} of the search path {} refused and left out: {}; `starling modules` says why, enabled = false "
                    "in [modules.{}] "
                    "ends this warning",
                    left_out.size() == 1 ? "a file" : fmt::format("{} files", left_out.size()),
                    left_out.size() == 1 ? "is" : "are", fmt::join(left_out, ", "), left_out.front()));
  }

  // What is not there may be switched off, since a profile is for several machines; a name that is nearly one that is
  // there is most likely misspelt.
  void CheckDisabled() {
    const std::vector<std::string> found = FoundModules();
    for (const auto& [name, entry] : profile_.modules()) {
      if (entry.enabled || std::find(found.begin(), found.end(), entry.module) != found.end()) continue;
      const std::string nearest = NearestName(entry.module, found);
      if (nearest.empty()) continue;
      choice_.warnings.push_back(fmt::format("{}: there is no module {} to be switched off; nearest is {}", entry.place,
                                             entry.module, nearest));
    }
  }

  // With a list of modules, what is said of one that is not on it has no effect: most likely a misspelt name.
  void CheckUnlisted() {
    std::vector<std::string> listed;
    if (!WantedNames(profile_, &listed)) return;
    for (const auto& [name, entry] : profile_.modules()) {
      if (!entry.enabled || IsAskedFor(profile_, name)) continue;
      choice_.warnings.push_back(fmt::format("{}: modules.{} has no effect: neither enable nor layers names it{}",
                                             entry.place, name, NearestHint(name, listed)));
    }
  }

  void SortLayers() {
    const auto& order = profile_.layers();
    const auto position = [&](const ChosenModule& chosen) {
      return std::find_if(order.begin(), order.end(),
                          [&](const NamedPlace& layer) { return layer.name == chosen.module->name(); }) -
             order.begin();
    };
    std::sort(choice_.layers.begin(), choice_.layers.end(),
              [&](const ChosenModule& a, const ChosenModule& b) { return position(a) < position(b); });
  }

  struct Claim {
    ChosenModule* chosen;
    const sl_provide_t* provide;

    std::string name() const { return chosen->module->NameOf(*provide); }
  };

  std::vector<Claim> Claims(std::string_view id) {
    std::vector<Claim> claims;
    for (ChosenModule& chosen : choice_.modules) {
      for (const sl_provide_t* provide : chosen.serves) {
        if (id == provide->id) claims.push_back({&chosen, provide});
      }
    }
    return claims;
  }

  // Leaves one of several claims to the same role. Asked for beats found; two that were asked for are an error.
  void Settle(const std::string& role, const std::vector<Claim>& claims, const std::string& remedy) {
    if (claims.size() < 2) return;
    const Claim* winner = nullptr;
    for (const Claim& claim : claims) {
      if (claim.chosen->asked && winner != nullptr && winner->chosen->asked) {
        problems_.push_back(fmt::format("{}: modules {} and {} both serve {}, which only one may; {}",
                                        profile_.PlaceOf(claim.chosen->module->name()), winner->chosen->module->name(),
                                        claim.chosen->module->name(), role, remedy));
        return;
      }
      if (winner == nullptr || (claim.chosen->asked && !winner->chosen->asked)) winner = &claim;
    }
    for (const Claim& claim : claims) {
      if (claim.provide == winner->provide) continue;
      if (!winner->chosen->asked) {
        choice_.warnings.push_back(fmt::format("modules {} and {} both serve {}; using {}; {}",
                                               winner->chosen->module->name(), claim.chosen->module->name(), role,
                                               winner->chosen->module->name(), remedy));
      }
      std::erase(claim.chosen->serves, claim.provide);
    }
  }

  void SettleExclusive() {
    const std::string& role = profile_.settings().roles.fault;
    if (role != kAuto) {
      bool found = role == kNone;
      std::vector<std::string> known = {std::string(kAuto), std::string(kNone)};
      for (const Claim& claim : Claims(SL_FAULT_ID)) {
        known.push_back(claim.name());
        found = found || role == claim.name();
        if (role != claim.name()) std::erase(claim.chosen->serves, claim.provide);
      }
      if (!found) UnknownRole("roles.fault", role, known);
    }
    for (const InterfaceInfo& interface : KnownInterfaces()) {
      if (!interface.exclusive) continue;
      Settle(interface.id, Claims(interface.id),
             fmt::format("set roles.{} to the one to use, or leave one module out",
                         std::string_view(interface.id) == SL_FAULT_ID ? "fault" : interface.id));
    }
  }

  void SettleNames() {
    std::map<std::pair<std::string, std::string>, std::vector<Claim>> by_name;
    for (ChosenModule& chosen : choice_.modules) {
      for (const sl_provide_t* provide : chosen.serves)
        by_name[{provide->id, chosen.module->NameOf(*provide)}].push_back({&chosen, provide});
    }
    for (const auto& [key, claims] : by_name) {
      Settle(fmt::format("{} as {}", key.first, key.second), claims, "leave one module out");
    }
  }

  // The interface that a key of `roles` is about.
  static std::string_view RoleId(std::string_view key) {
    return key == "roles.device" ? SL_DEVICE_ID : key == "roles.fault" ? SL_FAULT_ID : SL_TRANSPORT_ID;
  }

  // What to write for a provider that is not in use: the line that brings its module in, or the nearest name.
  std::string Remedy(std::string_view id, const std::string& name, const std::vector<std::string>& known) const {
    for (const auto& module : catalog_.modules) {
      const sl_module_t& table = module->table();
      for (uint32_t i = 0; i < table.provide_count; ++i) {
        if (id != table.provides[i]->id || name != module->NameOf(*table.provides[i])) continue;
        return fmt::format("; module {} does, once the profile names it: add [modules.{}]", module->name(),
                           module->name());
      }
    }
    const bool is_unread = profile_.lists_modules() && !catalog_.unread.empty();
    return NearestHint(name, known) +
           (is_unread ? fmt::format("; enable does not name {}", fmt::join(catalog_.unread, ", ")) : "");
  }

  void UnknownRole(const std::string& key, const std::string& role, const std::vector<std::string>& known) {
    problems_.push_back(fmt::format("{}: {} is \"{}\", which no module in use provides{}", profile_.Find(key)->place,
                                    key, role, Remedy(RoleId(key), role, known)));
  }

  void CheckRoles() {
    const std::string& role = profile_.settings().roles.device;
    if (role == kAuto) return;
    std::vector<std::string> known = {std::string(kAuto)};
    for (const Claim& claim : Claims(SL_DEVICE_ID)) known.push_back(claim.name());
    if (std::find(known.begin(), known.end(), role) == known.end()) UnknownRole("roles.device", role, known);
  }

  void CheckUnasked() {
    for (const ChosenModule& chosen : choice_.modules) {
      for (const sl_provide_t* provide : chosen.serves) {
        const InterfaceInfo* interface = FindInterface(provide->id);
        if (interface == nullptr || interface->is_asked) continue;
        const std::string place = profile_.PlaceOf(chosen.module->name());
        choice_.warnings.push_back(fmt::format("{}{}module {} has no effect as {} {}: this release does not ask {} yet",
                                               place, place.empty() ? "" : ": ", chosen.module->name(), provide->id,
                                               chosen.module->NameOf(*provide), provide->id));
      }
    }
  }

  void CheckRules() {
    std::vector<std::string> known;
    for (const Claim& claim : Claims(SL_ALGORITHM_ID)) known.push_back(claim.name());
    const auto is_known = [&](const std::string& name) {
      return std::find(known.begin(), known.end(), name) != known.end();
    };
    for (const SelectRule& rule : profile_.select()) {
      if (!rule.algorithm.empty() && !is_known(rule.algorithm)) {
        problems_.push_back(fmt::format("{}: this rule's algorithm is {}, which no module in use provides{}",
                                        rule.place, rule.algorithm, Remedy(SL_ALGORITHM_ID, rule.algorithm, known)));
      }
      if (!rule.prefer.empty() && !is_known(rule.prefer)) {
        problems_.push_back(fmt::format("{}: this rule prefers {}, which no module in use provides{}", rule.place,
                                        rule.prefer, NearestHint(rule.prefer, known)));
      }
      for (const std::string& name : rule.forbid) {
        if (is_known(name)) continue;
        choice_.warnings.push_back(fmt::format("{}: this rule forbids {}, which no module in use provides{}",
                                               rule.place, name, NearestHint(name, known)));
      }
    }
  }

  // Costs that were measured with other modules than these still decide, but somebody should measure again.
  void CheckMeasured() {
    const Measured& measured = profile_.measured();
    std::set<std::string> stale;
    std::set<std::string> in_use;
    for (const Claim& claim : Claims(SL_ALGORITHM_ID)) {
      in_use.insert(claim.name());
      const std::string version = claim.chosen->module->name() + " " + claim.chosen->module->version().ToString();
      const auto& then = measured.modules;
      if (!then.empty() && std::find(then.begin(), then.end(), version) == then.end()) stale.insert(version);
    }
    if (!stale.empty()) {
      choice_.warnings.push_back(
          fmt::format("{}: the costs were measured with {}, but in use is {}; measure again with starling bench --tune",
                      measured.place, fmt::join(measured.modules, ", "), fmt::join(stale, ", ")));
    }
    std::set<std::string> unknown;
    for (const CostCurve& curve : measured.costs) {
      if (in_use.count(curve.algorithm) == 0) unknown.insert(curve.algorithm);
    }
    if (!unknown.empty()) {
      choice_.warnings.push_back(
          fmt::format("{}: costs of {} are not used: no module in use provides such an algorithm", measured.place,
                      fmt::join(unknown, ", ")));
    }
  }

  void DropUseless() {
    std::erase_if(choice_.modules, [](const ChosenModule& chosen) { return !chosen.asked && chosen.serves.empty(); });
  }

  void ReadOptions(ChosenModule* chosen) { chosen->options = EffectiveOptions(profile_, *chosen->module, &problems_); }

  const Profile& profile_;
  const Catalog& catalog_;
  ModuleChoice& choice_;
  std::vector<std::string> problems_;
};

}  // namespace

bool IsAskedFor(const Profile& profile, const std::string& name) {
  if (IsDisabled(profile, name)) return false;
  if (Contains(profile.enable(), name) || Contains(profile.layers(), name)) return true;
  return !profile.lists_modules() && profile.FindModule(name) != nullptr;
}

std::string WhyNoHostDevice(const Profile& profile) {
  std::string how;
  for (const ModuleCandidate& candidate : FindCandidates(profile)) {
    if (candidate.module != "device-host") continue;
    if (!IsDisabled(profile, candidate.name) && !profile.lists_modules()) return "";
    if (IsAskedFor(profile, candidate.name)) return "";
    how = IsDisabled(profile, candidate.name)
              ? fmt::format("{} switches {} off; remove enabled = false there",
                            profile.FindModule(candidate.name)->place, candidate.name)
              : fmt::format("enable of {} does not name {}; add it", profile.file(), candidate.name);
  }
  return how.empty() ? "" : "no process works without a host device, and " + how;
}

bool WantedNames(const Profile& profile, std::vector<std::string>* out_names) {
  if (!profile.lists_modules()) return false;
  for (const std::vector<NamedPlace>* list : {&profile.enable(), &profile.layers()}) {
    for (const NamedPlace& item : *list) {
      if (!IsDisabled(profile, item.name)) out_names->push_back(item.name);
    }
  }
  return true;
}

Status ChooseModules(const Profile& profile, const Catalog& catalog, ModuleChoice* out_choice) {
  return Chooser(profile, catalog, out_choice).Choose();
}

namespace {

// What decides among a module's algorithms is no option of it. "": it has one at most, or `name` is a slip of the pen.
std::string RuleHint(const LoadedModule& module, const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::string> algorithms;
  for (uint32_t i = 0; i < module.table().provide_count; ++i) {
    const sl_provide_t& provide = *module.table().provides[i];
    if (provide.id == std::string_view(SL_ALGORITHM_ID)) algorithms.push_back(module.NameOf(provide));
  }
  if (algorithms.size() < 2 || !NearestName(name, known).empty()) return {};
  return fmt::format(
      "; which of its algorithms serves is said by a rule: [[select]] with prefer = or algorithm = one of {}",
      fmt::join(algorithms, ", "));
}

}  // namespace

std::vector<OptionValue> EffectiveOptions(const Profile& profile, const LoadedModule& module,
                                          std::vector<std::string>* problems) {
  const sl_module_t& table = module.table();
  const ModuleEntry* found = profile.FindModule(module.name());
  const ModuleEntry entry = found == nullptr ? ModuleEntry{} : *found;
  const std::string prefix = fmt::format("modules.{}.options.", module.name());
  std::vector<OptionValue> values;
  std::vector<std::string> known;
  for (uint32_t i = 0; i < table.option_count; ++i) {
    const sl_option_t& option = *table.options[i];
    known.emplace_back(option.name);
    const std::string full = prefix + option.name;
    Result<OptionValue> value = ParseValue(option, full, option.default_text, Origin::kDefault, "default");
    if (const auto raw = entry.options.find(option.name); raw != entry.options.end()) {
      Result<OptionValue> stated = CheckValue(option, full, raw->second);
      if (!stated.ok()) problems->push_back(stated.status().message());
      if (stated.ok()) value = std::move(stated);
    }
    const std::string variable = VariableName(module.name(), option.name);
    if (const char* text = secure_getenv(variable.c_str()); text != nullptr) {
      Result<OptionValue> stated =
          ParseValue(option, full, text, Origin::kEnvironment, "environment variable " + variable);
      if (!stated.ok()) problems->push_back(stated.status().message());
      if (stated.ok()) value = std::move(stated);
    }
    values.push_back(value.Take());
  }
  for (const auto& [name, place] : entry.option_key_places) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    problems->push_back(fmt::format("{}: unknown option {}{}{}{}", place, prefix, name, NearestHint(name, known),
                                    RuleHint(module, name, known)));
  }
  return values;
}

}  // namespace sl::kernel
