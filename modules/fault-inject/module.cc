// SPDX-License-Identifier: Apache-2.0
//
// The ABI face of fault-inject, a layer over any sl.transport/1; the faults are made in Connection.
#include "sdk/module.h"

#include <array>

#include "modules/fault-inject/transport.h"

struct sl_instance_t {
  const sl_host_t* host;
  const sl_transport_ops_t* ops;
  sl_instance_t* inner;
  sl::fault_inject::Settings settings;
  std::string control;
  bool thread;
};

namespace sl::fault_inject {
namespace {

Transport* Of(sl_transport_t* transport) { return reinterpret_cast<Transport*>(transport); }
Connection* Of(sl_connection_t* connection) { return reinterpret_cast<Connection*>(connection); }
sl_connection_t* ToC(Connection* connection) { return reinterpret_cast<sl_connection_t*>(connection); }
std::lock_guard<std::mutex> Lock(Transport* transport) { return std::lock_guard(transport->mutex()); }
std::lock_guard<std::mutex> Lock(sl_connection_t* connection) { return Lock(Of(connection)->transport()); }
const sl_transport_ops_t* OpsOf(sl_connection_t* connection) { return Of(connection)->transport()->ops(); }

// Closes the transport below when it cannot be wrapped.
std::unique_ptr<Transport> Wrap(const sl_instance_t* instance, sl_transport_t* inner, uint32_t rank) {
  try {
    return std::make_unique<Transport>(instance->host, instance->ops, inner, instance->settings, instance->control,
                                       rank);
  } catch (...) {
    instance->ops->close(inner);
    throw;
  }
}

sl_status_t Open(sl_instance_t* instance, const sl_transport_env_t* env, sl_transport_t** out_transport) {
  return Guard(instance->host, [&]() -> Status {
    sl_transport_t* inner = nullptr;
    if (const sl_status_t status = instance->ops->open(instance->inner, env, &inner); status != SL_OK) {
      return Status(status, "fault-inject: the transport below cannot be opened");
    }
    auto transport = Wrap(instance, inner, env->rank);
    if (instance->thread) SL_TRY(transport->StartThread());
    *out_transport = reinterpret_cast<sl_transport_t*>(transport.release());
    return Status();
  });
}

void Close(sl_transport_t* transport) { delete Of(transport); }

sl_status_t PortCount(sl_transport_t* transport, uint32_t* out_count) {
  return Of(transport)->ops()->port_count(Of(transport)->inner(), out_count);
}

sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  const auto lock = Lock(Of(transport));
  return Of(transport)->PortInfo(port, out_port);
}

sl_status_t Listen(sl_transport_t* transport, uint32_t port, sl_address_t* out_address) {
  const auto lock = Lock(Of(transport));
  return Of(transport)->ops()->listen(Of(transport)->inner(), port, out_address);
}

sl_status_t Connect(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                    sl_connection_t** out_connection) {
  const auto lock = Lock(Of(transport));
  return Guard(Of(transport)->host(), [&]() -> Status {
    SL_ASSIGN(Connection * connection, Of(transport)->Connect(*address, *args));
    *out_connection = ToC(connection);
    return Status();
  });
}

sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args) {
  const auto lock = Lock(Of(transport));
  return Guard(Of(transport)->host(), [&]() -> Status {
    SL_ASSIGN(Connection * connection, Of(transport)->Accept(out_args));
    *out_connection = ToC(connection);
    return Status();
  });
}

uint32_t ConnectionState(sl_connection_t* connection) {
  const auto lock = Lock(connection);
  return Of(connection)->State();
}
sl_status_t Window(sl_connection_t* connection, sl_window_t* out_window) {
  const auto lock = Lock(connection);
  return Of(connection)->Window(out_window);
}
void Retire(sl_connection_t* connection) {
  Transport* transport = Of(connection)->transport();
  const auto lock = Lock(transport);
  transport->Retire(Of(connection));
}

sl_status_t RegisterMemory(sl_transport_t* transport, void* memory, uint64_t bytes, sl_region_t** out_region) {
  return Guard(Of(transport)->host(), [&] {
    auto region = std::make_unique<Region>(Region{Of(transport)->ops(), nullptr});
    const sl_status_t status = region->ops->register_memory(Of(transport)->inner(), memory, bytes, &region->inner);
    if (status == SL_OK) *out_region = reinterpret_cast<sl_region_t*>(region.release());
    return Status(status);
  });
}

void DeregisterMemory(sl_region_t* region) {
  auto* ours = reinterpret_cast<Region*>(region);
  ours->ops->deregister_memory(ours->inner);
  delete ours;
}

sl_status_t RegionKey(sl_region_t* region, void* key, uint32_t key_capacity, uint32_t* out_key_bytes) {
  auto* ours = reinterpret_cast<Region*>(region);
  return ours->ops->region_key(ours->inner, key, key_capacity, out_key_bytes);
}

sl_status_t ImportKey(sl_connection_t* connection, const void* key, uint32_t key_bytes,
                      sl_remote_region_t** out_remote) {
  const auto lock = Lock(connection);
  return Guard(Of(connection)->transport()->host(), [&] {
    auto remote = std::make_unique<RemoteRegion>(RemoteRegion{OpsOf(connection), nullptr});
    const sl_status_t status = remote->ops->import_key(Of(connection)->inner(), key, key_bytes, &remote->inner);
    if (status == SL_OK) *out_remote = reinterpret_cast<sl_remote_region_t*>(remote.release());
    return Status(status);
  });
}

