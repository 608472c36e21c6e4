// SPDX-License-Identifier: Apache-2.0
//
// Shrinking. The parent's control tree may be broken, but its ranks know each other's endpoints and a secret: so the
// members meet at the lowest of them, and call it under the number that it has in the parent. No other rank is needed.
#include <algorithm>

#include "kernel/comm/comm.h"
#include "kernel/comm/roster.h"
#include "kernel/comm/shrink_desk.h"
#include "kernel/control/join.h"
#include "kernel/profile/profile.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kHostGivesUpFirstNs = 5'000'000'000;  // it knows who is missing
constexpr uint64_t kProbeNs = 100'000'000;               // between two looks whether a rank that is waited for lives

// "without ranks 1, 3-5". Long lists are cut short, and end with a number that tells them apart.
std::string TermsOf(const std::vector<uint32_t>& excluded) {
  constexpr size_t kMaxText = 200;
  std::string list;
  for (size_t i = 0; i < excluded.size();) {
    size_t last = i;
    while (last + 1 < excluded.size() && excluded[last + 1] == excluded[last] + 1) ++last;
    list += (list.empty() ? "" : ", ") + std::to_string(excluded[i]);
    if (last > i) list += "-" + std::to_string(excluded[last]);
    i = last + 1;
  }
  std::string terms = std::string("without rank") + (excluded.size() == 1 ? " " : "s ");
  if (list.size() <= kMaxText) return terms + list;
  return terms + list.substr(0, kMaxText) + "…, " + std::to_string(excluded.size()) + " in all, hash " +
         std::to_string(HashText(list));
}

}  // namespace

Status Communicator::FindLost(const std::vector<uint32_t>& members) const {
  if (complete()) return {};
  for (const uint32_t member : members) {
    Fate fate;
    if (!FateOf(member, &fate) || !IsLost(fate)) continue;
    return {SL_ERR_PEER_LOST, LostText(member, fate) + "; exclude it, too"};
  }
  return {};
}

// Whether a member can still come. One that was lost together with all its neighbours in the control tree is known to
// nobody; and one that has ended the communicator is not lost.
Status Communicator::Probe(uint32_t member, std::span<const uint8_t> said, const Patience& patience) const {
  const Result<Stream> answer = CallRank(member, FrameType::kBeat, said, patience);
  // A process of this host that does not answer is kept from running.
  const bool is_here = process_->switchboard()->IsHere(roster_->cards()[member].endpoint.space);
  if (answer.status().code() == SL_ERR_TIMEOUT && is_here) return {};
  switch (answer.status().code()) {
    case SL_OK: {
      const Status objection = ReceiveFrame(answer.value(), kMaxHelloBytes, patience).status();
      return objection.code() == SL_ERR_MISMATCH ? objection : Status();  // it hangs up when it has none
    }
    case SL_ERR_STATE:
      return {SL_ERR_PEER_LOST, RankName(member) + " has ended the communicator that is shrunk; exclude it, too"};
    case SL_ERR_PEER_LOST:
    case SL_ERR_TIMEOUT:
      return {SL_ERR_PEER_LOST, RankName(member) + " was lost: " + answer.status().message() + "; exclude it, too"};
    default:
      return {};
  }
}

