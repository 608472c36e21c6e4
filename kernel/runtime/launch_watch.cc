// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launch_watch.h"

#include <algorithm>
#include <new>

#include "kernel/events/log.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/launches.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kLongestPeriodNs = 500'000'000;
constexpr uint64_t kShortestPeriodNs = 20'000'000;  // launches answer after some 10 ms
constexpr uint32_t kMostNamed = 8;
constexpr uint64_t kPeriodsOfLimit = 8;

// Short time limits are kept to within a quarter: a wait is known to have lasted from the first question behind its
// beginning on, and its answer is read a period after it was asked for. Once stopped, a stream may come to one wait
// after the other.
uint64_t PeriodNs(const Communicator& comm) {
  if (comm.is_stopped()) return kShortestPeriodNs;
  const auto& settings = comm.process()->profile().settings().comm;
  uint64_t period_ns = kLongestPeriodNs;
  for (const uint64_t limit_ms : {settings.operation_timeout_ms, settings.report_wait_ms}) {
    if (limit_ms != 0) period_ns = std::min(period_ns, limit_ms * 1'000'000 / kPeriodsOfLimit);
  }
  return std::max(period_ns, kShortestPeriodNs);
}

const char* WaitName(SignalWaits::Kind kind) {
  if (kind == SignalWaits::Kind::kCounted) return "wait_signals waits for ";
  if (kind == SignalWaits::Kind::kCaptured) return "a captured wait_signals waits for ";
  if (kind == SignalWaits::Kind::kGate) return "a collective by copies waits for ";
  if (kind == SignalWaits::Kind::kCapturedGate) return "a captured collective by copies waits for ";
  return "a captured put_signal waits until the signal before it is taken by ";
}

std::string CountText(const SignalWaits::Wait& wait) {
  if (wait.kind == SignalWaits::Kind::kRoom) return {};
  if (wait.kind == SignalWaits::Kind::kGate || wait.kind == SignalWaits::Kind::kCapturedGate) {
    return wait.wanted == 1 + uint64_t{SignalBoard::kBegin} ? ", to begin it" : ", to end its copies";
  }
  if (wait.kind == SignalWaits::Kind::kCaptured) return ", signals still to come " + std::to_string(wait.wanted);
  return ", signals seen " + std::to_string(wait.seen) + ", wanted " + std::to_string(wait.wanted);
}

}  // namespace

void LaunchWatch::SwitchOn() {
  if (is_over_.load() || handle_->comm.control() == nullptr || is_on_.exchange(true)) return;
  ControlThread* control = handle_->comm.process()->control();
  uint64_t task = 0;
  try {
    task = control->Repeat(NowNs() + PeriodNs(handle_->comm), [this] { return Look(); });
  } catch (const std::bad_alloc&) {
    is_on_.store(false);  // the next launch switches it on
    throw;
  }
  task_.store(task);
  if (is_over_.load()) control->Cancel(task);
}

// A task that is made meanwhile is cancelled by SwitchOn, which sees is_over_.
void LaunchWatch::Stop() {
  is_over_.store(true);
  if (const uint64_t task = task_.load(); task != 0) handle_->comm.process()->control()->Cancel(task);
}

// Switched off before it looks, and a call marks itself before it looks at the switch: so a launch is either seen here
// or switches the watch on again, with a task of its own; then this one ends.
uint64_t LaunchWatch::Look() {
  if (is_over_.load()) return 0;
  is_on_.store(false, std::memory_order_seq_cst);
  try {
    LookOnce();
  } catch (const std::bad_alloc&) {  // it looks again later
  }
  if (!MayRun()) {
    waits_.Clear();
    return 0;
  }
  if (is_on_.exchange(true)) return 0;
  Ask();
  return NowNs() + PeriodNs(handle_->comm);
}

void LaunchWatch::LookOnce() {
  const LogRankScope rank_scope(handle_->comm.rank());
  // Graphs of a communicator that has ended put back what they take.
  if (handle_->comm.is_stopped()) handle_->comm.ReleaseSignals();
  sl_control_t* control = handle_->comm.control();
  const uint32_t answered = std::atomic_ref<uint32_t>(control->answered).load(std::memory_order_acquire);
  if (judged_ != waits_.asked() && answered == waits_.asked()) {
    judged_ = waits_.asked();
    JudgeLaunches(NowNs());
  } else {
    waits_.Miss();
  }
  JudgeSignals(NowNs());
}

