// SPDX-License-Identifier: Apache-2.0
//
// What a process has once: the profile, the modules, the devices, the control thread. Made at the first call that
// needs it and never torn down: libstarling.so stays loaded, and at exit other threads may still be inside. Observers
// alone are ended there, since only the kernel calls them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/comm/reach_keeper.h"
#include "kernel/comm/roster.h"
#include "kernel/control/control_thread.h"
#include "kernel/control/id_desk.h"
#include "kernel/control/rendezvous.h"
#include "kernel/engine/engine.h"
#include "kernel/events/observer_pump.h"
#include "kernel/link/keeper.h"
#include "kernel/loader/loader.h"
#include "kernel/profile/profile.h"
#include "kernel/topo/host.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_transport.h"

namespace sl::kernel {

// A table and the instance it belongs to.
template <typename Ops>
struct Served {
  std::string name;
  std::string module;  // name and version, for people
  bool uses_device;    // the module requires sl.device/1
  const Ops* ops;
  sl_instance_t* instance;
  uint32_t revision = 0;  // of the interface, that both sides speak
};

// The transports that a process has modules for.
struct OfferedTransports {
  std::vector<Served<sl_transport_ops_t>> all;

  // Those, by their index below 64, that were found to serve no rank of this host; opening one is no trifle.   [any]
  bool IsNetwork(size_t index) const { return index < 64 && (networks.load() >> index & 1) != 0; }
  void RememberNetwork(size_t index) {
    if (index < 64) networks.fetch_or(uint64_t{1} << index);
  }
  std::atomic<uint64_t> networks{0};
};

// An open device; never closed.
struct Device {
  std::string name;  // its provider's
  const sl_device_ops_t* ops = nullptr;
  sl_device_t* handle = nullptr;
  int32_t ordinal = 0;
  sl_device_info_t info{};

  bool is_host() const { return info.kind == SL_DEVICE_HOST; }
  // CPU loads and stores reach its memory: the engine can run plans over it.
  bool is_addressable() const { return (info.capabilities & SL_DEVICE_MEMORY_IS_HOST) != 0; }
  // Its memory can be shared with other processes.
  bool can_export() const { return (info.capabilities & SL_DEVICE_CAN_EXPORT) != 0; }
  // A launch has an end that the host learns of; elsewhere it is issued and forgotten.
  bool is_watched() const { return (info.capabilities & SL_DEVICE_RUNS_HOST_KERNELS) != 0; }
};

class Process {
 public:
  // Ends a process object that could not be made whole; another call may make one. A whole one is never destroyed.
  ~Process();
  // The process's own, made on the first call.   thread: [any]; the first call reads files and loads modules
  // returns: SL_ERR_STATE in a child after fork(): see GetForId | SL_ERR_CONFIG | SL_ERR_NOT_FOUND no device module | …
  static Result<Process*> Get();
  // The same for who makes ids and nothing else: programs make one, then fork their ranks. Until Get() is called, a
  // child after fork() starts from nothing; only the parent serves its ids.
  static Result<Process*> GetForId();
  // True in a child that was forked after Get(): nothing of Starling works there.   [data]
  static bool IsForkedChild();

  const Profile& profile() const { return profile_; }
  const Loader& loader() const { return *loader_; }
  const Device& host_device() const { return *host_device_; }
  // The device of `kind` (-1: what the profile prefers, else what the process uses, else the host) and `ordinal` (-1:
  // the calling thread's), opened at the first call.   [any] returns: SL_ERR_NOT_FOUND none of this kind, or not so
  // many
  Result<const Device*> FindDevice(int32_t kind, int32_t ordinal);
  // The open device that allocated `memory`, or nothing.   [any]
  const Device* DeviceOf(void* memory);
  const std::vector<Served<sl_algorithm_ops_t>>& algorithms() const { return algorithms_; }
  OfferedTransports* transports() { return &transports_; }
  ControlThread* control() { return control_.get(); }
  Switchboard* switchboard() { return switchboard_.get(); }
  Rendezvous* rendezvous() { return rendezvous_.get(); }
  SpentIds* spent_ids() { return &spent_ids_; }
  RosterShelf* rosters() { return &rosters_; }
  // Runs plans for streams; its thread starts with the first job.
  ProgressThread* progress() { return progress_.get(); }
  // Drives network links between operations; its thread starts with the first such link.
  LinkKeeper* keeper() { return &keeper_; }
  // Maps what peers offer; its thread starts with the first communicator that needs it.
  ReachKeeper* reach_keeper() { return &reach_keeper_; }
  const HostId& host() const { return host_; }

 private:
  explicit Process(Profile profile) : profile_(std::move(profile)) {}
  static Result<Process*> Make();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  // Delivers the last records and ends the observers, at the end of a process that ends normally.
  static void EndObservers();
  Status LoadModules();
  Status OpenHostDevice();
  static bool IsUsed(const Served<sl_device_ops_t>& provider);
  Result<const Device*> OpenDevice(const Served<sl_device_ops_t>& provider, int32_t ordinal);

  std::atomic<bool> is_in_use_{false};  // for more than ids
  const pid_t pid_ = getpid();
  Process* forebear_ = nullptr;  // left behind by a fork before the one that left this behind
  Profile profile_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<ObserverPump> pump_;
  std::vector<Served<sl_device_ops_t>> device_providers_;
  const Device* host_device_ = nullptr;
  std::mutex devices_mutex_;
  std::vector<std::unique_ptr<Device>> devices_;  // guarded by devices_mutex_; what they point to is constant
  std::vector<Served<sl_algorithm_ops_t>> algorithms_;
  OfferedTransports transports_;
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<Switchboard> switchboard_;
  std::unique_ptr<Rendezvous> rendezvous_;
  SpentIds spent_ids_;
  RosterShelf rosters_;
  std::unique_ptr<ProgressThread> progress_;
  LinkKeeper keeper_;
  ReachKeeper reach_keeper_;
  HostId host_{};
};

}  // namespace sl::kernel
