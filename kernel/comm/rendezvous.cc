// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "kernel/comm/tree_shape.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

bool IsOwnProcess(const Fd& fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
}

std::string RankText(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Rendezvous::~Rendezvous() {
  const auto hold = control_->Hold();  // a guest that leaves now would change the lists
  for (auto& [nonce, session] : sessions_) {
    switchboard_->Close(nonce);
    control_->Cancel(session.timer);
  }
  for (auto& [raw, guest] : guests_) guest->channel->Close();
  control_->Cancel(sweep_);
}

Result<RendezvousId> Rendezvous::NewId() {
  RendezvousId id{};
  id.magic = kIdMagic;
  id.version = kIdVersion;
  uint64_t nonce = 0;
  while (nonce == 0) FillRandom({reinterpret_cast<uint8_t*>(&nonce), sizeof(nonce)});
  FillRandom(id.secret);
  // Ranks may come from other hosts: nobody can know. Without an interface they cannot, and hear so.
  if (switchboard_->HasNet()) SL_TRY(switchboard_->OpenNet().status());
  std::lock_guard lock(mutex_);
  SL_ASSIGN(id.rendezvous, switchboard_->Open(nonce, id.secret, [this, nonce](Switchboard::Caller caller) {
    OnCaller(nonce, std::move(caller));
  }));
  sessions_[nonce];
  return id;
}

void Rendezvous::OnCaller(uint64_t nonce, Switchboard::Caller caller) {
  const Status joined = Join(nonce, &caller);
  if (joined.ok()) return;
  Logf(SL_LOG_WARN, "rendezvous: refused a rank: {}", joined.message());
  [[maybe_unused]] const Status sent = SendAll(caller.fd.get(), EncodeRefusal(joined), {NowNs()});  // fits
}

Status Rendezvous::Join(uint64_t nonce, Switchboard::Caller* caller) {
  Reader in(caller->body);
  const uint32_t rank = in.Get<uint32_t>();
  const uint32_t size = in.Get<uint32_t>();
  const Endpoint tree = in.Get<Endpoint>();
  if (caller->type != FrameType::kJoin || !in.ok() || !in.empty() || !IsWellFormed(tree)) {
    return {SL_ERR_LINK_CORRUPT, "a join frame of the wrong length"};
  }
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return {SL_ERR_STATE, "this unique id has been used already, or its time is over"};
  Session& session = found->second;
  if (session.size == 0) {
    session.size = size;
    session.timer = control_->At(NowNs() + timeout_ms_ * 1000000, [this, nonce] { Expire(nonce); });
  }
  const std::string who = RankText(rank) + " (" + ToText(tree) + ")";
  if (size != session.size || rank >= size) {
    return {SL_ERR_MISMATCH, who + " says the communicator has " + std::to_string(size) + " ranks, others said " +
                                 std::to_string(session.size)};
  }
  if (const auto other = session.ranks.find(rank); other != session.ranks.end()) {
    return {SL_ERR_MISMATCH, "two processes or threads joined as " + who + ", the other is " +
                                 ToText(other->second->tree) + "; every rank from 0 to " + std::to_string(size - 1) +
                                 " joins once"};
  }
  const bool own_process = IsOwnProcess(caller->fd);
  auto channel = std::make_unique<Channel>(control_, std::move(caller->fd), kMaxHelloBytes, this);
  SL_TRY(channel->Open());
  Channel* raw = channel.get();
  auto guest = std::make_unique<Guest>(Guest{std::move(channel), nonce, rank, own_process, tree});
  session.ranks[rank] = guest.get();
  guests_.emplace(raw, std::move(guest));
  if (session.ranks.size() == session.size) OpenThenWelcome(nonce, &session);
  return {};
}

void Rendezvous::OpenThenWelcome(uint64_t nonce, Session* session) {
  session->full = true;
  const HostId& space = session->ranks.begin()->second->tree.space;
  const bool one_host = std::all_of(session->ranks.begin(), session->ranks.end(),
                                    [&](const auto& entry) { return entry.second->tree.space == space; });
  for (const auto& [rank, guest] : session->ranks) {
    if (one_host || guest->tree.net.valid()) continue;
    ++session->opening;
    guest->channel->Send(FrameType::kOpen, 0, {});
  }
  if (session->opening == 0) Welcome(nonce, session);
}

void Rendezvous::OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) {
  const auto found = guests_.find(channel);
  if (found == guests_.end()) return;
  Guest* guest = found->second.get();
  std::lock_guard lock(mutex_);
  Session& session = sessions_[guest->nonce];
  Reader in(payload);
  if (header.type == FrameType::kOpened && session.opening > 0 && !guest->tree.net.valid()) {
    guest->tree.net = in.Get<NetAddress>();
    if (in.ok() && in.empty() && guest->tree.net.valid() && IsWellFormed(guest->tree.net)) {
      if (--session.opening == 0) Welcome(guest->nonce, &session);
      return;
    }
  }
  const std::string who = RankText(guest->rank) + " (" + ToText(guest->tree) + ")";
  if (header.type == FrameType::kRefuse) {
    const auto code = in.Get<sl_status_t>();
    return RefuseAll(guest->nonce, &session, Status(code < 0 ? code : SL_ERR_INTERNAL, who + ": " + in.GetText()));
  }
  RefuseAll(guest->nonce, &session, Status(SL_ERR_LINK_CORRUPT, who + " spoke out of turn while the ranks met"));
}

