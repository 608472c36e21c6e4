// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/profile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kernel/profile/keys.h"
#include "kernel/profile/reader.h"
#include "sdk/datatype.h"
#include "sdk/environment.h"

namespace sl::kernel {
namespace {

constexpr const char* kBuiltIn = "auto";
constexpr const char* kLayersVariable = "STARLING_LAYERS";
constexpr off_t kMaxFileBytes = 1 << 20;

std::string Environment(const char* name) {
  const char* text = SettingText(name);
  return text == nullptr ? std::string() : std::string(text);
}

Result<std::string> ReadFile(const std::string& path) {
  // Not blocking: a FIFO with that name must not stop us.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const sl_status_t code = errno == ENOENT || errno == ENOTDIR ? SL_ERR_NOT_FOUND : SL_ERR_SYSTEM;
    return Status(code, fmt::format("{}: cannot read the profile: {}", path, std::strerror(errno)));
  }
  std::string text;
  struct stat info {};
  Status status;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = Status(SL_ERR_CONFIG, fmt::format("{}: not a regular file; give a profile in TOML", path));
  } else if (info.st_size > kMaxFileBytes) {
    status =
        Status(SL_ERR_CONFIG, fmt::format("{}: {} bytes, a profile has at most {}", path, info.st_size, kMaxFileBytes));
  } else {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd, buffer, sizeof(buffer))) > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < 0)
      status = Status(SL_ERR_SYSTEM, fmt::format("{}: cannot read the profile: {}", path, std::strerror(errno)));
  }
  close(fd);
  if (!status.ok()) return status;
  return text;
}

// The name of a profile's file.
std::string Stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string stem = slash == std::string::npos ? path : path.substr(slash + 1);
  if (stem.size() > 5 && stem.ends_with(".toml")) stem.resize(stem.size() - 5);
  return stem;
}

// The names of all profiles that lie in `folders`, and the built-in one.
std::vector<std::string> KnownProfiles(const std::vector<std::string>& folders) {
  std::vector<std::string> names = {kBuiltIn};
  for (const std::string& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string file = it->path().filename().string();
      if (file.ends_with(".toml")) names.push_back(Stem(file));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<std::string> FindFile(const std::string& name) {
  const std::vector<std::string> folders = Profile::SearchFolders();
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + name + ".toml";
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return Status(SL_ERR_NOT_FOUND, fmt::format("there is no profile {}: no {}.toml in {}{}", name, name,
                                              fmt::join(folders, ", "), NearestHint(name, KnownProfiles(folders))));
}

}  // namespace

std::string LibraryFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&LibraryFolder), &info) == 0 || info.dli_fname == nullptr) return "";
  char* resolved = realpath(info.dli_fname, nullptr);
  std::string path = resolved == nullptr ? info.dli_fname : resolved;
  free(resolved);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<std::string> Profile::SearchFolders() {
  std::vector<std::string> folders = SplitList(Environment("STARLING_PROFILE_PATH"), ':');
  const std::string library = LibraryFolder();
  if (!library.empty()) {
    folders.push_back(library + "/../share/starling/configs");
    folders.push_back(library + "/../../configs");
  }
  folders.push_back("/etc/starling");
  return folders;
}

Result<Profile> Profile::Load(const std::string& name_or_path) {
  std::string name = name_or_path.empty() ? Environment("STARLING_PROFILE") : name_or_path;
  if (name.empty()) name = kBuiltIn;
  std::string path = name;
  std::string text = "profile_version = 1\n";
  if (name != kBuiltIn) {
    if (name.find('/') == std::string::npos && !name.ends_with(".toml")) {
      SL_ASSIGN(path, FindFile(name));
    }
    SL_ASSIGN(text, ReadFile(path));
  }
  SL_ASSIGN(Profile profile, Parse(text, path));
  profile.name_ = Stem(name);
  if (name == kBuiltIn) profile.file_.clear();
  return profile;
}

Result<Profile> Profile::Parse(std::string_view toml, const std::string& file) {
  Profile profile;
  profile.name_ = Stem(file);
  profile.file_ = file;
  SL_TRY(profile.ApplyDefaults());
  SL_TRY(ReadProfileText(toml, file, &profile));
  SL_TRY(profile.ApplyEnvironment());
  profile.Store();
  return profile;
}

Status Profile::ApplyDefaults() {
  for (const Key& key : KernelKeys()) {
    const std::string name = key.FullName();
    Result<OptionValue> value = ParseValue(key.option, name, key.option.default_text, Origin::kDefault, "default");
    if (!value.ok()) return value.status();
    values_[name] = value.Take();
  }
  return Status();
}

Status Profile::ApplyEnvironment() {
  std::string problems;
  for (const Key& key : KernelKeys()) {
    std::string variable = VariableName(key.section, key.option.name);
    const char* text = SettingText(variable.c_str());
    const bool is_nccls = text == nullptr && key.nccl_variable != nullptr;
    if (is_nccls) {
      variable = key.nccl_variable;
      text = SettingText(key.nccl_variable);
    }
    if (text == nullptr || (is_nccls && *text == '\0')) continue;
    Result<OptionValue> value =
        ParseValue(key.option, key.FullName(), text, Origin::kEnvironment, "environment variable " + variable);
    if (value.ok()) {
      values_[key.FullName()] = value.Take();
    } else if (is_nccls) {
      ignored_.push_back(value.status().message() + "; ignored");
    } else {
      problems += (problems.empty() ? "" : "\n") + value.status().message();
    }
  }
  if (const char* text = secure_getenv(kLayersVariable); text != nullptr) ApplyLayers(text);
  return problems.empty() ? Status() : Status(SL_ERR_CONFIG, problems);
}

