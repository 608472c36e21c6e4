// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/table_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "kernel/loader/stubs.h"
#include "kernel/profile/value.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kModuleBytes = offsetof(sl_module_t, close) + sizeof(sl_module_t::close);
constexpr uint32_t kOptionBytes = offsetof(sl_option_t, choices) + sizeof(sl_option_t::choices);
constexpr uint32_t kProvideBytes = offsetof(sl_provide_t, name) + sizeof(sl_provide_t::name);
constexpr uint32_t kRequireBytes = offsetof(sl_require_t, revision_max) + sizeof(sl_require_t::revision_max);

constexpr uint32_t kMostEntries = 1024;  // of an array; a count above it was never meant

constexpr std::string_view kOurs = "sl.";

// "sl.device" of "sl.device/1".
std::string_view NounOf(std::string_view id) { return id.substr(0, id.find('/')); }

class Checker {
 public:
  Checker(const std::string& path, const sl_module_t* table) : path_(path), table_(*table) {}

  Status Check() {
    SL_TRY(CheckContainer());
    SL_TRY(CheckTexts());
    for (uint32_t i = 0; i < table_.option_count; ++i) SL_TRY(CheckOption(i));
    for (uint32_t i = 0; i < table_.require_count; ++i) SL_TRY(CheckRequirement(i));
    for (uint32_t i = 0; i < table_.provide_count; ++i) SL_TRY(CheckProvide(i));
    return Status();
  }

