// SPDX-License-Identifier: Apache-2.0
//
// A kernel on the host that outlives the call, or runs beside others of a group: its outcome reaches the communicator
// through a callback. A plan may also run on a progress thread, between two words of the stream.
#include <map>
#include <tuple>

#include "kernel/engine/run.h"
#include "kernel/events/last_error.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/issue_route.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/wait_check.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kCheckIntervalNs = 10'000'000;
// So many launches are polled one and all.
constexpr size_t kFewLaunches = 64;
// Where there are more, so many messages of one direction between two ranks are polled: the next ones may use lanes
// that the first one has left.
constexpr size_t kPolledPerQueue = 4;

// The messages of one direction between two ranks. Each waits for the end of the one that had its place before.
struct Queue {
  size_t messages = 0;
  char places[kPolledPerQueue] = {};
};
using Queues = std::pmr::map<std::tuple<const sl_comm_t*, int32_t, uint32_t>, Queue>;

// Messages of one direction between two ranks go over their links one after the other. So only a few of each are
// polled, or a group of n would take n² polls. From the first that cannot begin yet on all are: each of them waits for
// those before it to begin, whatever their links.
void QueueMessages(std::span<Item* const> items, Queues* queues) {
  for (Item* item : items) {
    const Pending& pending = *item->pending;
    if (pending.run == nullptr || pending.op.seq != 0 || !pending.run->TryBegin()) continue;
    Queue& queue = (*queues)[{pending.handle, pending.op.peer, pending.op.kind}];
    item->launch.chain = &queue.places[queue.messages++ % kPolledPerQueue];
  }
}

// A plan on a stream without the device's help but for two words: a progress thread runs it in between. The way of
// devices that cannot run host kernels; on the host only when the profile says so.
Status IssueToProgressThread(PooledPending taken, sl_stream_t* stream) {
  Pending* pending = taken.get();
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
  job.check_interval_ns = kCheckIntervalNs;
  job.done = LeaveAndGive;
  job.done_ctx = pending;
  Status submitted = handle->comm.process()->progress()->Submit(job);
  static_cast<void>(taken.release());
  if (!submitted.ok()) {
    LeaveAndGive(pending, submitted.code());
    return submitted;
  }
  // From here on the job owns `pending`, and ends also when the stream fails.
  sl_status_t status = device.ops->stream_write_value(device.handle, stream, &words->start, turn);
  if (status == SL_OK) status = device.ops->stream_wait_value(device.handle, stream, &words->end, turn);
  if (status != SL_OK) handle->comm.Fail(StatusOf(status));
  return status == SL_OK ? Status() : handle->comm.Health();
}

bool Takes(const Item& item) {
  if (item.choice == nullptr || !RunsKernel(*item.choice)) return false;
  return item.owned != nullptr && item.member->handle->comm.device().is_watched();
}

Status Prepare(Item* item) {
  SL_TRY(FillLaunch(item->pending, *item->choice, &item->launch));
  item->launch.done = LeaveAndGive;
  item->launch.done_ctx = item->pending;
  item->launch.chain = item->pending->op.seq != 0 ? item->member->handle : nullptr;
  return {};
}

Status Issue(Item* item) {
  const Communicator& comm = item->member->handle->comm;
  if (item->pending->run != nullptr && comm.process()->profile().settings().engine.progress == ProgressMode::kThread) {
    return IssueToProgressThread(std::move(item->owned), item->member->lead);
  }
  static_cast<void>(item->owned.release());  // the launch gives it back
  const Device& device = comm.device();
  const sl_status_t status = device.ops->launch(device.handle, item->member->lead, &item->launch);
  if (status == SL_OK) return {};
  return comm.healthy() ? StatusOf(status) : comm.Health();
}

Status IssueBatch(std::span<Item* const> items, std::pmr::memory_resource* arena) {
  const Device& device = items.front()->member->handle->comm.device();
  Queues queues(arena);
  if (items.size() > kFewLaunches) QueueMessages(items, &queues);
  std::pmr::vector<const sl_launch_t*> launches(arena);
  std::pmr::vector<sl_stream_t*> streams(arena);
  launches.reserve(items.size());
  streams.reserve(items.size());
  for (Item* item : items) {
    launches.push_back(&item->launch);
    streams.push_back(item->member->lead);
  }
  for (Item* item : items) {
    item->is_prepared = false;
    static_cast<void>(item->owned.release());  // each is given back by its launch
  }
  const sl_status_t status =
      device.ops->launch_batch(device.handle, static_cast<uint32_t>(items.size()), streams.data(), launches.data());
  if (status == SL_OK) return {};
  for (const Item* item : items) SL_TRY(item->member->handle->comm.Health());
  return StatusOf(status);
}

}  // namespace

const IssueRoute kStreamRoute = {Takes, Prepare, Issue, IssueBatch};

}  // namespace sl::kernel
