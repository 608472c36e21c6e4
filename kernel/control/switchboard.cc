// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/switchboard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

Result<Fd> AcceptFromEither(const Fd& listener, bool net) { return net ? AcceptNet(listener) : AcceptLocal(listener); }

bool HasInput(int fd) {
  pollfd input{fd, POLLIN, 0};
  return poll(&input, 1, 0) == 1;
}

// Of nothing: a forked child would keep alive what it stood for.
Fd Spare() { return Fd(eventfd(0, EFD_CLOEXEC)); }

}  // namespace

Switchboard::~Switchboard() {
  const auto hold = control_->Hold();  // a guest that leaves now would change the lists
  control_->Cancel(sweep_);
  control_->Cancel(pause_);
  for (const auto& [fd, guest] : guests_) control_->Forget(fd);
  for (const Fd* listener : {&local_.fd, &net_.fd}) {
    if (listener->valid()) control_->Forget(listener->get());
  }
}

Status Switchboard::OpenLocked() {
  if (local_.fd.valid()) return {};
  SL_ASSIGN(LocalListener listener, ListenLocal());
  spare_ = Spare();
  SL_TRY(control_->Watch(listener.fd.get(), EPOLLIN, this));
  local_ = std::move(listener);
  return {};
}

Result<Endpoint> Switchboard::Open(uint64_t extension, const Secret& secret, Handler handler) {
  std::lock_guard lock(mutex_);
  SL_TRY(OpenLocked());
  extensions_[extension] = std::make_shared<const Extension>(Extension{secret, std::move(handler)});
  Endpoint endpoint;
  endpoint.extension = extension;
  endpoint.space = space_;
  endpoint.local = local_.name;
  endpoint.net = net_.address;
  endpoint.process = static_cast<uint32_t>(getpid());
  return endpoint;
}

void Switchboard::Close(uint64_t extension) {
  {
    std::lock_guard lock(mutex_);
    extensions_.erase(extension);
  }
  control_->Settle();
}

Result<NetInterface> Switchboard::ChosenInterface() const {
  SL_ASSIGN(const std::vector<NetInterface> all, ListInterfaces());
  return ChooseInterface(all, choice_.interfaces, choice_.family);
}

Result<NetListener> Switchboard::ListenToNet() const {
  if (!choice_.listen_at.valid()) {
    SL_ASSIGN(const NetInterface interface, ChosenInterface());
    return ListenNet(interface, 0);
  }
  SL_ASSIGN(const std::vector<NetInterface> all, ListInterfaces());
  const auto has_it = [this](const NetInterface& interface) {
    return interface.address.family == choice_.listen_at.family && interface.address.ip == choice_.listen_at.ip;
  };
  const auto found = std::find_if(all.begin(), all.end(), has_it);
  if (found == all.end()) return Status(SL_ERR_NOT_FOUND, "this host has no such address");
  return ListenNet(*found, choice_.listen_at.port);
}

Result<NetAddress> Switchboard::OpenNet() {
  std::lock_guard lock(mutex_);
  if (net_.fd.valid()) return net_.address;
  SL_ASSIGN(NetListener listener, ListenToNet());
  SL_TRY(OpenLocked());
  SL_TRY(control_->Watch(listener.fd.get(), EPOLLIN, this));
  net_ = std::move(listener);
  Logf(SL_LOG_INFO, "ranks on other hosts reach process {} at {}", getpid(), ToText(net_.address));
  return net_.address;
}

Endpoint Switchboard::Current(Endpoint endpoint) const {
  std::lock_guard lock(mutex_);
  endpoint.net = net_.address;
  return endpoint;
}

Result<Fd> Switchboard::Connect(const Endpoint& to, const Patience& patience) const {
  if (IsHere(to.space)) return ConnectLocal(to.local, patience);
  if (to.net.valid()) {
    // Only link-local addresses need to know it.
    const Result<NetInterface> interface = ChosenInterface();
    return ConnectNet(to.net, interface.ok() ? &interface.value() : nullptr, patience);
  }
  return Status(SL_ERR_UNSUPPORTED, ToText(to) +
                                        " is on another host, and had no network interface for ranks of other " +
                                        "hosts; see comm.interface (NCCL_SOCKET_IFNAME) there");
}