 private:
  template <typename... Args>
  Status Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return Status(SL_ERR_UNSUPPORTED,
                  fmt::format("{}: refused: {}", path_, fmt::format(format, std::forward<Args>(args)...)));
  }

  // Order matters: nothing behind the magic is looked at before the magic, nothing behind the version before that.
  Status CheckContainer() {
    if (table_.magic != SL_MODULE_MAGIC) {
      return Refuse("its table has magic {:#018x}, wanted {:#018x}", table_.magic, SL_MODULE_MAGIC);
    }
    if (table_.container_version != SL_CONTAINER_VERSION) {
      const bool newer = table_.container_version > SL_CONTAINER_VERSION;
      return Refuse("its container version {} is {} than this kernel's, wanted {}; {}", table_.container_version,
                    newer ? "newer" : "older", SL_CONTAINER_VERSION,
                    newer ? "use a newer Starling" : "rebuild the module");
    }
    if (table_.struct_size < kModuleBytes) {
      return Refuse("its table is truncated: struct_size is {}, wanted at least {}", table_.struct_size, kModuleBytes);
    }
    if (table_.open == nullptr) return Refuse("its table has no open, which is mandatory");
    if (table_.close == nullptr) return Refuse("its table has no close, which is mandatory");
    return Status();
  }

  Status CheckTexts() {
    const char* const texts[] = {table_.name, table_.version, table_.vendor, table_.summary, table_.build_id};
    const char* const names[] = {"name", "version", "vendor", "summary", "build_id"};
    for (size_t i = 0; i < std::size(texts); ++i) {
      if (texts[i] == nullptr) return Refuse("its table has no {}", names[i]);
    }
    if ((table_.option_count > 0 && table_.options == nullptr) ||
        (table_.provide_count > 0 && table_.provides == nullptr) ||
        (table_.require_count > 0 && table_.requirements == nullptr)) {
      return Refuse("its table counts {} options, {} provided and {} required interfaces, but lacks an array of them",
                    table_.option_count, table_.provide_count, table_.require_count);
    }
    if (std::max({table_.option_count, table_.provide_count, table_.require_count}) > kMostEntries) {
      return Refuse(
          "its table counts {} options, {} provided and {} required interfaces; at most {} of each are possible",
          table_.option_count, table_.provide_count, table_.require_count, kMostEntries);
    }
    return Status();
  }

  Status CheckOption(uint32_t index) {
    const sl_option_t* option = table_.options[index];
    if (option == nullptr || option->struct_size < kOptionBytes) {
      return Refuse("option {} is missing or truncated, wanted {} bytes", index, kOptionBytes);
    }
    if (option->name == nullptr || option->default_text == nullptr || option->doc == nullptr) {
      return Refuse("option {} lacks a name, a default or a line of doc", index);
    }
    if (option->type > SL_OPTION_CHOICE) {
      return Refuse("option {} has type {}, wanted 0 to {}", option->name, option->type, SL_OPTION_CHOICE);
    }
    if (option->type == SL_OPTION_CHOICE && option->choices == nullptr) {
      return Refuse("option {} is a choice without choices", option->name);
    }
    for (uint32_t i = 0; i < index; ++i) {
      if (std::strcmp(table_.options[i]->name, option->name) == 0) {
        return Refuse("it declares the option {} twice", option->name);
      }
    }
    Result<OptionValue> value = ParseValue(*option, option->name, option->default_text, Origin::kDefault, "default");
    if (!value.ok()) return Refuse("an option's default does not fit it: {}", value.status().message());
    return Status();
  }

  Status CheckRequirement(uint32_t index) {
    const sl_require_t* require = table_.requirements[index];
    if (require == nullptr || require->struct_size < kRequireBytes || require->id == nullptr) {
      return Refuse("requirement {} is missing, truncated or without an id", index);
    }
    if (require->revision_min > require->revision_max) {
      return Refuse("it requires {} in revisions {} to {}, which are none", require->id, require->revision_min,
                    require->revision_max);
    }
    const InterfaceInfo* interface = FindInterface(require->id);
    if (interface == nullptr) return Status();
    if (require->revision_min > interface->revision || require->revision_max < interface->revision_min) {
      return Refuse("it requires {} in revisions {} to {}, this kernel speaks {} to {}", require->id,
                    require->revision_min, require->revision_max, interface->revision_min, interface->revision);
    }
    return CheckBuild(*interface);
  }

  Status CheckProvide(uint32_t index) {
    const sl_provide_t* provide = table_.provides[index];
    if (provide == nullptr || provide->struct_size < kProvideBytes || provide->id == nullptr ||
        provide->name == nullptr || provide->ops == nullptr) {
      return Refuse("provided interface {} is missing, truncated, or without an id, a name or a table", index);
    }
    if (provide->revision_min > provide->revision) {
      return Refuse("it offers {} in revisions {} to {}, which are none", provide->id, provide->revision_min,
                    provide->revision);
    }
    if ((provide->flags & SL_INTERFACE_LAYER) != 0 && !Requires(provide->id)) {
      return Refuse("it is a layer of {} but does not require it", provide->id);
    }
    const InterfaceInfo* interface = FindInterface(provide->id);
    if (interface == nullptr) return CheckUnknown(provide->id);
    if (provide->revision_min > interface->revision || provide->revision < interface->revision_min) {
      return Refuse("it offers {} in revisions {} to {}, wanted {} to {}", provide->id, provide->revision_min,
                    provide->revision, interface->revision_min, interface->revision);
    }
    SL_TRY(CheckBuild(*interface));
    if (Status status = CheckTable(*interface, provide->ops); !status.ok()) return Refuse("{}", status.message());
    return Status();
  }

  // Modules may have interfaces among themselves. One that is called almost as one of ours is misspelt, or of another
  // major version, which helps nobody unless the module offers ours, too.
  Status CheckUnknown(std::string_view id) const {
    if (!id.starts_with(kOurs)) return Status();
    std::vector<std::string> nouns;
    for (const InterfaceInfo& interface : KnownInterfaces()) nouns.emplace_back(NounOf(interface.id));
    const std::string nearest = NearestName(NounOf(id), nouns);
    if (nearest.empty() || ProvidesNoun(nearest)) return Status();
    return Refuse("it offers {}, which this kernel does not know; it knows {}", id,
                  std::find_if(KnownInterfaces().begin(), KnownInterfaces().end(), [&](const InterfaceInfo& interface) {
                    return NounOf(interface.id) == nearest;
                  })->id);
  }

  // Whether the module offers an interface of that noun in a major version that this kernel speaks.
  bool ProvidesNoun(std::string_view noun) const {
    for (uint32_t i = 0; i < table_.provide_count; ++i) {
      const sl_provide_t* provide = table_.provides[i];
      if (provide == nullptr || provide->id == nullptr || FindInterface(provide->id) == nullptr) continue;
      if (NounOf(provide->id) == noun) return true;
    }
    return false;
  }

  bool Requires(std::string_view id) const {
    for (uint32_t i = 0; i < table_.require_count; ++i) {
      if (id == table_.requirements[i]->id) return true;
    }
    return false;
  }

  Status CheckBuild(const InterfaceInfo& interface) {
    if (!interface.draft || std::strcmp(table_.build_id, SL_ABI_BUILD_ID) == 0) return Status();
    return Refuse(
        "it uses the draft interface {} of build {}, wanted build {}; rebuild the module with this kernel's "
        "headers",
        interface.id, table_.build_id, SL_ABI_BUILD_ID);
  }

  const std::string& path_;
  const sl_module_t& table_;
};

}  // namespace

Status CheckDescription(const std::string& path, const sl_module_t* table) { return Checker(path, table).Check(); }

}  // namespace sl::kernel
