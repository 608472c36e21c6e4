// SPDX-License-Identifier: Apache-2.0
//
// What a process has once: the profile, the modules, the host device, the control thread. Made at the first call that
// needs it and never torn down: libstarling.so stays loaded, and at exit other threads may still be inside.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kernel/comm/control_thread.h"
#include "kernel/comm/rendezvous.h"
#include "kernel/comm/roster.h"
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
};

struct Device {
  const sl_device_ops_t* ops = nullptr;
  sl_device_t* handle = nullptr;
  sl_device_info_t info{};
};

class Process {
 public:
  // The process's own, made on the first call.   thread: [any]; the first call reads files and loads modules
  // returns: SL_ERR_STATE in a child after fork | SL_ERR_CONFIG | SL_ERR_NOT_FOUND no device module | …
  static Result<Process*> Get();
  // True in a child after fork(): nothing of Starling works there.   [data]
  static bool IsForkedChild();

  const Profile& profile() const { return profile_; }
  const Loader& loader() const { return *loader_; }
  const Device& host_device() const { return host_device_; }
  const std::vector<Served<sl_algorithm_ops_t>>& algorithms() const { return algorithms_; }
  const std::vector<Served<sl_transport_ops_t>>& transports() const { return transports_; }
  // Transports, by their index below 64, that were found to serve no rank of this host; opening one is no trifle. [any]
  bool IsNetwork(size_t transport) const { return transport < 64 && (networks_.load() >> transport & 1) != 0; }
  void RememberNetwork(size_t transport) {
    if (transport < 64) networks_.fetch_or(uint64_t{1} << transport);
  }
  ControlThread* control() { return control_.get(); }
  Switchboard* switchboard() { return switchboard_.get(); }
  Rendezvous* rendezvous() { return rendezvous_.get(); }
  RosterShelf* rosters() { return &rosters_; }
  // Runs plans for streams; its thread starts with the first job.
  ProgressThread* progress() { return progress_.get(); }
  // Drives network links between operations; its thread starts with the first such link.
  LinkKeeper* keeper() { return &keeper_; }
  const HostId& host() const { return host_; }

 private:
  explicit Process(Profile profile) : profile_(std::move(profile)) {}
  static Result<Process*> Make();
  Status LoadModules();
  Status OpenHostDevice();

  Profile profile_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<ObserverPump> pump_;
  Device host_device_;
  std::vector<Served<sl_algorithm_ops_t>> algorithms_;
  std::vector<Served<sl_transport_ops_t>> transports_;
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<Switchboard> switchboard_;
  std::unique_ptr<Rendezvous> rendezvous_;
  RosterShelf rosters_;
  std::unique_ptr<ProgressThread> progress_;
  LinkKeeper keeper_;
  std::atomic<uint64_t> networks_{0};
  HostId host_{};
};

}  // namespace sl::kernel
