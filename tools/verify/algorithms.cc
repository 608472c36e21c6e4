// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/algorithms.h"

#include <fmt/format.h>

#include <filesystem>

#include "kernel/events/last_error.h"
#include "kernel/loader/catalog.h"
#include "kernel/loader/choice.h"

namespace sl::verify {

Algorithms::~Algorithms() {
  if (device_ != nullptr) device_ops_->close(device_);
}

Result<std::unique_ptr<Algorithms>> Algorithms::Load(const std::string& profile) {
  SL_ASSIGN(kernel::Profile read, kernel::Profile::Load(profile));
  return Open(std::move(read));
}

Result<std::unique_ptr<Algorithms>> Algorithms::LoadWith(const std::string& module_path) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(module_path, error).string();
  const std::string name = kernel::ModuleNameOfFile(std::filesystem::path(path).filename().string());
  if (name.empty() || !std::filesystem::exists(path, error)) {
    return Status(SL_ERR_NOT_FOUND,
                  fmt::format("{} is not the file of a module, such as build/lib/starling/NAME.so", module_path));
  }
  const std::string text = fmt::format("profile_version = 1\n[modules.\"{}\"]\npath = '{}'\n", name, path);
  SL_ASSIGN(kernel::Profile profile, kernel::Profile::Parse(text, "--module"));
  return Open(std::move(profile));
}

Result<std::unique_ptr<Algorithms>> Algorithms::Open(kernel::Profile profile) {
  std::unique_ptr<Algorithms> opened(new Algorithms(std::move(profile)));
  SL_ASSIGN(opened->loader_, kernel::Loader::Open(opened->profile_));
  SL_TRY(opened->OpenHostDevice());
  for (const kernel::Provider& provider : opened->loader_->Providers(SL_ALGORITHM_ID)) {
    opened->list_.push_back({provider.name, provider.module->name(),
                             static_cast<const sl_algorithm_ops_t*>(provider.ops), provider.instance,
                             opened->device_ops_, opened->device_});
  }
  return opened;
}

Status Algorithms::OpenHostDevice() {
  for (const kernel::Provider& provider : loader_->Providers(SL_DEVICE_ID)) {
    const auto* ops = static_cast<const sl_device_ops_t*>(provider.ops);
    uint32_t ordinal = 0;
    sl_device_t* device = nullptr;
    // Opening a kind of device that this process does not use, to see that it is not the host, is no trifle.
    if (ops->current(provider.instance, &ordinal) != SL_OK) continue;
    if (kernel::CallModule("open", ops->open, provider.instance, 0u, &device) != SL_OK) continue;
    sl_device_info_t info{};
    info.struct_size = sizeof(info);
    if (ops->info(device, &info) == SL_OK && info.kind == SL_DEVICE_HOST) {
      device_ops_ = ops;
      device_ = device;
      return {};
    }
    ops->close(device);
  }
  if (const std::string why = kernel::WhyNoHostDevice(profile_); !why.empty()) return {SL_ERR_CONFIG, why};
  std::string folders;
  for (const std::string& folder : kernel::ModuleFolders()) folders += (folders.empty() ? "" : ", ") + folder;
  return {SL_ERR_NOT_FOUND, "no module provides a host device; looked for one in " + folders};
}

}  // namespace sl::verify
