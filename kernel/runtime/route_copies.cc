// SPDX-License-Identifier: Apache-2.0
//
// A list of copies: the device's copy engines move everything (copies.h).
#include "kernel/plan/select.h"
#include "kernel/runtime/copies.h"
#include "kernel/runtime/issue_route.h"

namespace sl::kernel {
namespace {

bool Takes(const Item& item) { return item.choice != nullptr && item.choice->run == SL_RUN_COPIES; }

Status Prepare(Item* item) {
  item->may_fill_queue = true;
  return {};
}

// An error leaves a part of the list with the device.
Status Issue(Item* item) {
  item->member->has_begun = true;
  return IssueCopies(*item->pending, *item->choice, *item->member->order, item->member->lead);
}

}  // namespace

const IssueRoute kCopyRoute = {Takes, Prepare, Issue};

}  // namespace sl::kernel
