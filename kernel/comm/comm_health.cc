// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a communicator: failures of this rank and of others, lost ranks, leaving, and the words for it.
#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "kernel/comm/comm.h"
#include "kernel/comm/grace.h"
#include "kernel/comm/roster.h"
#include "kernel/events/log.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kJoiningGraceNs = 1'000'000'000;

// Nothing is under way any more, as far as can be told now.
bool IsIdle(LinkTable* links) {
  const Driving driving(links);
  if (!driving.has_begun()) return false;
  static_cast<void>(links->Progress());
  return links->Idle();
}

}  // namespace

// Stops launches at the end of its scope, whether or not what comes first finds the memory that it takes. What comes
// first is the failure; its code alone is kept where nothing else says why.
class Communicator::LaunchStop {
 public:
  LaunchStop(Communicator* comm, sl_status_t why) : comm_(comm), why_(why) {}
  ~LaunchStop() {
    if (comm_->healthy()) KeepCode();
    comm_->StopLaunches(why_);
  }
  LaunchStop(const LaunchStop&) = delete;
  LaunchStop& operator=(const LaunchStop&) = delete;

 private:
  void KeepCode() {
    {
      std::lock_guard lock(comm_->mutex_);
      if (comm_->failure_.ok()) comm_->failure_ = Status(why_);  // takes no memory
    }
    comm_->broken_.store(true);
  }

  Communicator* const comm_;
  const sl_status_t why_;
};

