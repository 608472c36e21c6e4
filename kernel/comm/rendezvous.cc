// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/rendezvous.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/comm/tree_shape.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kIntroductionNs = 10'000'000'000;  // a guest that stays silent longer is a stranger
constexpr size_t kMaxGuests = 65536;

Bytes RefusePayload(const Status& why) {
  Writer out;
  out.Put(why.code());
  out.PutText(why.message());
  return out.Take();
}

bool IsOwnProcess(const Fd& fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
}

}  // namespace

Rendezvous::~Rendezvous() {
  const auto hold = control_->Hold();  // a guest that leaves now would change the lists
  control_->Cancel(pause_);
  if (open_) control_->Forget(listener_.fd.get());
  for (auto& [nonce, session] : sessions_) control_->Cancel(session.timer);
  for (auto& [raw, guest] : guests_) {
    control_->Cancel(guest.timer);
    guest.channel->Close();
  }
  control_->Cancel(sweep_);
}

Status Rendezvous::Open() {
  if (open_) return {};
  SL_ASSIGN(listener_, Listen());
  spare_ = Fd(fcntl(listener_.fd.get(), F_DUPFD_CLOEXEC, 0));
  SL_TRY(control_->Watch(listener_.fd.get(), EPOLLIN, this));
  open_ = true;
  return {};
}

Result<RendezvousId> Rendezvous::NewId() {
  std::lock_guard lock(mutex_);
  SL_TRY(Open());
  RendezvousId id{};
  id.magic = kIdMagic;
  id.version = kIdVersion;
  FillRandom({reinterpret_cast<uint8_t*>(&id.nonce), sizeof(id.nonce)});
  FillRandom(id.secret);
  id.host = ReadHostId();
  id.rendezvous = listener_.name;
  id.process = static_cast<uint32_t>(getpid());
  sessions_[id.nonce].id = id;
  return id;
}

