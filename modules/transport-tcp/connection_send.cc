// SPDX-License-Identifier: Apache-2.0
//
// The sending half of a connection.
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "modules/transport-tcp/connection.h"
#include "modules/transport-tcp/socket.h"

namespace sl::transport_tcp {
bool Connection::HasUnsent() const noexcept {
  return queue_.HasUnsent() ||
         answer_due_.load(std::memory_order_seq_cst) != answer_sent_.load(std::memory_order_relaxed);
}

// Whoever finds somebody else sending leaves it to them. Dekker: an appender stores the tail, then exchanges
// `sending_`; a sender clears `sending_`, then looks at the tail again. All four are sequentially consistent, so either
// the appender gets to send or the sender sees what was appended.
void Connection::Flush() noexcept {
  while (HasUnsent() && !full_.load(std::memory_order_relaxed)) {
    if (sending_.exchange(true, std::memory_order_seq_cst)) return;
    Send();
    sending_.store(false, std::memory_order_seq_cst);
  }
}

void Connection::Send() noexcept {
  uint64_t alone_bytes = zerocopy_bytes_ != 0 ? zerocopy_bytes_ : UINT64_MAX;
  while (HasUnsent()) {
    if (State() != SL_CONNECTION_UP || send_error_.load(std::memory_order_relaxed) != 0) return DropAll();
    const uint64_t due = answer_due_.load(std::memory_order_seq_cst);
    if (control_left_ == 0 && queue_.AtFrame() && due != answer_sent_.load(std::memory_order_relaxed)) {
      control_ = {kFrameAnswer, kFrameNoSignal, 0, 0, 0, due};
      control_left_ = sizeof control_;
    }
    iovec parts[1 + SendQueue::kMaxParts];
    const size_t first = control_left_ != 0 ? 1 : 0;
    parts[0] = {reinterpret_cast<uint8_t*>(&control_) + sizeof control_ - control_left_, control_left_};
    const bool zerocopy = first == 0 && queue_.NextIsAlone(alone_bytes);
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = first + static_cast<size_t>(queue_.Gather(parts + first, alone_bytes));
    const ssize_t sent = sendmsg(stream_.get(), &message, MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0));
    Count(&shared_->counters.sends);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (zerocopy && errno == ENOBUFS) {
        alone_bytes = UINT64_MAX;  // no room for more notices (net.core.optmem_max): copy this one
        continue;
      }
      if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return BecomeFull();
      send_error_.store(errno, std::memory_order_relaxed);
      return DropAll();
    }
    Count(&shared_->counters.sent_bytes, static_cast<uint64_t>(sent));
    if (zerocopy) Count(&shared_->counters.zerocopy_sends);
    uint64_t taken = static_cast<uint64_t>(sent);
    uint64_t offered = 0;
    for (size_t i = 0; i < message.msg_iovlen; ++i) offered += parts[i].iov_len;
    if (first != 0) {
      const uint64_t of_control = taken < control_left_ ? taken : control_left_;
      taken -= of_control;
      control_left_ -= static_cast<uint32_t>(of_control);
      if (control_left_ == 0) answer_sent_.store(control_.value, std::memory_order_relaxed);
    }
    queue_.Advance(taken, zerocopy ? zerocopies_.Begin() : 0);
    FinishSent();
    if (static_cast<uint64_t>(sent) < offered) return BecomeFull();
  }
  if (watched_full_.load(std::memory_order_relaxed)) {
    watched_full_.store(false, std::memory_order_relaxed);
    Watch(EPOLLIN, EPOLL_CTL_MOD);
  }
}

