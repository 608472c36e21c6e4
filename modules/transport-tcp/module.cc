// SPDX-License-Identifier: Apache-2.0
//
// The ABI face of transport-tcp; the work is done by Transport and Connection.
#include "sdk/module.h"

#include <string>

#include "modules/transport-tcp/transport.h"
#include "sdk/answer.h"

struct sl_instance_t {
  const sl_host_t* host;
  sl::transport_tcp::Settings settings;
};

namespace sl::transport_tcp {
namespace {

Transport* Of(sl_transport_t* transport) { return reinterpret_cast<Transport*>(transport); }
Connection* Of(sl_connection_t* connection) { return reinterpret_cast<Connection*>(connection); }

sl_status_t Open(sl_instance_t* instance, const sl_transport_env_t* env, sl_transport_t** out_transport) {
  return Guard(instance->host, [&]() -> Status {
    if (env->struct_size < sizeof *env || env->rank >= env->size) {
      return Status(SL_ERR_INVALID, "transport-tcp: open: rank or struct_size of the environment is out of range");
    }
    SL_ASSIGN(std::unique_ptr<Transport> transport, Transport::Open(instance->host, instance->settings, *env));
    *out_transport = reinterpret_cast<sl_transport_t*>(transport.release());
    return Status();
  });
}

void Close(sl_transport_t* transport) { delete Of(transport); }

sl_status_t PortCount(sl_transport_t* transport, uint32_t* out_count) {
  *out_count = Of(transport)->port_count();
  return SL_OK;
}

sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  if (port >= Of(transport)->port_count()) return SL_ERR_INVALID;
  Of(transport)->PortInfo(port, out_port);
  return SL_OK;
}

sl_status_t Listen(sl_transport_t* transport, uint32_t port, sl_address_t* out_address) {
  if (port >= Of(transport)->port_count()) return SL_ERR_INVALID;
  return Guard(Of(transport)->host(), [&] { return Of(transport)->Listen(port, out_address); });
}

sl_status_t Connect(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                    sl_connection_t** out_connection) {
  return Guard(Of(transport)->host(), [&]() -> Status {
    if (args->port >= Of(transport)->port_count()) {
      return Status(SL_ERR_INVALID, "transport-tcp: connect: there is no port " + std::to_string(args->port));
    }
    SL_ASSIGN(Connection * connection, Of(transport)->Connect(*address, *args));
    *out_connection = reinterpret_cast<sl_connection_t*>(connection);
    return Status();
  });
}

sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args) {
  return Guard(Of(transport)->host(), [&]() -> Status {
    SL_ASSIGN(Connection * connection, Of(transport)->Accept());
    *out_connection = reinterpret_cast<sl_connection_t*>(connection);
    Answer(out_args, connection->Args());
    return Status();
  });
}

uint32_t ConnectionState(sl_connection_t* connection) { return Of(connection)->State(); }
sl_status_t GetWindow(sl_connection_t* connection, sl_window_t* out_window) {
  const sl_status_t status = Of(connection)->GetWindow(out_window);
  if (status == SL_OK || status == SL_ERR_AGAIN) [[likely]]
    return status;
  return Guard(Of(connection)->owner()->host(), [&] { return Of(connection)->WhyNotUp(); });
}
sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) { return Of(connection)->Put(*put); }
sl_status_t Probe(sl_connection_t* connection, uint64_t cookie) { return Of(connection)->Probe(cookie); }
void Notify(sl_connection_t* connection) { Of(connection)->Notify(); }
void Retire(sl_connection_t* connection) { Of(connection)->owner()->Retire(Of(connection)); }

// Payload is copied into the window by this rank's own processor before its signal is stored.
sl_status_t Flush(sl_connection_t*) { return SL_OK; }

sl_status_t Progress(sl_transport_t* transport) {
  return Guard(Of(transport)->host(), [&] { return Of(transport)->Progress() ? Status() : Status(SL_ERR_AGAIN); });
}

sl_status_t Poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  *out_count = Of(transport)->Poll(completions, capacity);
  return SL_OK;
}

sl_status_t WaitObject(sl_transport_t* transport, sl_wait_object_t* out_object) {
  Answer(out_object, {0, SL_WAIT_FD, nullptr, Of(transport)->WaitDescriptor(), 0});
  return SL_OK;
}

constexpr sl_transport_ops_t kOps = {
    sizeof(sl_transport_ops_t), 0, Open, Close, PortCount, PortInfo, Listen, Connect, Accept, ConnectionState,
    GetWindow, Retire,
    // register_memory and keys: the kernel stages. A put reads any memory, and only the window is written.
    nullptr, nullptr, nullptr, nullptr, nullptr, Put, Flush, Probe, Progress, Poll, Notify, WaitObject};

constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), 0, SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, 1, &kOps, SL_MODULE_NAME}};

sl_status_t OpenModule(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return Guard(host, [&]() -> Status {
    SL_ASSIGN(const Settings settings, ReadSettings(OptionReader(args)));
    *out_instance = new sl_instance_t{host, settings};
    return Status();
  });
}

// Transports are closed by their communicators before the kernel quiesces modules.
sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void CloseModule(sl_instance_t* instance) { delete instance; }

constexpr sl_module_t kModule = DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "connections over TCP, one stream each",
    .options = kPointersTo<kOptions>,
    .provides = kPointersTo<kProvides>,
    .open = OpenModule,
    .quiesce = Quiesce,
    .close = CloseModule,
});

}  // namespace
}  // namespace sl::transport_tcp

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &sl::transport_tcp::kModule, out_module);
}
