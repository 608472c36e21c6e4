// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/relay_job.h"

#include <time.h>

#include <vector>

#include "kernel/events/log.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/relay.h"

namespace sl::kernel {

RelayJob::RelayJob(Relay* relay) : relay_(relay), pieces_(relay->handle_) {}

Status RelayJob::Prepare(std::span<Pending* const> ops, uint64_t first_turn, sl_stream_t* stream) {
  stream_ = stream;
  step_ = 0;
  SL_TRY(pieces_.Prepare(ops, relay_->room_.area_bytes));
  pieces_.PlaceIn(relay_->room_, first_turn, false);
  pieces_.TellBegin();
  pieces_.Restart();
  return {};
}

// A full queue empties as the device and the peers get on; calls that find a GPU's queue full wait, too.
Status RelayJob::Submit() {
  Communicator& comm = relay_->handle_->comm;
  users_.store(2, std::memory_order_relaxed);
  ProgressJob job;
  job.work = this;
  job.start_word = &relay_->room_.WordsOf(pieces_.turn(0))->start;
  job.start_value = pieces_.value(0);
  job.abort_word = comm.abort_word();
  job.check = Check;
  job.check_ctx = this;
  job.check_interval_ns = Relay::kCheckIntervalNs;
  job.done = Done;
  job.done_ctx = this;
  Status submitted = comm.process()->progress()->Submit(job);
  while (submitted.code() == SL_ERR_LIMIT && comm.healthy() && !comm.cancelled()) {
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
    submitted = comm.process()->progress()->Submit(job);
  }
  return submitted;
}

void RelayJob::Release() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) relay_->GiveJob(this);
}

sl_status_t RelayJob::Check(void* context, const sl_wait_t* wait, uint64_t waited_ns) {
  return static_cast<RelayJob*>(context)->pieces_.Check(wait, waited_ns);
}

void RelayJob::Done(void* context, sl_status_t status) { static_cast<RelayJob*>(context)->End(status); }

// The communicator hears of a failure before the device goes on. Operations are given back last of all: who sees none
// under way may free the communicator, this job included.
void RelayJob::End(sl_status_t status) {
  const LogRankScope rank_scope(relay_->handle_->comm.rank());
  pieces_.Leave(status);
  pieces_.DropPlans();
  pieces_.RaiseEnds();
  std::vector<Pending*>& ending = relay_->ending_;
  pieces_.TakeOps(&ending);
  PendingPool& pool = relay_->handle_->pending;
  Release();
  Pending* const last = ending.back();
  ending.pop_back();
  for (Pending* pending : ending) pool.Give(pending);
  ending.clear();
  pool.Give(last);
}

}  // namespace sl::kernel
