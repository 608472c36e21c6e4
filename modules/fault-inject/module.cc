// SPDX-License-Identifier: Apache-2.0
//
// The ABI face of fault-inject, a layer over any sl.transport/1; the faults are made in Connection.
#include "sdk/module.h"

#include "modules/fault-inject/transport.h"

struct sl_instance_t {
  const sl_host_t* host;
  const sl_transport_ops_t* ops;
  sl_instance_t* inner;
  sl::fault_inject::Settings settings;
};

namespace sl::fault_inject {
namespace {

Transport* Of(sl_transport_t* transport) { return reinterpret_cast<Transport*>(transport); }
Connection* Of(sl_connection_t* connection) { return reinterpret_cast<Connection*>(connection); }
sl_connection_t* ToC(Connection* connection) { return reinterpret_cast<sl_connection_t*>(connection); }
const sl_transport_ops_t* OpsOf(sl_connection_t* connection) { return Of(connection)->transport()->ops(); }

sl_status_t Open(sl_instance_t* instance, const sl_transport_env_t* env, sl_transport_t** out_transport) {
  return Guard(instance->host, [&]() -> Status {
    sl_transport_t* inner = nullptr;
    if (const sl_status_t status = instance->ops->open(instance->inner, env, &inner); status != SL_OK) {
      return Status(status, "fault-inject: the transport below cannot be opened");
    }
    auto* transport = new Transport(instance->host, instance->ops, inner, instance->settings, env->rank);
    *out_transport = reinterpret_cast<sl_transport_t*>(transport);
    return Status();
  });
}

void Close(sl_transport_t* transport) { delete Of(transport); }

sl_status_t PortCount(sl_transport_t* transport, uint32_t* out_count) {
  return Of(transport)->ops()->port_count(Of(transport)->inner(), out_count);
}

sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  return Of(transport)->ops()->port_info(Of(transport)->inner(), port, out_port);
}

sl_status_t Listen(sl_transport_t* transport, uint32_t port, sl_address_t* out_address) {
  return Of(transport)->ops()->listen(Of(transport)->inner(), port, out_address);
}

sl_status_t Connect(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                    sl_connection_t** out_connection) {
  return Guard(Of(transport)->host(), [&]() -> Status {
    SL_ASSIGN(Connection * connection, Of(transport)->Connect(*address, *args));
    *out_connection = ToC(connection);
    return Status();
  });
}

sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args) {
  return Guard(Of(transport)->host(), [&]() -> Status {
    SL_ASSIGN(Connection * connection, Of(transport)->Accept(out_args));
    *out_connection = ToC(connection);
    return Status();
  });
}

uint32_t ConnectionState(sl_connection_t* connection) { return Of(connection)->State(); }
sl_status_t Window(sl_connection_t* connection, sl_window_t* out_window) { return Of(connection)->Window(out_window); }
void Retire(sl_connection_t* connection) { Of(connection)->transport()->Retire(Of(connection)); }

sl_status_t RegisterMemory(sl_transport_t* transport, void* memory, uint64_t bytes, sl_region_t** out_region) {
  const sl_transport_ops_t* ops = Of(transport)->ops();
  sl_region_t* inner = nullptr;
  const sl_status_t status = ops->register_memory(Of(transport)->inner(), memory, bytes, &inner);
  if (status != SL_OK) return status;
  return Guard(Of(transport)->host(), [&] {
    *out_region = reinterpret_cast<sl_region_t*>(new Region{ops, inner});
    return Status();
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
  const sl_transport_ops_t* ops = OpsOf(connection);
  sl_remote_region_t* inner = nullptr;
  const sl_status_t status = ops->import_key(Of(connection)->inner(), key, key_bytes, &inner);
  if (status != SL_OK) return status;
  return Guard(Of(connection)->transport()->host(), [&] {
    *out_remote = reinterpret_cast<sl_remote_region_t*>(new RemoteRegion{ops, inner});
    return Status();
  });
}

void ReleaseKey(sl_remote_region_t* remote) {
  auto* ours = reinterpret_cast<RemoteRegion*>(remote);
  ours->ops->release_key(ours->inner);
  delete ours;
}

// May allocate: a put held back is copied. Faults are not measured.
sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) {
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

sl_status_t Flush(sl_connection_t* connection) { return OpsOf(connection)->flush(Of(connection)->inner()); }

sl_status_t Probe(sl_connection_t* connection, uint64_t cookie) {
  if (Of(connection)->State() == SL_CONNECTION_DOWN) return SL_ERR_LINK_DOWN;
  return OpsOf(connection)->probe(Of(connection)->inner(), cookie);
}

sl_status_t Progress(sl_transport_t* transport) { return Of(transport)->Progress(); }

sl_status_t Poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  return Of(transport)->Poll(completions, capacity, out_count);
}

void Notify(sl_connection_t* connection) { Of(connection)->Notify(); }

sl_status_t WaitObject(sl_transport_t* transport, sl_wait_object_t* out_object) {
  // Who sleeps would not hand on what is held back.
  if (Of(transport)->settings().delay_ns != 0) return SL_ERR_UNSUPPORTED;
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

constexpr sl_option_t kOptions[] = {
    IntOption("seed", "", "faults are a function of it and of the order of puts", "1", 0, 4294967295),
    IntOption("drop_per_million", "", "puts lost out of a million, with their signals", "0", 0, 1000000),
    IntOption("delay_us", "us", "every put arrives so much later, in order", "0", 0, 10000000),
    IntOption("kill_after_puts", "", "reset a connection after so many puts; 0: never", "0", 0, 1000000000),
    IntOption("kill_limit", "", "at most so many resets for each rank of a communicator", "1", 0, 1000000000),
};
constexpr auto kOptionPointers = PointersTo(kOptions);
constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_LAYER, SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, 1, &kOps, SL_MODULE_NAME}};
constexpr auto kProvidePointers = PointersTo(kProvides);
constexpr sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_TRANSPORT_ID, 1, SL_TRANSPORT_REVISION}};
constexpr auto kRequirementPointers = PointersTo(kRequirements);

sl_status_t OpenModule(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return Guard(host, [&] {
    const OptionReader options(args);
    const Settings settings = {static_cast<uint64_t>(options.Int(0)), static_cast<uint32_t>(options.Int(1)),
                               static_cast<uint64_t>(options.Int(2)) * 1000, static_cast<uint64_t>(options.Int(3)),
                               static_cast<uint64_t>(options.Int(4))};
    const auto* ops = static_cast<const sl_transport_ops_t*>(args->bindings[0]->ops);
    *out_instance = new sl_instance_t{host, ops, args->bindings[0]->instance, settings};
    return Status();
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void CloseModule(sl_instance_t* instance) { delete instance; }

constexpr sl_module_t kModule = {sizeof(sl_module_t),
                                 SL_CONTAINER_VERSION,
                                 SL_MODULE_MAGIC,
                                 SL_MODULE_NAME,
                                 SL_MODULE_VERSION,
                                 "Starling",
                                 "a layer that makes any transport lose, delay and break connections",
                                 SL_ABI_BUILD_ID,
                                 kOptionPointers.data(),
                                 kProvidePointers.data(),
                                 kRequirementPointers.data(),
                                 kOptionPointers.size(),
                                 kProvidePointers.size(),
                                 kRequirementPointers.size(),
                                 0,
                                 OpenModule,
                                 Quiesce,
                                 CloseModule};

}  // namespace
}  // namespace sl::fault_inject

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &sl::fault_inject::kModule, out_module);
}
