// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/control_tree.h"

#include <time.h>

#include <algorithm>
#include <new>

#include "kernel/control/tree_shape.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr size_t kMaxReportText = 1024;
constexpr size_t kMaxTold = CallLedger::kMaxCalls;  // calls in a frame
constexpr uint64_t kBeatsPerSilence = 6;            // so that a few may come late
constexpr uint64_t kLookEveryNs = 50'000'000;
constexpr uint64_t kAskEveryNs = 500'000'000;         // children that have not come
constexpr uint64_t kAnswerNs = 1'000'000'000;         // at most
constexpr uint64_t kTroubledGraceNs = 5'000'000'000;  // who connects at all, trouble or not, does so within this
constexpr uint64_t kLateBeats = 2;                    // that many missed, and its host is asked
constexpr uint64_t kTellAgainNs = 10'000'000;         // after a handler threw

}  // namespace

const char* FateText(Fate fate) {
  switch (fate) {
    case Fate::kLost:
      return "was lost: its process ended";
    case Fate::kSilent:
      return "was lost: its host does not answer any more";
    case Fate::kAborted:
      return "aborted the communicator";
    default:
      return "has left the communicator";
  }
}

Result<std::shared_ptr<ControlTree>> ControlTree::Build(ControlThread* control, const TreeIdentity& identity,
                                                        Extension* mine, const TreeNeighbours& where,
                                                        uint64_t silence_ns, FateHandler on_fate,
                                                        ReportHandler on_report, const Patience& patience,
                                                        const ControlTree* origin) {
  std::shared_ptr<ControlTree> tree(
      new ControlTree(control, identity, silence_ns, std::move(on_fate), std::move(on_report)));
  std::map<uint32_t, Stream> streams;
  if (identity.rank != 0) {
    const uint32_t parent_rank = ParentOf(identity.rank);
    Writer hello;
    hello.Put(identity.rank);
    Result<Stream> stream =
        mine->switchboard()->Call(where.parent, identity.secret, FrameType::kChild, hello.bytes(), patience);
    if (!stream.ok()) {
      return Status(stream.status().code(),
                    tree->Name(parent_rank) + " (" + ToText(where.parent) + "): " + stream.status().message());
    }
    streams.emplace(parent_rank, stream.Take());
  }
  const Status accepted = tree->AcceptChildren(mine, where, &streams, patience, origin);
  SL_TRY(tree->OpenChannels(std::move(streams)));
  if (!accepted.ok()) {  // those who came wait for this rank
    tree->Report(accepted);
    tree->Depart(Fate::kAborted);
    return accepted;
  }
  return tree;
}

std::string ControlTree::Name(uint32_t rank) const {
  return "rank " + std::to_string(rank < identity_.names.size() ? identity_.names[rank] : rank);
}

ControlTree::~ControlTree() {
  for (Neighbour& neighbour : neighbours_) neighbour.channel->Close();
}

// The children that have not come.
std::string ControlTree::Absent(const std::map<uint32_t, Stream>& children) const {
  std::string absent;
  for (const uint32_t rank : ChildrenOf(identity_.rank, identity_.size)) {
    if (children.count(rank) == 0) absent += (absent.empty() ? "" : " and ") + Name(rank);
  }
  return absent + " did not connect to " + Name(identity_.rank) + " in the control tree";
}

// Why a child that has not called never will; SL_OK: nothing is known. Who does not answer may be kept from running.
Status ControlTree::WhyGone(const Extension& mine, const TreeNeighbours& where,
                            const std::map<uint32_t, Stream>& children, const Patience& patience) const {
  const std::vector<uint32_t> expected = ChildrenOf(identity_.rank, identity_.size);
  for (size_t i = 0; i < std::min(expected.size(), where.children.size()); ++i) {
    if (children.count(expected[i]) != 0) continue;
    const Endpoint& child = where.children[i];
    Patience brief = patience;
    brief.deadline_ns = std::min(patience.deadline_ns, NowNs() + kAnswerNs);
    const Status there = mine.switchboard()->Call(child, identity_.secret, FrameType::kBeat, {}, brief).status();
    const bool has_ended = there.code() == SL_ERR_PEER_LOST;
    if (!has_ended && there.code() != SL_ERR_STATE) continue;
    return {SL_ERR_PEER_LOST, Name(expected[i]) + " (" + ToText(child) + ") " +
                                  (has_ended ? "was lost" : "has given up") + " before it connected to " +
                                  Name(identity_.rank) + " in the control tree; see its output (" + there.message() +
                                  ")"};
  }
  return {};
}

