// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/module.h"

#include <dlfcn.h>
#include <time.h>

#include <charconv>
#include <cstring>

#include "tests/conformance/kit/bindings.h"
#include "tests/conformance/kit/calls.h"

namespace sl::conform {
sl_hello_t Hello() {
  return {sizeof(sl_hello_t),   0,          SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
          SL_CONTAINER_VERSION, SL_VERSION, SL_ABI_BUILD_ID};
}

uint64_t DeadlineIn(uint64_t milliseconds) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec) +
         milliseconds * 1'000'000u;
}

LoadedModule::LoadedModule(Trial& trial, const std::string& path) : path_(path) {
  {
    const std::string what = "dlopen of " + path;
    const SlotInfo slot = {what.c_str()};
    const Call call(slot);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) trial.Require(false, "{} cannot be loaded: {}", path, dlerror());
  query_ = reinterpret_cast<sl_module_query_fn>(dlsym(handle_, "sl_module_query"));
  if (query_ == nullptr) {
    Unload();
    trial.Require(false, "{} has no entry sl_module_query", path);
  }
  const sl_hello_t hello = Hello();
  const sl_status_t status = [&] {
    const std::string what = path + ": sl_module_query";
    const SlotInfo slot = {what.c_str()};
    const Call call(slot);
    return query_(&hello, &table_);
  }();
  if (status != SL_OK || table_ == nullptr) {
    Unload();
    trial.Require(false, "{}: sl_module_query gave {} and {} table", path, StatusName(status),
                  table_ == nullptr ? "no" : "a");
  }
}

const sl_provide_t* LoadedModule::Find(const std::string& id, const std::string& name) const {
  for (uint32_t i = 0; i < table_->provide_count; ++i) {
    const sl_provide_t* provide = table_->provides[i];
    if (id == provide->id && (name.empty() || name == provide->name)) return provide;
  }
  return nullptr;
}

bool LoadedModule::Requires(const std::string& id) const {
  for (uint32_t i = 0; i < table_->require_count; ++i) {
    if (id == table_->requirements[i]->id) return true;
  }
  return false;
}

void LoadedModule::Unload() {
  if (handle_ != nullptr) dlclose(handle_);
  handle_ = nullptr;
}

namespace {

template <typename Number>
bool Parse(std::string text, Number* out) {
  std::erase(text, '_');  // TOML's separator of digits
  const char* end = text.data() + text.size();
  const char* begin = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const auto [at, error] = std::from_chars(begin, end, *out);
  return error == std::errc() && at == end;
}

}  // namespace

OptionValues::OptionValues(const sl_module_t& module)
    : module_(module), values_(module.option_count), texts_(module.option_count) {
  for (uint32_t i = 0; i < count(); ++i) {
    values_[i] = {sizeof(sl_option_value_t), module.options[i]->type, 0, 0, ""};
    Set(i, module.options[i]->default_text);
    pointers_.push_back(&values_[i]);
  }
}

bool OptionValues::Set(uint32_t index, const std::string& text) {
  sl_option_value_t& value = values_[index];
  switch (value.type) {
    case SL_OPTION_BOOL:
      value.integer = text == "true" ? 1 : 0;
      return text == "true" || text == "false";
    case SL_OPTION_INT:
      return Parse(text, &value.integer);
    case SL_OPTION_FLOAT:
      return Parse(text, &value.real);
    default:
      texts_[index] = std::make_unique<char[]>(text.size() + 1);
      std::memcpy(texts_[index].get(), text.c_str(), text.size() + 1);
      value.text = texts_[index].get();
      return true;
  }
}

// As a profile would: the kernel refuses a module whose default does not fit its own option.
bool OptionValues::Fits(uint32_t index) const {
  const sl_option_t& option = *module_.options[index];
  const sl_option_value_t& value = values_[index];
  if (option.type == SL_OPTION_INT) {
    return static_cast<double>(value.integer) >= option.minimum && static_cast<double>(value.integer) <= option.maximum;
  }
  if (option.type == SL_OPTION_FLOAT) return value.real >= option.minimum && value.real <= option.maximum;
  if (option.type != SL_OPTION_CHOICE) return true;
  const std::string padded = "," + std::string(option.choices) + ",";
  return padded.find("," + std::string(value.text) + ",") != std::string::npos;
}

