// SPDX-License-Identifier: Apache-2.0
//
// Groups: several operations as one schedule. All are checked before the first is issued; then all progress together,
// and only collectives of one communicator keep their order.
//
// What a group needs while it is issued lives in an arena on the caller's stack, so that groups of up to some twenty
// operations allocate nothing.
#include <algorithm>
#include <map>
#include <memory_resource>
#include <numeric>
#include <tuple>

#include "kernel/events/last_error.h"
#include "kernel/runtime/admission.h"
#include "kernel/runtime/check_op.h"
#include "kernel/runtime/copies.h"
#include "kernel/runtime/issue.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay_job.h"
#include "kernel/runtime/transfer_group.h"
#include "kernel/runtime/transfer_steps.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr size_t kArenaBytes = 8192;
// So many launches are polled one and all.
constexpr size_t kFewLaunches = 64;
// Of one direction between two ranks, when there are more: the next ones may use lanes that the first one has left.
constexpr size_t kPolledPerQueue = 4;

bool IsSelf(const sl_group_entry_t& entry) {
  const sl_op_t& op = *entry.op;
  return (op.kind == SL_OP_SEND || op.kind == SL_OP_RECV) && op.peer == static_cast<int32_t>(entry.comm->comm.rank());
}

Status CopyToSelf(const sl_group_entry_t& send, const sl_group_entry_t& recv) {
  const uint64_t bytes = send.op->count * DatatypeBytes(send.op->datatype);
  if (bytes == 0 || send.op->send == recv.op->recv) return {};
  const Device& device = send.comm->comm.device();
  const sl_status_t status = device.ops->copy(device.handle, send.stream, recv.op->recv, send.op->send, bytes);
  return status == SL_OK ? Status() : Status(status, LastError());
}

// A group on its way: calls marked, operations entered, launches filled.
class GroupIssue {
 public:
  // `arena` outlives the group.
  GroupIssue(const sl_group_entry_t* entries, uint32_t count, std::pmr::memory_resource* arena)
      : entries_(entries),
        count_(count),
        gathered_(arena),
        members_(arena),
        followers_(arena),
        self_sends_(arena),
        self_recvs_(arena),
        filled_(arena),
        launches_(arena),
        streams_(arena),
        copies_(arena),
        continues_(arena),
        transfers_(arena),
        relayed_(arena),
        arguments_(arena) {
    filled_.reserve(count);
    launches_.reserve(count);
    streams_.reserve(count);
    copies_.reserve(count);
  }
  GroupIssue(const GroupIssue&) = delete;
  GroupIssue& operator=(const GroupIssue&) = delete;
  ~GroupIssue() {
    for (Pending* pending : filled_) LeaveAndGive(pending, SL_ERR_ABORTED);  // only after a failure half-way
    for (Pending* pending : transfers_) {
      if (pending != nullptr) pending->handle->pending.Give(pending);
    }
    for (Pending* pending : relayed_) pending->handle->pending.Give(pending);
    for (const Member& member : members_) {
      member.handle->group_member.store(UINT32_MAX, std::memory_order_relaxed);
      member.handle->in_call().store(0, std::memory_order_release);
    }
  }

  Status Run() {
    for (uint32_t i = 0; i < count_; ++i) SL_TRY(Check(entries_[i]));
    GatherRanks();
    for (const Member& member : members_) member.handle->comm.selector()->Collect();
    SL_TRY(PairSelves());
    for (uint32_t i = 0; i < count_; ++i) {
      if (!IsSelf(entries_[i])) SL_TRY(Add(entries_[i]));
    }
    for (size_t i = 0; i < self_sends_.size(); ++i) SL_TRY(SendToSelf(*self_sends_[i], *self_recvs_[i]));
    for (const Member& member : members_) SL_TRY(AddTransfers(member));
    return Launch();
  }

 private:
  // A communicator of the group. All its operations go to the stream it used first, the lead; that stream waits for
  // the earlier work of the others, the followers, and they wait for the group.
  struct Member {
    sl_comm_t* handle;
    sl_stream_t* lead;
    IssueOrder* order;        // NULL: no stream yet
    const sl_op_t* transfer;  // one to or from another rank, not empty; NULL: none
  };
  struct Follower {
    uint32_t member;
    sl_stream_t* stream;
    bool operator==(const Follower&) const = default;
  };
  // The messages of one direction between two ranks. Each waits for the end of the one that had its place before.
  struct Queue {
    size_t messages = 0;
    char places[kPolledPerQueue] = {};
  };
  using Queues = std::pmr::map<std::tuple<const sl_comm_t*, int32_t, uint32_t>, Queue>;
  // The work of a communicator whose ranks' devices do not all reach each other's memory, on its way to the device.
  struct Relayed {
    const Member* member;
    RelayJob* job;  // NULL: the device has got all of it
  };

