// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/shrink_desk.h"

#include <algorithm>

namespace sl::kernel {
namespace {

// A rank whose shrink has failed, and which goes on to the next one, may be ahead of the news.
constexpr uint64_t kDoubtNs = 1'000'000'000;
// Of those that have come, at most, so that the frame stays short; a list without any of them is unlikely.
constexpr size_t kToldRanks = 256;

}  // namespace

void ShrinkDesk::Differ(const std::string& who, const std::string& terms) {
  other_terms_.insert(terms);
  if (!outcome_.ok()) return;
  outcome_ = Status(SL_ERR_MISMATCH, who + " shrinks " + terms + ", " + name_ + " " + terms_ + "; " + kRemedy);
}

bool ShrinkDesk::OnCaller(Switchboard::Caller* caller) {
  const Result<JoinRequest> decoded = JoinRequest::Decode(caller->body);
  if (!decoded.ok()) return true;  // dropped
  const JoinRequest& request = decoded.value();
  const std::string who = "rank " + std::to_string(request.known_as) + " (" + ToText(request.tree) + ")";
  const bool is_other = request.terms != terms_;
  Status refusal;
  {
    std::lock_guard lock(mutex_);
    const bool is_refused = other_terms_.contains(request.terms) && request.attempt <= attempt_;
    const bool is_of_this = is_refused || (!is_other && request.attempt <= attempt_);
    if (over_ && (outcome_.ok() || !is_of_this)) return false;
    if (!unanswered_.contains(request.known_as) && !is_refused) return false;
    // It takes this rank for the host, which on these terms is another one.
    if (!is_other && rendezvous_ == nullptr && outcome_.ok()) return true;
    if (caller->stream.has_ended()) {  // it gave up before this shrink began here
      const Status why = ReceiveFrame(caller->stream, kMaxHelloBytes, {NowNs()}).status();
      // It knows that its list was another one than its peers', and comes again on the one they agree on.
      if (is_other || why.code() == SL_ERR_MISMATCH) return true;
      if (outcome_.ok()) outcome_ = Status(why.code(), who + ": " + why.message());
    }
    unanswered_.erase(request.known_as);
    if (is_other) Differ(who, request.terms);
    refusal = outcome_;
  }
  if (refusal.ok()) {
    rendezvous_->Admit(nonce_, std::move(*caller));
    return true;
  }
  [[maybe_unused]] const Status sent = SendAll(caller->stream, EncodeRefusal(refusal), {NowNs()});  // fits
  if (rendezvous_ != nullptr) rendezvous_->CallOff(nonce_, refusal);
  if (is_other) extension_->ShowAgain();
  return true;
}

Bytes ShrinkDesk::Beat() const {
  Writer said;
  said.PutText(name_);
  said.PutText(terms_);
  std::lock_guard lock(mutex_);
  size_t told = 0;
  for (const uint32_t member : members_) {
    if (told == kToldRanks) break;
    if (unanswered_.contains(member)) continue;
    said.Put(member);
    ++told;
  }
  return said.Take();
}

void ShrinkDesk::OnBeat(const Switchboard::Caller& caller) {
  Reader in(caller.body);
  const std::string name = in.GetText();
  const std::string terms = in.GetText();
  bool waits_for_common = false;
  while (in.ok() && !in.empty()) {
    waits_for_common |= std::binary_search(members_.begin(), members_.end(), in.Get<uint32_t>());
  }
  if (!in.ok() || terms == terms_) return;
  const std::string meeting = name + " " + terms;
  Status why;
  {
    std::lock_guard lock(mutex_);
    if (!waits_for_common) in_doubt_since_ns_.erase(meeting);
    if (!waits_for_common || over_ || !outcome_.ok()) return;
    const uint64_t since_ns = in_doubt_since_ns_.try_emplace(meeting, NowNs()).first->second;
    if (NowNs() < since_ns + kDoubtNs) return;
    Differ(name, terms);
    why = outcome_;
  }
  [[maybe_unused]] const Status sent = SendAll(caller.stream, EncodeRefusal(why), {NowNs()});  // fits
  if (rendezvous_ != nullptr) rendezvous_->CallOff(nonce_, why);
  extension_->ShowAgain();
}

bool ShrinkDesk::OnExcuse(const Switchboard::Caller& caller) {
  Reader in(caller.body);
  const auto code = in.Get<sl_status_t>();
  const Status why(code < SL_OK ? code : SL_ERR_INTERNAL, in.GetText());
  const auto attempt = in.Get<uint32_t>();
  const std::string terms = in.GetText();
  if (in.ok() && attempt > attempt_) return false;
  // Of a shrink that is over here; or this rank knows better already, and the other one will call again.
  if (!in.ok() || attempt < attempt_ || terms != terms_) return true;
  Fail(why);
  if (rendezvous_ != nullptr) rendezvous_->CallOff(nonce_, why);
  return true;
}

void ShrinkDesk::End(const Status& outcome) {
  const bool is_aborted = outcome.code() == SL_ERR_ABORTED;  // which others were not
  const Status why = is_aborted ? Status(SL_ERR_PEER_LOST, name_ + " gave up: " + outcome.message()) : outcome;
  if (!why.ok()) Fail(why);
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  if (!why.ok() && rendezvous_ != nullptr) rendezvous_->CallOff(nonce_, why);
}

}  // namespace sl::kernel
