// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "kernel/control/id_groups.h"
#include "kernel/control/tree_shape.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

bool IsOwnProcess(const Stream& stream) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(stream.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
}

constexpr uint64_t kLeadersExtraMs = 2000;  // a group that fails names the absent rank first
constexpr const char* kIdRemedy = "see why it did not start, or raise comm.bootstrap_timeout_ms";

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
  while (nonce == 0) SL_TRY(FillRandom({reinterpret_cast<uint8_t*>(&nonce), sizeof(nonce)}));
  SL_TRY(FillRandom(id.secret));
  // Ranks may come from other hosts: nobody can know. Without an interface they cannot, and hear so.
  if (switchboard_->HasNet()) SL_TRY(switchboard_->OpenNet().status());
  id.rendezvous.extension = nonce;
  SL_ASSIGN(id.rendezvous, Serve(id, false));
  SL_TRY(Serve(LeadersId(id), true).status());
  return id;
}

Result<Endpoint> Rendezvous::Serve(const RendezvousId& id, bool of_leaders) {
  const uint64_t nonce = id.nonce();
  std::lock_guard lock(mutex_);
  Session& session = sessions_[nonce];
  session.timeout_ms = timeout_ms_ + (of_leaders ? kLeadersExtraMs : 0);
  session.remedy = kIdRemedy;
  session.of_leaders = of_leaders;
  if (!of_leaders) session.leaders = LeadersId(id).nonce();
  return switchboard_->Open(nonce, id.secret,
                            [this, nonce](Switchboard::Caller caller) { Admit(nonce, std::move(caller)); });
}

Result<uint64_t> Rendezvous::Host(Gathering gathering) {
  uint64_t nonce = 0;
  while (nonce == 0) SL_TRY(FillRandom({reinterpret_cast<uint8_t*>(&nonce), sizeof(nonce)}));
  std::lock_guard lock(mutex_);
  Session& session = sessions_[nonce];
  session.size = static_cast<uint32_t>(gathering.names.size());
  session.terms = gathering.terms;
  session.timeout_ms = gathering.timeout_ms;
  session.remedy = gathering.remedy;
  session.gathering = std::make_unique<Gathering>(std::move(gathering));
  session.timer = control_->At(NowNs() + session.timeout_ms * 1000000, [this, nonce] { Expire(nonce); });
  return nonce;
}

void Rendezvous::CallOff(uint64_t nonce, const Status& why) {
  const auto hold = control_->Hold();  // guests belong to that thread
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found != sessions_.end()) RefuseAll(nonce, &found->second, why);
}

// Who calls has the secret: one of the ranks in error means that they will not all meet.
void Rendezvous::Admit(uint64_t nonce, Switchboard::Caller caller) {
  const Status joined = Join(nonce, &caller);
  if (joined.ok()) return;
  Logf(SL_LOG_WARN, "rendezvous: refused a rank: {}", joined.message());
  [[maybe_unused]] const Status sent = SendAll(caller.stream, EncodeRefusal(joined), {NowNs()});  // fits
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found != sessions_.end() && found->second.refused.ok()) RefuseAllToCome(nonce, &found->second, joined);
}

// Those who have come hear why, and so do those who come later, here or where the leaders meet.
void Rendezvous::RefuseAllToCome(uint64_t nonce, Session* session, const Status& why) {
  if (session->gathering != nullptr || session->full) return RefuseAll(nonce, session, why);
  for (const uint64_t place : {session->leaders, nonce}) {
    const auto found = sessions_.find(place);
    if (found == sessions_.end()) continue;
    TellRefusal(&found->second, why);
    found->second.refused = why;
  }
}

std::string Rendezvous::Session::Name(uint32_t rank) const {
  if (gathering != nullptr && rank < size) return "rank " + std::to_string(gathering->names[rank]);
  return "rank " + std::to_string(of_leaders ? IdGroups{total, size}.First(rank) : first + rank);
}

