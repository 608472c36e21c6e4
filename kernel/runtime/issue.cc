// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue.h"

#include "kernel/events/last_error.h"
#include "kernel/runtime/copies.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay_job.h"

namespace sl::kernel {
namespace {

// Of an operation that does not outlive the call. Not initialised as a whole: 4 KiB of arguments would cost more than
// the operation.
class LocalPending {
 public:
  LocalPending() : pending_(new (memory_) Pending) {}
  ~LocalPending() { pending_->~Pending(); }
  LocalPending(const LocalPending&) = delete;
  LocalPending& operator=(const LocalPending&) = delete;
  Pending* get() const { return pending_; }

 private:
  alignas(Pending) std::byte memory_[sizeof(Pending)];
  Pending* const pending_;
};

// What was entered, served by no sequence.
Status IssueChosen(Pending* pending, const Choice& choice, const IssueOrder& order, sl_stream_t* stream) {
  sl_comm_t* handle = pending->handle;
  if (choice.run == SL_RUN_COPIES) {
    const Status issued = IssueCopies(*pending, choice, order, stream);
    return MarkEndOf(issued, handle, order, stream);
  }
  sl_launch_t launch;
  SL_TRY(FillLaunch(pending, choice, &launch));
  const Device& device = handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  if (device.is_watched()) return Leave(pending, status);
  return status == SL_OK ? MarkEnd(handle, order, stream) : Status(status, LastError());
}

// Peers wait for the rest of a sequence that was begun: after an error the communicator has failed.
Status IssueParts(const Pending& whole, const Choice& sequence, const IssueOrder& order, sl_stream_t* stream) {
  const LocalPending part;
  for (const PartChoice& one : sequence.parts) {
    EnterPart(whole, one, part.get());
    Status issued = IssueChosen(part.get(), *one.choice, order, stream);
    if (issued.ok()) continue;
    if (&one != sequence.parts.data()) whole.handle->comm.FailLaunches(issued);
    return issued;
  }
  return {};
}

// Nothing of the operation outlives the call: it has ended, or the device has taken all it needs.
Status IssueAtOnce(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  const LocalPending pending;
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  SL_ASSIGN(const Choice* choice, Choose(pending.get()));
  if (choice->run == SL_RUN_SEQUENCE) [[unlikely]]
    return IssueParts(*pending.get(), *choice, order, stream);
  return IssueChosen(pending.get(), *choice, order, stream);
}

// A plan on a stream without the device's help but for two words: a progress thread runs it in between. The way of
// devices that cannot run host kernels; on the host only when the profile says so.
Status IssueToProgressThread(PooledPending* taken, sl_stream_t* stream) {
  Pending* pending = taken->get();
  sl_comm_t* handle = pending->handle;
  const Device& device = handle->comm.device();
  if (pending->words == nullptr) pending->words = TakeStreamWords();
  StreamWords* words = pending->words;
  const uint64_t turn = ++words->turn;
  ProgressJob job;
  job.work = pending->run;
  job.start_word = &words->start;
  job.start_value = turn;
  job.end_word = &words->end;
  job.end_value = turn;
  job.check = CheckWait;
  job.check_ctx = pending;
  job.check_interval_ns = 10'000'000;
  job.done = LeaveAndGive;
  job.done_ctx = pending;
  Status submitted = handle->comm.process()->progress()->Submit(job);
  taken->HandOn();
  if (!submitted.ok()) {
    LeaveAndGive(pending, submitted.code());
    return submitted;
  }
  // From here on the job owns `pending`, and ends also when the stream fails.
  sl_status_t status = device.ops->stream_write_value(device.handle, stream, &words->start, turn);
  if (status == SL_OK) status = device.ops->stream_wait_value(device.handle, stream, &words->end, turn);
  if (status != SL_OK) handle->comm.Fail({status, LastError()});
  return status == SL_OK ? Status() : handle->comm.Health();
}

Status IssueOnStream(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  PooledPending pending(handle);
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  SL_ASSIGN(const Choice* choice, Choose(pending.get()));
  sl_launch_t launch;
  SL_TRY(FillLaunch(pending.get(), *choice, &launch));
  if (pending.get()->run != nullptr &&
      handle->comm.process()->profile().settings().engine.progress == ProgressMode::kThread) {
    return IssueToProgressThread(&pending, stream);
  }
  launch.done = LeaveAndGive;
  launch.done_ctx = pending.HandOn();
  const Device& device = handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  if (status == SL_OK) return {};
  return handle->comm.healthy() ? Status(status, LastError()) : handle->comm.Health();
}

// Through host memory, in order with the stream, or in each replay of the graph that it is captured into.
Status IssueRelayed(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  PooledPending pending(handle);
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  Pending* const own = pending.get();
  if (order.capture != 0) return handle->relay->Capture({&own, 1}, order.capture, stream);
  SL_ASSIGN(RelayJob * job, handle->relay->Begin({&own, 1}, stream));
  pending.HandOn();
  Status enqueued;
  do {
    enqueued = handle->relay->Enqueue(job);
  } while (enqueued.code() == SL_ERR_AGAIN);
  return MarkEndOf(enqueued, handle, order, stream);
}

// A call has recorded the end of its launches before it ends; in this order nothing slips through.
void EnterRoll(sl_comm_t* handle) {
  const auto may_run = [handle] {
    return handle->in_call().load(std::memory_order_seq_cst) != 0 || LaunchesMayRun(*handle);
  };
  handle->comm.WatchLaunches(may_run);
  handle->place = ProcessLaunchRoll()->Enter({
      .comm_id = handle->comm.id(),
      .may_run = may_run,
      .may_replay = [handle] { return handle->graphs() != 0; },
      .give_up = [handle](const Status& why) { handle->comm.FailLaunches(why); },
  });
}

// A call that is marked.
[[gnu::always_inline]] inline Status IssueMarked(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  SL_TRY(CheckUsable(handle, op));
  SL_TRY(CheckOp(handle->comm, op));
  SL_TRY(CheckStream(handle, stream));
  if ((op.kind == SL_OP_SEND || op.kind == SL_OP_RECV) && op.peer == static_cast<int32_t>(handle->comm.rank())) {
    return {SL_ERR_INVALID, op.kind == SL_OP_SEND ? "a send to the own rank needs its receive in the same group"
                                                  : "a receive from the own rank needs its send in the same group"};
  }
  handle->comm.selector()->Collect();
  SL_ASSIGN(IssueOrder * order, JoinOrder(handle, stream));
  if (handle->relay != nullptr) [[unlikely]]
    return IssueRelayed(handle, *order, op, stream);
  const bool at_once = stream == nullptr || !handle->comm.device().is_watched();
  return at_once ? IssueAtOnce(handle, *order, op, stream) : IssueOnStream(handle, *order, op, stream);
}

}  // namespace

[[gnu::noinline]] Status MarkAndIssue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  const InCall in_call(handle);
  if (!in_call.is_alone()) [[unlikely]]
    return TwoCallsAtOnce();
  return IssueMarked(handle, op, stream);
}

Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  if (handle->is_marked_by_caller) [[likely]] {
    handle->CountCall();
    return IssueMarked(handle, op, stream);
  }
  return MarkAndIssue(handle, op, stream);
}