// A child may have failed or ended before it knew whom to call, and nothing else would tell. What it is asked may
// overtake its own call: so who is gone is asked once more before it is believed.
Status ControlTree::AcceptChildren(Extension* mine, const TreeNeighbours& where,
                                   std::map<uint32_t, Stream>* out_children, const Patience& patience,
                                   const ControlTree* origin) {
  const std::vector<uint32_t> expected = ChildrenOf(identity_.rank, identity_.size);
  uint64_t give_up_ns = SL_NO_DEADLINE;
  uint64_t ask_ns = NowNs() + kAskEveryNs;
  Status gone;
  for (size_t accepted = 0; accepted < expected.size();) {
    Patience brief = patience;
    brief.deadline_ns = std::min(patience.deadline_ns, NowNs() + kLookEveryNs);
    Result<Switchboard::Caller> caller = mine->Take(FrameType::kChild, brief);
    if (caller.status().code() == SL_ERR_TIMEOUT) {
      if (NowNs() >= patience.deadline_ns) return {SL_ERR_TIMEOUT, Absent(*out_children) + "; see its output"};
      if (NowNs() >= ask_ns) {
        const bool was_gone = !gone.ok();
        gone = WhyGone(*mine, where, *out_children, patience);
        if (was_gone) SL_TRY(gone);
        ask_ns = NowNs() + kAskEveryNs;
      }
      if (origin == nullptr) continue;
      const Status trouble = origin->Trouble();
      if (trouble.ok()) continue;
      if (give_up_ns == SL_NO_DEADLINE) give_up_ns = NowNs() + kTroubledGraceNs;
      if (NowNs() >= give_up_ns)
        return {trouble.code(), Absent(*out_children) + "; where they come from, " + trouble.message()};
      continue;
    }
    if (!caller.ok()) return caller.status();
    Reader in(caller.value().body);
    const uint32_t rank = in.Get<uint32_t>();
    const bool wanted = std::find(expected.begin(), expected.end(), rank) != expected.end();
    if (!in.ok() || !in.empty() || !wanted || !out_children->emplace(rank, std::move(caller.value().stream)).second) {
      Logf(SL_LOG_WARN, "rank {}: {} called as a child in the control tree, and is none", identity_.rank, Name(rank));
      continue;
    }
    ++accepted;
    gone = {};
  }
  return {};
}

Status ControlTree::OpenChannels(std::map<uint32_t, Stream> streams) {
  for (auto& [rank, stream] : streams) {
    neighbours_.push_back(
        {rank, std::make_unique<Channel>(control_, std::move(stream), kMaxFrameBytes, this), nullptr});
  }
  for (Neighbour& neighbour : neighbours_) SL_TRY(neighbour.channel->Open());
  last_beat_ns_ = NowNs();
  BeginToBeat();
  return {};
}

void ControlTree::BeginToBeat() {
  const bool needed = std::any_of(neighbours_.begin(), neighbours_.end(),
                                  [](const Neighbour& neighbour) { return neighbour.channel->is_net(); });
  if (!needed) return;
  control_->Repeat(NowNs() + silence_ns_ / kBeatsPerSilence, [weak = weak_from_this()]() -> uint64_t {
    const std::shared_ptr<ControlTree> tree = weak.lock();
    return tree != nullptr ? tree->Beat() : 0;
  });
}

// Where it finds no memory it is called again soon.
uint64_t ControlTree::Beat() {
  const uint64_t now = NowNs();
  // This thread itself was kept from running: nobody else is to blame for what it has not heard.
  const bool was_late = now - last_beat_ns_ > silence_ns_ / 2;
  last_beat_ns_ = now;
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.closed || !neighbour.channel->is_net()) continue;
    neighbour.channel->Send(FrameType::kBeat, 0, {});
    const uint64_t heard_ns = neighbour.channel->heard_ns();
    if (heard_ns == 0) continue;  // it is still busy with its own children
    const uint64_t silent_ns = now - heard_ns;
    if (silent_ns > silence_ns_ && !was_late) {
      LoseSilent(&neighbour);
    } else if (silent_ns > silence_ns_ * kLateBeats / kBeatsPerSilence) {
      AskHostOf(&neighbour);
    }
  }
  return now + silence_ns_ / kBeatsPerSilence;
}