// A switchboard that many call at once drops whom it has not heard for a while; a process that has ended refuses the
// next connection.
Result<Stream> Switchboard::Call(const Endpoint& to, const Secret& secret, FrameType type,
                                 std::span<const uint8_t> body, const Patience& patience) const {
  constexpr int kCalls = 6;
  constexpr int kFirstPauseMs = 20;
  const bool encrypts = choice_.tls && !IsHere(to.space);
  Status introduced;
  for (int call = 0; call < kCalls; ++call) {
    if (call > 0) poll(nullptr, 0, kFirstPauseMs << call);
    SL_ASSIGN(Fd fd, Connect(to, patience));
    Stream stream(std::move(fd));
    introduced = Introduce(&stream, to.extension, encrypts, secret, type, body, patience);
    if (introduced.ok()) return stream;
    if (introduced.code() != SL_ERR_PEER_LOST || patience.cancelled() || NowNs() >= patience.deadline_ns) break;
  }
  return introduced;
}

// A guest that cannot be taken in would keep the listener ready for ever. It is told so, on the spare descriptor.
void Switchboard::RefuseForWantOfDescriptors(const Fd& listener, bool net) {
  constexpr uint64_t kPauseNs = 100'000'000;
  const Status why(SL_ERR_LIMIT, "process " + std::to_string(getpid()) +
                                     ", which was called, has no descriptors left; raise its limit (ulimit -n)");
  Log(SL_LOG_WARN, "switchboard: " + why.message());
  spare_ = Fd();
  if (Result<Fd> guest = AcceptFromEither(listener, net); guest.ok()) {
    [[maybe_unused]] const Status sent = SendAll(Stream(guest.Take()), EncodeRefusal(why), {NowNs()});  // fits
  }
  spare_ = Spare();
  // Another thread took it: nobody can be told, and looking again at once would only burn the processor.
  if (!spare_.valid()) PauseUntil(NowNs() + kPauseNs);
}

// New guests wait in the system's queue until then, or until a guest has left.
void Switchboard::PauseUntil(uint64_t when_ns) {
  if (paused_) return;
  pause_ = control_->At(when_ns, [this] { Resume(); });
  paused_ = true;
  WatchListeners(0);
}

void Switchboard::Resume() {
  if (!paused_) return;
  paused_ = false;
  control_->Cancel(pause_);
  WatchListeners(EPOLLIN);
}

void Switchboard::WatchListeners(uint32_t events) {
  std::lock_guard lock(mutex_);
  for (const Fd* listener : {&local_.fd, &net_.fd}) {
    if (!listener->valid()) continue;
    [[maybe_unused]] const Status changed = control_->Change(listener->get(), events);
  }
}

// The guest that has to leave first. Guests whose time is over come before the others, and among them those without a
// hello; then the one whose time ends first.
std::map<int, Switchboard::Guest>::iterator Switchboard::FirstToGo() {
  const uint64_t now_ns = NowNs();
  const auto rank = [now_ns](const Guest& guest) {
    const bool is_late = guest.LimitNs() <= now_ns;
    return std::tuple(!is_late, is_late && guest.greeted, guest.LimitNs());
  };
  return std::min_element(guests_.begin(), guests_.end(),
                          [&](const auto& a, const auto& b) { return rank(a.second) < rank(b.second); });
}

bool Switchboard::MakeRoom() {
  while (guests_.size() >= kMaxGuests) {
    const auto first = FirstToGo();
    const int fd = first->first;
    const uint64_t limit_ns = first->second.LimitNs();
    if (NowNs() < limit_ns) {
      PauseUntil(limit_ns);
      return false;
    }
    // What it has said may not have been looked at: then this thread is late, not the guest. With TLS there may be an
    // answer to give before the guest can go on.
    const bool has_spoken = HasInput(fd);
    Status heard = Listen(&first->second);
    if (heard.code() == SL_ERR_AGAIN) {
      Guest& guest = first->second;
      const bool is_late = guest.LimitNs() == limit_ns;
      if (is_late && has_spoken && !std::exchange(guest.excused, true)) guest.since_ns = NowNs();
      if (guest.LimitNs() != limit_ns) continue;
    }
    if (heard.code() == SL_ERR_AGAIN) heard = Status(SL_ERR_TIMEOUT, "it said nothing while others waited");
    if (!heard.ok()) Drop(fd, heard);
  }
  return true;
}