Status PrepareToIssue(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  const sl_host_kernel_t kernel = EngineKernel();
  const sl_image_desc_t desc{sizeof(desc), 1, &kernel, nullptr, 0, nullptr};
  sl_status_t status = SL_OK;
  if (device.is_watched()) status = device.ops->image_load(device.handle, &desc, &handle->engine_image);
  if (status == SL_OK) status = device.ops->event_create(device.handle, &handle->order_event);
  if (status == SL_OK) status = device.ops->event_create(device.handle, &handle->join_event);
  if (status != SL_OK) return {status, LastError()};
  if (handle->comm.is_relayed()) {
    SL_ASSIGN(handle->relay, Relay::Open(handle));
  }
  handle->oversubscribed = handle->comm.is_crowded();
  handle->signals_raised.resize(handle->comm.size());
  handle->signals_awaited.resize(handle->comm.size());
  if (Reach* reach = handle->comm.reach(); reach != nullptr) {
    reach->WatchUse([handle] { return !LaunchesMayRun(*handle); },
                    [handle] { return handle->in_call().load(std::memory_order_acquire) != 0; },
                    [handle] { return handle->calls.load(std::memory_order_relaxed); });
  }
  if (!device.is_watched()) EnterRoll(handle);
  return {};
}

void LeaveRoll(sl_comm_t* handle) {
  handle->comm.WatchLaunches({});
  if (handle->place != nullptr) ProcessLaunchRoll()->Leave(handle->place);
  handle->place = nullptr;
}

