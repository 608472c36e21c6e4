// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/shrink_desk.h"

namespace sl::kernel {

bool ShrinkDesk::OnCaller(Switchboard::Caller* caller) {
  const Result<JoinRequest> request = JoinRequest::Decode(caller->body);
  if (!request.ok()) return true;  // dropped
  Status refusal;
  {
    std::lock_guard lock(mutex_);
    const bool is_of_this = request.value().terms == terms_ && request.value().attempt <= attempt_;
    if (over_ && (outcome_.ok() || !is_of_this)) return false;
    if (unanswered_.erase(request.value().known_as) == 0) return false;
    if (outcome_.ok() && rendezvous_ == nullptr) {
      outcome_ = Status(SL_ERR_MISMATCH, "rank " + std::to_string(request.value().known_as) + " (" +
                                             ToText(request.value().tree) + ") shrinks " + request.value().terms +
                                             ", " + name_ + " " + terms_ + "; " + kRemedy);
    }
    refusal = outcome_;
  }
  if (refusal.ok()) {
    rendezvous_->Admit(nonce_, std::move(*caller));
  } else {
    [[maybe_unused]] const Status sent = SendAll(caller->stream, EncodeRefusal(refusal), {NowNs()});  // fits
  }
  return true;
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