void Connection::BecomeFull() noexcept {
  full_.store(true, std::memory_order_relaxed);
  if (watched_full_.load(std::memory_order_relaxed) || !shared_->watch_full.load(std::memory_order_relaxed)) return;
  watched_full_.store(true, std::memory_order_relaxed);
  Watch(EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

void Connection::FinishSent() noexcept {
  // At an end it may or may not have been delivered.
  const bool good = State() == SL_CONNECTION_UP && send_error_.load(std::memory_order_relaxed) == 0;
  const sl_status_t status = good ? SL_OK : SL_ERR_LINK_DOWN;
  uint64_t cookie = 0;
  while (queue_.Finish(zerocopies_.finished(), &cookie)) {
    if (cookie != 0) shared_->completions.Publish({cookie, ToC(), status, SL_COMPLETION_PUT});
  }
}

void Connection::DropAll() noexcept {
  control_left_ = 0;
  answer_sent_.store(answer_due_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  queue_.Abandon();
  FinishSent();
}

bool Connection::TakeNotices(uint64_t* copied) noexcept {
  const bool kept = zerocopies_.Read(stream_.get(), copied);
  if (!kept && phase_ == Phase::kOver) zerocopies_.Forget();
  FinishSent();
  return kept;
}

// A stream that is only shut down goes on sending what it has, from sources that its user believes to be free.
void Connection::CutOff() noexcept {
  if (!zerocopies_.outstanding()) {
    shutdown(stream_.get(), SHUT_RDWR);
    return;
  }
  AbortStream(stream_.get());
  uint64_t copied = 0;
  TakeNotices(&copied);
  Count(&shared_->counters.zerocopy_copied, copied);
}

void Connection::ReadNotices() noexcept {
  if (zerocopy_bytes_ == 0 || sending_.exchange(true, std::memory_order_seq_cst)) return;
  uint64_t copied = 0;
  const bool kept = TakeNotices(&copied);
  sending_.store(false, std::memory_order_seq_cst);
  if (copied != 0 && shared_->counters.zerocopy_copied.fetch_add(copied, std::memory_order_relaxed) == 0) {
    shared_->LogIfPossible(SL_LOG_INFO, [this] {
      return Name() +
             ": the system copies what is sent with MSG_ZEROCOPY; without the option zerocopy_minimum_bytes this path "
             "is cheaper";
    });
  }
  if (!kept && phase_ == Phase::kUp) {
    End(SL_CONNECTION_DOWN, SL_LOG_ERROR, "the system's notices of zero-copy sends are out of order");
  }
}

void Connection::Leave() noexcept {
  if (phase_ == Phase::kUp) SayGoodbye();
  if (phase_ != Phase::kOver) Watch(0, EPOLL_CTL_DEL);
  phase_ = Phase::kOver;
  if (zerocopies_.outstanding()) return FreeSources();
  // Ends the stream also where a forked child holds a copy of the descriptor. What came and was not read would turn the
  // end into a reset, which may overtake what was sent: MSG_TRUNC throws it away.
  shutdown(stream_.get(), SHUT_WR);
  constexpr size_t kMost = 16 << 20;
  recv(stream_.get(), nullptr, kMost, MSG_TRUNC | MSG_DONTWAIT);
}

// The system keeps what the peer has not acknowledged and reads it again where it lies.
void Connection::FreeSources() noexcept {
  AbortStream(stream_.get());
  // What is left now a device has in hand.
  for (const uint64_t deadline_ns = shared_->to_free.EndNs(shared_->now()); zerocopies_.outstanding();) {
    ReadNotices();
    if (!zerocopies_.outstanding()) return;
    if (shared_->now() >= deadline_ns) break;
    pollfd wait = {stream_.get(), 0, 0};
    Count(&shared_->counters.last_waits);
    poll(&wait, 1, 1);
  }
  shared_->LogIfPossible(SL_LOG_WARN, [this] {
    return Name() + ": the system still reads what was put with MSG_ZEROCOPY, though its stream has ended";
  });
}

void Connection::SayGoodbye() noexcept {
  const uint64_t deadline_ns = shared_->to_send.EndNs(shared_->now());
  for (;;) {
    ReadNotices();
    full_.store(false, std::memory_order_relaxed);
    Flush();
    if (phase_ != Phase::kUp || (!HasUnsent() && !zerocopies_.outstanding())) break;
    if (shared_->now() >= deadline_ns) break;
    pollfd wait = {stream_.get(), static_cast<short>(HasUnsent() ? POLLOUT : 0), 0};
    Count(&shared_->counters.last_waits);
    poll(&wait, 1, 1);
  }
  // Inside a frame, or with puts that did not fit or may not arrive, a goodbye would be a lie: the peer finds the
  // stream broken off.
  if (phase_ != Phase::kUp || HasUnsent() || zerocopies_.outstanding()) return;
  if (send_error_.load(std::memory_order_relaxed) != 0) return;
  const Frame goodbye = {kFrameGoodbye, kFrameNoSignal, 0, 0, 0, 0};
  [[maybe_unused]] const ssize_t sent = send(stream_.get(), &goodbye, sizeof goodbye, MSG_NOSIGNAL);
}

}  // namespace sl::transport_tcp