// A loss that could not be told, without memory, is found again with the next beat.
void ControlTree::LoseSilent(Neighbour* neighbour) {
  try {
    Lose(neighbour, Fate::kSilent);
  } catch (const std::bad_alloc&) {
    neighbour->closed = false;
    throw;
  }
}

void ControlTree::AskHostOf(Neighbour* neighbour) {
  Channel* const channel = neighbour->channel.get();
  if (neighbour->probe == nullptr) {
    neighbour->probe = std::make_unique<HostProbe>(control_, [channel] { channel->Hear(); });
  }
  neighbour->probe->Ask(channel->fd());
}

ControlTree::Neighbour* ControlTree::Find(Channel* channel) {
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.channel.get() == channel) return &neighbour;
  }
  return nullptr;
}

void ControlTree::SendTo(uint32_t rank, FrameType type, uint64_t sequence, std::span<const uint8_t> payload) {
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.rank != rank) continue;
    neighbour.channel->Send(type, sequence, payload);
    frames_sent_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Passed on here, on the control thread, and not by the rank that waits for it: a rank that has the result may leave at
// once, and the news of that must not overtake the result on its way to others. The lock does the same for the root,
// whose result starts on another thread.
void ControlTree::SendToChildren(uint64_t number, const Bytes& all) {
  std::lock_guard lock(relay_mutex_);
  for (uint32_t child : ChildrenOf(identity_.rank, identity_.size)) SendTo(child, FrameType::kSpread, number, all);
}

Status ControlTree::LossLocked() const {
  const auto lost = std::find_if(fates_.begin(), fates_.end(), [](const auto& entry) { return IsLost(entry.second); });
  if (lost == fates_.end()) return {};
  return {SL_ERR_PEER_LOST, Name(lost->first) + " " + FateText(lost->second)};
}

// A loss explains what others report, and a report why its rank has left.
Status ControlTree::TroubleLocked() const {
  SL_TRY(LossLocked());
  if (!failure_.ok() && failed_rank_ != identity_.rank && !disregards_) {
    return {SL_ERR_PEER_FAILED, Name(failed_rank_) + " has failed: " + failure_.message()};
  }
  const auto hasty =
      std::find_if(fates_.begin(), fates_.end(), [](const auto& entry) { return entry.second == Fate::kAborted; });
  if (hasty == fates_.end()) return {};
  return {SL_ERR_PEER_LOST, Name(hasty->first) + " " + FateText(hasty->second)};
}

Status ControlTree::Loss() const {
  std::lock_guard lock(mutex_);
  return LossLocked();
}

Status ControlTree::Trouble() const {
  std::lock_guard lock(mutex_);
  return TroubleLocked();
}

Status ControlTree::WhyInVainLocked() const {
  SL_TRY(TroubleLocked());
  if (fates_.empty()) return {};
  return {SL_ERR_PEER_LOST, Name(fates_.begin()->first) + " " + FateText(fates_.begin()->second)};
}

Result<Bytes> ControlTree::Await(uint64_t number, uint32_t from, const Patience& patience) {
  constexpr auto kSlice = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = inbox_.find({number, from});
    if (found != inbox_.end()) {
      Bytes payload = std::move(found->second);
      inbox_.erase(found);
      return payload;
    }
    SL_TRY(WhyInVainLocked());
    if (patience.cancelled()) return Status(SL_ERR_ABORTED, "aborted while waiting for " + Name(from));
    if (NowNs() >= patience.deadline_ns) {
      return Status(SL_ERR_TIMEOUT, Name(from) + " or a rank behind it did not take part in time");
    }
    arrived_.wait_for(lock, kSlice);
  }
}

Result<Contributions> ControlTree::AllGather(uint64_t number, std::span<const uint8_t> mine, const Patience& patience) {
  Writer subtree;
  PutContribution(&subtree, identity_.rank, mine);
  for (uint32_t child : ChildrenOf(identity_.rank, identity_.size)) {
    SL_ASSIGN(const Bytes part, Await(number, child, patience));
    subtree.Append(part);
  }
  Bytes all = subtree.Take();
  if (identity_.rank == 0) {
    SendToChildren(number, all);
  } else {
    SendTo(ParentOf(identity_.rank), FrameType::kGather, number, all);
    SL_ASSIGN(all, Await(number, ParentOf(identity_.rank), patience));
  }
  return Contributions::Read(std::move(all), identity_.size);
}

