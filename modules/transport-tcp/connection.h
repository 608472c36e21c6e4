// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection: one TCP stream, its queue of puts, the window that the peer's puts land in.
//
// thread: Put, Probe, Notify, State and GetWindow are [data] of the connection; everything else is the transport's. The
// two sides may run at once: they share the queue, whose sending side belongs to whoever has set `sending_`, and
// atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "modules/transport-tcp/frame_reader.h"
#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/send_queue.h"
#include "modules/transport-tcp/shared.h"
#include "modules/transport-tcp/window.h"
#include "modules/transport-tcp/zerocopy.h"

namespace sl::transport_tcp {

// Where a connecting end connects to.
struct Destination {
  uint8_t family = 4;
  Ip ip = {};
  uint16_t port = 0;
  uint32_t scope = 0;
};

class Connection {
 public:
  // The connecting end; `stream` is on its way to `destination`.
  Connection(Shared* shared, uint32_t port, const Caller& caller, const Destination& destination, Fd stream,
             std::unique_ptr<Window> window);
  // The accepting end; the handshake is over.
  Connection(Shared* shared, uint32_t port, const Hello& hello, Fd stream, std::unique_ptr<Window> window);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sl_status_t Put(const sl_put_t& put) noexcept;
  sl_status_t Probe(uint64_t cookie) noexcept;
  void Notify() noexcept { Flush(); }
  uint32_t State() const noexcept { return state_.load(std::memory_order_seq_cst); }
  // As sl_transport_ops_t::window; of a connection that ended before it was up WhyNotUp() says more.
  sl_status_t GetWindow(sl_window_t* out_window) const noexcept;
  Status WhyNotUp() const;

  // Goes on connecting, receives, sends what waits. `events` are epoll's, or what they may be. True when something
  // moved.
  bool Drive(uint32_t events) noexcept;
  // Sends what nobody has notified of, or what did not fit before and is not watched.
  void FlushLeft() noexcept;
  // Now and then: finds out that the peer's host does not answer, or that connecting takes too long; after the end,
  // that the system has let go of what was put.
  void CheckPeer(uint64_t now_ns) noexcept;
  // Says goodbye and ends the stream; may wait some milliseconds for what was put. The object is destroyed next.
  void Leave() noexcept;

  sl_connect_args_t Args() const;
  Transport* owner() const { return shared_->owner; }
  uint32_t slot = 0;  // where the transport keeps it

 private:
  enum class Phase { kDialling, kGreeting, kUp, kOver };

  sl_connection_t* ToC() { return reinterpret_cast<sl_connection_t*>(this); }
  bool Watch(uint32_t events, int how) noexcept;
  bool Dial() noexcept;     // true: connected, hello said
  bool Greet() noexcept;    // true: up
  bool Receive() noexcept;  // true: something came, or it ended
  void Attend() noexcept;   // to what has been received besides puts
  bool HasUnsent() const noexcept;
  void Flush() noexcept;
  void Send() noexcept;                         // with sending_
  void FinishSent() noexcept;                   // with sending_
  void DropAll() noexcept;                      // with sending_; but what the system still reads ends with its notices
  void BecomeFull() noexcept;                   // with sending_
  bool TakeNotices(uint64_t* copied) noexcept;  // with sending_; as ZeroCopies::Read()
  void ReadNotices() noexcept;                  // of zero-copy sends
  void CutOff() noexcept;                       // with sending_: ends the stream
  void SayGoodbye() noexcept;
  void FreeSources() noexcept;  // from zero-copy sends, at retire
  void End(uint32_t state, sl_log_level_t level, const char* why, const char* detail = "") noexcept;
  void PublishProbe(sl_status_t status) noexcept;
  std::string Name() const;

  Shared* const shared_;
  const uint32_t port_;
  const bool connects_;
  const uint64_t since_ns_;
  Hello hello_;
  std::optional<Caller> caller_;  // until it is up
  const Destination destination_ = {};
  Fd stream_;
  const std::unique_ptr<Window> window_;
  FrameReader reader_;
  Phase phase_;
  std::atomic<uint32_t> state_;
  // Why it never came up; written before state_ goes to DOWN.
  const char* failure_ = nullptr;
  int failure_code_ = 0;  // errno of connect()

  // Sending.
  SendQueue queue_;
  std::atomic<bool> sending_{false};
  std::atomic<bool> full_{false};          // the socket took no more
  std::atomic<int> send_error_{0};         // errno; the receiving side finds out what it means
  std::atomic<bool> watched_full_{false};  // epoll says when it takes more
  ZeroCopies zerocopies_;                  // with sending_
  uint64_t zerocopy_bytes_ = 0;            // as ZeroCopyBytes(); written before state_ goes to UP
  Frame control_ = {};                     // with sending_: an answer on its way
  uint32_t control_left_ = 0;              // with sending_
  std::atomic<uint64_t> answer_due_{0};
  std::atomic<uint64_t> answer_sent_{0};

  // Probes of this end.
  std::atomic<uint64_t> probe_cookie_{0};
  std::atomic<uint64_t> probe_waits_{0};  // the probe whose answer is missing; 0: none
  uint64_t probes_ = 0;                   // the caller's

  // The peer's health.
  uint64_t acked_bytes_ = 0;
  uint64_t acked_since_ns_ = 0;
};

}  // namespace sl::transport_tcp