// A guest that cannot be taken in would keep the listener ready for ever. It is told so, on the spare descriptor.
void Rendezvous::RefuseForWantOfDescriptors() {
  constexpr uint64_t kPauseNs = 100'000'000;
  const Status why(SL_ERR_LIMIT,
                   "process " + std::to_string(getpid()) +
                       ", which serves the unique id, has no descriptors left; raise its limit (ulimit -n)");
  Log(SL_LOG_WARN, "rendezvous: " + why.message());
  spare_ = Fd();
  if (Result<Fd> guest = Accept(listener_.fd); guest.ok()) {
    const Bytes refusal = EncodeFrame(FrameType::kRefuse, 0, RefusePayload(why));
    [[maybe_unused]] const Status sent = SendAll(guest.value().get(), refusal, {NowNs()});  // fits an empty socket
  }
  spare_ = Fd(fcntl(listener_.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (spare_.valid()) return;
  // Another thread took it: nobody can be told, and looking again at once would only burn the processor.
  control_->Forget(listener_.fd.get());
  pause_ = control_->At(NowNs() + kPauseNs, [this] {
    [[maybe_unused]] const Status watched = control_->Watch(listener_.fd.get(), EPOLLIN, this);
  });
}

void Rendezvous::OnReady(int, uint32_t) {
  for (;;) {
    Result<Fd> fd = Accept(listener_.fd);
    if (!fd.ok()) {
      if (fd.status().code() == SL_ERR_LIMIT) return RefuseForWantOfDescriptors();
      if (fd.status().code() != SL_ERR_AGAIN) Log(SL_LOG_WARN, "rendezvous: " + fd.status().message());
      return;
    }
    if (guests_.size() >= kMaxGuests) {
      Log(SL_LOG_WARN, "rendezvous: too many connections wait; a new one was dropped");
      return;
    }
    const bool own_process = IsOwnProcess(fd.value());
    auto channel = std::make_unique<Channel>(control_, fd.Take(), kMaxHelloBytes, this);
    Channel* raw = channel.get();
    if (!channel->Open().ok()) continue;
    Guest guest{std::move(channel), 0, false, own_process};
    guest.timer = control_->At(NowNs() + kIntroductionNs, [this, raw] {
      const auto found = guests_.find(raw);
      if (found != guests_.end() && !found->second.joined) Drop(raw);
    });
    guests_.emplace(raw, std::move(guest));
  }
}

void Rendezvous::OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) {
  Status status =
      header.type == FrameType::kJoin ? Join(channel, payload) : Status(SL_ERR_LINK_CORRUPT, "expected a join frame");
  if (status.ok()) return;
  Logf(SL_LOG_WARN, "rendezvous: refused a connection: {}", status.message());
  // A stranger learns nothing; a rank with a wrong number learns what is wrong.
  if (status.code() != SL_ERR_DENIED) channel->Send(FrameType::kRefuse, 0, RefusePayload(status));
  Drop(channel);
}

Status Rendezvous::Join(Channel* channel, const Bytes& payload) {
  Reader in(payload);
  const uint64_t nonce = in.Get<uint64_t>();
  const uint32_t rank = in.Get<uint32_t>();
  const uint32_t size = in.Get<uint32_t>();
  const Proof proof = in.Get<Proof>();
  const SocketName tree = in.Get<SocketName>();
  if (!in.ok() || !in.empty()) return {SL_ERR_LINK_CORRUPT, "a join frame of the wrong length"};
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return {SL_ERR_STATE, "this unique id has been used already, or its time is over"};
  Session& session = found->second;
  if (!IsSame(proof, MakeProof(session.id.secret, "join", nonce, rank))) return {SL_ERR_DENIED, "wrong secret"};
  if (session.size == 0) {
    session.size = size;
    session.timer = control_->At(NowNs() + timeout_ms_ * 1000000, [this, nonce] { Expire(nonce); });
  }
  if (size != session.size || rank >= size) {
    return {SL_ERR_MISMATCH, "rank " + std::to_string(rank) + " says the communicator has " + std::to_string(size) +
                                 " ranks, others said " + std::to_string(session.size)};
  }
  if (session.ranks.count(rank) != 0) {
    return {SL_ERR_MISMATCH, "two processes or threads joined as rank " + std::to_string(rank) +
                                 "; every rank from 0 to " + std::to_string(size - 1) + " joins once"};
  }
  session.ranks[rank] = {channel, tree};
  guests_[channel].joined = true;
  if (session.ranks.size() == session.size) {
    Complete(&session);
    sessions_.erase(found);
  }
  return {};
}

void Rendezvous::Complete(Session* session) {
  for (const auto& [rank, joined] : session->ranks) {
    const SocketName parent = rank == 0 ? SocketName{} : session->ranks[ParentOf(rank)].tree;
    joined.channel->Send(FrameType::kWelcome, 0, parent);
    Drop(joined.channel);
  }
  control_->Cancel(session->timer);
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
  RefuseAll(&session, {SL_ERR_TIMEOUT, "of " + std::to_string(session.size) + " ranks, rank " + absent +
                                           " did not arrive within " + std::to_string(timeout_ms_) +
                                           " ms; see why it did not start, or raise comm.bootstrap_timeout_ms"});
  sessions_.erase(found);
}

// Ranks of this process last: it may end as soon as one of them knows, and the others would hear nothing.
void Rendezvous::RefuseAll(Session* session, const Status& why) {
  for (const bool own_process : {false, true}) {
    for (const auto& [rank, joined] : session->ranks) {
      const auto guest = guests_.find(joined.channel);
      if (guest == guests_.end() || guest->second.own_process != own_process) continue;
      joined.channel->Send(FrameType::kRefuse, 0, RefusePayload(why));
      Drop(joined.channel);
    }
  }
}

void Rendezvous::OnClosed(Channel* channel, const Status&) {
  {
    std::lock_guard lock(mutex_);
    for (auto& [nonce, session] : sessions_) {
      std::erase_if(session.ranks, [channel](const auto& entry) { return entry.second.channel == channel; });
    }
  }
  Drop(channel);
}

void Rendezvous::Drop(Channel* channel) {
  const auto found = guests_.find(channel);
  if (found == guests_.end()) return;
  control_->Cancel(found->second.timer);
  channel->Close();
  // Its handler may be on the stack: it is destroyed, and its socket closed, once that has returned.
  if (leaving_.empty()) sweep_ = control_->At(0, [this] { leaving_.clear(); });
  leaving_.push_back(std::move(found->second.channel));
  guests_.erase(found);
}

Result<SocketName> JoinRendezvous(const RendezvousId& id, uint32_t rank, uint32_t size, const SocketName& tree,
                                  const Patience& patience) {
  Result<Fd> fd = Connect(id.rendezvous, patience);
  if (!fd.ok()) {
    if (fd.status().code() != SL_ERR_PEER_LOST) return fd.status();
    return Status(SL_ERR_PEER_LOST, "nobody serves the unique id any more: process " + std::to_string(id.process) +
                                        ", which made it, has ended");
  }
  Writer join;
  join.Put(id.nonce);
  join.Put(rank);
  join.Put(size);
  join.Put(MakeProof(id.secret, "join", id.nonce, rank));
  join.Put(tree);
  SL_TRY(SendAll(fd.value().get(), EncodeFrame(FrameType::kJoin, 0, join.bytes()), patience));
  FrameHeader header;
  Status received = ReceiveAll(fd.value().get(), {reinterpret_cast<uint8_t*>(&header), sizeof(header)}, patience);
  if (received.code() == SL_ERR_TIMEOUT) {
    return Status(SL_ERR_TIMEOUT,
                  "rank " + std::to_string(rank) + " waited for the other ranks until its time was over");
  }
  if (received.code() == SL_ERR_ABORTED) return received;
  if (!received.ok()) return Status(received.code(), "the rendezvous closed: " + received.message());
  SL_TRY(CheckHeader(header, kMaxHelloBytes));
  Bytes payload(header.bytes);
  SL_TRY(ReceiveAll(fd.value().get(), payload, patience));
  Reader in(payload);
  if (header.type == FrameType::kRefuse) {
    const auto code = in.Get<sl_status_t>();
    return Status(code < 0 ? code : SL_ERR_INTERNAL, in.GetText());
  }
  if (header.type != FrameType::kWelcome) return Status(SL_ERR_LINK_CORRUPT, "the rendezvous spoke out of turn");
  return in.Get<SocketName>();
}

}  // namespace sl::kernel