// A guest has left; its place is for one that waits.
void Switchboard::Erase(int fd) {
  control_->Forget(fd);
  guests_.erase(fd);
  Resume();
}

void Switchboard::AcceptFrom(const Fd& listener, bool net) {
  while (MakeRoom()) {
    Result<Fd> fd = AcceptFromEither(listener, net);
    if (fd.ok() || fd.status().code() == SL_ERR_LIMIT) is_short_ = !fd.ok();
    if (!fd.ok()) {
      if (fd.status().code() == SL_ERR_LIMIT) return RefuseForWantOfDescriptors(listener, net);
      if (fd.status().code() != SL_ERR_AGAIN) Log(SL_LOG_WARN, "switchboard: " + fd.status().message());
      return;
    }
    const int raw = fd.value().get();
    Guest& guest = guests_[raw];
    guest.stream = Stream(fd.Take());
    guest.net = net;
    guest.since_ns = NowNs();
    if (!control_->Watch(raw, EPOLLIN, this).ok()) guests_.erase(raw);
  }
}

const Fd* Switchboard::ListenerOf(int fd) const {
  std::lock_guard lock(mutex_);
  for (const Fd* listener : {&local_.fd, &net_.fd}) {
    if (fd == listener->get()) return listener;
  }
  return nullptr;
}

// A guest is dropped. A listener is watched again: the caller that could not be let in finds its stream closed, others
// go on calling.
void Switchboard::OnFailed(int fd, const Status& why) {
  if (ListenerOf(fd) == nullptr) return Drop(fd, why);
  const Status watched = control_->Watch(fd, paused_ ? 0u : EPOLLIN, this);
  if (!watched.ok()) Log(SL_LOG_ERROR, "switchboard: nobody is let in any more: " + watched.message());
  Sweep();
}

void Switchboard::OnReady(int fd, uint32_t) {
  if (const Fd* listener = ListenerOf(fd); listener != nullptr) {
    AcceptFrom(*listener, listener == &net_.fd);
    Sweep();
    return;
  }
  const auto found = guests_.find(fd);
  if (found == guests_.end()) return;
  const Status heard = Listen(&found->second);
  if (!heard.ok() && heard.code() != SL_ERR_AGAIN) Drop(fd, heard);
}

Status Switchboard::ReadFrame(Guest* guest) {
  for (;;) {
    const bool has_header = guest->in.size() >= sizeof(FrameHeader);
    const size_t want = sizeof(FrameHeader) + (has_header ? guest->header.bytes : 0);
    if (has_header && guest->in.size() == want) return {};
    const size_t have = guest->in.size();
    guest->in.resize(want);
    const ssize_t got = guest->stream.Receive(guest->in.data() + have, want - have);
    const int error = errno;
    guest->in.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return {SL_ERR_PEER_LOST, "it left before it had said who it is"};
    if (got < 0 && error == EINTR) continue;
    if (got < 0 && error == EPROTO) return {SL_ERR_DENIED, "it does not encrypt under the secret"};
    if (got < 0) return error == EAGAIN ? Status(SL_ERR_AGAIN) : Status(SL_ERR_PEER_LOST, "it broke off");
    if (has_header || guest->in.size() < sizeof(FrameHeader)) continue;
    std::memcpy(&guest->header, guest->in.data(), sizeof(FrameHeader));
    SL_TRY(CheckHeader(guest->header, guest->greeted ? kMaxHelloBytes : kHelloBytes));
  }
}

Status Switchboard::Listen(Guest* guest) {
  SL_TRY(ReadFrame(guest));
  if (guest->greeted) return OnProof(guest);
  SL_TRY(OnHello(guest));
  guest->greeted = true;
  guest->since_ns = NowNs();
  guest->in.clear();
  return Listen(guest);
}

