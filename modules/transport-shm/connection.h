// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection: a shared segment with both ends' windows and signal words, and the Unix socket through
// which it was made. The socket stays open, because its end tells that the peer's process ended.
//
// thread: Put, Notify, Probe and State are [data]; everything else is called by Transport under its mutex. Fields that
// both sides touch are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "modules/transport-shm/completion_ring.h"
#include "modules/transport-shm/segment.h"
#include "modules/transport-shm/wire.h"
#include "sl_transport.h"

namespace sl::transport_shm {

class Transport;

class Connection {
 public:
  // `end` is 0 for the connecting, 1 for the accepting end. `hello` is what was, or will be, said.
  Connection(Transport* transport, uint32_t end, const Hello& hello, std::unique_ptr<Mapping> segment);

  sl_status_t Put(const sl_put_t& put) noexcept;
  sl_status_t Probe(uint64_t cookie) noexcept;
  // Wakes the peer's rank. Before the peer's port is known this looks for the reply that carries it: one system call.
  void Notify() noexcept;
  uint32_t State() const noexcept;
  sl_status_t Window(sl_window_t* out_window) noexcept;

  // Connecting end: connects and says hello. OK also when it must be tried again (state stays CONNECTING).
  Status Start(const char name[kNameBytes], const uint8_t secret[32], int port_fd);
  // Connecting end: takes the reply if it is here, and maps the peer's port.
  void FinishReply(const uint8_t secret[32]);
  // Accepting end: takes over the socket and the peer's port.
  void Adopt(Fd socket, std::unique_ptr<Mapping> peer_port);
  void SendReply(const uint8_t secret[32], int port_fd);
  // It could not be sent, for want of room for descriptors in flight, and must be tried again: the peer rings nobody
  // yet.
  bool reply_due() const { return reply_due_; }
  // Answers the peer's probe and reports the end of an own one.
  void ExchangeProbes();
  // The socket or the process says that the peer is gone: CLOSED if it said goodbye, else DOWN.
  void MarkLost();
  // Says goodbye; the object is destroyed next.
  void Leave();

  bool starting() const { return state_.load(std::memory_order_relaxed) == SL_CONNECTION_CONNECTING; }
  bool awaits_reply() const {
    return end_ == 0 && state_.load(std::memory_order_relaxed) == SL_CONNECTION_UP && peer_port() == nullptr;
  }
  Transport* transport() const { return transport_; }
  // Watched for the peer's death while the connection is up.
  int socket() const { return socket_.get(); }
  int process() const { return process_.get(); }
  void set_segment_fd(Fd fd) { segment_fd_ = std::move(fd); }
  sl_connect_args_t Args() const;

 private:
  EndState* Ends(uint32_t end) const { return reinterpret_cast<EndState*>(segment_->data() + layout_.State(end)); }
  EndState* mine() const { return Ends(end_); }
  EndState* theirs() const { return Ends(1 - end_); }
  Port* peer_port() const { return peer_port_.load(std::memory_order_acquire); }
  void WatchProcess(int32_t pid);
  // Makes the peer's progress() look at this connection, and wakes it.
  void CallAttention();

  Transport* const transport_;
  const uint32_t end_;
  Hello hello_;
  const Layout layout_;
  const std::unique_ptr<Mapping> segment_;
  uint8_t* const local_window_;
  uint8_t* const peer_window_;
  uint64_t* const local_signals_;
  uint64_t* const peer_signals_;
  std::atomic<uint32_t> state_{SL_CONNECTION_CONNECTING};
  std::atomic<Port*> peer_port_{nullptr};
  std::unique_ptr<Mapping> peer_port_mapping_;
  Fd socket_;
  Fd process_;     // pidfd of the peer, when the system gives one
  Fd segment_fd_;  // until the hello was sent
  bool reply_due_ = false;
  std::atomic<uint64_t> probe_cookie_{0};
  std::atomic<uint64_t> probe_waits_{0};  // the probe whose answer is missing; 0: none
};

}  // namespace sl::transport_shm
