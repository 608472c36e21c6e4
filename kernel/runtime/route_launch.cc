// SPDX-License-Identifier: Apache-2.0
//
// A kernel whose launch takes all that the operation needs: on the host it runs on the caller and has ended when the
// launch returns; a device whose launches nobody watches has it in a queue.
#include "kernel/events/last_error.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/issue_route.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

bool Takes(const Item& item) {
  if (item.choice == nullptr || !RunsKernel(*item.choice)) return false;
  return item.owned == nullptr || !item.member->handle->comm.device().is_watched();
}

Status Prepare(Item* item) { return FillLaunch(item->pending, *item->choice, &item->launch); }

Status Issue(Item* item) {
  const Device& device = item->member->handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, item->member->lead, &item->launch);
  if (device.is_watched()) return Leave(item->pending, status);
  item->member->has_begun |= status == SL_OK;
  return StatusOf(status);
}

}  // namespace

const IssueRoute kLaunchRoute = {Takes, Prepare, Issue};

}  // namespace sl::kernel