void Rendezvous::Welcome(uint64_t nonce, Session* session) {
  for (const auto& [rank, guest] : session->ranks) {
    Writer parent;
    parent.Put(rank == 0 ? Endpoint{} : session->ranks[ParentOf(rank)]->tree);
    guest->channel->Send(FrameType::kWelcome, 0, parent.bytes());
  }
  End(nonce, session);
}

void Rendezvous::Expire(uint64_t nonce) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  std::string absent;
  uint32_t listed = 0;
  for (uint32_t rank = 0; rank < session.size && listed < 16; ++rank) {
    if (session.ranks.count(rank) != 0) continue;
    absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
    ++listed;
  }
  const size_t missing = session.size - session.ranks.size();
  if (missing > listed) absent += ", and " + std::to_string(missing - listed) + " more";
  if (missing == 0) {
    for (const auto& [rank, guest] : session.ranks) {
      if (!guest->tree.net.valid()) absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
    }
  }
  RefuseAll(nonce, &session,
            {SL_ERR_TIMEOUT, "of " + std::to_string(session.size) + " ranks, rank " + absent +
                                 (missing == 0 ? " did not open a port" : " did not arrive") + " within " +
                                 std::to_string(timeout_ms_) +
                                 " ms; see why it did not start, or raise comm.bootstrap_timeout_ms"});
}

// Ranks of this process last: it may end as soon as one of them knows, and the others would hear nothing.
void Rendezvous::RefuseAll(uint64_t nonce, Session* session, const Status& why) {
  Writer refusal;
  refusal.Put(why.code());
  refusal.PutText(why.message());
  for (const bool own_process : {false, true}) {
    for (const auto& [rank, guest] : session->ranks) {
      if (guest->own_process == own_process) guest->channel->Send(FrameType::kRefuse, 0, refusal.bytes());
    }
  }
  End(nonce, session);
}

void Rendezvous::OnClosed(Channel* channel, const Status&) {
  const auto found = guests_.find(channel);
  if (found == guests_.end()) return;
  Guest* guest = found->second.get();
  std::lock_guard lock(mutex_);
  Session& session = sessions_[guest->nonce];
  session.ranks.erase(guest->rank);
  const Status why(SL_ERR_PEER_LOST, RankText(guest->rank) + " (" + ToText(guest->tree) + ") left while the ranks met");
  const uint64_t nonce = guest->nonce;
  Drop(guest);
  if (session.full) RefuseAll(nonce, &session, why);
}

void Rendezvous::End(uint64_t nonce, Session* session) {
  for (const auto& [rank, guest] : session->ranks) Drop(guest);
  control_->Cancel(session->timer);
  switchboard_->Close(nonce);
  sessions_.erase(nonce);
}

void Rendezvous::Drop(Guest* guest) {
  Channel* channel = guest->channel.get();
  channel->Close();
  // Its handler may be on the stack: it is destroyed, and its socket closed, once that has returned.
  if (leaving_.empty()) sweep_ = control_->At(0, [this] { leaving_.clear(); });
  const auto found = guests_.find(channel);
  leaving_.push_back(std::move(found->second));
  guests_.erase(found);
}

namespace {

// Answers until the rendezvous welcomes or refuses.
Result<Endpoint> AwaitWelcome(int fd, Switchboard* switchboard, const Patience& patience) {
  for (;;) {
    const Result<Frame> received = ReceiveFrame(fd, kMaxHelloBytes, patience);
    if (!received.ok() && NowNs() >= patience.deadline_ns) {
      return Status(SL_ERR_TIMEOUT, "waited for the other ranks until the time was over");
    }
    if (!received.ok()) return received.status();
    const Frame& frame = received.value();
    Reader in(frame.payload);
    if (frame.header.type == FrameType::kWelcome) {
      const auto parent = in.Get<Endpoint>();
      if (in.ok() && IsWellFormed(parent)) return parent;
    }
    if (frame.header.type != FrameType::kOpen) return Status(SL_ERR_LINK_CORRUPT, "the rendezvous spoke out of turn");
    const Result<NetAddress> opened = switchboard->OpenNet();
    if (!opened.ok()) {
      [[maybe_unused]] const Status sent = SendAll(fd, EncodeRefusal(opened.status()), patience);
      return opened.status();
    }
    Writer where;
    where.Put(opened.value());
    SL_TRY(SendAll(fd, EncodeFrame(FrameType::kOpened, 0, where.bytes()), patience));
  }
}

}  // namespace

Result<Endpoint> JoinRendezvous(const RendezvousId& id, uint32_t rank, uint32_t size, const Extension& mine,
                                const Patience& patience) {
  Switchboard* switchboard = mine.switchboard();
  // Its children are on other hosts, or may be.
  if (!switchboard->IsHere(id.rendezvous.space)) SL_TRY(switchboard->OpenNet().status());
  Writer join;
  join.Put(rank);
  join.Put(size);
  join.Put(mine.endpoint());
  const Result<Fd> fd = switchboard->Call(id.rendezvous, id.secret, FrameType::kJoin, join.bytes(), patience);
  if (!fd.ok()) {
    const Status& why = fd.status();
    if (why.code() != SL_ERR_PEER_LOST && why.code() != SL_ERR_TIMEOUT) return why;
    return Status(why.code(), "nobody serves the unique id: " + ToText(id.rendezvous) +
                                  ", which made it, has ended or is out of reach (" + why.message() + ")");
  }
  return AwaitWelcome(fd.value().get(), switchboard, patience);
}

}  // namespace sl::kernel
