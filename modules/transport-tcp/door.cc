// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/door.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "modules/transport-tcp/socket.h"
#include "sdk/system.h"

namespace sl::transport_tcp {
namespace {

constexpr int kAcceptBurst = 64;
constexpr uint64_t kShortageNs = 100'000'000;

// Somebody waits in the backlog.
bool IsKnockedAt(int listener) {
  pollfd backlog = {listener, POLLIN, 0};
  return poll(&backlog, 1, 0) == 1;
}

}  // namespace

WatchedStream::~WatchedStream() {
  if (!stream_.valid()) return;
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_DEL, stream_.get(), nullptr);
  shutdown(stream_.get(), SHUT_RDWR);
}

Door::~Door() {
  // Forked children may hold copies; who connects must be refused all the same.
  for (const Listener& listener : listeners_) shutdown(listener.socket.get(), SHUT_RDWR);
}

bool Door::Watch(int fd, bool wanted, int how) const {
  epoll_event event = {};
  event.events = wanted ? uint32_t{EPOLLIN} : 0;
  event.data.ptr = nullptr;  // nobody's: the door's
  return epoll_ctl(shared_->epoll.get(), how, fd, &event) == 0;
}

bool Door::IsOpen(uint64_t now_ns) const {
  const bool is_full = is_full_ && visitors_.size() >= shared_->settings.handshake_slots;
  return !is_full && now_ns >= closed_until_ns_;
}

void Door::WatchListeners(bool wanted) {
  if (wanted == is_watched_) return;
  for (const Listener& listener : listeners_) Watch(listener.socket.get(), wanted, EPOLL_CTL_MOD);
  is_watched_ = wanted;
}

// Said once, until everybody is in again.
void Door::RunShort(Status why) {
  if (shortage_.ok()) shared_->Log(SL_LOG_WARN, why.message());
  shortage_ = std::move(why);
  closed_until_ns_ = shared_->now() + kShortageNs;
}

Status Door::Open(uint32_t port, const Interface& interface, Address* out_address) {
  const auto known =
      std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) { return l.port == port; });
  if (known != listeners_.end()) {
    *out_address = known->address;
    return Status();
  }
  Listener listener = {port, {}, {}};
  Address& address = listener.address;
  std::string refused;
  SL_ASSIGN(listener.socket, Listen(interface, shared_->settings, &address.port, &refused));
  SL_ASSIGN(const Nonce number, FreshNonce());
  if (!Watch(listener.socket.get(), is_watched_, EPOLL_CTL_ADD)) return SocketError("cannot watch a listener", errno);
  if (!refused.empty()) shared_->Log(SL_LOG_WARN, interface.name + ": streams do without" + refused.substr(1));
  address.magic = kWireMagic;
  address.version = kWireVersion;
  address.family = interface.family;
  address.reach = interface.reach();
  std::copy(interface.ip.begin(), interface.ip.end(), address.ip);
  std::copy(number.begin(), number.end(), address.listener);
  std::copy(shared_->loopback_id.begin(), shared_->loopback_id.end(), address.loopback);
  *out_address = address;
  listeners_.push_back(std::move(listener));
  return Status();
}

bool Door::Look(std::vector<Guest>* guests) {
  const uint64_t moves = moves_;
  Hear(guests);
  if (shared_->now() >= closed_until_ns_) {
    bool all_in = true;
    for (const Listener& listener : listeners_) all_in &= Admit(listener, guests);
    if (all_in) shortage_ = Status();
    // An honest peer has spoken by the time it is let in.
    Hear(guests);
  }
  WatchListeners(IsOpen(shared_->now()));
  return moves_ != moves;
}