void Communicator::Drain() {
  if (links_ == nullptr || !links_->needs_care()) return;
  const uint64_t deadline_ns = NowNs() + 2 * process_->profile().settings().link.resend_ms * 1000000;
  while (healthy() && !cancelled() && NowNs() < deadline_ns) {
    if (IsIdle(links_.get())) return;
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
}

// Another thread may have kept a failure, on which this one leaves, and not have told it yet: whoever hears of the end
// has heard of its reason. What was revoked is this rank's own affair.
void Communicator::Leave(Fate fate) {
  if (tree_ == nullptr) return;
  const Status own = OwnFailure();
  if (!own.ok() && own.code() != SL_ERR_PEER_FAILED && own.code() != SL_ERR_ABORTED) tree_->Report(own);
  tree_->Depart(fate);
}

void Communicator::AwaitFarewell() const {
  if (tree_ != nullptr) tree_->AwaitSent(NowNs() + process_->profile().settings().comm.silence_ms * 1000000);
}

// A wait that ended because another rank failed names that rank. A connection may end, or be refused by a rank that has
// left the communicator, before the control plane says why.
Status Communicator::WhyGivenUp(const Status& joined) const {
  const bool was_cut = joined.code() == SL_ERR_PEER_LOST || joined.code() == SL_ERR_STATE;
  const bool was_late = joined.code() == SL_ERR_TIMEOUT && !healthy();
  if (cancelled() || (!was_cut && !was_late && joined.code() != SL_ERR_ABORTED)) return joined;
  const uint64_t deadline_ns = NowNs() + kGraceNs;
  while (was_cut && healthy() && NowNs() < deadline_ns) {
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
  SL_TRY(Health());
  return was_cut ? joined : Status(SL_ERR_PEER_LOST, "another rank aborted the communicator while it was made");
}

// A rank that has failed will not do its part of joining. It may have done it, though, and have failed in its first
// operation, so those who are still about it get the time to end well.
void Communicator::GiveUpJoiningSoon() {
  uint64_t never = SL_NO_DEADLINE;
  give_up_joining_ns_.compare_exchange_strong(never, NowNs() + kJoiningGraceNs);
}

void Communicator::StopLaunches(sl_status_t why) {
  sl_control_t* control = control_.load();
  if (control == nullptr) return;
  int32_t none = 0;
  std::atomic_ref<int32_t>(control->abort).compare_exchange_strong(none, why);
  ReleaseSignals();
}

bool Communicator::HasStoppedLaunches() const {
  sl_control_t* control = control_.load();
  return control != nullptr && std::atomic_ref<int32_t>(control->abort).load() != 0;
}

// Nobody watches a GPU's launches: those that wait for a rank that is gone would do so for ever.
void Communicator::StopLaunchesSoon(const std::string& why) {
  uint64_t none = 0;
  if (control_.load() == nullptr || stopping_.load() != none) return;
  const uint64_t stopping = process_->control()->At(NowNs() + kGraceNs, [this, why] { StopLaunchesOfPeer(why); });
  if (!stopping_.compare_exchange_strong(none, stopping)) process_->control()->Cancel(stopping);
}

// One that has failed already has its reason: a lost rank, or what another rank reported. Where nothing runs the peer's
// end is no failure of this rank: only operations that follow are refused, from before it is looked whether any runs.
void Communicator::StopLaunchesOfPeer(const std::string& why) {
  const LaunchStop stop(this, SL_ERR_PEER_LOST);
  const bool is_news = healthy();
  if (is_news) {
    std::lock_guard lock(mutex_);
    stopped_by_ = Status(SL_ERR_PEER_LOST, why);
    broken_.store(true);
  }
  if (!LaunchesMayRun()) return;
  is_cut_off_.store(true);
  if (is_news) Fail({SL_ERR_PEER_LOST, why});
}

void Communicator::WatchLaunches(std::function<bool()> may_run) {
  std::lock_guard lock(launches_mutex_);
  launches_may_run_ = std::move(may_run);
}

bool Communicator::LaunchesMayRun() const {
  std::lock_guard lock(launches_mutex_);
  return !launches_may_run_ || launches_may_run_();
}

// What ends waits comes first: the rest takes memory, and when there is none the news comes once more.
void Communicator::OnFate(uint32_t rank, Fate fate) {
  incomplete_.store(true, std::memory_order_release);
  if (fate == Fate::kDeparted) return;  // matters only to those who wait for it; they look it up
  if (IsLost(fate)) {
    if (lost_rank_.load() < 0) {  // fates come one at a time, on the control thread
      lost_fate_.store(fate);
      lost_rank_.store(static_cast<int32_t>(rank), std::memory_order_release);
    }
    broken_.store(true);
  }
  GiveUpJoiningSoon();
  StopLaunchesSoon(RankName(rank) + " " + FateText(fate));
  if (lost_rank() != static_cast<int32_t>(rank)) return;
  Logf(SL_LOG_WARN, "communicator {:016x} rank {}: {}", nonce_, config_.rank, LostText());
}

void Communicator::KeepRemoteFailure(Status remote) {
  {
    std::lock_guard lock(mutex_);
    remote_failure_ = std::move(remote);
  }
  incomplete_.store(true, std::memory_order_release);
  broken_.store(true);
}

// Here, too, what ends waits comes before what takes memory.
void Communicator::OnReport(uint32_t rank, const Status& failure) {
  GiveUpJoiningSoon();
  try {
    KeepRemoteFailure({SL_ERR_PEER_FAILED, RankName(rank) + " has failed: " + failure.message()});
  } catch (const std::bad_alloc&) {
    KeepRemoteFailure(Status(SL_ERR_PEER_FAILED));  // takes none
    throw;
  }
  const Status remote = RemoteFailure();
  StopLaunchesSoon(remote.message());
  Logf(SL_LOG_WARN, "communicator {:016x} rank {}: {}", nonce_, config_.rank, remote.message());
}

Status Communicator::OwnFailure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Status Communicator::RemoteFailure() const {
  std::lock_guard lock(mutex_);
  return remote_failure_;
}

void Communicator::Fail(const Status& status) {
  // Who fails because another rank has failed has nothing new to say.
  if (KeepFailure(status) && tree_ != nullptr && status.code() != SL_ERR_PEER_FAILED) tree_->Report(status);
}

void Communicator::FailLaunches(const Status& status) {
  const LaunchStop stop(this, status.code());
  Fail(status);
}

// False when there was one before.
bool Communicator::KeepFailure(const Status& status) {
  RunPool* runs;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return false;
    failure_ = status;
    runs = runs_.get();
  }
  broken_.store(true);
  if (runs != nullptr) runs->Fail(status);
  const auto level = status.code() == SL_ERR_ABORTED ? SL_LOG_INFO : SL_LOG_ERROR;  // the user's own wish
  Logf(level, "communicator {:016x} rank {}: {}", nonce_, config_.rank, status.message());
  return true;
}

void Communicator::Revoke() {
  constexpr const char* kWhy = "the communicator was revoked; no operation may follow";
  revoked_.store(kWhy);
  {
    const LaunchStop stop(this, SL_ERR_ABORTED);
    KeepFailure({SL_ERR_ABORTED, kWhy});
  }
  // Whose operations have failed revokes, too, and takes part in what follows.
  if (tree_ != nullptr) tree_->DisregardReports();
}

void Communicator::RevokeForShrink() {
  constexpr const char* kWhy = "a shrink has ended its operations; no other may follow";
  revoked_.store(kWhy);
  const LaunchStop stop(this, SL_ERR_ABORTED);
  Fail({SL_ERR_ABORTED, kWhy});
}

Status Communicator::Health() const {
  SL_TRY(Failure());
  if (healthy()) return {};
  std::lock_guard lock(mutex_);
  return stopped_by_;
}

Status Communicator::Failure() const {
  if (healthy()) return {};
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (lost_rank() < 0) return remote_failure_;
  return {SL_ERR_PEER_LOST, LostText()};
}

// A launch that gives up says so itself: a replay of a graph, say, of which nobody here knew.
Status Communicator::WorkFailure() const {
  if (healthy()) return {};
  SL_TRY(OwnFailure());
  sl_control_t* control = control_.load();
  const bool has_given_up =
      control != nullptr && std::atomic_ref<uint32_t>(control->fault).load(std::memory_order_acquire) != 0;
  return has_given_up || is_cut_off_.load() ? Health() : Status();
}

// All ranks of a host that does not answer are lost, whichever of them was missed first.
std::string Communicator::LostText(uint32_t rank, Fate fate) const {
  const std::string text = RankName(rank) + " " + FateText(fate);
  const bool host_is_gone = fate == Fate::kSilent && roster_known_.load(std::memory_order_acquire);
  return host_is_gone ? text + roster_->OthersOfHostText(rank) : text;
}

void Communicator::TellCalls() {
  if (tree_ == nullptr) return;
  const uint64_t newest = op_log_.Newest(config_.rank);
  uint64_t told = told_calls_.load();
  const uint64_t kept_from = newest > OpLog::kRecords ? newest - OpLog::kRecords + 1 : 1;
  const uint64_t first = std::max(told + 1, kept_from);
  uint64_t settled = first - 1;  // from what is not chosen yet on, calls are told of again
  uint32_t chosen = 0;
  while (settled < newest && op_log_.ReadChoice(config_.rank, settled + 1, &chosen)) ++settled;
  if (newest <= told || !told_calls_.compare_exchange_strong(told, settled)) return;
  std::vector<Call> calls;
  for (uint64_t sequence = first; sequence <= newest; ++sequence) {
    Call call{sequence, 0, config_.rank, 0};
    if (!op_log_.Read(config_.rank, sequence, &call.signature)) continue;
    op_log_.ReadChoice(config_.rank, sequence, &call.algorithm);
    calls.push_back(call);
  }
  tree_->TellCalls(calls);
}

std::string Communicator::AlgorithmName(uint32_t tag) const {
  for (const auto& served : process_->algorithms()) {
    if (AlgorithmTag(served.name) == tag) return served.name;
  }
  return "an algorithm that this rank does not have";
}

std::string Communicator::DescribeMismatch(const Call& one, const Call& other) const {
  const std::string operation = "operation #" + std::to_string(one.sequence);
  if (one.signature != other.signature) {
    return operation + ": " + kernel::DescribeMismatch(one.rank, one.signature, other.rank, other.signature);
  }
  return operation + " (" + DescribeSignature(one.signature) + "): " +
         DescribeChoices({RankName(one.rank), AlgorithmName(one.algorithm)},
                         {RankName(other.rank), AlgorithmName(other.algorithm)});
}

std::string Communicator::RankName(uint32_t rank) const {
  return roster_known_.load(std::memory_order_acquire) ? roster_->NameOf(rank) : "rank " + std::to_string(rank);
}

}  // namespace sl::kernel