Status Switchboard::OnHello(Guest* guest) {
  Reader in({guest->in.data() + sizeof(FrameHeader), guest->header.bytes});
  guest->greeting.extension = in.Get<uint64_t>();
  guest->greeting.options = in.Get<uint32_t>();
  guest->greeting.callers = in.Get<Challenge>();
  if (!in.ok() || guest->header.type != FrameType::kHello) return {SL_ERR_LINK_CORRUPT, "it did not say hello"};
  if (((guest->greeting.options & kEncrypts) != 0) != (guest->net && choice_.tls)) {
    return {SL_ERR_MISMATCH, std::string("comm.tls is ") + (choice_.tls ? "on" : "off") + " in process " +
                                 std::to_string(getpid()) + ", which was called, and " + (choice_.tls ? "off" : "on") +
                                 " in the one that calls; set it alike on all ranks"};
  }
  {
    std::lock_guard lock(mutex_);
    const auto found = extensions_.find(guest->greeting.extension);
    if (found == extensions_.end()) {
      return {SL_ERR_STATE,
              "this unique id has been used already, or its time is over; a communicator needs a new one"};
    }
    guest->wanted = found->second;
  }
  SL_TRY(FillRandom(guest->greeting.calleds));
  Writer answer;
  answer.Put(guest->greeting.calleds);
  answer.Put(CalledProof(guest->wanted->secret, guest->greeting));
  // An empty socket takes this much at once.
  SL_TRY(SendAll(guest->stream, EncodeFrame(FrameType::kAnswer, 0, answer.bytes()), {NowNs()}));
  if ((guest->greeting.options & kEncrypts) == 0) return {};
  return Encrypt(&guest->stream, Tls::Role::kCalled, guest->wanted->secret, guest->greeting.extension);
}

Status Switchboard::OnProof(Guest* guest) {
  Reader in({guest->in.data() + sizeof(FrameHeader), guest->header.bytes});
  const Proof proof = in.Get<Proof>();
  const FrameType type = guest->header.type;
  if (!in.ok() || !IsSame(proof, CallerProof(guest->wanted->secret, guest->greeting, type, in.rest()))) {
    return {SL_ERR_DENIED, "it does not know the secret"};
  }
  Bytes body(in.rest().begin(), in.rest().end());  // may throw: then the stream must still be the guest's
  Caller caller{std::move(guest->stream), type, std::move(body)};
  const std::shared_ptr<const Extension> wanted = std::move(guest->wanted);
  const uint64_t extension = guest->greeting.extension;
  Erase(caller.stream.fd());
  {
    std::lock_guard lock(mutex_);
    const auto found = extensions_.find(extension);
    if (found == extensions_.end() || found->second != wanted) return {};  // it was closed meanwhile; so is the caller
  }
  wanted->handler(std::move(caller));
  return {};
}

void Switchboard::Drop(int fd, const Status& why) {
  const auto found = guests_.find(fd);
  // A neighbour that only asks whether this host is there knows it by now.
  const bool is_probe = found->second.header.type == FrameType::kBeat && !found->second.greeted;
  if (!is_probe) strangers_.fetch_add(1);
  if (!is_probe && logged_.insert(why.code()).second) {
    Logf(SL_LOG_WARN, "switchboard: dropped a connection from {}: {}; others like it are dropped without a word",
         PeerText(fd), why.message());
  }
  // A stranger learns nothing; a rank that comes too late, or is of another version, learns what is wrong.
  if (why.code() == SL_ERR_STATE || why.code() == SL_ERR_MISMATCH) {
    [[maybe_unused]] const Status sent = SendAll(found->second.stream, EncodeRefusal(why), {NowNs()});
  }
  Erase(fd);
}

// Ends those who stay silent, now and as long as there are guests.
void Switchboard::Sweep() {
  if (sweeping_ || guests_.empty()) return;
  sweep_ = control_->Repeat(NowNs() + kBriefNs, [this] {
    DropSilent();
    sweeping_ = !guests_.empty();
    return sweeping_ ? NowNs() + kBriefNs : 0;
  });
  sweeping_ = true;
}

void Switchboard::DropSilent() {
  std::vector<int> late;
  for (const auto& [fd, guest] : guests_) {
    if (NowNs() - guest.since_ns >= kIntroductionNs) late.push_back(fd);
  }
  for (const int fd : late) Drop(fd, Status(SL_ERR_TIMEOUT, "it did not say in time who it is"));
}

}  // namespace sl::kernel