  // Not if it has a place in the group of another thread.
  bool IsMember(const sl_comm_t* handle) const {
    const uint32_t place = handle->group_member.load(std::memory_order_relaxed);
    return place < members_.size() && members_[place].handle == handle;
  }

  Status Check(const sl_group_entry_t& entry) {
    if (!IsMember(entry.comm)) {
      // As InCall, for many.
      if (entry.comm->in_call().exchange(1, std::memory_order_seq_cst) != 0) return TwoCallsAtOnce();
      entry.comm->CountCall();
      members_.push_back({entry.comm, nullptr, nullptr, nullptr});
      entry.comm->group_member.store(static_cast<uint32_t>(members_.size() - 1), std::memory_order_relaxed);
    }
    SL_TRY(CheckUsable(entry.comm, *entry.op));
    SL_TRY(CheckOp(entry.comm->comm, *entry.op));
    SL_TRY(CheckStream(entry.comm, entry.stream));
    if (IsSelf(entry)) {
      (entry.op->kind == SL_OP_SEND ? self_sends_ : self_recvs_).push_back(&entry);
    } else if ((entry.op->kind == SL_OP_SEND || entry.op->kind == SL_OP_RECV) && entry.op->count != 0) {
      members_[entry.comm->group_member].transfer = entry.op;
    }
    return {};
  }

  // Where a thread has several ranks of one communicator, their n-th collectives are issued beside each other, in the
  // order in which it called any rank's first, and so are their messages, which come last. Else, where communicators
  // share streams, one rank could wait in the first for another that waits for it in the second, though the thread may
  // call a group's communicators in another order for each rank.
  void GatherRanks() {
    if (members_.size() <= 2) return;
    std::pmr::map<uint64_t, uint32_t> communicators(members_.get_allocator());
    for (const Member& member : members_) communicators.emplace(member.handle->comm.id(), communicators.size());
    if (communicators.size() == 1 || communicators.size() == members_.size()) return;
    std::pmr::map<std::pair<uint64_t, uint32_t>, uint32_t> places(members_.get_allocator());
    std::pmr::vector<uint32_t> collectives(members_.size(), members_.get_allocator());
    std::pmr::vector<std::pair<uint32_t, sl_group_entry_t>> placed(members_.get_allocator());
    placed.reserve(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      const sl_group_entry_t& entry = entries_[i];
      uint32_t place = count_;
      if (entry.op->kind != SL_OP_SEND && entry.op->kind != SL_OP_RECV) {
        const uint32_t nth = collectives[entry.comm->group_member]++;
        place = places.emplace(std::pair(entry.comm->comm.id(), nth), places.size()).first->second;
      }
      placed.emplace_back(place, entry);
    }
    std::ranges::stable_sort(placed, {}, &std::pair<uint32_t, sl_group_entry_t>::first);
    for (const auto& [place, entry] : placed) gathered_.push_back(entry);
    entries_ = gathered_.data();
    std::ranges::stable_sort(members_, {}, [&](const Member& one) { return communicators.at(one.handle->comm.id()); });
    for (uint32_t i = 0; i < members_.size(); ++i) {
      members_[i].handle->group_member.store(i, std::memory_order_relaxed);
    }
  }

  // Puts sends to the own rank beside their receives, in order, and checks them all.
  Status PairSelves() {
    if (self_sends_.empty() && self_recvs_.empty()) return {};
    const auto by_member = [](const sl_group_entry_t* a, const sl_group_entry_t* b) {
      return a->comm == b->comm ? a < b : a->comm->group_member < b->comm->group_member;
    };
    std::sort(self_sends_.begin(), self_sends_.end(), by_member);
    std::sort(self_recvs_.begin(), self_recvs_.end(), by_member);
    for (size_t i = 0; i < std::max(self_sends_.size(), self_recvs_.size()); ++i) SL_TRY(CheckSelfPair(i));
    return {};
  }

  // A pair goes along with the communicator's other transfers, if it can, or is copied at once.
  Status SendToSelf(const sl_group_entry_t& send, const sl_group_entry_t& recv) {
    if (!GoesAlong(send) || !GoesAlong(recv)) return CopyToSelf(send, recv);
    SL_TRY(Add(send));
    return Add(recv);
  }