bool LaunchesMayRun(const sl_comm_t& handle) {
  const Device& device = handle.comm.device();
  const sl_status_t marked = device.ops->event_query(device.handle, handle.order_event);
  return marked == SL_ERR_AGAIN || (marked == SL_OK && handle.unmarked.load());  // else nothing runs on it any more
}

bool AwaitLaunches(sl_comm_t* handle, uint64_t deadline_ns) {
  if (handle->comm.device().is_watched() || !handle->eager.begun) return true;
  while (LaunchesMayRun(*handle)) {
    if (NowNs() >= deadline_ns) return false;
    if (handle->comm.is_stopped()) handle->comm.ReleaseSignals();
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

void StopIssuing(sl_comm_t* handle) {
  LeaveRoll(handle);
  handle->relay.reset();
  const Device& device = handle->comm.device();
  handle->watch.Stop();
  handle->comm.CloseReach();
  if (handle->engine_image != nullptr) device.ops->image_unload(device.handle, handle->engine_image);
  for (sl_event_t* event : {handle->order_event, handle->join_event}) {
    if (event != nullptr) device.ops->event_destroy(device.handle, event);
  }
  DestroySideStreams(handle);
}

namespace {

// Leaked on purpose, with what it holds.
struct WordPool {
  std::mutex mutex;
  std::vector<StreamWords*> free;  // guarded by mutex
};
WordPool* Words() {
  static auto* pool = new WordPool;
  return pool;
}

}  // namespace

StreamWords* TakeStreamWords() {
  std::lock_guard lock(Words()->mutex);
  if (Words()->free.empty()) return new StreamWords;
  StreamWords* words = Words()->free.back();
  Words()->free.pop_back();
  return words;
}

void GiveStreamWords(StreamWords* words) {
  if (words == nullptr) return;
  std::lock_guard lock(Words()->mutex);
  Words()->free.push_back(words);
}

PendingPool::PendingPool() = default;
PendingPool::~PendingPool() {
  for (const auto& pending : all_) GiveStreamWords(pending->words);
}

Pending* PendingPool::Take() {
  Pending* pending = free_.load(std::memory_order_acquire);
  while (pending != nullptr && !free_.compare_exchange_weak(pending, pending->next_free, std::memory_order_acquire)) {
  }
  if (pending == nullptr) pending = all_.emplace_back(std::make_unique<Pending>()).get();
  outstanding_.fetch_add(1, std::memory_order_acq_rel);
  return pending;
}

void PendingPool::Give(Pending* pending) {
  pending->outcome = {};
  pending->next_free = free_.load(std::memory_order_relaxed);
  while (!free_.compare_exchange_weak(pending->next_free, pending, std::memory_order_release)) {
  }
  // Last of all: who sees no work outstanding may free the communicator, this pool included.
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace sl::kernel