// Those that answer without saying since when they wait leave the 0.
void LaunchWatch::Ask() {
  sl_control_t* control = handle_->comm.control();
  const uint64_t before_ns = NowNs();
  std::atomic_ref<uint32_t>(control->since).store(0, std::memory_order_relaxed);
  std::atomic_ref<uint32_t>(control->asked).store(waits_.asked() + 1, std::memory_order_release);
  waits_.Ask(before_ns, NowNs());
}

bool LaunchWatch::MayRun() const {
  if (handle_->in_call().load(std::memory_order_seq_cst) != 0 || handle_->graphs() != 0) return true;
  return LaunchesMayRun(*handle_);
}

void LaunchWatch::JudgeLaunches(uint64_t now_ns) {
  if (!IsJudged()) return;
  const LaunchWaits::Wait wait = waits_.Answer(*handle_->comm.control(), now_ns);
  const bool is_reported =
      JudgeWait({.length_ns = wait.length_ns, .is_reported = wait.is_reported, .peer = wait.peer, .what = [&] {
                   return Describe(wait);
                 }});
  if (is_reported) waits_.SetReported();
}

void LaunchWatch::JudgeSignals(uint64_t now_ns) {
  const Communicator& comm = handle_->comm;
  if (!comm.signals().valid() || !IsJudged()) return;
  signals_.Look(comm.signals(), comm.rank(), comm.size(), now_ns);
  std::vector<SignalWaits::Wait>& waits = signals_.under_way();
  const auto oldest = std::min_element(waits.begin(), waits.end(),
                                       [](const auto& a, const auto& b) { return a.since_ns < b.since_ns; });
  if (oldest == waits.end()) return;
  const bool is_reported = JudgeWait(
      {.length_ns = now_ns - oldest->since_ns, .is_reported = oldest->is_reported, .peer = oldest->peer, .what = [&] {
         return Describe(*oldest);
       }});
  if (!is_reported) return;
  for (SignalWaits::Wait& wait : waits) wait.is_reported = true;
}

// Launches of a communicator that has failed or was ended have been told so.
bool LaunchWatch::IsJudged() const { return handle_->comm.healthy() && !handle_->comm.cancelled(); }

// What becomes of a wait. True when it was reported, and with it all that are waited for now.
bool LaunchWatch::JudgeWait(const WaitFacts& facts) {
  Communicator& comm = handle_->comm;
  const Verdict verdict = Judge(handle_, comm.process()->profile().settings().comm, facts);
  if (!verdict.end.ok()) comm.FailLaunches(verdict.end);
  return verdict.is_reported;
}

std::string LaunchWatch::Describe(const LaunchWaits::Wait& wait) const {
  return "a launch waits for " + handle_->comm.RankName(static_cast<uint32_t>(wait.peer)) + ", step " +
         std::to_string(wait.step) + ", seen " + std::to_string(wait.seen) + ", wanted " + std::to_string(wait.wanted) +
         WhoIsBehind();
}

// With the other ranks that are waited for in the same way.
std::string LaunchWatch::Describe(const SignalWaits::Wait& wait) {
  std::string text = WaitName(wait.kind);
  uint32_t count = 0;
  for (const SignalWaits::Wait& other : signals_.under_way()) {
    if (other.kind != wait.kind || ++count > kMostNamed) continue;
    text += (count == 1 ? "" : ", ") + handle_->comm.RankName(static_cast<uint32_t>(other.peer)) + CountText(other);
  }
  if (count > kMostNamed) text += " and " + std::to_string(count - kMostNamed) + " more ranks";
  return text + WhoIsBehind();
}

// "; rank 1 has not called #2", by the collectives that this rank has called.
std::string LaunchWatch::WhoIsBehind() const {
  Communicator& comm = handle_->comm;
  const auto held = comm.HoldLog();
  const uint64_t newest = comm.op_log()->Newest(comm.rank());
  if (newest == 0 || comm.shape().domain_size != comm.size()) return {};
  std::string behind;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < comm.size(); ++rank) {
    const uint64_t theirs = comm.op_log()->Newest(rank);
    if (theirs >= newest || ++count > kMostNamed) continue;
    uint64_t signature = 0;
    const bool is_known = comm.op_log()->Read(comm.rank(), theirs + 1, &signature);
    behind += (behind.empty() ? "" : ", ") + comm.RankName(rank) + " has not called #" + std::to_string(theirs + 1) +
              (is_known ? " (" + DescribeSignature(signature) + ")" : "");
  }
  if (count > kMostNamed) behind += " and " + std::to_string(count - kMostNamed) + " more ranks";
  return "; " + (count != 0 ? behind : "all ranks have called #" + std::to_string(newest));
}

}  // namespace sl::kernel
