// SPDX-License-Identifier: Apache-2.0
//
// Who calls a rank, under its number in the parent, because it takes that rank for the one where all meet to shrink
// (shrink.cc).
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernel/control/extension.h"
#include "kernel/control/rendezvous.h"
#include "kernel/control/switchboard.h"

namespace sl::kernel {

// Of one shrink that this rank has called for. Outlives it, as long as the parent has no other: a member that calls on
// its terms after it has failed is told so at once. One that had its answer, is not a member, comes late on other
// terms, or has called more often than this rank, so that its own part of this shrink failed before it could call,
// calls for another shrink and waits until that begins here.
//
// Ranks that have different lists may look for each other in different places. What makes that certain is a pair that
// belongs to both shrinks, each waiting in another one: ranks call the shrinks they have in common in one order. So the
// host of a meeting asks who is absent, and says who has come; who finds one of them among its own members ends both.
class ShrinkDesk {
 public:
  static constexpr const char* kRemedy = "every rank that is not excluded has to call it, with the same ones excluded";

  // `extension`: of this rank in the parent, which keeps this. `name`: of this rank, for messages. `attempt`: how often
  // it has called for a shrink of the parent, this time included. `members`: by their numbers in the parent, ascending.
  ShrinkDesk(Extension* extension, std::string name, std::string terms, uint32_t attempt, std::vector<uint32_t> members)
      : extension_(extension),
        name_(std::move(name)),
        terms_(std::move(terms)),
        attempt_(attempt),
        members_(std::move(members)),
        unanswered_(members_.begin(), members_.end()) {}

  // This rank is where all meet. Before anybody calls.
  void HostAt(Rendezvous* rendezvous, uint64_t nonce) {
    rendezvous_ = rendezvous;
    nonce_ = nonce;
  }

  // A member that comes: a frame of type kJoin. False: it waits on.   thread: the control thread's
  bool OnCaller(Switchboard::Caller* caller);
  // Of a rank that cannot take part: a frame of type kRefuse. False: it waits on.   thread: the control thread's
  bool OnExcuse(const Switchboard::Caller& caller);
  // Of the lowest member by some list, which waits for this rank: a frame of type kBeat. Nothing is known against it,
  // or it hears the refusal.   thread: the control thread's
  void OnBeat(const Switchboard::Caller& caller);

  // What such a beat says of the meeting here.
  Bytes Beat() const;
  // Members that have not come, ascending.
  std::vector<uint32_t> Absent() const {
    std::lock_guard lock(mutex_);
    return {unanswered_.begin(), unanswered_.end()};
  }
  // The shrink has failed: why, for those who still come. The first reason stays.   [any]
  void Fail(const Status& why) {
    std::lock_guard lock(mutex_);
    if (outcome_.ok() && !over_) outcome_ = why;
  }
  // Why it has failed, or SL_OK so far.
  Status outcome() const {
    std::lock_guard lock(mutex_);
    return outcome_;
  }
  // All have met, or this rank has given up; then those who have come hear it now.
  void End(const Status& outcome);

 private:
  // The first reason, of one who calls on `terms`; those who come on them, too, will not meet. Caller holds mutex_.
  void Differ(const std::string& who, const std::string& terms);

  Extension* const extension_;
  const std::string name_;  // this rank
  const std::string terms_;
  const uint32_t attempt_;  // of this rank
  const std::vector<uint32_t> members_;
  Rendezvous* rendezvous_ = nullptr;
  uint64_t nonce_ = 0;
  mutable std::mutex mutex_;
  std::set<uint32_t> unanswered_;      // of members_; guarded by mutex_
  std::set<std::string> other_terms_;  // on which members have called; guarded by mutex_
  // By the meeting, since when one that waits for this rank on other terms has had a member; guarded by mutex_.
  std::map<std::string, uint64_t> in_doubt_since_ns_;
  Status outcome_;     // guarded by mutex_
  bool over_ = false;  // guarded by mutex_
};

}  // namespace sl::kernel
