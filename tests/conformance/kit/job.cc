// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/job.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "sl_device.h"
#include "sl_transport.h"
#include "tests/conformance/kit/bindings.h"
#include "tests/conformance/kit/module.h"

namespace sl::conform {
namespace {

namespace fs = std::filesystem;

// A wait that long is a hang: tests are over much sooner. A full run goes on where much else runs.
constexpr int kTimeoutMs = 6000;
constexpr int kFullTimeoutMs = 60'000;

// What a job needs beside an algorithm.
constexpr const char* kNeeded[] = {SL_DEVICE_ID, SL_TRANSPORT_ID};

bool Provides(const LoadedModule& module, const char* id) {
  const sl_provide_t* provide = module.Find(id, "");
  return provide != nullptr && (provide->flags & SL_INTERFACE_LAYER) == 0;
}

bool IsLayer(const LoadedModule& module) {
  const sl_module_t& table = module.table();
  return std::any_of(table.provides, table.provides + table.provide_count,
                     [](const sl_provide_t* provide) { return (provide->flags & SL_INTERFACE_LAYER) != 0; });
}

struct JobModule {
  std::string name;
  std::string path;
  bool is_layer;
};

// The modules of the job, the one under test first.
std::vector<JobModule> ModulesOfJob(Trial& trial, const std::string& wrapped) {
  const LoadedModule under_test(trial, trial.assignment().module_path);
  std::vector<JobModule> modules;
  const auto add = [&](const LoadedModule& module) {
    modules.push_back({module.table().name, module.path(), IsLayer(module)});
  };
  add(under_test);
  if (!wrapped.empty()) add(LoadedModule(trial, wrapped));
  for (const char* id : kNeeded) {
    if (Provides(under_test, id)) continue;
    const auto companion = Companion::Find(trial, id, 1, UINT32_MAX);
    if (companion == nullptr) {
      trial.Skip(fmt::format("a job needs {}, which no companion provides; name one with --with FILE", id));
    }
    add(companion->module());
  }
  return modules;
}

// What the assignment sets, as a profile says it.
std::string OptionsOf(Trial& trial, const std::string& name) {
  const LoadedModule module(trial, trial.assignment().module_path);
  std::string text;
  for (const auto& [option, value] : trial.assignment().options) {
    for (uint32_t i = 0; i < module.table().option_count; ++i) {
      const sl_option_t& known = *module.table().options[i];
      if (option != known.name) continue;
      const bool is_text = known.type == SL_OPTION_STRING || known.type == SL_OPTION_CHOICE;
      text += is_text ? fmt::format("{} = {}\n", option, nlohmann::json(value).dump())
                      : fmt::format("{} = {}\n", option, value);
    }
  }
  return text.empty() ? text : fmt::format("[modules.{}.options]\n{}", name, text);
}

std::string ProfileOf(Trial& trial, const std::string& wrapped, const std::string& rest) {
  std::string enabled;
  std::string layers;
  std::string tables;
  for (const JobModule& module : ModulesOfJob(trial, wrapped)) {
    std::string& names = module.is_layer ? layers : enabled;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", module.name);
    tables += fmt::format("[modules.{}]\npath = \"{}\"\n", module.name, module.path);
    if (module.path == trial.assignment().module_path) tables += OptionsOf(trial, module.name);
  }
  return fmt::format(
      "profile_version = 1\ndeterminism = \"none\"\nenable = [{0}]\nlayers = [{1}]\n[comm]\n"
      "operation_timeout_ms = {2}\nbootstrap_timeout_ms = {2}\n{3}{4}",
      enabled, layers, trial.full() ? kFullTimeoutMs : kTimeoutMs, tables, rest);
}

}  // namespace

Job::Job(Trial& trial, const std::string& profile, const std::string& wrapped) : trial_(trial) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string library = (self.parent_path().parent_path() / "lib" / "libstarling.so").string();
  if (!fs::exists(library, error)) trial.Skip(library + " is not here, so nothing can be run with it");
  // A file without a place: a test that crashes leaves none behind.
  profile_fd_ = memfd_create("conform.toml", MFD_CLOEXEC);
  const std::string text = ProfileOf(trial, wrapped, profile);
  trial.Require(write(profile_fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                "the profile of the job cannot be written");
  setenv("STARLING_PROFILE", fmt::format("/proc/self/fd/{}", profile_fd_).c_str(), 1);
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) trial.Require(false, "{}", dlerror());
  using Query = sl_status_t (*)(uint32_t, const sl_runtime_ops_t**);
  const auto query = reinterpret_cast<Query>(dlsym(handle, "sl_runtime_query"));
  trial.Require(query != nullptr && query(SL_RUNTIME_REVISION, &ops_) == SL_OK, "{} is of another release", library);
}

Job::~Job() {
  if (profile_fd_ >= 0) close(profile_fd_);
}

void Job::RunRank(const sl_unique_id_t& id, uint32_t rank, uint32_t ranks, const Body& body) {
  sl_comm_config_t config{};
  config.struct_size = sizeof(config);
  config.ids = &id;
  config.id_count = 1;
  config.rank = rank;
  config.size = ranks;
  config.device_kind = -1;
  config.device_ordinal = -1;
  sl_comm_t* comm = nullptr;
  const sl_status_t status = ops_->comm_create(&config, &comm);
  if (!trial_.Expect(status == SL_OK, "rank {} of {} cannot join: {}", rank, ranks, ops_->last_error())) return;
  if (!body(rank, comm)) {
    ops_->comm_abort(comm);
    return;
  }
  const sl_status_t ended = ops_->comm_destroy(comm);
  trial_.Expect(ended == SL_OK, "rank {} of {} did not end well: {}", rank, ranks, ops_->last_error());
}

void Job::Run(uint32_t ranks, const Body& body) {
  sl_unique_id_t id{};
  trial_.Require(ops_->unique_id(&id) == SL_OK, "no id for a communicator: {}", ops_->last_error());
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { RunRank(id, rank, ranks, body); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sl::conform