// Replaces the profile's layers; a "*" among the names stands for them, so that a layer can be put around any profile.
void Profile::ApplyLayers(const std::string& text) {
  std::vector<NamedPlace> layers;
  const auto add = [&](const NamedPlace& layer) {
    const auto same = [&](const NamedPlace& other) { return other.name == layer.name; };
    if (std::none_of(layers.begin(), layers.end(), same)) layers.push_back(layer);
  };
  for (const std::string& name : SplitList(text, ',')) {
    if (name != "*") {
      add({name, std::string("environment variable ") + kLayersVariable});
    } else {
      for (const NamedPlace& layer : layers_) add(layer);
    }
  }
  layers_ = std::move(layers);
}

void Profile::Store() {
  for (const Key& key : KernelKeys()) key.store(settings_, values_.find(key.FullName())->second);
}

const ModuleEntry* Profile::FindModule(std::string_view name) const {
  const auto found = modules_.find(std::string(name));
  return found == modules_.end() ? nullptr : &found->second;
}

std::string Profile::PlaceOf(std::string_view module) const {
  for (const std::vector<NamedPlace>* list : {&enable_, &layers_}) {
    for (const NamedPlace& item : *list) {
      if (item.name == module) return item.place;
    }
  }
  const ModuleEntry* entry = FindModule(module);
  return entry == nullptr ? std::string() : entry->place;
}

const OptionValue* Profile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Status Profile::Set(std::string_view key, std::string_view text) {
  std::vector<std::string> names;
  for (const Key& known : KernelKeys()) {
    names.push_back(known.FullName());
    if (known.FullName() != key) continue;
    SL_ASSIGN(OptionValue value, ParseValue(known.option, known.FullName(), text, Origin::kApi, "API"));
    values_[known.FullName()] = std::move(value);
    Store();
    return Status();
  }
  return Status(SL_ERR_CONFIG, fmt::format("API: unknown key {}{}", key, NearestHint(key, names)));
}

namespace {

std::string NamesToml(const std::vector<NamedPlace>& names) {
  std::string out = "[";
  for (const NamedPlace& name : names) out += (out.size() > 1 ? ", " : "") + QuoteToml(name.name);
  return out + "]";
}

std::string RuleToml(const SelectRule& rule) {
  std::string out = "[[select]]\n";
  if (!rule.ops.empty()) {
    std::string ops;
    for (const sl_op_kind_t op : rule.ops) ops += (ops.empty() ? "\"" : ", \"") + std::string(OpKindName(op)) + "\"";
    out += "op = [" + ops + "]\n";
  }
  const struct {
    const char* name;
    uint64_t value;
    uint64_t idle;  // the value that says nothing
  } limits[] = {{"min_bytes", rule.min_bytes, 0},
                {"max_bytes", rule.max_bytes, UINT64_MAX},
                {"min_ranks", rule.min_ranks, 0},
                {"max_ranks", rule.max_ranks, UINT32_MAX},
                {"min_hosts", rule.min_hosts, 0},
                {"max_hosts", rule.max_hosts, UINT32_MAX},
                {"min_ranks_per_host", rule.min_ranks_per_host, 0},
                {"max_ranks_per_host", rule.max_ranks_per_host, UINT32_MAX}};
  for (const auto& limit : limits) {
    if (limit.value != limit.idle) out += fmt::format("{} = {}\n", limit.name, limit.value);
  }
  if (rule.device_kind) out += fmt::format("device = \"{}\"\n", kDeviceKindNames[*rule.device_kind]);
  if (!rule.algorithm.empty()) out += fmt::format("algorithm = {}\n", QuoteToml(rule.algorithm));
  if (!rule.prefer.empty()) out += fmt::format("prefer = {}\n", QuoteToml(rule.prefer));
  if (!rule.forbid.empty()) {
    std::vector<NamedPlace> names;
    for (const std::string& name : rule.forbid) names.push_back({name, ""});
    out += fmt::format("forbid = {}\n", NamesToml(names));
  }
  return out;
}

std::string OriginComment(const OptionValue& value) {
  if (value.origin == Origin::kDefault || value.origin == Origin::kApi) return OriginName(value.origin);
  return value.place;
}

}  // namespace

std::string Profile::ToToml() const {
  std::string out =
      fmt::format("# profile {}, effective values and where each comes from\nprofile_version = 1\n", name_);
  if (lists_modules_) out += fmt::format("enable = {}\n", NamesToml(enable_));
  if (!layers_.empty()) out += fmt::format("layers = {}\n", NamesToml(layers_));
  std::string section;
  for (const Key& key : KernelKeys()) {
    if (section != key.section) {
      section = key.section;
      out += fmt::format("\n[{}]\n", section);
    }
    const OptionValue& value = values_.find(key.FullName())->second;
    out += fmt::format("{} = {}  # {}\n", key.option.name, sl::kernel::ToToml(value), OriginComment(value));
  }
  for (const SelectRule& rule : select_) out += fmt::format("\n# {}\n{}", rule.place, RuleToml(rule));
  if (!measured_.place.empty()) out += fmt::format("\n# {}\n{}", measured_.place, MeasuredToml(measured_));
  return out;
}

std::string Profile::SharedText() const {
  std::string out;
  for (const Key& key : KernelKeys()) {
    if (key.per_rank) continue;
    out += fmt::format("{} = {}\n", key.FullName(), sl::kernel::ToToml(values_.find(key.FullName())->second));
  }
  out += fmt::format("layers = {}\n", NamesToml(layers_));
  for (const SelectRule& rule : select_) out += RuleToml(rule);
  return out + CostsToml(measured_);
}

uint64_t Profile::SharedHash() const { return HashText(SharedText()); }

}  // namespace sl::kernel
