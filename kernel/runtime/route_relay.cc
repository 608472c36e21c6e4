// SPDX-License-Identifier: Apache-2.0
//
// By way of host memory (relay.h): all operations of a communicator in a call are one job, in order with the stream, or
// in each replay of the graph that they are captured into.
#include "kernel/runtime/handle.h"
#include "kernel/runtime/issue_route.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay_job.h"

namespace sl::kernel {
namespace {

bool Takes(const Item& item) { return !item.together.empty(); }

Status Prepare(Item* /*item*/) { return {}; }

// A captured job has copies of its operations; those of another are its own once it has begun.
Status Begin(Item* item, std::span<Pending* const> ops) {
  Member& member = *item->member;
  if (member.order->capture != 0) return member.handle->relay->Capture(ops, member.order->capture, member.lead);
  SL_ASSIGN(item->progress, member.handle->relay->Begin(ops, member.lead));
  for (PooledPending& one : item->together) static_cast<void>(one.release());
  member.has_begun = true;
  return {};
}

// Jobs of other communicators that have begun go on when there is no memory for this one.
Status BeginAll(Item* item) {
  if (item->together.size() == 1) return Begin(item, {&item->pending, 1});
  return OrNoMemory([item] {
    std::vector<Pending*> ops;
    for (const PooledPending& one : item->together) ops.push_back(one.get());
    return Begin(item, ops);
  });
}

Status Issue(Item* item) {
  if (item->progress == nullptr) {
    SL_TRY(BeginAll(item));
    if (item->progress == nullptr) return {};
  }
  Status enqueued = item->member->handle->relay->Enqueue(static_cast<RelayJob*>(item->progress));
  item->has_more = enqueued.code() == SL_ERR_AGAIN;
  return item->has_more ? Status() : enqueued;
}

}  // namespace

const IssueRoute kRelayRoute = {Takes, Prepare, Issue};

}  // namespace sl::kernel
