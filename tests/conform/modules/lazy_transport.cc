// SPDX-License-Identifier: Apache-2.0
// A layer over a sound transport that keeps every promise as late as the header allows, as one with small socket
// buffers does: nothing is inline, a put is only queued, its source read by a later progress(), and flush() says that a
// connection is down. notify() sends as much as a small buffer takes. Sound, but for what the one BROKEN_… that is
// defined says.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "tests/conform/modules/layer.h"

namespace {

// What waits to be put on one connection. A fixed number: nothing here asks for memory.
struct Queue {
  static constexpr uint32_t kCapacity = 24;

  std::atomic<sl_connection_t*> connection{nullptr};
  std::mutex mutex;
  sl_transport_t* transport = nullptr;
  uint64_t window_bytes = 0;
  uint32_t signal_count = 0;
  uint64_t room = 0;  // bytes that notify() may still send; progress() makes room again
  uint32_t count = 0;
  sl_put_t puts[kCapacity];
  // Cookies of puts that were queued when the connection went down.
  uint32_t lost = 0;
  uint64_t cookies[kCapacity];
};
constexpr uint64_t kBufferBytes = 2048;
constexpr uint32_t kQueues = 1024;
Queue g_queues[kQueues];

#if defined(BROKEN_TRANSPORT_LATE)
sl_put_t g_late[8];
uint32_t g_late_count = 0;
sl_transport_t* g_late_of = nullptr;
#endif

Queue* Find(const sl_connection_t* connection) {
  for (Queue& queue : g_queues) {
    if (queue.connection.load(std::memory_order_acquire) == connection) return &queue;
  }
  return nullptr;
}

bool IsOver(sl_connection_t* connection) { return g_below->connection_state(connection) >= SL_CONNECTION_DOWN; }

// Keeps what connect() or accept() made. There are more places than any test has connections.
sl_status_t Keep(sl_transport_t* transport, sl_connection_t* connection, const sl_connect_args_t& args) {
  for (Queue& queue : g_queues) {
    const std::lock_guard lock(queue.mutex);
    if (queue.connection.load(std::memory_order_relaxed) != nullptr) continue;
    queue.transport = transport;
    queue.window_bytes = args.window_bytes;
    queue.signal_count = args.signal_count;
    queue.room = kBufferBytes;
    queue.count = 0;
    queue.lost = 0;
#if defined(BROKEN_TRANSPORT_LATE)
    while (g_late_count != 0 && g_late_of == transport) queue.puts[queue.count++] = g_late[--g_late_count];
#endif
    queue.connection.store(connection, std::memory_order_release);
    return SL_OK;
  }
  g_below->retire(connection);
  return SL_ERR_LIMIT;
}

// Puts what is queued, as far as it fits into `room` bytes. The queue's mutex is held.
void Send(Queue& queue, uint64_t room) {
  sl_connection_t* connection = queue.connection.load(std::memory_order_relaxed);
  if (queue.count == 0) return;
  uint32_t sent = 0;
  sl_status_t status = SL_OK;
  while (sent < queue.count && queue.puts[sent].bytes <= room) {
    if ((status = g_below->put(connection, &queue.puts[sent])) != SL_OK) break;
    room -= queue.puts[sent++].bytes;
  }
  queue.room = room;
  std::copy(queue.puts + sent, queue.puts + queue.count, queue.puts);
  queue.count -= sent;
  g_below->notify(connection);
  if (status == SL_OK || status == SL_ERR_AGAIN) return;
#if defined(BROKEN_TRANSPORT_LATE)
  // They find their way: to whatever connection comes next.
  g_late_of = queue.transport;
  g_late_count = std::min(queue.count, 8u);
  std::copy(queue.puts, queue.puts + g_late_count, g_late);
#endif
  for (uint32_t i = 0; i < queue.count; ++i) {
    if (queue.puts[i].cookie != 0) queue.cookies[queue.lost++] = queue.puts[i].cookie;
  }
  queue.count = 0;
}

sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  const sl_status_t status = g_below->port_info(transport, port, out_port);
  if (status == SL_OK && SL_HAS(out_port, sl_port_t, max_inline_bytes)) out_port->max_inline_bytes = 0;
  return status;
}

sl_status_t Connect(sl_transport_t* transport, const sl_address_t* address, const sl_connect_args_t* args,
                    sl_connection_t** out_connection) {
  sl_connection_t* connection = nullptr;
  sl_status_t status = g_below->connect(transport, address, args, &connection);
  if (status == SL_OK) status = Keep(transport, connection, *args);
  if (status == SL_OK) *out_connection = connection;
  return status;
}

