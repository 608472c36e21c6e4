// SPDX-License-Identifier: Apache-2.0
//
// What ranks of a communicator tell each other outside the data path: all-gathers for set-up and split, the barrier of
// finalize, and news of ranks that were lost or have left, flooded to all.
//
// Each rank holds a stream to its parent and its children. A neighbour whose stream ends without a kDepart frame is
// lost, and everybody hears of it. So is the first failure that a rank reports: others wait for that rank in vain.
// Streams to other hosts carry a beat now and then, since a host that vanishes ends nothing: a neighbour that is silent
// for too long, and whose host does not answer when it is asked, is lost, too. After Depart() the node goes on relaying
// until its neighbours are gone too, so that ranks may leave in any order.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernel/control/call_ledger.h"
#include "kernel/control/channel.h"
#include "kernel/control/contributions.h"
#include "kernel/control/extension.h"
#include "kernel/control/host_probe.h"
#include "kernel/control/tree_shape.h"

namespace sl::kernel {

// Who takes part: the same nonce and secret on all ranks.
struct TreeIdentity {
  uint32_t rank;
  uint32_t size;
  uint64_t nonce;
  Secret secret;
  std::vector<uint32_t> names = {};  // what ranks are called in messages; empty: by their numbers
};

// What became of a rank: its process ended; it left in good order; it left in haste; its host does not answer.
enum class Fate : uint32_t { kLost = 0, kDeparted = 1, kAborted = 2, kSilent = 3 };
inline bool IsLost(Fate fate) { return fate == Fate::kLost || fate == Fate::kSilent; }
// "was lost: its process ended", …
const char* FateText(Fate fate);

class ControlTree : public Channel::Owner, public std::enable_shared_from_this<ControlTree> {
 public:
  // Hears of another rank's fate, once a rank, on the control thread; again, a little later, for as long as it throws.
  using FateHandler = std::function<void(uint32_t rank, Fate fate)>;
  // Hears likewise, once, of the first failure that another rank reported.
  using ReportHandler = std::function<void(uint32_t rank, const Status& failure)>;

  // Calls the parent, takes the calls of the children; one that does not call is asked whether it is there. shared_ptr:
  // the node outlives its communicator while it relays. `silence_ns`: how long another host may be silent. `origin`: of
  // which these ranks were ranks when they agreed to meet, or nothing: after trouble there they are not waited for much
  // longer.
  static Result<std::shared_ptr<ControlTree>> Build(ControlThread* control, const TreeIdentity& identity,
                                                    Extension* mine, const TreeNeighbours& where, uint64_t silence_ns,
                                                    FateHandler on_fate, ReportHandler on_report,
                                                    const Patience& patience, const ControlTree* origin = nullptr);
  ~ControlTree() override;

  // Numbers the next all-gather; all ranks take numbers in the same order. The all-gathers themselves may overlap.
  uint64_t TakeNumber() { return ++numbers_; }
  // Every rank's contribution. Collective: all ranks call it with the same number.
  // returns: SL_ERR_PEER_LOST naming the rank | SL_ERR_TIMEOUT | SL_ERR_ABORTED
  Result<Contributions> AllGather(uint64_t number, std::span<const uint8_t> mine, const Patience& patience);

  // Whether all ranks say yes, in the next all-gather.
  Result<bool> AllAgree(bool mine, const Patience& patience);

  // This rank's part in an all-gather whose result it does not need: never waits.   thread: [any]
  void Contribute(uint64_t number, std::span<const uint8_t> mine);

  // Tells everybody that an operation of this rank has failed, unless a failure is known already: the first one counts.
  // Never waits.   thread: [any]
  void Report(const Status& failure);
  // From now on no wait of this rank ends because of what others report, whenever they did: they go on, too, with what
  // is left of use.   thread: [any]
  void DisregardReports();

  // Watches for calls that differ between hosts. `on_waiting`: a rank waits in vain, so this one is to tell its calls,
  // too. `on_mismatch`: two that were told differ; once. Both on the control thread, until Depart.
  struct CallHandlers {
    std::function<void()> on_waiting;
    std::function<void(const Call& one, const Call& other)> on_mismatch;
  };
  void WatchCalls(CallHandlers handlers);
  // Tells what this rank has called, up to the root: whoever passes it on compares, and passes on only what is news, so
  // that n ranks that wait cost a frame a stream, not n. Never waits.   thread: [any]
  void TellCalls(const std::vector<Call>& calls);

  // Hears of rings, on the control thread, until Depart; must not wait.
  void WatchRings(std::function<void()> handler);
  // All other ranks hear it. Never waits.   thread: [any]
  void Ring();

  // Leaves: tells everybody, stops calling the handlers, goes on relaying. Idempotent, never waits.
  void Depart(Fate fate);

  // Waits until neighbours on other hosts have what was sent to them. A process that ends at once may take it back: its
  // system answers what still comes in, a beat say, by dropping the connection.
  void AwaitSent(uint64_t deadline_ns) const;

