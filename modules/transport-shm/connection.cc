// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-shm/connection.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "modules/transport-shm/transport.h"
#include "sdk/answer.h"
#include "sdk/doorbell.h"

namespace sl::transport_shm {

Connection::Connection(Transport* transport, uint32_t end, const Hello& hello, std::unique_ptr<Mapping> segment)
    : transport_(transport),
      end_(end),
      hello_(hello),
      layout_{hello.window_bytes, hello.signal_count},
      segment_(std::move(segment)),
      local_window_(segment_->data() + layout_.Window(end)),
      peer_window_(segment_->data() + layout_.Window(1 - end)),
      local_signals_(reinterpret_cast<uint64_t*>(segment_->data() + layout_.Signals(end))),
      peer_signals_(reinterpret_cast<uint64_t*>(segment_->data() + layout_.Signals(1 - end))) {}

sl_status_t Connection::Put(const sl_put_t& put) noexcept {
  const uint32_t state = State();
  if (state != SL_CONNECTION_UP) [[unlikely]] {
    return state == SL_CONNECTION_CONNECTING ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  }
  if (put.target != nullptr || put.region != nullptr) [[unlikely]]
    return SL_ERR_INVALID;
  if (put.signal != SL_NO_SIGNAL && put.signal >= layout_.signal_count) [[unlikely]]
    return SL_ERR_INVALID;
  const bool has_data = put.source != nullptr && put.bytes != 0;
  if (has_data && (put.offset > layout_.window_bytes || put.bytes > layout_.window_bytes - put.offset)) [[unlikely]]
    return SL_ERR_INVALID;
  uint64_t ticket = 0;
  if (put.cookie != 0 && !transport_->completions().Reserve(&ticket)) [[unlikely]]
    return SL_ERR_AGAIN;
  if (has_data) std::memcpy(peer_window_ + put.offset, put.source, put.bytes);
  if (put.signal != SL_NO_SIGNAL) {
    // S1 pairs with the reader's acquire load of its signal word; payload of this put, or written there by the caller
    // through window.peer, is visible to who sees the value.
    std::atomic_ref<uint64_t>(peer_signals_[put.signal * 8]).store(put.signal_value, std::memory_order_release);
  }
  if (put.cookie != 0) {
    transport_->completions().Publish(ticket,
                                      {put.cookie, reinterpret_cast<sl_connection_t*>(this), SL_OK, SL_COMPLETION_PUT});
  }
  return SL_OK;
}

uint32_t Connection::State() const noexcept {
  const uint32_t state = state_.load(std::memory_order_acquire);
  if (state != SL_CONNECTION_UP) return state;
  // Pairs with Leave(): whatever the peer put before its goodbye is visible after it.
  const bool closed = std::atomic_ref<uint32_t>(theirs()->closed).load(std::memory_order_acquire) != 0;
  return closed ? SL_CONNECTION_CLOSED : SL_CONNECTION_UP;
}

sl_status_t Connection::Window(sl_window_t* out_window) noexcept {
  if (starting()) return SL_ERR_AGAIN;
  Answer(out_window, {0, layout_.signal_count, local_window_, local_signals_, peer_window_, layout_.window_bytes});
  return SL_OK;
}

void Connection::Notify() noexcept {
  Port* port = peer_port();
  if (port == nullptr) [[unlikely]] {
    // The acceptor sends its port before it can sleep waiting for us. Either the reply is here now, or the acceptor
    // has yet to look at our signals: the socket's lock orders the two.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    transport_->FinishReply(this);
    port = peer_port();
    if (port == nullptr) return;
  }
  Ring(&port->bell);
}

sl_status_t Connection::Probe(uint64_t cookie) noexcept {
  if (State() != SL_CONNECTION_UP) return starting() ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  if (probe_waits_.load(std::memory_order_acquire) != 0) return SL_ERR_AGAIN;
  probe_cookie_.store(cookie, std::memory_order_relaxed);
  std::atomic_ref<uint64_t> asked(mine()->probe_asked);
  const uint64_t number = asked.load(std::memory_order_relaxed) + 1;
  probe_waits_.store(number, std::memory_order_release);
  asked.store(number, std::memory_order_release);
  CallAttention();
  return SL_OK;
}

void Connection::ExchangeProbes() {
  std::atomic_ref<uint64_t> answered(mine()->probe_answered);
  const uint64_t theirs_asked = std::atomic_ref<uint64_t>(theirs()->probe_asked).load(std::memory_order_acquire);
  if (answered.load(std::memory_order_relaxed) != theirs_asked) {
    answered.store(theirs_asked, std::memory_order_release);
    CallAttention();
  }
  const uint64_t number = probe_waits_.load(std::memory_order_acquire);
  if (number == 0) return;
  const bool back = std::atomic_ref<uint64_t>(theirs()->probe_answered).load(std::memory_order_acquire) >= number;
  const bool lost = !back && State() != SL_CONNECTION_UP;
  uint64_t ticket = 0;
  if ((!back && !lost) || !transport_->completions().Reserve(&ticket)) return;
  const uint64_t cookie = probe_cookie_.load(std::memory_order_relaxed);
  probe_waits_.store(0, std::memory_order_release);
  transport_->completions().Publish(
      ticket, {cookie, reinterpret_cast<sl_connection_t*>(this), lost ? SL_ERR_LINK_DOWN : SL_OK, SL_COMPLETION_PROBE});
}

void Connection::CallAttention() {
  Port* port = peer_port();
  if (port == nullptr) return;  // the peer looks at new connections anyway, and at all of them now and then
  std::atomic_ref<uint32_t>(port->attention).fetch_add(1, std::memory_order_release);
  Ring(&port->bell);
}

Status Connection::Start(const char name[kNameBytes], const uint8_t secret[32], int port_fd) {
  if (!socket_.valid()) {
    Result<Fd> connected = ConnectTo(name);
    if (connected.status().code() == SL_ERR_AGAIN) return Status();
    if (!connected.ok()) {
      state_.store(SL_CONNECTION_DOWN, std::memory_order_release);
      return connected.status();
    }
    socket_ = connected.Take();
    hello_.proof = ProveHello(secret, hello_, name);
  }
  const int fds[2] = {segment_fd_.get(), port_fd};
  switch (SendPacket(socket_.get(), &hello_, sizeof hello_, fds, 2)) {
    case Transfer::kAgain:
    case Transfer::kShort:  // of receiving only
      return Status();
    case Transfer::kBroken:
      state_.store(SL_CONNECTION_DOWN, std::memory_order_release);
      return Status(SL_ERR_LINK_DOWN, std::string("the peer closed the socket: ") + std::strerror(errno));
    case Transfer::kDone:
      break;
  }
  segment_fd_.Close();
  state_.store(SL_CONNECTION_UP, std::memory_order_release);
  int32_t pid = 0;
  if (SameUser(socket_.get(), &pid)) WatchProcess(pid);
  return Status();
}

void Connection::FinishReply(const uint8_t secret[32]) {
  if (!awaits_reply()) return;
  Reply reply;
  Fd port;
  const Transfer transfer = ReceivePacket(socket_.get(), &reply, sizeof reply, &port, 1);
  if (transfer == Transfer::kShort) transport_->RunShort(SocketError("connect"));
  if (transfer == Transfer::kAgain || transfer == Transfer::kShort) return;
  const bool good = transfer == Transfer::kDone && reply.magic == kWireMagic && reply.version == kWireVersion &&
                    reply.bytes == sizeof reply && SameProof(reply.proof, ProveReply(secret, reply, hello_.proof));
  if (!good) return MarkLost();
  Result<std::unique_ptr<Mapping>> mapping = Mapping::Map(port.get(), kPortBytes, false);
  if (!mapping.ok()) {
    transport_->Log(SL_LOG_WARN, "peer " + std::to_string(hello_.to) + ": " + mapping.status().message());
    return MarkLost();
  }
  peer_port_mapping_ = mapping.Take();
  peer_port_.store(reinterpret_cast<Port*>(peer_port_mapping_->data()), std::memory_order_release);
  Ring(&peer_port()->bell);  // for what was put before we knew where to ring
}

void Connection::Adopt(Fd socket, std::unique_ptr<Mapping> peer_port) {
  socket_ = std::move(socket);
  peer_port_mapping_ = std::move(peer_port);
  peer_port_.store(reinterpret_cast<Port*>(peer_port_mapping_->data()), std::memory_order_release);
  state_.store(SL_CONNECTION_UP, std::memory_order_release);
  int32_t pid = 0;
  if (SameUser(socket_.get(), &pid)) WatchProcess(pid);
}

void Connection::SendReply(const uint8_t secret[32], int port_fd) {
  Reply reply = {kWireMagic, kWireVersion, sizeof(Reply), {}};
  reply.proof = ProveReply(secret, reply, hello_.proof);
  // A peer that has left already may still have put something: its window decides, not this packet.
  reply_due_ = SendPacket(socket_.get(), &reply, sizeof reply, &port_fd, 1) == Transfer::kAgain;
  Ring(&peer_port()->bell);
}

void Connection::WatchProcess(int32_t pid) {
  // A forked child of the peer may hold a copy of the socket, so its end alone does not prove life. In the same
  // process or another pid namespace the socket must do.
  if (pid <= 0 || pid == getpid()) return;
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) process_ = Fd(static_cast<int>(fd));
  if (fd < 0 && errno == ESRCH) MarkLost();
}

void Connection::MarkLost() {
  const bool goodbye = std::atomic_ref<uint32_t>(theirs()->closed).load(std::memory_order_acquire) != 0;
  state_.store(goodbye ? SL_CONNECTION_CLOSED : SL_CONNECTION_DOWN, std::memory_order_release);
}

void Connection::Leave() {
  std::atomic_ref<uint32_t>(mine()->closed).store(1, std::memory_order_release);
  CallAttention();
  // Forked children may hold copies of the descriptor; this ends it for all.
  if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
}

sl_connect_args_t Connection::Args() const {
  sl_connect_args_t args = {};
  args.peer = end_ == 0 ? hello_.to : hello_.from;
  args.lane = hello_.lane;
  args.tag = hello_.tag;
  args.window_bytes = hello_.window_bytes;
  args.signal_count = hello_.signal_count;
  return args;
}

}  // namespace sl::transport_shm