  // Whether one launch serves it and the transfers to other ranks.
  bool GoesAlong(const sl_group_entry_t& entry) const {
    sl_comm_t* handle = entry.comm;
    const sl_op_t* transfer = members_[handle->group_member].transfer;
    if (transfer == nullptr || handle->relay != nullptr || handle->comm.device().is_watched()) return false;
    const Result<const Choice*> own = handle->comm.selector()->Select(*entry.op);
    const Result<const Choice*> other = handle->comm.selector()->Select(*transfer);
    return own.ok() && other.ok() && own.value()->run == SL_RUN_LAUNCH &&
           own.value()->algorithm == other.value()->algorithm;
  }

  Status CheckSelfPair(size_t i) const {
    if (i >= self_sends_.size()) return Unpaired(self_recvs_[i]->comm);
    if (i >= self_recvs_.size()) return Unpaired(self_sends_[i]->comm);
    const auto& [send_entry, recv_entry] = std::pair(self_sends_[i], self_recvs_[i]);
    if (send_entry->comm != recv_entry->comm) {
      return Unpaired(send_entry->comm->group_member < recv_entry->comm->group_member ? send_entry->comm
                                                                                      : recv_entry->comm);
    }
    const sl_op_t& send = *send_entry->op;
    const sl_op_t& recv = *recv_entry->op;
    if (send.count * DatatypeBytes(send.datatype) == recv.count * DatatypeBytes(recv.datatype)) return {};
    return {SL_ERR_MISMATCH, "rank " + std::to_string(send_entry->comm->comm.rank()) + " sends " +
                                 std::to_string(send.count) + " " + DatatypeName(send.datatype) +
                                 " to itself but receives " + std::to_string(recv.count) + " " +
                                 DatatypeName(recv.datatype)};
  }

  Status Unpaired(const sl_comm_t* handle) const {
    const auto of_comm = [handle](const sl_group_entry_t* entry) { return entry->comm == handle; };
    return {SL_ERR_INVALID, "rank " + std::to_string(handle->comm.rank()) + " sends itself " +
                                std::to_string(std::count_if(self_sends_.begin(), self_sends_.end(), of_comm)) +
                                " messages and receives " +
                                std::to_string(std::count_if(self_recvs_.begin(), self_recvs_.end(), of_comm)) +
                                " from itself in one group"};
  }

  Status Add(const sl_group_entry_t& entry) {
    sl_comm_t* handle = entry.comm;
    SL_TRY(JoinStreams(entry));
    const Member& member = members_[handle->group_member];
    PooledPending pending = TakePending(handle);
    Enter(handle, *entry.op, *member.order, pending.get());
    if (entry.op->count == 0) return {};
    if (handle->relay != nullptr) {
      relayed_.push_back(pending.release());
      return {};
    }
    if (pending.get()->op.seq == 0 && !handle->comm.device().is_watched()) {
      transfers_.push_back(pending.release());
      return {};
    }
    return AddLaunch(member, &pending);
  }

  Status AddLaunch(const Member& member, PooledPending* pending) {
    SL_ASSIGN(const Choice* choice, Choose(pending->get()));
    if (choice->run != SL_RUN_SEQUENCE) return AddChosen(member, pending, *choice);
    for (size_t i = 0; i < choice->parts.size(); ++i) {
      const PartChoice& part = choice->parts[i];
      PooledPending own = TakePending(member.handle);
      EnterPart(*pending->get(), part, own.get());
      takes_turns_ = true;
      SL_TRY(AddChosen(member, &own, *part.choice));
      continues_.back() = i != 0;
    }
    return {};
  }

  // What was entered, served by no sequence.
  Status AddChosen(const Member& member, PooledPending* pending, const Choice& choice) {
    sl_launch_t& launch = launches_.emplace_back();
    const bool copies = choice.run == SL_RUN_COPIES;
    if (Status filled = copies ? Status() : FillLaunch(pending->get(), choice, &launch); !filled.ok()) {
      launches_.pop_back();
      return filled;
    }
    takes_turns_ |= copies;
    launch.done = LeaveAndGive;
    launch.done_ctx = pending->get();
    launch.chain = pending->get()->op.seq != 0 ? member.handle : nullptr;
    copies_.push_back(copies ? &choice : nullptr);
    continues_.push_back(false);
    streams_.push_back(member.lead);
    filled_.push_back(pending->release());
    return {};
  }