  // What is known about a rank; false: nothing, it should be alive.   thread: [any]
  bool FateOf(uint32_t rank, Fate* out_fate) const;
  // SL_ERR_PEER_LOST naming a rank that was lost, or SL_OK.   thread: [any]
  Status Loss() const;
  // What kept, or may keep, a rank from its part: one was lost, left in haste or has failed; SL_OK: nothing. Goes on
  // hearing of it after Depart.   thread: [any]
  Status Trouble() const;
  const TreeIdentity& identity() const { return identity_; }
  // Frames sent and all-gathers done, for tests of scale.
  uint64_t frames_sent() const { return frames_sent_; }

 private:
  struct Neighbour {
    uint32_t rank;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<HostProbe> probe;  // of a neighbour on another host, once it has fallen silent
    bool closed = false;
  };

  ControlTree(ControlThread* control, const TreeIdentity& identity, uint64_t silence_ns, FateHandler on_fate,
              ReportHandler on_report)
      : control_(control),
        identity_(identity),
        silence_ns_(silence_ns),
        on_fate_(std::move(on_fate)),
        on_report_(std::move(on_report)) {}
  std::string Name(uint32_t rank) const;  // "rank 3"
  Status AcceptChildren(Extension* mine, const TreeNeighbours& where, std::map<uint32_t, Stream>* out_children,
                        const Patience& patience, const ControlTree* origin);
  Status WhyGone(const Extension& mine, const TreeNeighbours& where, const std::map<uint32_t, Stream>& children,
                 const Patience& patience) const;
  std::string Absent(const std::map<uint32_t, Stream>& children) const;
  void BeginToBeat();
  uint64_t Beat();  // returns when to beat next
  void AskHostOf(Neighbour* neighbour);
  void LoseSilent(Neighbour* neighbour);
  void Lose(Neighbour* neighbour, Fate fate);
  Status OpenChannels(std::map<uint32_t, Stream> streams);
  void SendToChildren(uint64_t number, const Bytes& all);
  void SendContributed(uint64_t number);
  Status LossLocked() const;
  Status TroubleLocked() const;
  Status WhyInVainLocked() const;
  Result<Bytes> Await(uint64_t number, uint32_t from, const Patience& patience);
  void OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) override;
  void OnClosed(Channel* channel, const Status& why) override;
  void OnReport(uint32_t rank, Reader* in, uint32_t heard_from);
  void OnCalls(Reader* in);
  void OnRing(uint32_t rank, uint32_t heard_from);
  void RelayRing(uint32_t rank, uint32_t heard_from);
  void Learn(uint32_t rank, Fate fate, uint32_t heard_from);
  // Makes sure, before anything is known, that handlers which throw are called again. The number is for TellNews.
  uint64_t TellAgainSoon();
  void TellNews(uint64_t again);
  bool TellNextFate();
  bool TellFailure();
  // Keeps and passes on the first failure.
  void LearnFailure(uint32_t rank, const Status& failure, uint32_t heard_from);
  void RelayLocked(FrameType type, std::span<const uint8_t> payload, uint32_t except);
  void SendTo(uint32_t rank, FrameType type, uint64_t sequence, std::span<const uint8_t> payload);
  Neighbour* Find(Channel* channel);
  void EndIfAlone();

  ControlThread* control_;
  const TreeIdentity identity_;
  const uint64_t silence_ns_;
  FateHandler on_fate_;                // guarded by mutex_; empty after Depart
  ReportHandler on_report_;            // the same
  std::vector<Neighbour> neighbours_;  // fixed after Build; `closed` is the control thread's
  uint64_t last_beat_ns_ = 0;          // or of the start; control thread only
  std::mutex relay_mutex_;             // keeps results, and news, before what follows them; taken before mutex_
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<uint64_t, uint32_t>, Bytes> inbox_;  // by number and sender; guarded by mutex_
  // By number, what Contribute() was given, empty once it was sent, until the result comes by; guarded by mutex_.
  std::map<uint64_t, Bytes> contributed_;
  std::map<uint32_t, Fate> fates_;   // guarded by mutex_
  std::map<uint32_t, Fate> untold_;  // of fates_, what on_fate_ has not heard yet; guarded by mutex_
  bool has_untold_failure_ = false;  // which on_report_ has not heard yet; guarded by mutex_
  Status failure_;                   // the first one reported; guarded by mutex_
  uint32_t failed_rank_ = 0;         // whose it is; guarded by mutex_
  bool disregards_ = false;          // it; guarded by mutex_
  CallHandlers call_handlers_;       // guarded by mutex_; empty after Depart
  CallLedger calls_;                 // guarded by mutex_
  bool told_mismatch_ = false;       // guarded by mutex_
  std::function<void()> on_ring_;    // guarded by mutex_; empty after Depart
  std::atomic<uint64_t> numbers_{0};
  std::atomic<uint64_t> frames_sent_{0};
  bool departed_ = false;              // guarded by mutex_
  std::shared_ptr<ControlTree> self_;  // keeps a departed node alive; guarded by mutex_
};

}  // namespace sl::kernel
