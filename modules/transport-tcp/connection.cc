// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/connection.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "modules/transport-tcp/socket.h"
#include "sdk/answer.h"

namespace sl::transport_tcp {

Connection::Connection(Shared* shared, uint32_t port, const Caller& caller, const Destination& destination, Fd stream,
                       std::unique_ptr<Window> window)
    : shared_(shared),
      port_(port),
      connects_(true),
      since_ns_(shared->now()),
      hello_(caller.hello()),
      caller_(caller),
      destination_(destination),
      stream_(std::move(stream)),
      window_(std::move(window)),
      reader_(window_->target()),
      phase_(Phase::kDialling),
      state_(SL_CONNECTION_CONNECTING) {
  if (Watch(EPOLLOUT, EPOLL_CTL_ADD)) {
    Drive(EPOLLOUT);
  } else {
    End(SL_CONNECTION_DOWN, SL_LOG_WARN, "cannot watch the stream: ", std::strerror(errno));
  }
}

Connection::Connection(Shared* shared, uint32_t port, const Hello& hello, Fd stream, std::unique_ptr<Window> window)
    : shared_(shared),
      port_(port),
      connects_(false),
      since_ns_(shared->now()),
      hello_(hello),
      stream_(std::move(stream)),
      window_(std::move(window)),
      reader_(window_->target()),
      phase_(Phase::kUp),
      state_(SL_CONNECTION_UP),
      zerocopy_bytes_(ZeroCopyBytes(stream_.get(), shared->settings)),
      acked_since_ns_(since_ns_) {
  Watch(EPOLLIN, EPOLL_CTL_MOD);  // watched since it knocked
}

Connection::~Connection() {
  // What was put and will not complete.
  uint64_t cookie = 0;
  while (queue_.Drop(&cookie)) {
    if (cookie != 0) shared_->completions.Cancel();
  }
  if (probe_waits_.load(std::memory_order_relaxed) != 0) shared_->completions.Cancel();
}

sl_status_t Connection::Put(const sl_put_t& put) noexcept {
  const uint32_t state = State();
  if (state != SL_CONNECTION_UP) [[unlikely]]
    return state == SL_CONNECTION_CONNECTING ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  if (put.target != nullptr || put.region != nullptr) [[unlikely]]
    return SL_ERR_INVALID;
  const uint64_t bytes = put.source != nullptr ? put.bytes : 0;
  Frame frame = {kFramePut, kFrameNoSignal, 0, bytes, bytes != 0 ? put.offset : 0, 0};
  if (put.signal != SL_NO_SIGNAL) {
    if (put.signal >= hello_.signal_count) [[unlikely]]
      return SL_ERR_INVALID;
    frame.signal = static_cast<uint16_t>(put.signal);
    frame.value = put.signal_value;
  }
  if (bytes != put.bytes || WhyIllegal(frame, hello_.window_bytes, hello_.signal_count) != nullptr) [[unlikely]]
    return SL_ERR_INVALID;
  if (send_error_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return SL_ERR_LINK_DOWN;
  if (put.cookie != 0 && !shared_->completions.Reserve()) [[unlikely]]
    return SL_ERR_AGAIN;
  bool taken = queue_.Append(frame, put.source, put.cookie);
  if (!taken) [[unlikely]] {
    Flush();
    taken = queue_.Append(frame, put.source, put.cookie);
  }
  if (!taken) [[unlikely]] {
    if (put.cookie != 0) shared_->completions.Cancel();
    return SL_ERR_AGAIN;
  }
  // Short puts wait for notify(), so that those of a burst, signals above all, leave together. Dekker with End(): it
  // sees what was appended, or the end is seen here.
  const bool is_over = state_.load(std::memory_order_seq_cst) != SL_CONNECTION_UP;
  if (bytes > SendQueue::kInlineBytes || queue_.IsCrowded() || is_over) {
    Flush();
  } else if (bytes != 0) {
    Count(&shared_->counters.copied_out_bytes, bytes);
  }
  return SL_OK;
}

sl_status_t Connection::Probe(uint64_t cookie) noexcept {
  const uint32_t state = State();
  if (state != SL_CONNECTION_UP) return state == SL_CONNECTION_CONNECTING ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
  if (probe_waits_.load(std::memory_order_acquire) != 0 || !shared_->completions.Reserve()) return SL_ERR_AGAIN;
  probe_cookie_.store(cookie, std::memory_order_relaxed);
  probe_waits_.store(++probes_, std::memory_order_seq_cst);
  const bool taken = queue_.Append({kFrameProbe, kFrameNoSignal, 0, 0, 0, probes_}, nullptr, 0);
  const bool up = state_.load(std::memory_order_seq_cst) == SL_CONNECTION_UP;
  if (taken && up) {
    Flush();
    return SL_OK;
  }
  // It cannot be asked, unless its end was reported meanwhile because the connection ended.
  if (probe_waits_.exchange(0, std::memory_order_seq_cst) == 0) return SL_OK;
  shared_->completions.Cancel();
  return up ? SL_ERR_AGAIN : SL_ERR_LINK_DOWN;
}

sl_status_t Connection::GetWindow(sl_window_t* out_window) const noexcept {
  const uint32_t state = State();
  if (state == SL_CONNECTION_CONNECTING) return SL_ERR_AGAIN;
  if (state == SL_CONNECTION_DOWN && failure_ != nullptr) return SL_ERR_LINK_DOWN;
  const FrameReader::Target& target = window_->target();
  Answer(out_window, {0, target.signal_count, target.window, target.signals, nullptr, target.window_bytes});
  return SL_OK;
}

Status Connection::WhyNotUp() const {
  const std::string to = "connect to rank " + std::to_string(hello_.to) + ": ";
  if (failure_code_ == 0) return Status(SL_ERR_LINK_DOWN, to + failure_);
  const Status status = SocketError("connect", failure_code_);
  // Whatever it is, another attempt may get through.
  return Status(status.code() == SL_ERR_PEER_LOST ? SL_ERR_PEER_LOST : SL_ERR_LINK_DOWN, to + status.message());
}

bool Connection::Drive(uint32_t events) noexcept {
  if (phase_ == Phase::kDialling && !Dial()) return phase_ == Phase::kOver;
  if (phase_ == Phase::kGreeting && !Greet()) return phase_ == Phase::kOver;
  if (phase_ != Phase::kUp) return false;
  const bool moved = (events & ~uint32_t{EPOLLOUT}) != 0 && Receive();
  if (phase_ == Phase::kUp) ReadNotices();
  const int error = send_error_.load(std::memory_order_relaxed);
  // Only after everything has been read: the peer may have said goodbye.
  if (phase_ == Phase::kUp && error != 0 && !moved) End(SL_CONNECTION_DOWN, SL_LOG_DEBUG, std::strerror(error));
  if (phase_ != Phase::kUp) return true;
  if ((events & ~uint32_t{EPOLLIN}) != 0) full_.store(false, std::memory_order_relaxed);
  Flush();
  return moved;
}

bool Connection::Dial() noexcept {
  const Destination& to = destination_;
  const int code = ConnectProgress(stream_.get(), to.family, to.ip, to.port, to.scope);
  if (code == EINPROGRESS) return false;
  const Hello& hello = caller_->hello();
  // The first bytes of a stream always find room.
  if (code != 0 || send(stream_.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
    failure_code_ = code != 0 ? code : errno;
    End(SL_CONNECTION_DOWN, SL_LOG_DEBUG, "cannot connect: ", std::strerror(failure_code_));
    return false;
  }
  phase_ = Phase::kGreeting;
  Watch(EPOLLIN, EPOLL_CTL_MOD);
  return true;
}

bool Connection::Greet() noexcept {
  const ssize_t got = recv(stream_.get(), caller_->room(), caller_->room_bytes(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    End(SL_CONNECTION_DOWN, SL_LOG_DEBUG, "the peer hung up on our hello: it has gone, or knows another secret");
    return false;
  }
  Step step = Step::kRefused;
  try {
    step = caller_->Advance(static_cast<size_t>(got));
  } catch (const std::bad_alloc&) {  // for the words that say why; refused all the same
  }
  if (step == Step::kMore) return false;
  const Confirm& confirm = caller_->confirm();
  if (step == Step::kRefused || send(stream_.get(), &confirm, sizeof confirm, MSG_NOSIGNAL) != sizeof confirm) {
    End(SL_CONNECTION_DOWN, step == Step::kRefused ? SL_LOG_WARN : SL_LOG_DEBUG,
        step == Step::kRefused ? caller_->why().c_str() : "the peer hung up on our confirmation");
    return false;
  }
  caller_.reset();
  acked_since_ns_ = shared_->now();
  phase_ = Phase::kUp;
  zerocopy_bytes_ = ZeroCopyBytes(stream_.get(), shared_->settings);
  state_.store(SL_CONNECTION_UP, std::memory_order_seq_cst);
  return true;
}

bool Connection::Receive() noexcept {
  constexpr int kMostCalls = 16;  // then others have their turn
  bool moved = false;
  for (int call = 0; call < kMostCalls; ++call) {
    iovec parts[2];
    const int count = reader_.Room(parts);
    const size_t room = parts[0].iov_len + (count == 2 ? parts[1].iov_len : 0);
    const ssize_t got =
        count == 1 ? recv(stream_.get(), parts[0].iov_base, room, 0) : readv(stream_.get(), parts, count);
    Count(&shared_->counters.receives);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    moved = true;
    if (got <= 0) {
      const char* cause = got == 0 ? "the peer's process has ended" : std::strerror(errno);
      End(SL_CONNECTION_DOWN, got < 0 && errno == ETIMEDOUT ? SL_LOG_WARN : SL_LOG_DEBUG, cause);
      return true;
    }
    Count(&shared_->counters.received_bytes, static_cast<uint64_t>(got));
    const uint64_t copied = reader_.copied();
    if (!reader_.Take(static_cast<size_t>(got))) {
      End(SL_CONNECTION_DOWN, SL_LOG_ERROR, "the stream is corrupt: ", reader_.why());
      return true;
    }
    if (reader_.copied() != copied) Count(&shared_->counters.copied_in_bytes, reader_.copied() - copied);
    if (static_cast<size_t>(got) < room) break;  // that was all
  }
  if (moved) Attend();
  return moved;
}

void Connection::Attend() noexcept {
  answer_due_.store(reader_.probe(), std::memory_order_seq_cst);
  const uint64_t asked = probe_waits_.load(std::memory_order_acquire);
  if (asked != 0 && reader_.answer() >= asked) PublishProbe(SL_OK);
  if (reader_.goodbye()) End(SL_CONNECTION_CLOSED, SL_LOG_DEBUG, "the peer has closed the connection");
}

void Connection::FlushLeft() noexcept {
  if (!HasUnsent()) [[likely]]
    return;
  if (!watched_full_.load(std::memory_order_relaxed)) full_.store(false, std::memory_order_relaxed);
  Flush();
}

void Connection::CheckPeer(uint64_t now_ns) noexcept {
  if (phase_ == Phase::kDialling || phase_ == Phase::kGreeting) {
    if (now_ns - since_ns_ <= shared_->settings.handshake_timeout_ns) return;
    // The peer's system takes streams for it, whether anybody there looks or not.
    return End(SL_CONNECTION_DOWN, SL_LOG_WARN,
               phase_ == Phase::kDialling
                   ? "cannot connect: the peer's host does not answer"
                   : "cannot connect: the peer's host answers, the peer does not: it is busy, stopped or short of "
                     "descriptors (ulimit -n)");
  }
  if (phase_ == Phase::kOver) return ReadNotices();
  const uint64_t patience = shared_->settings.peer_timeout_ns;
  if (phase_ != Phase::kUp || patience == 0) return;
  const StreamHealth health = ReadHealth(stream_.get());
  if (!health.outstanding || health.acked_bytes != acked_bytes_) {
    acked_bytes_ = health.acked_bytes;
    acked_since_ns_ = now_ns;
  } else if (health.unanswered && now_ns - acked_since_ns_ > patience && health.silent_ns > patience) {
    char silent[32];
    snprintf(silent, sizeof silent, "%llu ms", static_cast<unsigned long long>(health.silent_ns / 1'000'000));
    End(SL_CONNECTION_DOWN, SL_LOG_WARN, "the peer's host has not answered for ", silent);
  }
}

void Connection::End(uint32_t state, sl_log_level_t level, const char* why, const char* detail) noexcept {
  if (phase_ == Phase::kDialling || phase_ == Phase::kGreeting) failure_ = why;
  phase_ = Phase::kOver;
  state_.store(state, std::memory_order_seq_cst);
  Watch(0, EPOLL_CTL_DEL);
  // A sender never holds this across anything that blocks.
  while (sending_.exchange(true, std::memory_order_seq_cst)) sched_yield();
  CutOff();
  DropAll();
  full_.store(false, std::memory_order_relaxed);
  sending_.store(false, std::memory_order_seq_cst);
  Flush();  // drops what was appended meanwhile
  PublishProbe(SL_ERR_LINK_DOWN);
  shared_->LogIfPossible(level, [&] { return Name() + ": " + why + detail; });
}

void Connection::PublishProbe(sl_status_t status) noexcept {
  uint64_t asked = probe_waits_.load(std::memory_order_seq_cst);
  if (asked == 0) return;  // one that comes later sees the end
  const uint64_t cookie = probe_cookie_.load(std::memory_order_relaxed);
  if (!probe_waits_.compare_exchange_strong(asked, 0, std::memory_order_seq_cst)) return;
  shared_->completions.Publish({cookie, ToC(), status, SL_COMPLETION_PROBE});
}

bool Connection::Watch(uint32_t events, int how) noexcept {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = this;
  return epoll_ctl(shared_->epoll.get(), how, stream_.get(), &event) == 0;
}

sl_connect_args_t Connection::Args() const {
  sl_connect_args_t args = {};
  args.port = port_;
  args.peer = connects_ ? hello_.to : hello_.from;
  args.lane = hello_.lane;
  args.tag = hello_.tag;
  args.window_bytes = hello_.window_bytes;
  args.signal_count = hello_.signal_count;
  return args;
}

std::string Connection::Name() const {
  return "peer " + std::to_string(connects_ ? hello_.to : hello_.from) + " lane " + std::to_string(hello_.lane);
}

}  // namespace sl::transport_tcp