  // Sends and receives of a device that runs launches one after the other: one launch for all of a communicator, or
  // each would wait for those behind it.
  Status AddTransfers(const Member& member) {
    std::pmr::vector<sl_op_t> ops(transfers_.get_allocator());
    PooledPending first;
    for (Pending*& pending : transfers_) {
      if (pending == nullptr || pending->handle != member.handle) continue;
      ops.push_back(pending->op);
      if (first != nullptr) {
        pending->handle->pending.Give(pending);
      } else {
        first.reset(pending);
      }
      pending = nullptr;
    }
    if (first.get() == nullptr) return {};
    if (ops.size() == 1) return AddLaunch(member, &first);
    const auto count = static_cast<uint32_t>(ops.size());
    const Result<const Choice*> choice = ChooseForGroup(member.handle, ops.data(), count);
    AddGroupLaunch(member, &first);
    SL_TRY(choice.status());
    BeginTransfers(member.handle, ops.data(), count, *choice.value());
    const Status whole = FillOneForAll(*choice.value(), ops.data(), count);
    return whole.code() == SL_ERR_LIMIT ? FillSeveral(member, *choice.value(), ops) : whole;
  }

  void AddGroupLaunch(const Member& member, PooledPending* pending) {
    launches_.emplace_back();
    streams_.push_back(member.lead);
    copies_.push_back(nullptr);
    continues_.push_back(false);
    filled_.push_back(pending->release());
  }

  // Fills the launch that was added last. Room for many arguments is taken when it is needed.
  Status FillOneForAll(const Choice& choice, const sl_op_t* ops, uint32_t count) {
    Pending* pending = filled_.back();
    Status filled = FillGroupLaunch(choice, ops, count, pending->args, sizeof(pending->args), &launches_.back());
    const uint32_t capacity = ArgumentBytes(*pending->handle);
    if (filled.code() != SL_ERR_LIMIT || capacity <= sizeof(pending->args)) return filled;
    void* arguments = arguments_->allocate(capacity, alignof(std::max_align_t));
    return FillGroupLaunch(choice, ops, count, arguments, capacity, &launches_.back());
  }

  // More than one launch takes; the first one was added. How much fits the algorithm alone knows: it is asked with an
  // eighth less each time.
  Status FillSeveral(const Member& member, const Choice& choice, const std::pmr::vector<sl_op_t>& ops) {
    sl_comm_t* handle = member.handle;
    const TransferSteps steps(ops, handle->comm.rank(), handle->comm.size());
    const auto fewer = [](uint32_t count) { return count - (count + 7) / 8; };
    uint32_t most = fewer(steps.count());
    for (uint32_t begin = 0; begin != steps.count();) {
      if (begin != 0) {
        PooledPending next = TakePending(handle);
        EnterAgain(handle, steps.ops()[begin], next.get());
        AddGroupLaunch(member, &next);
      }
      void* arguments = arguments_->allocate(ArgumentBytes(*handle), alignof(std::max_align_t));
      uint32_t end = steps.Cut(begin, most);
      for (;;) {
        Status filled = FillGroupLaunch(choice, steps.ops() + begin, end - begin, arguments, ArgumentBytes(*handle),
                                        &launches_.back());
        if (filled.ok()) break;
        const uint32_t nearer = steps.Cut(begin, fewer(end - begin));
        if (filled.code() != SL_ERR_LIMIT || nearer == end) return filled;
        end = nearer;
      }
      most = end - begin + (end - begin) / 7 + 1;
      begin = end;
    }
    takes_turns_ = true;
    return {};
  }

  static void EnterAgain(sl_comm_t* handle, const sl_op_t& op, Pending* pending) {
    pending->handle = handle;
    pending->op = op;
    pending->run = nullptr;
  }

  // Of a launch; 4,096 at least.
  static uint32_t ArgumentBytes(const sl_comm_t& handle) { return handle.comm.device().info.max_argument_bytes; }

  Status JoinStreams(const sl_group_entry_t& entry) {
    Member& member = members_[entry.comm->group_member];
    if (member.order == nullptr) {
      member.lead = entry.stream;
      SL_ASSIGN(member.order, JoinOrder(member.handle, entry.stream));
      return {};
    }
    if (entry.stream == member.lead) return {};
    const Follower follower{entry.comm->group_member.load(std::memory_order_relaxed), entry.stream};
    if (std::find(followers_.begin(), followers_.end(), follower) != followers_.end()) return {};
    followers_.push_back(follower);
    return WaitForStream(member.handle, member.lead, entry.stream);
  }