// The first to come says what all have to say.
void Rendezvous::Begin(uint64_t nonce, Session* session, const JoinRequest& request) {
  session->size = request.size;
  session->total = request.total;
  session->terms = request.terms;
  if (!session->of_leaders) session->first = request.known_as - request.rank;
  control_->Cancel(session->timer);
  session->timer = control_->At(NowNs() + session->timeout_ms * 1000000, [this, nonce] { Expire(nonce); });
  const auto found = sessions_.find(session->leaders);
  if (found == sessions_.end()) return;
  const uint64_t leaders = found->first;
  if (request.total == request.size && !found->second.ranks.empty()) {
    RefuseAll(leaders, &found->second, WhyOtherTerms(request, found->second));
  } else if (request.total == request.size || session->first != 0) {
    End(leaders, &found->second);  // leaders meet elsewhere, or not at all
  } else if (found->second.timer == 0) {
    const uint64_t over_ns = NowNs() + 2 * found->second.timeout_ms * 1000000;
    found->second.timer = control_->At(over_ns, [this, leaders] { Expire(leaders); });
  }
}

Status Rendezvous::WhyOtherTerms(const JoinRequest& request, const Session& session) {
  const auto words = [](const std::string& terms) { return terms.empty() ? "by a single id" : terms; };
  return {SL_ERR_MISMATCH, "rank " + std::to_string(request.known_as) + " (" + ToText(request.tree) + ") meets " +
                               words(request.terms) + ", others " + words(session.terms)};
}

Status Rendezvous::Check(const Session& session, const JoinRequest& request) {
  const uint32_t size = session.size;
  const std::string who = "rank " + std::to_string(request.known_as) + " (" + ToText(request.tree) + ")";
  if (request.terms != session.terms) return WhyOtherTerms(request, session);
  if (request.size != size || request.rank >= size) {
    return {SL_ERR_MISMATCH, who + " says the communicator has " + std::to_string(request.size) +
                                 " ranks, others said " + std::to_string(size)};
  }
  if (const auto other = session.ranks.find(request.rank); other != session.ranks.end()) {
    return {SL_ERR_MISMATCH, "two processes or threads joined as " + who + ", the other is " +
                                 ToText(other->second->tree) + "; every rank from " + session.Name(0).substr(5) +
                                 " to " + session.Name(size - 1).substr(5) + " joins once"};
  }
  return {};
}

Status Rendezvous::Join(uint64_t nonce, Switchboard::Caller* caller) {
  if (caller->type != FrameType::kJoin) return {SL_ERR_LINK_CORRUPT, "a rank said something else than that it joins"};
  SL_ASSIGN(const JoinRequest request, JoinRequest::Decode(caller->body));
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return {SL_ERR_STATE, "this unique id has been used already, or its time is over"};
  Session& session = found->second;
  SL_TRY(session.refused);
  if (session.size == 0) Begin(nonce, &session, request);
  SL_TRY(Check(session, request));
  const bool own_process = IsOwnProcess(caller->stream);
  auto channel = std::make_unique<Channel>(control_, std::move(caller->stream), kMaxHelloBytes, this);
  SL_TRY(channel->Open());
  Channel* raw = channel.get();
  auto guest = std::make_unique<Guest>(Guest{std::move(channel), nonce, request.rank, own_process, request.tree});
  session.ranks[request.rank] = guest.get();
  try {
    guests_.emplace(raw, std::move(guest));
  } catch (const std::bad_alloc&) {
    session.ranks.erase(request.rank);  // the guest ends here, and its channel with it
    throw;
  }
  ++admitted_;
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
  const std::string who = session.Name(guest->rank) + " (" + ToText(guest->tree) + ")";
  if (header.type == FrameType::kRefuse) {
    const auto code = in.Get<sl_status_t>();
    return RefuseAllToCome(guest->nonce, &session,
                           Status(code < 0 ? code : SL_ERR_INTERNAL, who + ": " + in.GetText()));
  }
  RefuseAll(guest->nonce, &session, Status(SL_ERR_LINK_CORRUPT, who + " spoke out of turn while the ranks met"));
}

