// SPDX-License-Identifier: Apache-2.0
// A communicator, as one rank holds it: who the others are, what was agreed with them, and what has become of it.
// Everything a rank allocates hangs off here. Issuing operations is the runtime's (kernel/runtime/issue.h).
//
// size: parts that are made, failed and ended together stand together.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernel/comm/comm_config.h"
#include "kernel/comm/handle_desk.h"
#include "kernel/comm/op_log.h"
#include "kernel/comm/process.h"
#include "kernel/comm/reach.h"
#include "kernel/control/control_tree.h"
#include "kernel/control/join.h"
#include "kernel/engine/run.h"
#include "kernel/link/link_table.h"
#include "kernel/memory/signal_board.h"
#include "kernel/memory/symmetric_heap.h"
#include "kernel/plan/select.h"
#include "sl_runtime.h"

namespace sl::kernel {

class HeapSharing;   // how ranks of a host come by common memory
class Roster;        // what ranks tell each other at the start
class TransportSet;  // open transports, and where this rank listens

// What ranks do together, by the words of messages.
constexpr const char* kSplitCall = "split";
constexpr const char* kWindowCall = "window registration";
constexpr const char* kGrowCall = "grow";
constexpr const char* kSuspendCall = "suspend";
constexpr const char* kResumeCall = "resume";

class Communicator {
 public:
  enum class State : uint32_t { kJoining, kReady, kSuspended, kFinalizing, kMeeting, kFinalized };