void ReleaseKey(sl_remote_region_t* remote) {
  auto* ours = reinterpret_cast<RemoteRegion*>(remote);
  ours->ops->release_key(ours->inner);
  delete ours;
}

// May lock and allocate: a put held back is copied. Faults are not measured.
sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) {
  const auto lock = Lock(connection);
  sl_put_t below = *put;
  if (put->region != nullptr) below.region = reinterpret_cast<Region*>(put->region)->inner;
  if (put->target != nullptr) below.target = reinterpret_cast<RemoteRegion*>(put->target)->inner;
  sl_status_t status = SL_OK;
  const sl_status_t guarded = Guard(Of(connection)->transport()->host(), [&] {
    status = Of(connection)->Put(below);
    return Status();
  });
  return guarded != SL_OK ? guarded : status;
}

sl_status_t Flush(sl_connection_t* connection) {
  const auto lock = Lock(connection);
  return OpsOf(connection)->flush(Of(connection)->inner());
}

sl_status_t Probe(sl_connection_t* connection, uint64_t cookie) {
  const auto lock = Lock(connection);
  if (Of(connection)->State() == SL_CONNECTION_DOWN) return SL_ERR_LINK_DOWN;
  return OpsOf(connection)->probe(Of(connection)->inner(), cookie);
}

sl_status_t Progress(sl_transport_t* transport) {
  const auto lock = Lock(Of(transport));
  return Guard(Of(transport)->host(), [&] { return Status(Of(transport)->Progress()); });
}

sl_status_t Poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  const auto lock = Lock(Of(transport));
  return Guard(Of(transport)->host(), [&] { return Status(Of(transport)->Poll(completions, capacity, out_count)); });
}

void Notify(sl_connection_t* connection) {
  const auto lock = Lock(connection);
  Of(connection)->Notify();
}

sl_status_t WaitObject(sl_transport_t* transport, sl_wait_object_t* out_object) {
  // Who sleeps would not hand on what is held back.
  if (Of(transport)->NeedsProgress()) return SL_ERR_UNSUPPORTED;
  return Of(transport)->ops()->wait_object(Of(transport)->inner(), out_object);
}

constexpr sl_transport_ops_t kOps = {sizeof(sl_transport_ops_t),
                                     0,
                                     Open,
                                     Close,
                                     PortCount,
                                     PortInfo,
                                     Listen,
                                     Connect,
                                     Accept,
                                     ConnectionState,
                                     Window,
                                     Retire,
                                     RegisterMemory,
                                     DeregisterMemory,
                                     RegionKey,
                                     ImportKey,
                                     ReleaseKey,
                                     Put,
                                     Flush,
                                     Probe,
                                     Progress,
                                     Poll,
                                     Notify,
                                     WaitObject};

// The settings of the profile, where the control file is, and who moves what is held back.
constexpr size_t kNumbers = CountInProfile();
constexpr size_t kAll = kNumbers + 2;
constexpr std::array<sl_option_t, kAll> MakeOptions() {
  std::array<sl_option_t, kAll> options = {};
  size_t next = 0;
  for (const Setting& setting : kSettings) {
    if (!setting.in_profile) continue;
    options[next++] = IntOption(setting.name, setting.unit, setting.doc, setting.default_text, 0, setting.maximum);
  }
  options[kNumbers] = StringOption("control", "a file that changes faults at run time; empty: none", "");
  options[kNumbers + 1] =
      BoolOption("thread", "a thread moves what is held back, as a network would; else only progress() does", "true");
  return options;
}
constexpr std::array<sl_option_t, kAll> kOptions = MakeOptions();
constexpr std::array<const sl_option_t*, kAll> PointersToOptions() {
  std::array<const sl_option_t*, kAll> pointers = {};
  for (size_t i = 0; i < pointers.size(); ++i) pointers[i] = &kOptions[i];
  return pointers;
}
constexpr auto kOptionPointers = PointersToOptions();
constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_LAYER, SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, 1, &kOps, SL_MODULE_NAME}};
constexpr sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_TRANSPORT_ID, 1, SL_TRANSPORT_REVISION}};

sl_status_t OpenModule(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return Guard(host, [&] {
    const OptionReader options(args);
    Settings settings;
    uint32_t next = 0;
    for (const Setting& setting : kSettings) {
      if (setting.in_profile) settings.*setting.value = static_cast<uint64_t>(options.Int(next++));
    }
    const auto* ops = static_cast<const sl_transport_ops_t*>(args->bindings[0]->ops);
    *out_instance = new sl_instance_t{
        host, ops, args->bindings[0]->instance, settings, options.String(kNumbers), options.Bool(kNumbers + 1)};
    return Status();
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void CloseModule(sl_instance_t* instance) { delete instance; }

constexpr sl_module_t kModule = DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a layer that makes any transport lose, spoil, delay and break off what passes through it",
    .options = kOptionPointers,
    .provides = kPointersTo<kProvides>,
    .requirements = kPointersTo<kRequirements>,
    .open = OpenModule,
    .quiesce = Quiesce,
    .close = CloseModule,
});

}  // namespace
}  // namespace sl::fault_inject

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &sl::fault_inject::kModule, out_module);
}