  // `stream` goes on when what was issued to `other` so far is done.
  static Status WaitForStream(sl_comm_t* handle, sl_stream_t* stream, sl_stream_t* other) {
    const Device& device = handle->comm.device();
    sl_status_t status = device.ops->event_record(device.handle, handle->join_event, other);
    if (status == SL_OK) status = device.ops->stream_wait_event(device.handle, stream, handle->join_event);
    return status == SL_OK ? Status() : Status(status, LastError());
  }

  Status Launch() {
    if (launches_.empty() && relayed_.empty()) return {};
    if (!launches_.empty()) SL_TRY(LaunchAll());
    if (!relayed_.empty()) SL_TRY(RelayAll());
    for (const Follower& follower : followers_) {
      const Member& member = members_[follower.member];
      SL_TRY(WaitForStream(member.handle, follower.stream, member.lead));
    }
    return {};
  }

  // Messages of one direction between two ranks go over their links one after the other. So only a few of each are
  // polled, or a group of n would take n² polls. From the first that cannot begin yet on all are: each of them waits
  // for those before it to begin, whatever their links.
  void QueueMessages(Queues* queues) {
    for (size_t i = 0; i < launches_.size(); ++i) {
      const Pending& pending = *filled_[i];
      if (pending.run == nullptr || pending.op.seq != 0 || !pending.run->TryBegin()) continue;
      Queue& queue = (*queues)[{pending.handle, pending.op.peer, pending.op.kind}];
      launches_[i].chain = &queue.places[queue.messages++ % kPolledPerQueue];
    }
  }

  Status LaunchAll() {
    std::pmr::vector<const sl_launch_t*> pointers(launches_.get_allocator());
    pointers.reserve(launches_.size());
    for (const sl_launch_t& launch : launches_) pointers.push_back(&launch);
    const Device& device = filled_.front()->handle->comm.device();
    if (!device.is_watched()) return LaunchUnwatched();
    Queues queues(launches_.get_allocator());
    if (launches_.size() > kFewLaunches) QueueMessages(&queues);
    filled_.clear();  // each is given back by its launch
    const sl_status_t status = device.ops->launch_batch(device.handle, static_cast<uint32_t>(pointers.size()),
                                                        streams_.data(), pointers.data());
    if (status == SL_OK) return {};
    for (const Member& member : members_) SL_TRY(member.handle->comm.Health());
    return {status, LastError()};
  }

  // On the device of each, whose queue takes all it needs; an error ends what is launched of its communicator and
  // leaves what was launched before, whose end is marked all the same: its memory must not go before. Peers wait for
  // the rest of a sequence that was begun: then the communicator has failed.
  Status LaunchUnwatched() {
    Status outcome;
    std::pmr::vector<bool> has_begun(members_.size(), launches_.get_allocator());
    std::pmr::vector<bool> has_failed(members_.size(), launches_.get_allocator());
    for (const size_t i : OrderOfLaunches()) {
      sl_comm_t* handle = filled_[i]->handle;
      const uint32_t member = handle->group_member;
      if (has_failed[member]) continue;
      Status issued = IssueUnwatched(i);
      if (issued.ok() || copies_[i] != nullptr) has_begun[member] = true;
      if (issued.ok()) continue;
      has_failed[member] = true;
      if (continues_[i]) handle->comm.FailLaunches(issued);
      if (outcome.ok()) outcome = std::move(issued);
    }
    for (Pending* pending : filled_) pending->handle->pending.Give(pending);
    filled_.clear();
    for (const Member& member : members_) {
      if (!has_begun[member.handle->group_member]) continue;
      outcome = MarkEndOf(outcome, member.handle, *member.order, member.lead);
    }
    return outcome;
  }

  Status IssueUnwatched(size_t i) const {
    const sl_comm_t* handle = filled_[i]->handle;
    if (copies_[i] != nullptr) {
      const Member& member = members_[handle->group_member];
      return IssueCopies(*filled_[i], *copies_[i], *member.order, streams_[i]);
    }
    const Device& device = handle->comm.device();
    const sl_status_t status = device.ops->launch(device.handle, streams_[i], &launches_[i]);
    return status == SL_OK ? Status() : Status(status, LastError());
  }