Result<bool> ControlTree::AllAgree(bool mine, const Patience& patience) {
  Writer said;
  said.Put(static_cast<uint32_t>(mine));
  SL_ASSIGN(const Contributions all, AllGather(TakeNumber(), said.bytes(), patience));
  for (uint32_t rank = 0; rank < identity_.size; ++rank) {
    Reader in(all[rank]);
    if (in.Get<uint32_t>() == 0) return false;
  }
  return true;
}

void ControlTree::Contribute(uint64_t number, std::span<const uint8_t> mine) {
  Writer said;
  PutContribution(&said, identity_.rank, mine);
  {
    std::lock_guard lock(mutex_);
    contributed_[number] = said.Take();
  }
  SendContributed(number);
}

// As soon as the children's parts are here.
void ControlTree::SendContributed(uint64_t number) {
  const std::vector<uint32_t> children = ChildrenOf(identity_.rank, identity_.size);
  Writer subtree;
  {
    std::lock_guard lock(mutex_);
    const auto mine = contributed_.find(number);
    const auto is_here = [&](uint32_t child) { return inbox_.count({number, child}) != 0; };
    if (mine == contributed_.end() || mine->second.empty()) return;
    if (!std::all_of(children.begin(), children.end(), is_here)) return;
    subtree.Append(std::exchange(mine->second, {}));
    for (const uint32_t child : children) subtree.Append(inbox_.extract({number, child}).mapped());
    if (identity_.rank == 0) contributed_.erase(mine);
  }
  if (identity_.rank == 0) return SendToChildren(number, subtree.bytes());
  SendTo(ParentOf(identity_.rank), FrameType::kGather, number, subtree.bytes());
}

void ControlTree::OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) {
  const Neighbour* from = Find(channel);
  if (header.type == FrameType::kSpread) SendToChildren(header.sequence, payload);
  if (header.type == FrameType::kGather || header.type == FrameType::kSpread) {
    {
      std::lock_guard lock(mutex_);
      if (header.type == FrameType::kSpread && contributed_.erase(header.sequence) != 0) return;
      inbox_[{header.sequence, from->rank}] = std::move(payload);
      arrived_.notify_all();
    }
    return SendContributed(header.sequence);
  }
  Reader in(payload);
  if (header.type == FrameType::kCalled) return OnCalls(&in);
  const uint32_t rank = in.Get<uint32_t>();
  if (header.type == FrameType::kReport) return OnReport(rank, &in, from->rank);
  if (header.type == FrameType::kReach) return OnRing(in.ok() ? rank : identity_.rank, from->rank);
  if (header.type != FrameType::kFault && header.type != FrameType::kDepart) return;
  const uint32_t fate = in.Get<uint32_t>();
  if (in.ok() && rank < identity_.size && fate <= static_cast<uint32_t>(Fate::kSilent))
    Learn(rank, static_cast<Fate>(fate), from->rank);
}

void ControlTree::OnReport(uint32_t rank, Reader* in, uint32_t heard_from) {
  const auto code = in->Get<sl_status_t>();
  const std::string text = in->GetText();
  if (!in->ok() || rank >= identity_.size || code >= SL_OK || text.size() > kMaxReportText) return;
  const Status failure(code, text);
  const uint64_t again = TellAgainSoon();
  LearnFailure(rank, failure, heard_from);
  TellNews(again);
}

void ControlTree::Report(const Status& failure) { LearnFailure(identity_.rank, failure, kNobody); }

void ControlTree::DisregardReports() {
  std::lock_guard lock(mutex_);
  disregards_ = true;
}

void ControlTree::LearnFailure(uint32_t rank, const Status& failure, uint32_t heard_from) {
  Writer news;
  news.Put(rank);
  news.Put(failure.code());
  news.PutText(failure.message().substr(0, kMaxReportText));
  std::lock_guard relay(relay_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure;
    failed_rank_ = rank;
    has_untold_failure_ = rank != identity_.rank;
    arrived_.notify_all();
  }
  RelayLocked(FrameType::kReport, news.bytes(), heard_from);
}

