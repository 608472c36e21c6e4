/* SPDX-License-Identifier: Apache-2.0
 *
 * vendor-relay: a layer around any transport, in plain C. It hands every call on and tallies what it reads in the
 * structs of sl.transport/1 as they were when the interface was closed; the tally goes to the log when a transport is
 * closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sl_transport.h"

struct sl_instance_t {
  const sl_host_t* host;
  const sl_transport_ops_t* below;
  sl_instance_t* inner;
};

/* One rank's use. The objects it makes are those of the layer below, so only the transport needs a place of its own. */
struct sl_transport_t {
  sl_instance_t* instance;
  sl_transport_t* inner;
  uint64_t ports, connections, completions;
};

/* Calls on connections and regions name no instance; a process opens one. */
static const sl_transport_ops_t* below;
static uint64_t put_count, put_bytes; /* of all ranks; put() may run on many threads */

static sl_status_t open_transport(sl_instance_t* instance, const sl_transport_env_t* env,
                                  sl_transport_t** out_transport) {
  sl_transport_t* transport = calloc(1, sizeof *transport);
  if (transport == NULL) return instance->host->set_error(instance->host->ctx, SL_ERR_MEMORY, "out of host memory");
  transport->instance = instance;
  const sl_status_t status = below->open(instance->inner, env, &transport->inner);
  if (status != SL_OK) {
    free(transport);
    return status;
  }
  *out_transport = transport;
  return SL_OK;
}

static void close_transport(sl_transport_t* transport) {
  const sl_host_t* host = transport->instance->host;
  char text[160];
  below->close(transport->inner);
  snprintf(text, sizeof text, "relayed %llu ports, %llu connections, %llu puts, %llu bytes, %llu completions",
           (unsigned long long)transport->ports, (unsigned long long)transport->connections,
           (unsigned long long)__atomic_load_n(&put_count, __ATOMIC_RELAXED),
           (unsigned long long)__atomic_load_n(&put_bytes, __ATOMIC_RELAXED),
           (unsigned long long)transport->completions);
  host->log(host->ctx, SL_LOG_INFO, text);
  free(transport);
}

static sl_status_t port_count(sl_transport_t* transport, uint32_t* out_count) {
  return below->port_count(transport->inner, out_count);
}

/* Its own struct, as long as it was in revision 1: the layer below may know a longer one. */
static sl_status_t port_info(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  sl_port_t facts = {.struct_size = sizeof facts};
  const sl_status_t status = below->port_info(transport->inner, port, &facts);
  if (status != SL_OK) return status;
  const uint32_t room = out_port->struct_size;
  ++transport->ports;
  facts.max_key_bytes = 0;
  facts.struct_size = room;
  memcpy(out_port, &facts, room < sizeof facts ? room : sizeof facts);
  return SL_OK;
}

static sl_status_t listen_on(sl_transport_t* transport, uint32_t port, sl_address_t* out_address) {
  return below->listen(transport->inner, port, out_address);
}

static sl_status_t connect_to(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                              sl_connection_t** out_connection) {
  sl_connect_args_t known = {.struct_size = sizeof known};
  memcpy(&known, args, args->struct_size < sizeof known ? args->struct_size : sizeof known);
  known.struct_size = sizeof known;
  const sl_status_t status = below->connect(transport->inner, address, &known, out_connection);
  transport->connections += status == SL_OK;
  return status;
}

static sl_status_t accept_from(sl_transport_t* transport, sl_connection_t** out_connection,
                               sl_connect_args_t* out_args) {
  const sl_status_t status = below->accept(transport->inner, out_connection, out_args);
  transport->connections += status == SL_OK;
  return status;
}

static uint32_t connection_state(sl_connection_t* connection) { return below->connection_state(connection); }

/* Hides that stores may reach the peer, so that every byte passes through put(). */
static sl_status_t get_window(sl_connection_t* connection, sl_window_t* out_window) {
  const sl_status_t status = below->window(connection, out_window);
  if (status == SL_OK && SL_HAS(out_window, sl_window_t, peer)) out_window->peer = NULL;
  return status;
}