  // As they were called; but where a communicator may fill a queue of the device, with copies or with many launches,
  // streams take turns: a queue that is full makes its caller wait until the device gets on, and that waits for the
  // ranks that this very thread issues next.
  std::pmr::vector<size_t> OrderOfLaunches() const {
    std::pmr::vector<size_t> order(launches_.size(), launches_.get_allocator());
    std::iota(order.begin(), order.end(), size_t{0});
    if (!takes_turns_ || members_.size() == 1) return order;
    std::pmr::vector<size_t> turns(launches_.get_allocator());
    std::pmr::vector<size_t> issued(members_.size(), launches_.get_allocator());
    for (const Pending* pending : filled_) turns.push_back(issued[FirstOnStreamOf(pending->handle->group_member)]++);
    std::stable_sort(order.begin(), order.end(), [&turns](size_t a, size_t b) { return turns[a] < turns[b]; });
    return order;
  }

  // Communicators that share a stream keep their order in it: other ranks may need fewer launches for the same.
  uint32_t FirstOnStreamOf(uint32_t member) const {
    const auto shares = [&](const Member& other) {
      return other.lead == members_[member].lead &&
             &other.handle->comm.device() == &members_[member].handle->comm.device();
    };
    return static_cast<uint32_t>(std::find_if(members_.begin(), members_.end(), shares) - members_.begin());
  }

  // What was begun is enqueued, whatever becomes of the others: its host side waits for it.
  Status RelayAll() {
    std::pmr::vector<Relayed> jobs(relayed_.get_allocator());
    jobs.reserve(members_.size());
    Status outcome = OrNoMemory([&] { return BeginRelays(&jobs); });
    for (size_t left = jobs.size(); left != 0;) {
      for (Relayed& one : jobs) {
        if (one.job == nullptr) continue;
        const Status enqueued = one.member->handle->relay->Enqueue(one.job);
        if (enqueued.code() == SL_ERR_AGAIN) continue;
        if (outcome.ok()) outcome = enqueued;
        one.job = nullptr;
        --left;
      }
    }
    for (const Relayed& one : jobs) {
      outcome = MarkEndOf(outcome, one.member->handle, *one.member->order, one.member->lead);
    }
    return outcome;
  }

  // A job for each communicator that is relayed; what is captured is done with.
  Status BeginRelays(std::pmr::vector<Relayed>* jobs) {
    std::pmr::vector<Pending*> own(relayed_.get_allocator());
    for (const Member& member : members_) {
      const auto others = std::stable_partition(
          relayed_.begin(), relayed_.end(), [&](const Pending* pending) { return pending->handle == member.handle; });
      if (others == relayed_.begin()) continue;
      own.assign(relayed_.begin(), others);
      if (member.order->capture != 0) {
        SL_TRY(member.handle->relay->Capture(own, member.order->capture, member.lead));
        continue;  // it has copies; these go back with the group
      }
      SL_ASSIGN(RelayJob * job, member.handle->relay->Begin(own, member.lead));
      relayed_.erase(relayed_.begin(), others);
      jobs->push_back({&member, job});
    }
    return {};
  }

  const sl_group_entry_t* entries_;
  const uint32_t count_;
  std::pmr::vector<sl_group_entry_t> gathered_;  // the entries in the order of GatherRanks, where that is another
  std::pmr::vector<Member> members_;
  std::pmr::vector<Follower> followers_;
  std::pmr::vector<const sl_group_entry_t*> self_sends_;
  std::pmr::vector<const sl_group_entry_t*> self_recvs_;
  std::pmr::vector<Pending*> filled_;
  std::pmr::vector<sl_launch_t> launches_;
  std::pmr::vector<sl_stream_t*> streams_;
  std::pmr::vector<const Choice*> copies_;  // of each launch; NULL: it is one
  std::pmr::vector<bool> continues_;        // of each launch: peers wait for it once they have what came before
  bool takes_turns_ = false;
  std::pmr::vector<Pending*> transfers_;  // of devices whose launches nobody watches, till they are joined
  std::pmr::vector<Pending*> relayed_;    // through host memory, till their jobs begin
  std::pmr::memory_resource* arguments_;
};

}  // namespace

Status IssueGroup(const sl_group_entry_t* entries, uint32_t count) {
  if (count == 1) return MarkAndIssue(entries[0].comm, *entries[0].op, entries[0].stream);
  if (std::optional<Status> issued = IssueTransfers(entries, count)) return *std::move(issued);
  alignas(std::max_align_t) std::byte memory[kArenaBytes];
  std::pmr::monotonic_buffer_resource arena(memory, sizeof(memory));
  return GroupIssue(entries, count, &arena).Run();
}

}  // namespace sl::kernel
