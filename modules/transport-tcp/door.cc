// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "modules/transport-tcp/socket.h"

namespace sl::transport_tcp {
namespace {

constexpr int kAcceptBurst = 64;
constexpr uint64_t kShortageNs = 100'000'000;

}  // namespace

Door::~Door() {
  // Forked children may hold copies; who connects must be refused all the same.
  for (const Listener& listener : listeners_) shutdown(listener.socket.get(), SHUT_RDWR);
}

bool Door::Watch(int fd) const {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // nobody's: the door's
  return epoll_ctl(shared_->epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
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
  if (!Watch(listener.socket.get())) return SocketError("cannot watch a listener", errno);
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

void Door::Look(std::vector<Guest>* guests) {
  Hear(guests);
  if (shared_->now() < closed_until_ns_) return;
  for (const Listener& listener : listeners_) Admit(listener, guests);
  // An honest peer has spoken by the time it is let in.
  Hear(guests);
}

void Door::Admit(const Listener& listener, std::vector<Guest>* guests) {
  for (int i = 0; i < kAcceptBurst && MakeRoom(guests); ++i) {
    Fd stream(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!stream.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (closed_until_ns_ == 0) shared_->Log(SL_LOG_WARN, SocketError("accept", errno).message());
        closed_until_ns_ = shared_->now() + kShortageNs;
      }
      return;
    }
    const Result<Nonce> fresh = FreshNonce();
    if (!fresh.ok() || !Watch(stream.get())) {
      shared_->Log(SL_LOG_WARN, fresh.ok() ? "cannot watch a new stream" : fresh.status().message());
      continue;
    }
    Host::Identity self = {shared_->env.job_secret, shared_->env.rank, shared_->env.size, {}};
    std::copy(std::begin(listener.address.listener), std::end(listener.address.listener), self.listener.begin());
    visitors_.push_back({std::move(stream), listener.port, shared_->now() + shared_->settings.handshake_timeout_ns,
                         Host(self, fresh.value())});
  }
}

// Of those who have not shown a good hello the oldest has had the most time. False: all have, and no place is free.
bool Door::MakeRoom(std::vector<Guest>* guests) {
  if (visitors_.size() < shared_->settings.handshake_slots) return true;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++visitor) {
    if (visitor->host.proved()) continue;
    // It may have spoken since it was heard last.
    if (!Settle(&*visitor, guests)) {
      if (visitor->host.proved()) continue;
      Drop(&*visitor, "crowded out");
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
  if (step == Step::kDone) {
    guests->push_back({std::move(visitor->stream), visitor->host.hello(), visitor->port});
  } else {
    Drop(visitor, visitor->host.why().empty() ? "that hung up" : visitor->host.why());
  }
  return true;
}

Step Door::Hear(Visitor* visitor) {
  for (;;) {
    const ssize_t got = recv(visitor->stream.get(), visitor->host.room(), visitor->host.room_bytes(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kMore;
    if (got <= 0) return Step::kRefused;
    const Step step = visitor->host.Advance(static_cast<size_t>(got));
    if (step == Step::kRefused || step == Step::kDone) return step;
    if (step != Step::kSay) continue;
    const Challenge& challenge = visitor->host.challenge();
    // The first bytes of a stream always find room.
    if (send(visitor->stream.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) {
      return Step::kRefused;
    }
  }
}

void Door::Expire(uint64_t now_ns) {
  while (!visitors_.empty() && now_ns >= visitors_.front().deadline_ns) {
    Drop(&visitors_.front(), "that stayed silent");
    visitors_.pop_front();
  }
}

void Door::Drop(Visitor* visitor, const std::string& why) {
  // Forked children may hold copies: closing alone would neither take it from epoll nor end the stream.
  epoll_ctl(shared_->epoll.get(), EPOLL_CTL_DEL, visitor->stream.get(), nullptr);
  shutdown(visitor->stream.get(), SHUT_RDWR);
  const uint64_t count = shared_->counters.strangers.fetch_add(1, std::memory_order_relaxed) + 1;
  shared_->Log(count == 1 ? SL_LOG_WARN : SL_LOG_DEBUG, "dropped a connection " + why);
}

}  // namespace sl::transport_tcp