static void retire(sl_connection_t* connection) { below->retire(connection); }

static sl_status_t put(sl_connection_t* connection, const sl_put_t* given) {
  sl_put_t known = {.struct_size = sizeof known};
  memcpy(&known, given, given->struct_size < sizeof known ? given->struct_size : sizeof known);
  known.struct_size = sizeof known;
  const sl_status_t status = below->put(connection, &known);
  if (status == SL_OK) {
    __atomic_fetch_add(&put_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&put_bytes, known.bytes, __ATOMIC_RELAXED);
  }
  return status;
}

static sl_status_t flush(sl_connection_t* connection) { return below->flush(connection); }
static sl_status_t probe(sl_connection_t* connection, uint64_t cookie) { return below->probe(connection, cookie); }
static sl_status_t progress(sl_transport_t* transport) { return below->progress(transport->inner); }

static sl_status_t poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity,
                        uint32_t* out_count) {
  const sl_status_t status = below->poll(transport->inner, completions, capacity, out_count);
  if (status == SL_OK) transport->completions += *out_count;
  return status;
}

static void notify(sl_connection_t* connection) { below->notify(connection); }

static sl_status_t wait_object(sl_transport_t* transport, sl_wait_object_t* out_object) {
  return below->wait_object(transport->inner, out_object);
}

static sl_status_t module_open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  sl_instance_t* instance = malloc(sizeof *instance);
  if (instance == NULL) return host->set_error(host->ctx, SL_ERR_MEMORY, "out of host memory");
  below = args->bindings[0]->ops;
  *instance = (sl_instance_t){host, below, args->bindings[0]->instance};
  *out_instance = instance;
  return SL_OK;
}

static sl_status_t module_quiesce(sl_instance_t* instance, uint64_t deadline_ns) {
  (void)instance, (void)deadline_ns;
  return SL_OK;
}

static void module_close(sl_instance_t* instance) { free(instance); }

/* Registration stays out: a layer that hands regions on would have to know whose they are. */
static const sl_transport_ops_t ops = {.struct_size = sizeof ops,
                                       .open = open_transport,
                                       .close = close_transport,
                                       .port_count = port_count,
                                       .port_info = port_info,
                                       .listen = listen_on,
                                       .connect = connect_to,
                                       .accept = accept_from,
                                       .connection_state = connection_state,
                                       .window = get_window,
                                       .retire = retire,
                                       .put = put,
                                       .flush = flush,
                                       .probe = probe,
                                       .progress = progress,
                                       .poll = poll,
                                       .notify = notify,
                                       .wait_object = wait_object};
static const sl_provide_t provide = {.struct_size = sizeof provide,
                                     .flags = SL_INTERFACE_LAYER,
                                     .id = SL_TRANSPORT_ID,
                                     .revision = 1,
                                     .revision_min = 1,
                                     .ops = &ops,
                                     .name = "relay"};
static const sl_provide_t* const provides[] = {&provide};
static const sl_require_t require = {
    .struct_size = sizeof require, .id = SL_TRANSPORT_ID, .revision_min = 1, .revision_max = 1};
static const sl_require_t* const requirements[] = {&require};

static const sl_module_t module = {
    .struct_size = sizeof module,
    .container_version = SL_CONTAINER_VERSION,
    .magic = SL_MODULE_MAGIC,
    .name = "vendor-relay",
    .version = "1.0.0",
    .vendor = "A Vendor",
    .summary = "hands everything on, in C",
    .build_id = SL_ABI_BUILD_ID,
    .provides = provides,
    .requirements = requirements,
    .provide_count = 1,
    .require_count = 1,
    .open = module_open,
    .quiesce = module_quiesce,
    .close = module_close,
};

SL_EXPORT sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  if (hello == NULL || out_module == NULL || hello->magic != SL_MODULE_MAGIC) return SL_ERR_INVALID;
  if (hello->container_min > SL_CONTAINER_VERSION || hello->container_max < SL_CONTAINER_VERSION) {
    return SL_ERR_UNSUPPORTED;
  }
  *out_module = &module;
  return SL_OK;
}