  Communicator(Process* process, CommConfig config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Set-up, one of the three, once. Blocks; every wait is bounded by the timeout and by Cancel().
  // `origin`: of the communicator that grows, whose ranks come, too; or nothing.
  Status Join(const std::vector<RendezvousId>& given, const ControlTree* origin = nullptr);
  // `seat` came from Split or MeetShrunk.
  struct Seat;
  Status JoinAsChild(Seat seat);
  // The parent's ranks but the excluded ones, ascending and not this one's, meet. Needs of the parent what its set-up
  // left behind, and no other rank of it but the members. `able`: why this rank cannot, which the others are told, or
  // SL_OK. In shrink.cc.
  Result<Seat> MeetShrunk(Communicator* parent, const std::vector<uint32_t>& excluded, const Status& able);

  // Numbers what is collective over this communicator when it is called; all ranks call in the same order.
  uint64_t TakeTurn() { return tree_->TakeNumber(); }
  // This rank cannot make a call that the others may be making: it has its part in that turn, and never waits. Those
  // who make this call get an error that says why. A call of another name goes on to the next turn; a rank that is kept
  // from hearing so (its child is aborted meanwhile) is out of step from then on.   [any]
  void Decline(uint64_t turn, const char* call, const Status& why) const;
  // Splits are numbered when they are called; all ranks call them in the same order, but they may overlap.
  struct SplitTurn {
    uint64_t number;
    uint64_t split;
  };
  SplitTurn BeginSplit() { return {tree_->TakeNumber(), ++splits_}; }
  // This rank's seat in the communicator of its color; none when color is negative. Collective over this communicator.
  // Ends when `child`, which may be NULL, is cancelled, too.
  Result<Seat> Split(const SplitTurn& turn, int32_t color, int32_t key, const Communicator* child);

  // Collective: all ranks register a window of this size with these flags, or all get an error; who cannot, declines
  // it. `seen_at` says for each rank where it sees this one's memory (0: nowhere), the result where this
  // one sees theirs.
  struct WindowSight {
    std::vector<uint64_t> seen;
    bool by_all = true;  // every rank sees every rank's memory; equal on all
  };
  Result<WindowSight> AgreeOnWindow(uint64_t bytes, uint32_t flags, bool exportable,
                                    const std::vector<uint64_t>& seen_at);

  // Collective: the id by which this communicator grows to `child`, which one rank at least knows. Ends when `child` is
  // cancelled, too.
  Result<RendezvousId> AgreeOnId(uint64_t turn, const std::optional<RendezvousId>& mine, const Communicator& child);

  // Suspending and resuming, in two collective steps each; no operation is under way. The first: all agree to `call`,
  // or all get the reason of one that has an `objection`. False: the turn was another call's.
  Result<bool> AgreeToPause(const char* call, uint64_t turn, const std::string& objection);
  Status ReleaseHeap(uint64_t turn);
  Status RemakeHeap();

  // Meets all ranks: what was issued has been completed by everybody. A rank that is gone ends the meeting, and well:
  // this rank's own work is done.
  Status Finalize();
  // Waits until the peers have what was sent over networks: for two resend times at most, and not for lost peers.
  void Drain();
  // Set-up has got so far that other ranks can hear of this one's end.   [any]
  bool has_met() const { return roster_known_.load(std::memory_order_acquire); }
  // Leaves: other ranks hear of it. Never waits.
  void Leave(Fate fate);
  // After launches of this rank were given up, all of which have ended: peers' launches that begin later do not touch
  // the buffers of its callers. Before its memory goes.
  void RetractBuffers(uint64_t deadline_ns) const;
  // Of one that was left: what captured graphs may still use stays, the rest ends.
  void KeepMemoryOnly();
  // Waits until ranks on other hosts have heard of it, for as long as a host may be silent at most.
  void AwaitFarewell() const;
  // Ends every wait of this rank with SL_ERR_ABORTED.   [any]
  void Cancel() {
    cancelled_ns_.store(0);
    give_up_joining_ns_.store(0);
    StopLaunches(SL_ERR_ABORTED);
  }
  bool cancelled() const { return cancelled_ns_.load(std::memory_order_relaxed) != SL_NO_DEADLINE; }
  // Launches that nobody watches end soon, whatever they wait for; the first reason stays. The caller has kept the
  // failure first: a launch that is stopped ends well as its stream sees it, so whoever has seen the end of the stream
  // must find the failure. Abort and destroy have none to keep: nobody asks such a communicator.   [any]
  void StopLaunches(sl_status_t why);
  bool HasStoppedLaunches() const;
  // Ends the operations of this rank and lets none follow; what else the communicator is for goes on. The others hear
  // of it only if it is for a shrink: then they wait in vain.   [any]
  void Revoke();
  void RevokeForShrink();
  // Why operations are over, or NULL.
  const char* revoked() const { return revoked_.load(std::memory_order_relaxed); }

  // The first failure stays, and the other ranks hear of it.   [any]
  void Fail(const Status& status);
  // The same, and what was launched ends.   [any]
  void FailLaunches(const Status& status);
  // SL_OK, or why operations cannot follow: Failure(), or a rank that has ended the communicator, where its end has
  // stopped launches.   [any]
  Status Health() const;
  // SL_OK, or this rank's failure, a lost rank, or another rank's failure.   [any]
  Status Failure() const;
  // SL_OK, or why an operation of this rank has not completed. What has become of other ranks alone is no reason. [any]
  Status WorkFailure() const;
  // Launches of this rank may still run, as `may_run` knows; empty: it is not known. Where nobody watches launches.
  void WatchLaunches(std::function<bool()> may_run);
  // One load: nothing has gone wrong yet.   [data]
  bool healthy() const { return !broken_.load(std::memory_order_relaxed); }

  // How a rank that is waited for stands: appended to messages; empty when nothing is known.
  bool FateOf(uint32_t rank, Fate* out_fate) const { return tree_ != nullptr && tree_->FateOf(rank, out_fate); }
  // What hears of its ranks, also when the communicator has gone.
  std::shared_ptr<const ControlTree> tree() const { return tree_; }
  // One load: no rank was lost, has left or has reported a failure.   [data]
  bool complete() const { return !incomplete_.load(std::memory_order_acquire); }
  // A rank that was lost, or -1.
  int32_t lost_rank() const { return lost_rank_.load(std::memory_order_acquire); }
  // "rank 3 (process 4711) was lost: its process ended", of that rank; with the others of its host if that is gone.
  std::string LostText() const { return LostText(static_cast<uint32_t>(lost_rank()), lost_fate_.load()); }
  // This rank waits in vain: tells other hosts what it has called, lest they have called something else.   [any]
  void TellCalls();
  // What peers withdraw stays mapped from now on, and nobody is asked whether launches of this one run. Does not wait
  // for an unmapping that is under way.   [control]
  void LeaveKeeper();
  // Ends all direct access to buffers of callers; no launch runs. Idempotent.   [control]
  void CloseReach();
  // Why this rank itself has failed, or SL_OK: its first failure.   [any]
  Status OwnFailure() const;
  // What another rank reported: SL_ERR_PEER_FAILED with its text, or SL_OK.   [any]
  Status RemoteFailure() const;

  const CommConfig& config() const { return config_; }
  uint32_t rank() const { return config_.rank; }
  uint32_t size() const { return config_.size; }
  uint64_t id() const { return nonce_; }
  const sl_comm_shape_t& shape() const { return shape_; }
  // More ranks share this machine's processors than there are.
  bool is_crowded() const { return roster_->IsCrowded(config_.rank); }
  Process* process() const { return process_; }
  const Device& device() const { return *config_.device; }
  Selector* selector() { return selector_.get(); }
  // What single calls want otherwise.   [any]
  CallSettingsTable& call_settings() { return call_settings_; }
  const CallSettingsTable& call_settings() const { return call_settings_; }
  RunPool* runs() { return runs_.get(); }
  // NULL where peers do not reach the memory of callers.
  Reach* reach() { return reach_.get(); }
  // Invalid where ranks cannot signal each other from their streams.
  const SignalBoard& signals() const { return signals_; }
  // Launches have been told to end.   [any]
  bool is_stopped() const {
    sl_control_t* control = control_.load();
    return control != nullptr && std::atomic_ref<int32_t>(control->abort).load(std::memory_order_relaxed) != 0;
  }
  // Streams of this rank wait for no signal, as long as peers raise none.   [any]
  void ReleaseSignals() const {
    if (has_signals_.load()) signals_.Release(config_.rank);
  }
  // No stream uses them any more.   [control]
  void DetachSignals();
  // NULL on devices whose launches end under a watch.
  sl_control_t* control() { return control_.load(); }
  OpLog* op_log() { return &op_log_; }
  // For who reads the log outside of operations: it stays while the lock is held.
  std::unique_lock<std::mutex> HoldLog() const { return std::unique_lock(log_mutex_); }
  // Devices of its ranks share no memory, not the host's either, and the CPU does not reach theirs: plans carry
  // operations through host memory.
  bool is_relayed() const { return shape_.domain_size != config_.size && !device().is_addressable(); }
  // Nonzero when launches and relayed operations are to end at once, with that status; NULL where a host watches all.
  const int32_t* abort_word() const {
    const sl_control_t* control = control_.load();
    return control != nullptr ? &control->abort : nullptr;
  }
  std::string RankName(uint32_t rank) const;
  // Of AlgorithmTag.   [any]
  std::string AlgorithmName(uint32_t tag) const;
  // Two calls of one number that differ, or for which different algorithms were chosen.   [any]
  std::string DescribeMismatch(const Call& one, const Call& other) const;
  void FillInfo(sl_comm_info_t* info) const;

  std::atomic<State> state{State::kJoining};

 private:
  friend struct CommunicatorPeer;  // of comm_health_test.cc
  Status SetUp(const TreeIdentity& identity, const TreeNeighbours& where, const ControlTree* origin = nullptr);
  Status MeetOthers();
  Result<std::shared_ptr<const Roster>> ExchangeCards(uint64_t key);
  ProcessorBounds MyBounds() const;
  Bytes MyCard() const;
  void FillShape();
  Status MakeControl();  // this and the next nine in comm_memory.cc
  Status MakeHeap();
  Status MakeReach();
  Status MakeSignals();
  bool AttachSignals();
  HeapSharing sharing() const;
  bool MayShareHost() const;
  Status ShareHostHeap();
  void StandAlone();
  Result<HandleList> FetchHandles(uint32_t owner, const HandleDesk::Ticket& ticket) const;
  Status MakeAlgorithms();
  void DestroyAlgorithms();
  Status MakeLinks();
  void WarnOfUnreached() const;
  uint64_t Demand(std::vector<uint64_t>* out_demands) const;
  class LaunchStop;  // in comm_health.cc
  bool KeepFailure(const Status& status);
  void OnFate(uint32_t rank, Fate fate);
  std::string LostText(uint32_t rank, Fate fate) const;
  void GiveUpJoiningSoon();
  void StopLaunchesSoon(const std::string& why);
  void StopLaunchesOfPeer(const std::string& why);
  bool LaunchesMayRun() const;
  void OnReport(uint32_t rank, const Status& failure);
  void KeepRemoteFailure(Status remote);
  Patience patience() const { return {deadline_ns_, &give_up_joining_ns_}; }
  Status WhyGivenUp(const Status& joined) const;
  // A call of another rank's extension, for which the tree need not be whole.
  Result<Stream> CallRank(uint32_t rank, FrameType type, std::span<const uint8_t> body, const Patience& patience) const;
  // As a parent, in shrink.cc: members that cannot come, and a member's way to where all meet.
  Status FindLost(const std::vector<uint32_t>& members) const;
  Status Probe(uint32_t member, std::span<const uint8_t> said, const Patience& patience) const;
  Result<Welcome> MeetAt(uint32_t host, const JoinRequest& request, const Patience& patience,
                         const std::function<Status()>& look) const;
  void Excuse(uint32_t host, uint32_t attempt, const std::string& terms, const Status& why) const;
  // What all have to say about a call, unless a rank has declined it. Nothing: one has declined another call in this
  // turn, take the next one.
  Result<std::optional<Contributions>> GatherTurn(uint64_t turn, const char* call, std::span<const uint8_t> mine,
                                                  const Patience& patience);

  Process* const process_;
  CommConfig config_;
  uint64_t nonce_ = 0;
  std::atomic<uint64_t> splits_{0};
  uint64_t deadline_ns_ = SL_NO_DEADLINE;
  std::atomic<uint64_t> cancelled_ns_{SL_NO_DEADLINE};        // 0: cancelled
  std::atomic<uint64_t> give_up_joining_ns_{SL_NO_DEADLINE};  // 0: cancelled; else GiveUpJoiningSoon has set it
  std::atomic<const char*> revoked_{nullptr};
  std::atomic<bool> broken_{false};
  std::atomic<bool> incomplete_{false};
  std::atomic<int32_t> lost_rank_{-1};
  std::atomic<Fate> lost_fate_{Fate::kLost};  // written before lost_rank_
  mutable std::mutex mutex_;
  Status failure_;                       // guarded by mutex_
  Status remote_failure_;                // guarded by mutex_
  Status stopped_by_;                    // a peer's end, on which launches were stopped; guarded by mutex_
  std::atomic<bool> is_cut_off_{false};  // launches may have run when they were stopped
  mutable std::mutex launches_mutex_;
  std::function<bool()> launches_may_run_;  // guarded by launches_mutex_
  std::atomic<bool> roster_known_{false};

  // In order of making; destroyed in reverse.
  std::unique_ptr<Extension> extension_;
  std::shared_ptr<ControlTree> tree_;
  std::shared_ptr<const Roster> roster_;
  sl_comm_shape_t shape_{};
  std::unique_ptr<TransportSet> transports_;
  std::unique_ptr<SymmetricHeap> heap_;
  std::unique_ptr<SymmetricHeap> log_heap_;                   // where CPUs do not reach heap_
  std::atomic<uint64_t> released_bytes_{0};                   // of this rank's slice, while suspended
  mutable std::mutex log_mutex_;                              // held to replace heap_ and op_log_
  alignas(64) std::array<uint8_t, OpLog::kBytes> own_log_{};  // where there is no heap for it
  OpLog op_log_;
  std::atomic<uint64_t> told_calls_{0};          // up to that number
  std::atomic<uint32_t> shrinks_{0};             // that this rank has called for
  std::atomic<sl_control_t*> control_{nullptr};  // of devices whose launches nobody watches
  std::atomic<uint64_t> stopping_{0};            // the task that stops them; 0: none
  // shared_ptr: the desk of extension_ keeps it.
  std::shared_ptr<HandleDesk> handle_desk_ = std::make_shared<HandleDesk>();
  std::unique_ptr<Reach> reach_;  // after tree_ and log_heap_, which it uses
  SignalBoard signals_;           // in log_heap_
  // It stands, for those who do not wait for the set-up. In one order with cancelled_ns_: of who cancels and who sets
  // it up one sees the other.
  std::atomic<bool> has_signals_{false};
  bool is_attached_ = false;  // log_heap_ is, to the device
  std::unique_ptr<LinkTable> links_;
  CallSettingsTable call_settings_{&shape_};
  std::vector<std::unique_ptr<SettingsView>> settings_views_;  // of algorithms_
  std::vector<Candidate> algorithms_;
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<RunPool> runs_;  // set under mutex_
};

// A place in a communicator that comes out of a split.
struct Communicator::Seat {
  TreeIdentity identity{};
  std::unique_ptr<Extension> extension;  // none: no seat is taken
  TreeNeighbours neighbours;
  std::shared_ptr<const ControlTree> origin = {};  // of the communicator that is split, which may go meanwhile
};

}  // namespace sl::kernel
