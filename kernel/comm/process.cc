// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/process.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "kernel/control/stream.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/events/ring.h"
#include "kernel/loader/catalog.h"
#include "kernel/loader/choice.h"
#include "sdk/environment.h"
#include "sl_observer.h"

namespace sl::kernel {
namespace {

std::atomic<bool> forked_child{false};
constinit std::mutex process_mutex;
Process* process = nullptr;               // guarded by process_mutex; leaked on purpose: see the class comment
bool atfork_registered = false;           // guarded by process_mutex
std::atomic<Process*> observed{nullptr};  // the process that has observers

// How long an observer may still take for the last records when the process ends.
constexpr uint64_t kLastRecordsNs = 2'000'000'000;

template <typename Ops>
std::vector<Served<Ops>> Collect(const Loader& loader, const char* id) {
  std::vector<Served<Ops>> served;
  for (const Provider& provider : loader.Providers(id)) {
    const std::string module = provider.module->name() + " " + provider.module->table().version;
    served.push_back({provider.name, module, provider.module->Requires(SL_DEVICE_ID),
                      static_cast<const Ops*>(provider.ops), provider.instance, provider.revision});
  }
  return served;
}

// The folders searched for modules, each with what speaks against reading it.
std::string FoldersText() {
  std::string text;
  for (const std::string& folder : ModuleFolders()) {
    DIR* readable = opendir(folder.c_str());
    const std::string why = readable != nullptr ? "" : std::string(" (") + std::strerror(errno) + ")";
    if (readable != nullptr) closedir(readable);
    text += (text.empty() ? "" : ", ") + folder + why;
  }
  return text;
}

// Once. A program may have meant them, and used them too late. Whether there are any only their driver knows, which
// asking would start.
void TellUnusedDevices(const std::vector<Served<sl_device_ops_t>>& providers, const sl_device_ops_t* host) {
  static std::atomic<bool> told{false};
  std::string names;
  for (const auto& provider : providers) {
    if (provider.ops != host) names += (names.empty() ? "" : ", ") + provider.name;
  }
  if (names.empty() || told.exchange(true)) return;
  Logf(SL_LOG_INFO,
       "communicators lie in host memory as long as this process uses no device of {}; select one before the first, or "
       "set roles.device",
       names);
}

}  // namespace

bool Process::IsForkedChild() { return forked_child.load(std::memory_order_relaxed); }

// A child holds copies of the parent's control sockets. They are closed, or the other ranks would not notice the
// parent's death while the child lives.
void Process::BeforeFork() {
  process_mutex.lock();
  if (process != nullptr) process->control_->BeforeFork();
}

void Process::AfterForkInParent() {
  if (process != nullptr) process->control_->AfterForkInParent();
  process_mutex.unlock();
}

void Process::AfterForkInChild() {
  static Process* inherited = nullptr;  // keeps reachable what is leaked
  if (process != nullptr) {
    process->control_->AfterForkInChild();
    if (process->is_in_use_.load(std::memory_order_relaxed)) {
      forked_child.store(true, std::memory_order_relaxed);
    } else {
      process->forebear_ = std::exchange(inherited, process);
      process = nullptr;
    }
  }
  process_mutex.unlock();
}

Result<Process*> Process::Get() {
  SL_ASSIGN(Process * ours, GetForId());
  ours->is_in_use_.store(true, std::memory_order_relaxed);
  return ours;
}

Result<Process*> Process::GetForId() {
  if (IsForkedChild()) {
    return Status(SL_ERR_STATE,
                  "this process was forked after starling had started; start ranks with exec, or fork "
                  "before the first communicator is made or memory taken");
  }
  std::lock_guard lock(process_mutex);
  if (process == nullptr) {
    if (!atfork_registered) pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    atfork_registered = true;
    SL_ASSIGN(process, Make());
  }
  return process;
}

Process::~Process() {
  for (const auto& device : devices_) device->ops->close(device->handle);
}

Result<Process*> Process::Make() {
  // What is read at the start, from profile to modules, holds so many at a time. Without them files that are there
  // would seem to be missing.
  SL_TRY(EnsureDescriptors(3));
  SL_ASSIGN(Profile profile, Profile::Load(""));
  std::unique_ptr<Process> made(new Process(std::move(profile)));
  made->host_ = ReadHostId();
  SL_TRY(made->LoadModules());
  SL_TRY(made->OpenHostDevice());
  SL_ASSIGN(made->control_, ControlThread::Start());
  const Settings::Comm& comm = made->profile_.settings().comm;
  made->switchboard_ =
      std::make_unique<Switchboard>(made->control_.get(), NetChoice{comm.interface, comm.socket_family, comm.tls});
  made->rendezvous_ =
      std::make_unique<Rendezvous>(made->control_.get(), made->switchboard_.get(), comm.bootstrap_timeout_ms);
  EngineSettings engine;
  engine.spin_ns = made->profile_.settings().engine.spin_us * 1000;
  made->progress_ = std::make_unique<ProgressThread>(engine);
  for (const std::string& file : SettingFiles()) Logf(SL_LOG_INFO, "settings are taken from {}", file);
  Logf(SL_LOG_INFO, "starling {} profile {}, {} algorithms, {} transports", SL_VERSION, made->profile_.name(),
       made->algorithms_.size(), made->transports_.all.size());
  Process* const ours = made.release();
  if (ours->pump_ != nullptr && observed.exchange(ours) == nullptr) std::atexit(EndObservers);
  return ours;
}

Status Process::LoadModules() {
  SL_ASSIGN(loader_, Loader::Open(profile_));
  algorithms_ = Collect<sl_algorithm_ops_t>(*loader_, SL_ALGORITHM_ID);
  transports_.all = Collect<sl_transport_ops_t>(*loader_, SL_TRANSPORT_ID);
  device_providers_ = Collect<sl_device_ops_t>(*loader_, SL_DEVICE_ID);
  if (!profile_.settings().events.observers) return {};
  std::vector<ObserverPump::Source> sources;
  for (const auto& observer : Collect<sl_observer_ops_t>(*loader_, SL_OBSERVER_ID)) {
    sources.push_back({observer.name, observer.ops, observer.instance});
  }
  if (sources.empty()) return {};
  SetEventRingCapacity(profile_.settings().events.ring_records);
  pump_ = std::make_unique<ObserverPump>(profile_.settings().events.drain_ms * 1000000);
  is_in_use_.store(true, std::memory_order_relaxed);  // its thread may hold a lock of the records when somebody forks
  return pump_->Start(sources);
}

// Other threads may still be inside: they see a mask of no kinds, and modules of other interfaces stay open.
void Process::EndObservers() {
  Process* const ours = observed.load(std::memory_order_acquire);
  if (IsForkedChild() || getpid() != ours->pid_) return;
  if (ours->pump_->Stop(kLastRecordsNs)) ours->loader_->CloseObservers();
}

// A device shows what it is when it is open, and opening a GPU is no trifle: the likely one first, and none that this
// process does not use anyway.
Status Process::OpenHostDevice() {
  std::stable_partition(device_providers_.begin(), device_providers_.end(),
                        [](const auto& provider) { return provider.name == "host"; });
  for (const auto& provider : device_providers_) {
    if (!IsUsed(provider)) continue;
    SL_ASSIGN(host_device_, OpenDevice(provider, 0));
    if (host_device_->is_host()) return {};
  }
  if (const std::string why = WhyNoHostDevice(profile_); !why.empty()) return {SL_ERR_CONFIG, why};
  return {SL_ERR_NOT_FOUND, "no module provides a host device: looked for device-host.so in " + FoldersText() +
                                "; put it there or name its folder in STARLING_MODULE_PATH (`starling modules` shows "
                                "what was found)"};
}

// The process works with devices of this provider, Starling aside. Counting them would start their driver.
bool Process::IsUsed(const Served<sl_device_ops_t>& provider) {
  uint32_t ordinal = 0;
  return provider.ops->current(provider.instance, &ordinal) == SL_OK;
}

Result<const Device*> Process::FindDevice(int32_t kind, int32_t ordinal) {
  if (kind == SL_DEVICE_HOST) return host_device_;
  const std::string& role = profile_.settings().roles.device;
  for (const auto& provider : device_providers_) {
    if (provider.ops == host_device_->ops) continue;
    const bool is_wanted = kind >= 0 || provider.name == role || (role == "auto" && IsUsed(provider));
    uint32_t count = 0;
    if (!is_wanted || provider.ops->count(provider.instance, &count) != SL_OK || count == 0) continue;
    uint32_t current = 0;
    if (ordinal < 0 && provider.ops->current(provider.instance, &current) != SL_OK) current = 0;
    SL_ASSIGN(const Device* device, OpenDevice(provider, ordinal < 0 ? static_cast<int32_t>(current) : ordinal));
    if (kind < 0 || device->info.kind == static_cast<uint32_t>(kind)) return device;
  }
  if (kind < 0 && (role == "auto" || role == host_device_->name)) {
    if (role == "auto") TellUnusedDevices(device_providers_, host_device_->ops);
    return host_device_;
  }
  return Status(SL_ERR_NOT_FOUND, kind < 0 ? "roles.device is \"" + role + "\", but this machine has no such device"
                                           : "no device of kind " + std::to_string(kind) +
                                                 " is here; `starling "
                                                 "modules` shows what provides devices, and why not");
}

Result<const Device*> Process::OpenDevice(const Served<sl_device_ops_t>& provider, int32_t ordinal) {
  const std::lock_guard lock(devices_mutex_);
  for (const auto& device : devices_) {
    if (device->ops == provider.ops && device->ordinal == ordinal) return device.get();
  }
  auto opened = std::make_unique<Device>();
  opened->name = provider.name;
  opened->ops = provider.ops;
  opened->ordinal = ordinal;
  opened->info.struct_size = sizeof(opened->info);
  sl_status_t status =
      CallModule("open", provider.ops->open, provider.instance, static_cast<uint32_t>(ordinal), &opened->handle);
  if (status != SL_OK) return Status(status, "device " + provider.name + ": " + LastError());
  status = provider.ops->info(opened->handle, &opened->info);
  if (status != SL_OK) {
    Status why(status, "device " + provider.name + ": " + LastError());
    provider.ops->close(opened->handle);
    return why;
  }
  return devices_.emplace_back(std::move(opened)).get();
}

const Device* Process::DeviceOf(void* memory) {
  const std::lock_guard lock(devices_mutex_);
  for (const auto& device : devices_) {
    sl_pointer_info_t info{};
    info.struct_size = sizeof(info);
    const sl_status_t status = device->ops->pointer_info(device->handle, memory, &info);
    if (status == SL_OK && info.allocation_id != 0) return device.get();
  }
  return nullptr;
}

}  // namespace sl::kernel