Result<Communicator::Seat> Communicator::MeetShrunk(Communicator* parent, const std::vector<uint32_t>& excluded,
                                                    const Status& able) {
  deadline_ns_ = NowNs() + config_.timeout_ns;
  const uint32_t attempt = ++parent->shrinks_;
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < parent->size(); ++rank) {
    if (!std::binary_search(excluded.begin(), excluded.end(), rank)) members.push_back(rank);
  }
  config_.size = static_cast<uint32_t>(members.size());
  config_.rank = static_cast<uint32_t>(std::find(members.begin(), members.end(), parent->rank()) - members.begin());
  nonce_ = parent->id();  // for messages, until there is one of its own
  const std::string terms = TermsOf(excluded);
  const Secret& parents_secret = parent->tree_->identity().secret;
  Seat seat;
  seat.identity = {config_.rank, config_.size, 0,
                   DeriveSecret(parents_secret, "shrink", parent->id(), HashText(terms))};

  // shared_ptr: the parent's extension and the rendezvous keep it, and neither outlives the other for certain.
  const auto desk =
      std::make_shared<ShrinkDesk>(parent->extension_.get(), parent->RankName(parent->rank()), terms, attempt, members);
  const auto begin = [&]() -> Status {
    SL_TRY(able);
    SL_TRY(parent->FindLost(members));
    SL_ASSIGN(seat.extension, Extension::Open(process_->switchboard(), seat.identity.secret));
    if (config_.rank != 0) return {};
    const auto on_refused = [desk](const Status& why) { desk->Fail(why); };
    SL_ASSIGN(const uint64_t number, process_->rendezvous()->Host({members, terms, config_.timeout_ns / 1000000,
                                                                   ShrinkDesk::kRemedy, on_refused}));
    desk->HostAt(process_->rendezvous(), number);
    return {};
  };
  const Status begun = begin();
  if (!begun.ok()) desk->End(begun);  // members that know less than this rank may call it
  parent->extension_->SetDesk(FrameType::kJoin, [desk](Switchboard::Caller* caller) { return desk->OnCaller(caller); });
  parent->extension_->SetDesk(FrameType::kRefuse,
                              [desk](Switchboard::Caller* caller) { return desk->OnExcuse(*caller); });
  parent->extension_->SetDesk(FrameType::kBeat, [desk](Switchboard::Caller* caller) {
    desk->OnBeat(*caller);
    return true;
  });
  if (!begun.ok()) {
    if (config_.rank != 0) parent->Excuse(members[0], attempt, terms, begun);
    return begun;
  }
  const uint64_t silence_ns = process_->profile().settings().comm.silence_ms * 1000000;
  uint64_t next_probe_ns = NowNs() + kProbeNs;
  uint32_t probed = 0;
  const auto look = [&]() -> Status {
    if (parent->cancelled()) return {SL_ERR_ABORTED, "the communicator that is shrunk was aborted"};
    SL_TRY(desk->outcome());
    SL_TRY(parent->FindLost(members));
    if (config_.rank != 0 || NowNs() < next_probe_ns) return {};
    next_probe_ns = NowNs() + kProbeNs;
    const std::vector<uint32_t> absent = desk->Absent();
    if (absent.empty()) return {};
    return parent->Probe(absent[probed++ % absent.size()], desk->Beat(),
                         {NowNs() + silence_ns, &cancelled_ns_, &parent->cancelled_ns_});
  };
  const JoinRequest request{config_.rank, config_.size, seat.extension->endpoint(), parent->rank(), config_.size,
                            terms,        attempt};
  const Result<Welcome> welcome = parent->MeetAt(
      members[0], request, {deadline_ns_ + kHostGivesUpFirstNs, &cancelled_ns_, &parent->cancelled_ns_}, look);
  desk->End(welcome.status());
  SL_TRY(welcome.status());
  seat.identity.nonce = welcome.value().nonce;
  seat.neighbours = welcome.value().neighbours;
  return seat;
}

// This rank cannot come, and tells the others so through the one where all meet.
void Communicator::Excuse(uint32_t host, uint32_t attempt, const std::string& terms, const Status& why) const {
  constexpr uint64_t kPatienceNs = 1'000'000'000;
  Writer said;
  said.Put(why.code());
  said.PutText(RankName(rank()) + ": " + why.message());
  said.Put(attempt);
  said.PutText(terms);
  // If nobody takes it, they wait for this rank as for one that does not call.
  [[maybe_unused]] const Result<Stream> told =
      CallRank(host, FrameType::kRefuse, said.bytes(), {NowNs() + kPatienceNs, &cancelled_ns_});
}

Result<Welcome> Communicator::MeetAt(uint32_t host, const JoinRequest& request, const Patience& patience,
                                     const std::function<Status()>& look) const {
  const Result<Stream> stream = CallRank(host, FrameType::kJoin, request.Encode(), patience);
  const std::string name = RankName(host);
  switch (stream.status().code()) {
    case SL_OK:
      break;
    case SL_ERR_STATE:
      return Status(SL_ERR_PEER_LOST, name + " has ended the communicator that is shrunk; " + ShrinkDesk::kRemedy);
    case SL_ERR_PEER_LOST:
    case SL_ERR_TIMEOUT:
      return Status(stream.status().code(), name + ", the lowest that is not excluded, does not answer: " +
                                                stream.status().message() + "; if it is lost, exclude it, too");
    default:
      return Status(stream.status().code(),
                    RankName(rank()) + " cannot call " + name + ": " + stream.status().message());
  }
  Result<Welcome> welcome = AwaitWelcome(stream.value(), process_->switchboard(), patience, look);
  if (welcome.status().code() == SL_ERR_PEER_LOST) {
    SL_TRY(look());
    return Status(SL_ERR_PEER_LOST, name + ", where all meet: " + welcome.status().message());
  }
  if (welcome.status().code() == SL_ERR_TIMEOUT && NowNs() >= patience.deadline_ns) {
    return Status(SL_ERR_TIMEOUT,
                  name + ", the lowest that is not excluded, did not shrink in time; " + ShrinkDesk::kRemedy);
  }
  return welcome;
}

}  // namespace sl::kernel