std::string OptionValues::Apply(const std::vector<std::pair<std::string, std::string>>& options) {
  for (const auto& [name, text] : options) {
    std::string known;
    uint32_t index = 0;
    for (; index < count() && name != module_.options[index]->name; ++index) {
      known += fmt::format("{}{}", index == 0 ? "" : ", ", module_.options[index]->name);
    }
    if (index == count()) {
      return fmt::format("{} has no option {}; {}", module_.name, name,
                         known.empty() ? "it has none" : "it has " + known);
    }
    if (!Set(index, text) || !Fits(index)) {
      return fmt::format("option {}: \"{}\" is not of its type or range", name, text);
    }
  }
  return "";
}

void OptionValues::SetByName(const std::string& name, const std::string& text) {
  for (uint32_t i = 0; i < count(); ++i) {
    if (name == module_.options[i]->name) Set(i, text);
  }
}

std::string OptionValues::ToString() const {
  std::string text;
  for (uint32_t i = 0; i < count(); ++i) {
    const sl_option_value_t& value = values_[i];
    if (i > 0) text += ", ";
    text += fmt::format("{} ", module_.options[i]->name);
    if (value.type == SL_OPTION_FLOAT) {
      text += fmt::format("{}", value.real);
    } else if (value.type == SL_OPTION_STRING || value.type == SL_OPTION_CHOICE) {
      text += fmt::format("\"{}\"", value.text);
    } else {
      text += fmt::format("{}", value.integer);
    }
  }
  return text;
}

void OptionValues::Scramble() {
  for (const auto& text : texts_) {
    if (text != nullptr) std::memset(text.get(), '#', std::strlen(text.get()));
  }
}

OpenedModule::OpenedModule(Trial& trial, const LoadedModule& module, const OptionValues* options,
                           const Host::Manner& manner)
    : trial_(trial), module_(module), host_(std::make_unique<Host>(manner)) {
  OptionValues defaults(module.table());
  if (module.path() == trial.assignment().module_path) defaults.Apply(trial.assignment().options);
  if (options == nullptr) options = &defaults;
  bindings_ = std::make_unique<Bindings>(trial, module);
  const sl_open_args_t args = {sizeof(sl_open_args_t), options->count(), options->pointers(), bindings_->count(), 0,
                               bindings_->pointers()};
  ClearError();
  const std::string what = SlotName("open");
  const SlotInfo slot = {what.c_str()};
  const Call call(slot);
  status_ = module.table().open(host_->table(), &args, &instance_);
  if (status_ < SL_OK) error_ = ErrorText();
}

// For crashes: several modules are open in most tests.
std::string OpenedModule::SlotName(const char* function) const {
  return fmt::format("{}: {}", module_.table().name != nullptr ? module_.table().name : module_.path(), function);
}

OpenedModule::~OpenedModule() { Close(); }

void OpenedModule::RequireOpen() {
  if (status_ == SL_ERR_NOT_FOUND) trial_.Skip("the hardware is absent: " + error_);
  trial_.Require(status_ == SL_OK, "open gave {}: {}", StatusName(status_), error_);
}

void OpenedModule::Close() {
  if (is_closed_) return;
  is_closed_ = true;
  if (status_ >= SL_OK && instance_ != nullptr) {
    const sl_module_t& table = module_.table();
    if (table.quiesce != nullptr) {
      ClearError();
      const std::string what = SlotName("quiesce");
      const SlotInfo slot = {what.c_str()};
      const Call call(slot);
      const sl_status_t status = table.quiesce(instance_, DeadlineIn(5000));
      trial_.Expect(status == SL_OK, "quiesce gave {} with nothing in use: {}", StatusName(status), ErrorText());
    }
    {
      const std::string what = SlotName("close");
      const SlotInfo slot = {what.c_str()};
      const Call call(slot);
      table.close(instance_);
    }
    instance_ = nullptr;
  }
  host_->Close();
  for (const std::string& offence : host_->offences()) {
    trial_.Expect(false, "{} did to its host what no module may: it {}", module_.table().name, offence);
  }
}

}  // namespace sl::conform