void ControlTree::WatchCalls(CallHandlers handlers) {
  std::lock_guard lock(mutex_);
  if (!departed_) call_handlers_ = std::move(handlers);
}

void ControlTree::TellCalls(const std::vector<Call>& calls) {
  Writer news;
  std::function<void()> tell_of_mismatch;
  {
    std::lock_guard lock(mutex_);
    for (const Call& call : calls) {
      if (!calls_.Enter(call)) continue;
      news.Put(call.rank);
      news.Put(call.sequence);
      news.Put(call.signature);
      news.Put(call.algorithm);
    }
    if (calls_.mismatch() && !std::exchange(told_mismatch_, true) && call_handlers_.on_mismatch) {
      tell_of_mismatch = [handler = call_handlers_.on_mismatch, found = *calls_.mismatch()] {
        handler(found.first, found.second);
      };
    }
  }
  if (!news.bytes().empty() && identity_.rank != 0) {
    std::lock_guard relay(relay_mutex_);
    SendTo(ParentOf(identity_.rank), FrameType::kCalled, 0, news.bytes());
  }
  // Here it may be a rank's own thread, in the middle of a wait.
  if (tell_of_mismatch) {
    control_->At(0, [weak = weak_from_this(), tell_of_mismatch] {
      const std::shared_ptr<ControlTree> tree = weak.lock();
      if (tree == nullptr) return;
      std::unique_lock lock(tree->mutex_);
      if (tree->departed_) return;
      lock.unlock();
      tell_of_mismatch();
    });
  }
}

void ControlTree::OnCalls(Reader* in) {
  std::vector<Call> calls;
  while (in->ok() && !in->empty() && calls.size() < kMaxTold) {
    Call call{};
    call.rank = in->Get<uint32_t>();
    call.sequence = in->Get<uint64_t>();
    call.signature = in->Get<uint64_t>();
    call.algorithm = in->Get<uint32_t>();
    if (in->ok() && call.rank < identity_.size && call.sequence != 0) calls.push_back(call);
  }
  std::function<void()> on_waiting;
  {
    std::lock_guard lock(mutex_);
    on_waiting = call_handlers_.on_waiting;
  }
  TellCalls(calls);
  if (on_waiting) on_waiting();
}

void ControlTree::WatchRings(std::function<void()> handler) {
  std::lock_guard lock(mutex_);
  if (!departed_) on_ring_ = std::move(handler);
}

void ControlTree::Ring() { RelayRing(identity_.rank, kNobody); }

void ControlTree::RelayRing(uint32_t rank, uint32_t heard_from) {
  Writer news;
  news.Put(rank);
  std::lock_guard relay(relay_mutex_);
  RelayLocked(FrameType::kReach, news.bytes(), heard_from);
}

void ControlTree::OnRing(uint32_t rank, uint32_t heard_from) {
  if (rank >= identity_.size || rank == identity_.rank) return;
  RelayRing(rank, heard_from);
  std::function<void()> handler;
  {
    std::lock_guard lock(mutex_);
    handler = on_ring_;
  }
  if (handler) handler();
}

// To all neighbours but one; what was passed on before stays before it. A closed channel drops what it is given. The
// lock is held from before the news is known here: who leaves because of it must not say so before others know the
// reason.
void ControlTree::RelayLocked(FrameType type, std::span<const uint8_t> payload, uint32_t except) {
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.rank != except) SendTo(neighbour.rank, type, 0, payload);
  }
}

void ControlTree::OnClosed(Channel* channel, const Status&) {
  const std::shared_ptr<ControlTree> keep = weak_from_this().lock();
  if (keep == nullptr) return;  // being destroyed
  Lose(Find(channel), Fate::kLost);
}

void ControlTree::Lose(Neighbour* neighbour, Fate fate) {
  neighbour->channel->Close();
  neighbour->closed = true;
  Learn(neighbour->rank, fate, neighbour->rank);  // ignored when it has departed before
  EndIfAlone();
}

