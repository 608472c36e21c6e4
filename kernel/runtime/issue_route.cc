// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue_route.h"

#include <cstdlib>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

constexpr const IssueRoute* kRoutes[] = {
    &kLaunchRoute,
    &kStreamRoute,
    &kCopyRoute,
    &kRelayRoute,
};

}  // namespace

void Item::Abandon() {
  if (owned != nullptr) LeaveAndGive(owned.release(), SL_ERR_ABORTED);
}

const IssueRoute& RouteOf(const Item& item) {
  for (const IssueRoute* route : kRoutes) {
    if (route->takes(item)) return *route;
  }
  std::abort();  // selection chooses no other kind of run
}

Status FailItem(Item* item, Status why) {
  item->has_more = false;
  item->member->has_failed = true;
  if (item->continues) item->member->handle->comm.FailLaunches(why);
  return why;
}

}  // namespace sl::kernel
