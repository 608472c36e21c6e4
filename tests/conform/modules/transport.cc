// SPDX-License-Identifier: Apache-2.0
// A layer over a sound transport that passes everything on, but for what the one BROKEN_… that is defined says.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tests/conform/modules/layer.h"

namespace {

[[maybe_unused]] sl_status_t OpenTransport(sl_instance_t* instance, const sl_transport_env_t* env,
                                           sl_transport_t** out_transport) {
#if defined(BROKEN_TRANSPORT_ANY_SECRET)
  sl_transport_env_t open_to_all = *env;
  std::memset(open_to_all.job_secret, 0, sizeof open_to_all.job_secret);
  env = &open_to_all;
#endif
#if defined(BROKEN_TRANSPORT_MUTE)
  static void* volatile memory;  // volatile, or the compiler sees that nobody needs it
  memory = std::malloc(64);
  if (memory == nullptr) return SL_ERR_MEMORY;
  std::free(memory);
#endif
  return g_below->open(instance->inner, env, out_transport);
}

[[maybe_unused]] sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  const sl_status_t status = g_below->port_info(transport, port, out_port);
#if defined(BROKEN_TRANSPORT_TOO_FAST)
  if (SL_HAS(out_port, sl_port_t, bytes_per_second)) out_port->bytes_per_second = UINT64_MAX - 999;
#else
  std::memset(out_port->name, 'x', sizeof out_port->name);
#endif
  return status;
}

[[maybe_unused]] sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection,
                                    sl_connect_args_t* out_args) {
  const sl_status_t status = g_below->accept(transport, out_connection, out_args);
#if defined(BROKEN_TRANSPORT_WRONG_PEER)
  if (status == SL_OK) ++out_args->peer;
#elif defined(BROKEN_TRANSPORT_WRITES_ANYWAY)
  if (status != SL_OK) *out_connection = nullptr;
#endif
  return status;
}

[[maybe_unused]] uint32_t State(sl_connection_t* connection) {
  const uint32_t state = g_below->connection_state(connection);
#if defined(BROKEN_TRANSPORT_NEVER_ENDS)
  return state > SL_CONNECTION_UP ? SL_CONNECTION_UP : state;
#elif defined(BROKEN_TRANSPORT_ALL_DOWN)
  return state == SL_CONNECTION_CLOSED ? SL_CONNECTION_DOWN : state;
#else
  return state == SL_CONNECTION_DOWN ? SL_CONNECTION_CLOSED : state;
#endif
}

[[maybe_unused]] sl_status_t Window(sl_connection_t* connection, sl_window_t* out_window) {
  const sl_status_t status = g_below->window(connection, out_window);
  if (status == SL_OK && out_window->bytes > 3) static_cast<uint8_t*>(out_window->local)[3] = 1;
  return status;
}

[[maybe_unused]] sl_status_t Put(sl_connection_t* connection, const sl_put_t* given) {
  sl_put_t put = *given;
#if defined(BROKEN_TRANSPORT_SIGNAL_FIRST)
  if (put.bytes != 0 && put.signal != SL_NO_SIGNAL) {
    sl_put_t first = put;
    first.bytes = 0;
    first.source = nullptr;
    first.cookie = 0;
    const sl_status_t status = g_below->put(connection, &first);
    if (status != SL_OK) return status;
    put.signal = SL_NO_SIGNAL;
    sched_yield();
  }
#elif defined(BROKEN_TRANSPORT_SHORT)
  if (put.bytes > 64 && put.bytes % 2 == 1) --put.bytes;
#elif defined(BROKEN_TRANSPORT_LONG)
  static uint8_t more[1 << 17];
  if (put.bytes != 0 && put.bytes < 100 && put.target == nullptr) {
    std::memcpy(more, put.source, put.bytes);
    more[put.bytes] = 0xee;
    put.source = more;
    ++put.bytes;
  }
#elif defined(BROKEN_TRANSPORT_SWALLOWS)
  static std::atomic<uint32_t> puts{0};
  if (++puts % 100 == 0) return SL_OK;
#elif defined(BROKEN_TRANSPORT_NO_BOUNDS)
  if (g_below->put(connection, &put) == SL_ERR_INVALID) return SL_OK;
#elif defined(BROKEN_TRANSPORT_SLEEPS)
  usleep(20);
#elif defined(BROKEN_TRANSPORT_ALLOCATES)
  static void* volatile memory;
  memory = std::malloc(64);
  std::free(memory);
#elif defined(BROKEN_TRANSPORT_LOGS)
  static std::atomic<uint32_t> puts{0};
  if (++puts % 100 == 0) g_host->log(g_host->ctx, SL_LOG_INFO, "100 more puts");
#elif defined(BROKEN_TRANSPORT_REFUSES)
  static std::atomic<uint32_t> puts{0};
  if (++puts == 2) return SL_ERR_LINK_DOWN;
#elif defined(BROKEN_TRANSPORT_EMPTY)
  if (put.bytes == 0) return SL_OK;
#endif
  return g_below->put(connection, &put);
}

[[maybe_unused]] sl_status_t Poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity,
                                  uint32_t* out_count) {
  const sl_status_t status = g_below->poll(transport, completions, capacity, out_count);
#if defined(BROKEN_TRANSPORT_COMPLETES_TWICE)
  if (status == SL_OK && *out_count != 0 && *out_count < capacity) {
    completions[*out_count] = completions[0];
    ++*out_count;
  }
#elif defined(BROKEN_TRANSPORT_WRONG_CONNECTION)
  for (uint32_t i = 0; status == SL_OK && i < *out_count; ++i) completions[i].connection = nullptr;
#elif defined(BROKEN_TRANSPORT_LOSES_COMPLETIONS)
  if (status == SL_OK && *out_count > 3) --*out_count;
#endif
  return status;
}

[[maybe_unused]] void Silent(sl_connection_t*) {}

constexpr sl_transport_ops_t MakeOps() {
  sl_transport_ops_t ops = PassOn();
#if defined(BROKEN_TRANSPORT_NAME) || defined(BROKEN_TRANSPORT_TOO_FAST)
  ops.port_info = PortInfo;
#elif defined(BROKEN_TRANSPORT_WRONG_PEER) || defined(BROKEN_TRANSPORT_WRITES_ANYWAY)
  ops.accept = Accept;
#elif defined(BROKEN_TRANSPORT_NEVER_ENDS) || defined(BROKEN_TRANSPORT_ALL_DOWN) || defined(BROKEN_TRANSPORT_ALL_CLOSED)
  ops.connection_state = State;
#elif defined(BROKEN_TRANSPORT_STALE_WINDOW)
  ops.window = Window;
#elif defined(BROKEN_TRANSPORT_COMPLETES_TWICE) || defined(BROKEN_TRANSPORT_WRONG_CONNECTION) || \
    defined(BROKEN_TRANSPORT_LOSES_COMPLETIONS)
  ops.poll = Poll;
#elif defined(BROKEN_TRANSPORT_NEVER_RINGS)
  ops.notify = Silent;
#elif defined(BROKEN_TRANSPORT_MUTE) || defined(BROKEN_TRANSPORT_ANY_SECRET)
  ops.open = OpenTransport;
#elif !defined(BROKEN_TRANSPORT_NOTHING)
  ops.put = Put;
#endif
  return ops;
}

}  // namespace

const sl_transport_ops_t kOps = MakeOps();
