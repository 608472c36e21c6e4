// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/process.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/events/ring.h"
#include "kernel/loader/catalog.h"
#include "sl_observer.h"

namespace sl::kernel {
namespace {

std::atomic<bool> forked_child{false};
constinit std::mutex process_mutex;
Process* process = nullptr;      // guarded by process_mutex; leaked on purpose: see the class comment
bool atfork_registered = false;  // guarded by process_mutex

// A child holds copies of the parent's control sockets. They are closed, or the other ranks would not notice the
// parent's death while the child lives.
void BeforeFork() {
  process_mutex.lock();
  if (process != nullptr) process->control()->BeforeFork();
}

void AfterForkInParent() {
  if (process != nullptr) process->control()->AfterForkInParent();
  process_mutex.unlock();
}

void AfterForkInChild() {
  forked_child.store(true, std::memory_order_relaxed);
  if (process != nullptr) process->control()->AfterForkInChild();
  process_mutex.unlock();
}

template <typename Ops>
std::vector<Served<Ops>> Collect(const Loader& loader, const char* id) {
  std::vector<Served<Ops>> served;
  for (const Provider& provider : loader.Providers(id)) {
    const std::string module = provider.module->name() + " " + provider.module->table().version;
    served.push_back({provider.name, module, provider.module->Requires(SL_DEVICE_ID),
                      static_cast<const Ops*>(provider.ops), provider.instance});
  }
  return served;
}

}  // namespace

bool Process::IsForkedChild() { return forked_child.load(std::memory_order_relaxed); }

Result<Process*> Process::Get() {
  if (IsForkedChild()) {
    return Status(SL_ERR_STATE,
                  "this process was forked after starling had started; start ranks with exec, or fork "
                  "before the first call");
  }
  std::lock_guard lock(process_mutex);
  if (process == nullptr) {
    if (!atfork_registered) pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    atfork_registered = true;
    SL_ASSIGN(process, Make());
  }
  return process;
}

Result<Process*> Process::Make() {
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
  Logf(SL_LOG_INFO, "starling {} profile {}, {} algorithms, {} transports", SL_VERSION, made->profile_.name(),
       made->algorithms_.size(), made->transports_.size());
  return made.release();
}

Status Process::LoadModules() {
  SL_ASSIGN(loader_, Loader::Open(profile_));
  algorithms_ = Collect<sl_algorithm_ops_t>(*loader_, SL_ALGORITHM_ID);
  transports_ = Collect<sl_transport_ops_t>(*loader_, SL_TRANSPORT_ID);
  if (!profile_.settings().events.observers) return {};
  std::vector<ObserverPump::Source> sources;
  for (const auto& observer : Collect<sl_observer_ops_t>(*loader_, SL_OBSERVER_ID)) {
    sources.push_back({observer.name, observer.ops, observer.instance});
  }
  if (sources.empty()) return {};
  SetEventRingCapacity(profile_.settings().events.ring_records);
  pump_ = std::make_unique<ObserverPump>(profile_.settings().events.drain_ms * 1000000);
  return pump_->Start(sources);
}

Status Process::OpenHostDevice() {
  for (const auto& device : Collect<sl_device_ops_t>(*loader_, SL_DEVICE_ID)) {
    uint32_t count = 0;
    if (device.ops->count(device.instance, &count) != SL_OK || count == 0) continue;
    sl_device_t* handle = nullptr;
    if (device.ops->open(device.instance, 0, &handle) != SL_OK) {
      Logf(SL_LOG_WARN, "device {} left out: {}", device.name, LastError());
      continue;
    }
    Device opened{device.ops, handle, {}};
    opened.info.struct_size = sizeof(opened.info);
    if (device.ops->info(handle, &opened.info) == SL_OK && opened.info.kind == SL_DEVICE_HOST) {
      host_device_ = opened;
      return {};
    }
    device.ops->close(handle);
  }
  std::string folders;
  for (const std::string& folder : ModuleFolders()) folders += (folders.empty() ? "" : ", ") + folder;
  return {SL_ERR_NOT_FOUND, "no module provides a host device: looked for device-host.so in " + folders +
                                "; put it there or name its folder in STARLING_MODULE_PATH (`starling modules` shows "
                                "what was found)"};
}

}  // namespace sl::kernel