void Rendezvous::Welcome(uint64_t nonce, Session* session) {
  for (const auto& [rank, guest] : session->ranks) {
    const auto neighbours =
        TreeNeighbours::Of(rank, session->size, [session](uint32_t r) { return session->ranks[r]->tree; });
    Writer welcome;
    welcome.Put(nonce);
    welcome.Put(neighbours.parent);
    for (const Endpoint& child : neighbours.children) welcome.Put(child);
    guest->channel->Send(FrameType::kWelcome, 0, welcome.bytes());
  }
  End(nonce, session);
}

void Rendezvous::Expire(uint64_t nonce) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(nonce);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (session.size == 0 || !session.refused.ok()) return End(nonce, &session);  // or leaders whose groups all failed
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < session.size; ++rank) {
    const auto guest = session.ranks.find(rank);
    const bool is_here = guest != session.ranks.end();
    if (!is_here || (session.full && !guest->second->tree.net.valid())) absent.push_back(rank);
  }
  constexpr size_t kListed = 16;
  std::string names = session.Name(absent[0]);
  for (size_t i = 1; i < std::min(absent.size(), kListed); ++i) names += ", " + session.Name(absent[i]).substr(5);
  if (absent.size() > kListed) names += ", and " + std::to_string(absent.size() - kListed) + " more";
  const char* remedy = switchboard_->is_short()
                           ? "this process has no descriptors left for who calls it; raise its limit (ulimit -n)"
                           : session.remedy;
  RefuseAll(nonce, &session,
            {SL_ERR_TIMEOUT, "of " + std::to_string(std::max(session.size, session.total)) + " ranks, " + names +
                                 (session.full ? " did not open a port" : " did not arrive") + " within " +
                                 std::to_string(session.timeout_ms) + " ms; " + remedy});
}

void Rendezvous::RefuseAll(uint64_t nonce, Session* session, const Status& why) {
  TellRefusal(session, why);
  if (session->gathering != nullptr) session->gathering->on_refused(why);
  End(nonce, session);
}

// Ranks of this process last: it may end as soon as one of them knows, and the others would hear nothing.
void Rendezvous::TellRefusal(Session* session, const Status& why) {
  Writer refusal;
  refusal.Put(why.code());
  refusal.PutText(why.message());
  for (const bool own_process : {false, true}) {
    for (const auto& [rank, guest] : session->ranks) {
      if (guest->own_process == own_process) guest->channel->Send(FrameType::kRefuse, 0, refusal.bytes());
    }
  }
  DropAll(session);
}

// One after another: the caller may come again when there was no memory in between.
void Rendezvous::DropAll(Session* session) {
  for (auto first = session->ranks.begin(); first != session->ranks.end(); first = session->ranks.erase(first)) {
    Drop(first->second);
  }
}

void Rendezvous::OnClosed(Channel* channel, const Status&) {
  const auto found = guests_.find(channel);
  if (found == guests_.end()) return;
  Guest* guest = found->second.get();
  std::lock_guard lock(mutex_);
  Session& session = sessions_[guest->nonce];
  session.ranks.erase(guest->rank);
  const Status why(SL_ERR_PEER_LOST,
                   session.Name(guest->rank) + " (" + ToText(guest->tree) + ") left while the ranks met");
  const uint64_t nonce = guest->nonce;
  Drop(guest);
  RefuseAllToCome(nonce, &session, why);
}

void Rendezvous::End(uint64_t nonce, Session* session) {
  DropAll(session);
  control_->Cancel(session->timer);
  switchboard_->Close(nonce);
  sessions_.erase(nonce);
}

void Rendezvous::Drop(Guest* guest) {
  Channel* channel = guest->channel.get();
  // Its handler may be on the stack: it is destroyed, and its socket closed, once that has returned.
  leaving_.emplace_back();
  try {
    if (leaving_.size() == 1) sweep_ = control_->At(0, [this] { leaving_.clear(); });
  } catch (const std::bad_alloc&) {
    leaving_.pop_back();  // nothing has changed
    throw;
  }
  channel->Close();
  const auto found = guests_.find(channel);
  leaving_.back() = std::move(found->second);
  guests_.erase(found);
}

}  // namespace sl::kernel