// True: nobody waits any more.
bool Door::Admit(const Listener& listener, std::vector<Guest>* guests) {
  const int door = listener.socket.get();
  for (int i = 0; i < kAcceptBurst; ++i) {
    if (visitors_.size() >= shared_->settings.handshake_slots) {
      if (!IsKnockedAt(door)) return true;
      is_full_ = !MakeRoom(guests);
      if (is_full_) return false;
    }
    Fd stream = MakeFd([door] { return accept4(door, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
    if (!stream.valid()) {
      const int code = errno;
      const bool is_short = code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
      // The system looks for a descriptor before it looks whether anybody waits.
      if (is_short && IsKnockedAt(door)) RunShort(SocketError("accept", code));
      return code == EAGAIN;
    }
    ++moves_;
    const Result<Nonce> fresh = FreshNonce();
    if (!fresh.ok() || !Watch(stream.get(), true, EPOLL_CTL_ADD)) {
      RunShort(fresh.ok() ? SocketError("cannot watch a new stream", errno) : fresh.status());
      return false;
    }
    Host::Identity self = {shared_->env.job_secret, shared_->env.rank, shared_->env.size, {}};
    std::copy(std::begin(listener.address.listener), std::end(listener.address.listener), self.listener.begin());
    visitors_.push_back({WatchedStream(shared_, std::move(stream)), listener.port,
                         shared_->now() + shared_->settings.handshake_timeout_ns, Host(self, fresh.value())});
  }
  return false;
}

bool Door::IsFirstWithGoodHello(const Visitor& visitor) {
  return visitor.host.proved() && visitor.before == Shown::kNever;
}

// Of those who have not shown a good hello first the oldest has had the most time. False: all have, and no place is
// free.
bool Door::MakeRoom(std::vector<Guest>* guests) {
  for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++visitor) {
    if (IsFirstWithGoodHello(*visitor)) continue;
    // It may have spoken since it was heard last.
    if (!Settle(&*visitor, guests)) {
      if (IsFirstWithGoodHello(*visitor)) continue;
      CountDropped("crowded out");
    }
    visitors_.erase(visitor);
    return true;
  }
  return false;
}

void Door::Hear(std::vector<Guest>* guests) {
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    visitor = Settle(&*visitor, guests) ? visitors_.erase(visitor) : std::next(visitor);
  }
}

// Hears a visitor. True: it is through, or was dropped.
bool Door::Settle(Visitor* visitor, std::vector<Guest>* guests) {
  const Step step = Hear(visitor);
  if (step == Step::kMore) return false;
  Remember(*visitor, step == Step::kDone ? Shown::kConfirmed : Shown::kUnconfirmed);
  if (step == Step::kDone) {
    guests->push_back({std::move(visitor->stream), visitor->host.hello(), visitor->port});
    ++moves_;
  } else if (visitor->before == Shown::kConfirmed) {
    CountDropped("with a repeated hello");
  } else {
    CountDropped(visitor->host.why().empty() ? "that hung up" : visitor->host.why());
  }
  return true;
}

// Only a visitor that has just shown a good hello; whether others have shown the same one.
Door::Shown Door::ShownBefore(const Visitor& visitor) const {
  const auto is_same = [&](const uint8_t* nonce) {
    return std::equal(nonce, nonce + kNonceBytes, visitor.host.hello().nonce);
  };
  Shown shown = Shown::kNever;
  for (const Past& past : heard_) {
    if (is_same(past.nonce.data())) shown = std::max(shown, past.shown);
  }
  if (shown != Shown::kNever) return shown;
  const bool is_here = std::any_of(visitors_.begin(), visitors_.end(), [&](const Visitor& other) {
    return &other != &visitor && other.host.proved() && is_same(other.host.hello().nonce);
  });
  return is_here ? Shown::kUnconfirmed : Shown::kNever;
}

// The hello of a visitor that leaves. Once it is confirmed, those who are here with the same one will never confirm it.
void Door::Remember(const Visitor& visitor, Shown shown) {
  if (!visitor.host.proved()) return;
  if (visitor.before != Shown::kNever && shown != Shown::kConfirmed) return;
  Past past = {{}, shown};
  std::copy_n(visitor.host.hello().nonce, kNonceBytes, past.nonce.begin());
  for (Visitor& other : visitors_) {
    if (shown != Shown::kConfirmed || &other == &visitor || !other.host.proved()) continue;
    if (std::equal(past.nonce.begin(), past.nonce.end(), other.host.hello().nonce)) other.before = Shown::kConfirmed;
  }
  if (heard_.size() < kRememberedHellos) {
    heard_.push_back(past);
    return;
  }
  heard_[next_heard_] = past;
  next_heard_ = (next_heard_ + 1) % kRememberedHellos;
}

Step Door::Hear(Visitor* visitor) {
  for (;;) {
    const ssize_t got = recv(visitor->stream.get(), visitor->host.room(), visitor->host.room_bytes(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kMore;
    if (got <= 0) return Step::kRefused;
    const Step step = visitor->host.Advance(static_cast<size_t>(got));
    if (step == Step::kRefused || step == Step::kDone) return step;
    if (step != Step::kSay) continue;
    visitor->before = ShownBefore(*visitor);
    if (visitor->before == Shown::kConfirmed) return Step::kRefused;
    const Challenge& challenge = visitor->host.challenge();
    // The first bytes of a stream always find room.
    if (send(visitor->stream.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) {
      return Step::kRefused;
    }
  }
}

bool Door::Expire(uint64_t now_ns) {
  while (!visitors_.empty() && now_ns >= visitors_.front().deadline_ns) {
    Remember(visitors_.front(), Shown::kUnconfirmed);
    CountDropped("that stayed silent");
    visitors_.pop_front();
  }
  return !is_watched_ && IsOpen(now_ns);
}

// Of a visitor who is erased next, and whose stream ends with it.
void Door::CountDropped(const std::string& why) {
  ++moves_;
  const uint64_t count = shared_->counters.strangers.fetch_add(1, std::memory_order_relaxed) + 1;
  shared_->Log(count == 1 ? SL_LOG_WARN : SL_LOG_DEBUG, "dropped a connection " + why);
}

}  // namespace sl::transport_tcp