sl_status_t Accept(sl_transport_t* transport, sl_connection_t** out_connection, sl_connect_args_t* out_args) {
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  sl_connection_t* connection = nullptr;
  sl_status_t status = g_below->accept(transport, &connection, &args);
  if (status == SL_OK) status = Keep(transport, connection, args);
  if (status != SL_OK) return status;
  args.struct_size = out_args->struct_size;
  std::memcpy(out_args, &args, std::min<size_t>(args.struct_size, sizeof args));
  *out_connection = connection;
  return SL_OK;
}

// A connection that is down takes nothing more; what it held back is not kept from the peer.
void End(Queue& queue) {
  const std::lock_guard lock(queue.mutex);
  sl_connection_t* connection = queue.connection.load(std::memory_order_relaxed);
  for (int turn = 0; queue.count != 0 && turn < 1000; ++turn) Send(queue, UINT64_MAX);
  queue.connection.store(nullptr, std::memory_order_release);
  g_below->retire(connection);
}

void Retire(sl_connection_t* connection) { End(*Find(connection)); }

void CloseTransport(sl_transport_t* transport) {
  for (Queue& queue : g_queues) {
    if (queue.connection.load(std::memory_order_acquire) != nullptr && queue.transport == transport) End(queue);
  }
  g_below->close(transport);
}

sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) {
  Queue& queue = *Find(connection);
  if (put->target == nullptr && (put->bytes > queue.window_bytes || put->offset > queue.window_bytes - put->bytes)) {
    return SL_ERR_INVALID;
  }
  if (put->signal != SL_NO_SIGNAL && put->signal >= queue.signal_count) return SL_ERR_INVALID;
  if (IsOver(connection)) return SL_ERR_LINK_DOWN;
  const std::lock_guard lock(queue.mutex);
  if (queue.count == Queue::kCapacity) return SL_ERR_AGAIN;
  queue.puts[queue.count++] = *put;
#if defined(BROKEN_TRANSPORT_EARLY_SIGNAL)
  // What is too much for one buffer is announced before it is sent.
  if (queue.count == 1 && put->bytes > (1u << 20) && put->signal != SL_NO_SIGNAL) {
    sl_put_t signal = *put;
    signal.bytes = 0;
    signal.source = nullptr;
    signal.cookie = 0;
    if (g_below->put(connection, &signal) == SL_OK) queue.puts[0].signal = SL_NO_SIGNAL;
    g_below->notify(connection);
    return SL_OK;
  }
#endif
  return SL_OK;
}

void Notify(sl_connection_t* connection) {
  Queue& queue = *Find(connection);
  const std::lock_guard lock(queue.mutex);
  Send(queue, queue.room);
  g_below->notify(connection);
}

sl_status_t Flush(sl_connection_t* connection) {
  return IsOver(connection) ? SL_ERR_LINK_DOWN : g_below->flush(connection);
}

sl_status_t Progress(sl_transport_t* transport) {
  for (Queue& queue : g_queues) {
    if (queue.connection.load(std::memory_order_acquire) == nullptr) continue;
    const std::lock_guard lock(queue.mutex);
    if (queue.connection.load(std::memory_order_relaxed) != nullptr && queue.transport == transport) {
      Send(queue, UINT64_MAX);
      queue.room = kBufferBytes;
    }
  }
  return g_below->progress(transport);
}

sl_status_t Poll(sl_transport_t* transport, sl_completion_t* completions, uint32_t capacity, uint32_t* out_count) {
  const sl_status_t status = g_below->poll(transport, completions, capacity, out_count);
  for (Queue& queue : g_queues) {
    if (status != SL_OK) break;
    const std::lock_guard lock(queue.mutex);
    sl_connection_t* connection = queue.connection.load(std::memory_order_relaxed);
    if (connection == nullptr || queue.transport != transport) continue;
    uint32_t taken = 0;
    for (; taken < queue.lost && *out_count < capacity; ++taken) {
      completions[(*out_count)++] = {queue.cookies[taken], connection, SL_ERR_LINK_DOWN, SL_COMPLETION_PUT};
    }
    std::copy(queue.cookies + taken, queue.cookies + queue.lost, queue.cookies);
    queue.lost -= taken;
  }
  return status;
}

// Two processes know each other's windows only through put(): what is stored there could overtake what is queued.
sl_status_t Window(sl_connection_t* connection, sl_window_t* out_window) {
  const sl_status_t status = g_below->window(connection, out_window);
  if (status == SL_OK && SL_HAS(out_window, sl_window_t, peer)) out_window->peer = nullptr;
  return status;
}

constexpr sl_transport_ops_t MakeOps() {
  sl_transport_ops_t ops = PassOn();
  ops.port_info = PortInfo;
  ops.connect = Connect;
  ops.accept = Accept;
  ops.retire = Retire;
  ops.close = CloseTransport;
  ops.put = Put;
  ops.flush = Flush;
  ops.notify = Notify;
  ops.progress = Progress;
  ops.poll = Poll;
  ops.window = Window;
  return ops;
}

}  // namespace

const sl_transport_ops_t kOps = MakeOps();