void ControlTree::Learn(uint32_t rank, Fate fate, uint32_t heard_from) {
  if (Fate known; rank == identity_.rank || FateOf(rank, &known)) return;
  Writer news;
  news.Put(rank);
  news.Put(static_cast<uint32_t>(fate));
  std::map<uint32_t, Fate> untold{{rank, fate}};
  const uint64_t again = TellAgainSoon();
  {
    std::lock_guard relay(relay_mutex_);
    {
      std::lock_guard lock(mutex_);
      fates_.emplace(rank, fate);  // may throw, and then nothing is known yet: the call comes once more
      untold_.merge(untold);       // takes no memory
      arrived_.notify_all();
    }
    RelayLocked(IsLost(fate) ? FrameType::kFault : FrameType::kDepart, news.bytes(), heard_from);
  }
  TellNews(again);
  EndIfAlone();
}

uint64_t ControlTree::TellAgainSoon() {
  return control_->At(NowNs() + kTellAgainNs, [weak = weak_from_this()] {
    if (const std::shared_ptr<ControlTree> tree = weak.lock()) tree->TellNews(tree->TellAgainSoon());
  });
}

// A handler that throws, as it does when there is no memory left, is called again later. The stream on which the news
// came goes on: its rank has done nothing wrong. Control thread only.
void ControlTree::TellNews(uint64_t again) {
  try {
    while (TellNextFate()) continue;
    while (TellFailure()) continue;
  } catch (const std::exception& error) {
    Logf(SL_LOG_ERROR, "control tree: news of rank {} is told again: {}", identity_.rank, error.what());
    return;
  }
  control_->Cancel(again);
}

// False when the handler has heard of all.
bool ControlTree::TellNextFate() {
  std::unique_lock lock(mutex_);
  if (untold_.empty()) return false;
  const auto [rank, fate] = *untold_.begin();
  const FateHandler handler = on_fate_;
  lock.unlock();
  if (handler) handler(rank, fate);
  lock.lock();
  untold_.erase(rank);
  return true;
}

bool ControlTree::TellFailure() {
  std::unique_lock lock(mutex_);
  if (!has_untold_failure_) return false;
  const ReportHandler handler = on_report_;
  const uint32_t rank = failed_rank_;
  const Status failure = failure_;
  lock.unlock();
  if (handler) handler(rank, failure);
  lock.lock();
  has_untold_failure_ = false;
  return true;
}

void ControlTree::Depart(Fate fate) {
  {
    std::lock_guard lock(mutex_);
    if (departed_) return;
    departed_ = true;
    on_fate_ = nullptr;
    on_report_ = nullptr;
    call_handlers_ = {};
    on_ring_ = nullptr;
    self_ = shared_from_this();
  }
  Writer news;
  news.Put(identity_.rank);
  news.Put(static_cast<uint32_t>(fate));
  {
    std::lock_guard relay(relay_mutex_);
    RelayLocked(FrameType::kDepart, news.bytes(), kNobody);
  }
  control_->Settle();  // a handler that was running has returned: its communicator may go
  // The rest happens on the control thread, where nothing else is running.
  control_->At(0, [weak = weak_from_this()] {
    if (const std::shared_ptr<ControlTree> tree = weak.lock()) tree->EndIfAlone();
  });
}

// A departed node ends when every neighbour has left too: nobody needs its relay any more. Control thread only.
void ControlTree::EndIfAlone() {
  std::lock_guard lock(mutex_);
  if (!departed_) return;
  for (const Neighbour& neighbour : neighbours_) {
    if (!neighbour.closed && fates_.count(neighbour.rank) == 0) return;
  }
  // Not destroyed under its own lock or inside a channel's handler: a task lets go.
  if (self_) control_->At(0, [last = std::move(self_)] {});
}

void ControlTree::AwaitSent(uint64_t deadline_ns) const {
  const auto is_sent = [this](const Neighbour& neighbour) {
    Fate fate;
    return !neighbour.channel->is_net() || neighbour.channel->unsent() == 0 ||
           (FateOf(neighbour.rank, &fate) && IsLost(fate));
  };
  while (!std::all_of(neighbours_.begin(), neighbours_.end(), is_sent) && NowNs() < deadline_ns) {
    const timespec nap{0, 200'000};
    nanosleep(&nap, nullptr);
  }
}

bool ControlTree::FateOf(uint32_t rank, Fate* out_fate) const {
  std::lock_guard lock(mutex_);
  const auto found = fates_.find(rank);
  if (found == fates_.end()) return false;
  *out_fate = found->second;
  return true;
}

}  // namespace sl::kernel
